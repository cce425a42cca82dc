"""The settings of drawing tokens in generate and repl: the distribution that an independent program gives (vectors/edits.py),
the same bytes however samples run, and what is refused.

choosing.py MGPT WEIGHTS [DRAWS]. Suite long has 1,000,000 draws.
"""
import collections
import functools
import itertools
import json
import math
import os
import re
import struct
import sys
import tempfile
import zipfile

from checks import check, failed, run_program

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '../vectors'))
import edits  # noqa: E402
import large_vocab  # noqa: E402

MGPT, WEIGHTS = sys.argv[1:3]
DRAWS = int(sys.argv[3]) if len(sys.argv) > 3 else 20000
NAMES, LINES = WEIGHTS + '/names.gguf', WEIGHTS + '/shakespeare.gguf'
PROMPT = 'anana'
T = 0.8


def run(*words, code=0, stdin=None):
    return run_program(MGPT, *words, code=code, timeout=900, text=stdin)


# ---- distributions ----

START = [26] + [ord(c) - 97 for c in PROMPT]


@functools.lru_cache(None)
def model():
    """{tokens after the prompt: the 27 logits}, for none and for one."""
    table = {}
    with tempfile.TemporaryDirectory() as folder:
        for a in range(27):
            ids = ','.join(map(str, START + [a]))
            run('trace', NAMES, '--ids', ids, '--hooks', 'logits', '-o', folder + '/x.npz')
            with zipfile.ZipFile(folder + '/x.npz') as file:
                rows = struct.unpack('<%df' % (27 * (len(START) + 1)), file.read('logits.npy')[-108 * (len(START) + 1):])
            table[()], table[(a,)] = rows[-54:-27], rows[-27:]
    return table


def steps(*functions):
    """A step of a draw: applies the functions in order and returns [(probability, logits)]. (p, function) is applied with probability p."""
    def step(logits, history, mu):
        branches = [(1.0, logits)]
        for f in functions:
            chance, change = f if isinstance(f, tuple) else (1.0, f)
            branches = [b for w, x in branches for b in ((w * chance, change(x, history, mu)), (w * (1 - chance), x)) if b[0] > 0]
        return branches
    return step


def joint(step, tau=0, eta=0):
    """{(a, b): probability} of two draws after the prompt."""
    out = collections.Counter()

    def draw(drawn, weight, mu):
        for w, x in step(model()[drawn], START + list(drawn), mu):
            for token, p in enumerate(edits.softmax(x, T)):
                if p > 0 and drawn:
                    out[drawn + (token,)] += weight * w * p
                elif p > 0:
                    draw((token,), weight * w * p, mu - eta * (-math.log2(p) - tau))
    draw((), 1.0, 2 * tau)
    return out


def joint_with_bans(bans):
    """Two draws that go back when the text has a banned one: what began it is not drawn there again."""
    letters = [chr(97 + i) for i in range(26)] + ['']
    p = {key: edits.softmax(x, T) for key, x in model().items()}

    @functools.lru_cache(None)
    def first(banned):
        left = sum(p[()][a] for a in range(27) if a not in banned)
        out = collections.Counter()
        for a in set(range(27)) - banned:
            after = first(banned | {a}) if letters[a] in bans else second(a, banned, frozenset())
            for key, value in after.items():
                out[key] += value * p[()][a] / left
        return out

    def second(a, banned, here):
        out = collections.Counter()
        for b in range(27):
            if letters[b] in bans:  # completes in itself: drawn again here
                continue
            share = p[(a,)][b] / sum(p[(a,)][i] for i in range(27) if letters[i] not in bans)
            if letters[a] + letters[b] in bans:
                for key, value in first(banned | {a}).items():
                    out[key] += share * value
            else:
                out[(a, b)] += share
        return out
    return first(frozenset())


def with_history(f, *numbers):
    return lambda x, h, mu: f(x, h, *numbers)


def alone(f, *numbers):
    return lambda x, h, mu: f(x, *numbers)


CASES = [
    (['--repeat-penalty', '1.4'], joint, steps(with_history(edits.penalties, 1.4))),
    (['--repeat-penalty', '1.4', '--repeat-last', '2'], joint, steps(with_history(edits.penalties, 1.4, 2))),
    (['--presence', '0.7', '--frequency', '0.3'], joint, steps(with_history(edits.penalties, 1, -1, 0.7, 0.3))),
    (['--dry', '1.1'], joint, steps(with_history(edits.dry, (), 1.1))),
    (['--dry', '0.9:1.3:1:4'], joint, steps(with_history(edits.dry, (), 0.9, 1.3, 1, 4))),
    (['--bias', 'e+1.5', '--bias', 'n-inf'], joint,
     steps(lambda x, h, mu: [v + {4: 1.5, 13: -math.inf}.get(i, 0) for i, v in enumerate(x)])),
    (['--top-nsigma', '0.9'], joint, steps(alone(edits.nsigma, 0.9))),
    (['--typical', '0.55'], joint, steps(alone(edits.typical, 0.55))),
    (['--xtc', '0.4:0.08'], joint, steps((0.4, alone(edits.xtc, 0.08)))),
    (['--mirostat', '2:3:0.7'], lambda step: joint(step, 3, 0.7), steps(lambda x, h, mu: edits.mirostat(x, mu, T))),
    (['--ban', 'el', '--ban', 'la', '--ban', 'i'], joint_with_bans, {'el', 'la', 'i'}),
    (['--regex', '[a-m][n-z]'], joint,
     steps(lambda x, h, mu: [v if (i < 13 if len(h) == len(START) else 13 <= i < 26) else -math.inf for i, v in enumerate(x)])),
    (['--repeat-penalty', '1.2', '--dry', '0.5', '--top-nsigma', '1.6', '--typical', '0.9', '--xtc', '0.5:0.2'], joint,
     steps(with_history(edits.penalties, 1.2), with_history(edits.dry, (), 0.5), alone(edits.nsigma, 1.6),
           alone(edits.typical, 0.9), (0.5, alone(edits.xtc, 0.2)))),
]


def chi_square(what, counts, expected):
    """Cells of fewer than 5 are one. The bound is exceeded by a correct sampler once in a million seeds."""
    n = sum(counts.values())
    check('%s: impossible' % what, [k for k in counts if not expected.get(k)], [])
    few = [k for k, p in expected.items() if p * n < 5]
    cells = [(counts[k], p * n) for k, p in expected.items() if p * n >= 5]
    cells += [(sum(counts[k] for k in few), sum(expected[k] for k in few) * n)] if sum(expected[k] for k in few) * n >= 5 else []
    chi, k = sum((f - e) ** 2 / e for f, e in cells), len(cells) - 1
    bound = k * (1 - 2 / (9 * k) + 4.75 * math.sqrt(2 / (9 * k))) ** 3
    if not (chi <= bound and k > 3 and abs(sum(expected.values()) - 1) < 1e-9):
        failed.append(what)
        print('FAILED: %s: chi-square %g with %d degrees of freedom, bound %g' % (what, chi, k, bound))


def test_distributions():
    for options, how, what in CASES:
        done = run('generate', NAMES, '-p', PROMPT, '-n', '2', '--ignore-end', '--temp', str(T), '-s', '7', '--samples', str(DRAWS),
                   '--no-prompt', '--json', *options)
        counts = collections.Counter(tuple(json.loads(line)['tokens']) for line in done.stdout.splitlines())
        check('%s: samples' % options, sum(counts.values()), DRAWS)
        chi_square(' '.join(options), counts, how(what))


# ---- the same bytes ----

ALL = [case[0] for case in CASES] + [['--regex', '[A-Za-z]+(, [a-z]+)*'], ['--ban', 'th', '--ban', 'you', '--ban', 'e\\x20s']]


def test_same_bytes():
    long = ['generate', LINES, '-p', 'ROMEO:', '-n', '60', '--temp', '0.7', '-s', '5', '--json', '--top', '2']
    many = ['generate', NAMES, '--samples', '300', '--temp', '1', '--json']
    plain = run(*long).stdout
    for options in ALL:
        expected = run(*long, *options).stdout
        check('%s has an effect' % options, expected != plain, True)
        for how in (['--lookup'], ['--draft', LINES], ['-t', '1'], ['-t', '16']):
            check('%s %s' % (options, how), run(*long, *options, *how).stdout == expected, True)
        expected = run(*many, *options).stdout
        for how in (['--batch', '1'], ['--batch', '8'], ['--batch', '64'], ['-t', '16'], ['--lookup']):
            check('%s %s' % (options, how), run(*many, *options, *how).stdout == expected, True)
        alone = b''.join(run(*many[:2], '--first', str(i), *many[4:], *options).stdout for i in range(4))
        check('%s alone' % options, alone, b''.join(expected.splitlines(True)[:4]))


def test_sessions():
    with tempfile.TemporaryDirectory() as folder:
        for options in ALL[:-1]:  # what a part has printed is not taken back
            at, kept = ['generate', LINES, '--temp', '0.7', *options], ['--session', folder + '/s']
            whole = run(*at, '-p', 'ROMEO:', '-s', '5', '-n', '50').stdout
            run(*at, '-p', 'ROMEO:', '-s', '5', '-n', '9', *kept)
            run(*at, '-n', '1', *kept)
            check('%s in parts' % options, run(*at, '-n', '40', *kept).stdout, whole)
            os.remove(folder + '/s')


def test_banned():
    """No text has it, its beginning still occurs, and what was not drawn does not count."""
    plain = run('generate', NAMES, '--samples', '2000', '--temp', '1').stdout
    text = run('generate', NAMES, '--samples', '2000', '--temp', '1', '--ban', 'an', '--ban', 'el').stdout
    check('banned', (b'an' in text, b'el' in text), (False, False))
    check('not for ever', text.count(b'a') > plain.count(b'a') / 2, True)
    check('the prompt', run('generate', NAMES, '-p', 'an', '--temp', '0', '--ban', 'an').stdout[:2], b'an')
    numbers = json.loads(run('generate', NAMES, '-p', 'b', '--temp', '0', '--ban', 'e', '--json', '--top', '27').stdout)
    rows = numbers['logprobs']
    tops = [[c['logprob'] for c in top if c['id'] == token] for token, top in zip(rows['ids'], rows['top_logprobs'], strict=True)]
    check('numbers of what stays', (len(rows['ids']), tops), (len(numbers['tokens']) - 2, [[p] for p in rows['token_logprobs']]))
    check('no token', run('generate', NAMES, *[x for c in 'abcdefgh' for x in ('--ban', c)],
                          *[x for i in list(range(8, 24)) for x in ('--bias', '%d-inf' % i)], '--bias', 'a-1', code=2).returncode, 2)


PATTERNS = ['an+[a-z]{2}', '[a-z]{3}', '(anna|bob|[0-9]x)', 'm.*e', '(ab|ba)+', '[^aeiou]?[aeiou][^aeiou]*', 'z|y+x', 'a?b?c?d']
LINE_PATTERNS = [r' [A-Z][a-z]+, [a-z]{3,8}\.', r'\n?[A-Z]+:(\n[A-Z][a-z ,]+[.!?]){1,2}', '[^e]{5,9}!', r'\w+( \w+)*\.']


def test_regex():
    """All that is drawn matches, ended by the model or by a match that cannot go on, unless its length was reached."""
    n = 10000 if DRAWS > 20000 else 200
    for file, prompt, pattern in [(NAMES, [], p) for p in PATTERNS] + [(LINES, ['-p', 'ROMEO:'], p) for p in LINE_PATTERNS]:
        done = run('generate', file, *prompt, '--no-prompt', '--regex', pattern, '--samples', str(n if file == NAMES else n // 5), '--temp', '1', '--json',
                   *(['-n', '60'] if prompt else []))
        records = [json.loads(line) for line in done.stdout.splitlines()]
        check('%s: samples' % pattern, len(records), n if file == NAMES else n // 5)
        ended = [r for r in records if r['finish_reason'] == 'stop']
        check('%s: matches' % pattern, [r['text'] for r in ended if not re.fullmatch(pattern, r['text'])], [])
        check('%s: ends' % pattern, len(ended) > (0 if prompt else len(records) / 2), True)
        if not prompt:
            check('%s: several' % pattern, len({r['text'] for r in ended}) > 1, True)
    with tempfile.NamedTemporaryFile('w', suffix='.jsonl') as file:
        print('{"prompt": ""}', file=file, flush=True)
        many = json.loads(run('generate', NAMES, '--records', file.name, '--regex', 'an+[a-z]{2}', '--temp', '1').stdout)
        alone = json.loads(run('generate', NAMES, '--regex', 'an+[a-z]{2}', '--temp', '1', '--json').stdout)
        check('--records', (many['text'], many['finish_reason']), (alone['text'], 'stop'))
    one = json.loads(run('generate', NAMES, '--regex', 'anna', '--json', '--temp', '0').stdout)
    check('ends by itself', (one['text'], one['finish_reason'], one['tokens']), ('anna', 'stop', [26, 0, 13, 13, 0]))
    check('empty prompt and --chat', run('repl', NAMES, stdin=b'/set regex [xyz]{3}\n/set temp 1\n/g\n').stdout.decode().splitlines()[0][0] in 'xyz', True)


LARGE_PATTERNS = [r'[A-Z][a-z]{3,9}, [0-9]{1,4}', r'("[^"\\\\]{0,9}",){1,3}"[^"]"', r'[^\x00-\x7f]{1,12}', r'(yes|no|[\u4e00-\u9fff]{2,5}|\d{1,9})',
                  r'\w{1,6}( \w{1,6}){2,4}\.', r'[^aeiou]{12}', r'(.|\n){9}', r'.{0,3}é.{0,3}']


def bytes_of(pieces, token):
    """What a token of the made vocabulary writes."""
    piece = pieces[token]
    if token < 3:
        return b''
    return bytes([token - 3]) if token < 259 else piece.replace('\u2581', ' ').encode()


def test_large_vocabularies():
    """Outputs match by Python's re, and each token that may begin one is drawn."""
    long = DRAWS > 20000
    n_pieces, n = (128256, 10000 // len(LARGE_PATTERNS)) if long else (3000, 60)
    with tempfile.TemporaryDirectory() as folder:
        files = [(folder + '/llama.gguf', large_vocab.llama_vocab(n_pieces))]
        if long and large_vocab.has_gpt2():
            files.append((folder + '/gpt2.gguf', large_vocab.gpt2_vocab()))
        for path, vocab in files:
            large_vocab.write(vocab, path)
            for pattern in LARGE_PATTERNS:
                found = run('generate', path, '--no-prompt', '--regex', pattern, '--samples', str(n), '--temp', '1',
                            '--json', '-n', '200').stdout
                records = [json.loads(line) for line in found.splitlines()]
                ended = [r['text'] for r in records if r['finish_reason'] == 'stop']
                check('%s %s: matches' % (path, pattern), [t for t in ended if not re.fullmatch(pattern, t, re.ASCII)], [])
                check('%s %s: ends' % (path, pattern), (len(records), len(ended) > n * 0.9), (n, True))
        path, vocab = files[0]
        pieces = vocab['tokenizer.ggml.tokens']
        for pattern in FIRST_PATTERNS:
            done = run('generate', path, '--no-prompt', '--regex', pattern, '--samples', '20000', '--temp', '3', '--json', '-n', '1').stdout
            drawn = {(json.loads(line)['tokens'] or [1])[-1] for line in done.splitlines()} - {1}
            whole = {t for n in range(11) for t in map(''.join, itertools.product('01é', repeat=n)) if re.fullmatch(pattern, t)}
            begins = {t.encode()[:i] for t in whole for i in range(1, len(t.encode()) + 1)}
            expected = {i for i in range(n_pieces) if re.sub(b'^ ', b'' if i >= 259 else b' ', bytes_of(pieces, i)) in begins}
            expected.add(pieces.index('\u2581'))  # dropped as a whole
            check('%s %s: no other begins a text' % (path, pattern), [pieces[i] for i in drawn - expected], [])
            check('%s %s: all that may begin one do' % (path, pattern), ([pieces[i] for i in expected - drawn], len(expected) > 4), ([], True))


FIRST_PATTERNS = ['[01é]{1,2}', '[01é]*', '(01|1|10é)*0?', '(0|1(01*0)*1)+', '1(0|11)*|é1+']  # of 0, 1, é only


def test_repl_draws_what_generate_draws():
    for options in [*ALL, ['--ban', 'e', '--ban', '\\x20t', '--mirostat', '2:2:0.5'], ['--ban', 'ou', '--xtc', '0.5:0.1']]:
        words = list(zip(options[::2], options[1::2], strict=True))
        script = '/set temp 0.9\n/set seed 4\n%sROMEO:\n/g 30\n/tokens\n' % ''.join('/set %s %s\n' % (name[2:], value) for name, value in words)
        found = re.findall(r'^ *\d+: +(\d+)', run('repl', LINES, stdin=script.encode()).stdout.decode(), re.M)
        wanted = json.loads(run('generate', LINES, '-p', 'ROMEO:', '-n', '30', '--temp', '0.9', '-s', '4', '--json', *options).stdout)['tokens']
        check('/g with %s' % options, list(map(int, found)), wanted)


def test_repl():
    script = '/set temp 0.8\n/set seed 3\n/set repeat-penalty 1.3\n/set bias e-inf\n/set\n/g\n/set bias off\n/set repeat-penalty off\n/set\n'
    found = run('repl', NAMES, stdin=script.encode()).stdout.decode().splitlines()
    text = run('generate', NAMES, '--temp', '0.8', '-s', '3', '--repeat-penalty', '1.3', '--bias', 'e-inf').stdout.decode()
    check('/set', found[0], 'temp 0.8, top-k 0, top-p 1, min-p 0, seed 3, bias e-inf, repeat-penalty 1.3')
    check('/g', found[1], text.rstrip('\n'))
    check('/set off', found[-1], 'temp 0.8, top-k 0, top-p 1, min-p 0, seed 3')
    found = run('repl', NAMES, stdin=b'/set ban nn\nan\n/set bias n+20\n/s\n/s\n/s\n/tokens\n').stdout.decode()
    check('/s goes back', 'back to 3: ban nn' in found or 'back to 4: ban nn' in found, True)
    backs = 0
    script = ''.join('/set ban %s\n' % text for text in ('ri', 'ia', 'el', 'an', 'le', 'ie', 'ra')) + 'ma\n/g 6\n'
    for seed in range(30):
        found = run('repl', NAMES, '-s', str(seed), '--temp', '0.8', stdin=script.encode()).stdout.decode()
        drew, end, pos = re.search(r'drew (\d+)(, end of the text)? \((\d+) of', found).groups()
        check('/g 6 counts what stays', int(drew) == int(pos) - 3 and (end is not None or drew == '6'), True)
        backs += 'back to' in found
    check('/g 6 goes back', backs > 3, True)
    with tempfile.TemporaryDirectory() as folder:
        file = folder + '/names.session'
        run('repl', NAMES, stdin=('/set dry 0.8:1.5\n/set ban x\n/set ban \\x79\n/save %s\n' % file).encode())
        found = run('repl', NAMES, stdin=('/set xtc 0.5\n/load %s\n/set\n' % file).encode()).stdout.decode().splitlines()
        check('/load', found[-1].endswith('seed 0, ban x, ban \\x79, dry 0.8:1.5'), True)
        other = folder + '/regex.session'
        run('repl', NAMES, stdin=('/set regex [xyz]{3}\n/save %s\n' % other).encode())
        found = run('repl', NAMES, stdin=('/load %s\n/set temp 1\n/g\n' % other).encode()).stdout.decode().splitlines()
        check('/load and --regex', bool(re.fullmatch('[xyz]{3}', found[1])), True)
        text = open(file).read()
        for old, new, words in (('"dry"', '"wet"', 'unknown setting'), ('0.8:1.5', '0.8:x', 'as number 2 of')):
            open(file, 'w').write(text.replace(old, new))
            check('/load %s' % new, words in run('repl', NAMES, stdin=('/load %s\n' % file).encode(), code=3).stderr.decode(), True)


def test_refused():
    for options, words in ((['--typical', '1.5'], '--typical: expected a number from 0 to 1'), (['--mirostat', '1'], '--mirostat'),
                           (['--bias', 'zz+1'], 'the text of one token'), (['--ban', ''], '--ban: expected a text'),
                           (['--dry', '1:0.5'], 'as number 2 of X[:BASE'), (['--slide', '--ban', 'x'], '--slide and --ban'),
                           (['--regex', 'a(b'], 'a ( without its ) at byte 1'), (['--regex', '(|[0-9])'], 'matches the empty text only'), (['--regex', '[0-9]+'], "no text of this model's vocabulary"),
                           (['--repeat-penalty', '0'], 'from 0.001'), (['--typicl', '1'], 'did you mean --typical')):
        check('refused %s' % options, words in run('generate', NAMES, *options, code=2).stderr.decode(), True)
    found = run('repl', NAMES, stdin=b'/set typical 2\n/set typica 1\n', code=2).stderr.decode()
    check('/set refuses', ('from 0 to 1' in found, 'unknown setting' in found), (True, True))


for name, test in list(globals().items()):
    if name.startswith('test_') and (DRAWS <= 20000 or name in ('test_distributions', 'test_regex', 'test_large_vocabularies')):
        test()
print('%d failed' % len(failed))
sys.exit(bool(failed))
