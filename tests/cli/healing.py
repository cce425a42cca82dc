"""generate --heal: the distribution of what goes on with the bytes of a prompt, which is a sum over all ways to cut them into
tokens (taken here one by one from score), the same bytes however samples run, and what is refused.

healing.py MGPT ROOT.
"""
import json
import math
import sys
import tempfile

from checks import check, failed, run_program
from small_vocabularies import pairs_model, unigram_model

MGPT, ROOT = sys.argv[1:3]
NAMES, LINES = ROOT + '/weights/names.gguf', ROOT + '/weights/shakespeare.gguf'


def run(*words, code=0, text=None):
    return run_program(MGPT, *words, code=code, timeout=120, text=text)


def generate(model, *words):
    return [json.loads(line) for line in run('generate', model, '--json', *words).stdout.splitlines()]


def pieces_of(model):
    """{id: bytes} of a vocabulary of 33 tokens, of which 0 and 1 end texts."""
    out = {}
    for i in range(2, 33):
        shown = run('repl', model, text=b'/ids %d\n' % i).stdout.decode()
        quoted = shown.split(': ', 1)[1].split('"')[1] if '"' in shown else ''
        out[i] = quoted.encode().decode('unicode_escape').encode('latin-1') if '\\x' in quoted else json.loads('"%s"' % quoted).encode()
    return {i: p for i, p in out.items() if p}


def ways(pieces, rest):
    """Token sequences that complete the bytes, or go beyond with their last."""
    for token, piece in pieces.items():
        if piece.startswith(rest):
            yield (token,)
        elif rest.startswith(piece):
            for after in ways(pieces, rest[len(piece):]):
                yield (token, *after)


def sums(model, kept, all_ways):
    """{way: probability among all}."""
    lines = b''.join(json.dumps({'ids': [*kept, *way]}).encode() + b'\n' for way in all_ways)
    rows = run('score', model, '--json', '-f', '-', '--top', '1', text=lines).stdout.splitlines()
    p = {way: math.exp(math.fsum(json.loads(row)['logprobs']['token_logprobs'][len(kept):])) for way, row in zip(all_ways, rows, strict=True)}
    return {way: x / math.fsum(p.values()) for way, x in p.items()}


def border(pieces, data):
    """The last place in the bytes where no token can begin before it and end after it, whatever follows."""
    for at in range(len(data), -1, -1):
        if not any(data[:at].endswith(p[:i]) and (p[i:].startswith(data[at:]) or data[at:].startswith(p[i:])) for p in pieces.values() for i in range(1, len(p))):
            return at


def check_distribution(model, pieces, words, n):
    """Draws of a prompt: chi-square, and the probability that each draw says it had."""
    tokens = generate(model, *words, '-n', '0')[0]['tokens']
    data = b''.join(pieces.get(t, b'') for t in tokens)
    start, kept = border(pieces, data), 0
    while sum(len(pieces.get(t, b'')) for t in tokens[:kept]) < start:
        kept += 1
    kept = max(kept, 1)
    rest = data[sum(len(pieces.get(t, b'')) for t in tokens[:kept]):]
    check('%s: something to heal' % words, rest != b'', True)
    expected = sums(model, tokens[:kept], list(ways(pieces, rest)))
    counts = dict.fromkeys(expected, 0)
    for record in generate(model, *words, '--heal', '-n', '1', '--samples', str(n), '--temp', '1'):
        check('kept tokens', record['tokens'][:kept], tokens[:kept])
        counts[tuple(record['tokens'][kept:])] += 1
    likely = [way for way in expected if n * expected[way] >= 5]
    chi = sum((counts[w] - n * expected[w]) ** 2 / (n * expected[w]) for w in likely)
    rare = n * (1 - sum(expected[w] for w in likely)), n - sum(counts[w] for w in likely)
    check('%s: chi-square %.1f of %d, rare %s' % (words, chi, len(likely), rare),
          chi < len(likely) + 5 * math.sqrt(2 * len(likely)) and abs(rare[1] - rare[0]) < 6 * math.sqrt(rare[0] + 1), True)
    for seed in range(20):
        record, = generate(model, *words, '--heal', '-n', '1', '--temp', '1', '--top', '0', '-s', str(seed))
        found, wanted = math.prod(record['logprobs']['draw_probs']), expected[tuple(record['tokens'][kept:])]
        check('%s: probability of %s: %.9g, %.9g' % (words, record['tokens'], found, wanted), abs(found / wanted - 1) < 1e-5, True)


def test_distribution():
    with tempfile.TemporaryDirectory() as folder:
        pairs, unigram = pairs_model(MGPT, ROOT, folder), unigram_model(MGPT, ROOT, folder)
        for model, prompts in (pairs, ['a b he', 'b hello t', 'a ye']), (unigram, ['a he', 'the wo', 'a hell']):
            pieces = pieces_of(model)
            check('pieces of %s' % model, len(pieces) == 31, True)
            for prompt in prompts:
                check_distribution(model, pieces, ['-p', prompt], 4000)
        pieces = pieces_of(pairs)
        half = next(t for t, p in pieces.items() if p == b'\xc3')
        check_distribution(pairs, pieces, ['--ids', '3,%d' % half], 4000)
        record, = generate(pairs, '--ids', '3,%d' % half, '--heal', '-n', '1', '--top-k', '1')
        check('half a character', record['text'] in ('a\u00e9', 'a\ufffd'), True)
        check_same(pairs, 'a b hel')
        check_same(unigram, 'a hel')


def check_same(model, prompt):
    """The same bytes for batches, threads, look-up, drafts, records, and a session that is split anywhere."""
    words = ['-p', prompt, '--heal', '-n', '7', '--temp', '1.1', '--repeat-penalty', '1.2']
    many = run('generate', model, *words, '--samples', '60').stdout
    check('prompts come first', [line.startswith(prompt.encode()) for line in many.splitlines() if line], [True] * len([x for x in many.splitlines() if x]))
    for how in (['--batch', '1'], ['--batch', '8'], ['--batch', '64'], ['-t', '2'], ['-t', '16'], ['--no-fused'], ['--first', '0']):
        check('samples with %s' % how, run('generate', model, *words, '--samples', '60', *how).stdout, many)
    records = b''.join(json.dumps({'prompt': prompt, 'seed': s}).encode() + b'\n' for s in range(8))
    for batch in '1', '3':
        found = run('generate', model, *words[2:], '--records', '-', '--batch', batch, text=records).stdout.splitlines()
        for seed in range(8):
            whole, = generate(model, *words, '-s', str(seed))
            del whole['index']
            check('record', json.loads(found[seed]), whole)
    file = model + '-many'
    run('generate', model, *words, '--samples', '3', '--session', file)
    check('a session after several samples', run('generate', model, *words[2:], '-s', '5', '--session', file).stdout,
          run('generate', model, *words, '-s', '5').stdout)
    for seed in range(8):
        whole = run('generate', model, *words, '-s', str(seed)).stdout
        for how in ['--lookup'], ['--draft', model], ['--lookup', '2', '--draft', model]:
            check('with %s' % how, run('generate', model, *words, '-s', str(seed), *how).stdout, whole)
        alone = run('generate', model, *words, '-s', str(seed), '--no-prompt').stdout
        check('--no-prompt', prompt.encode() + alone, whole)
        text = whole.decode()[len(prompt):-1]
        for stop in (text[1:2], text[2:4], prompt[-1] + text[:1]):
            if stop.strip():
                cut = text.split(stop)[0]
                check('--stop %r' % stop, run('generate', model, *words, '-s', str(seed), '--stop', stop).stdout.decode(), prompt + cut + '\n')
        for first in range(7 if generate(model, *words, '-s', str(seed))[0]['finish_reason'] == 'length' else 0):
            file = '%s-%d-%d' % (model, seed, first)
            run('generate', model, *words[:4], str(first), *words[5:], '-s', str(seed), '--session', file)
            done = run('generate', model, *words[2:4], str(7 - first), *words[5:], '--session', file).stdout
            check('split after %d' % first, done, whole)


def test_repl():
    """/heal draws what generate draws, and leaves the text after it."""
    with tempfile.TemporaryDirectory() as folder:
        model = pairs_model(MGPT, ROOT, folder)
        for seed in range(12):
            record, = generate(model, '-p', 'a b he', '--heal', '-n', '1', '-s', str(seed), '--temp', '1.5')
            typed = b'a b he\n/set temp 1.5\n/set seed %d\n/heal\n/tokens\n/s 1\n' % seed
            shown = run('repl', model, text=typed).stdout.decode()
            rows = shown.split('logprob', 1)[1].splitlines()[1:1 + len(record['tokens'])]
            check('tokens after /heal', [int(row.split()[1]) for row in rows], record['tokens'])
        bad = run('repl', model, text=b'a b\n/set ban x\n/heal\n', code=2)
        check('refused', b'/heal does not go with ban' in bad.stderr, True)
    check('nothing', b'nothing to heal' in run('repl', NAMES, text=b'ann\n/heal\n').stdout, True)


def test_nothing_to_heal():
    """Single characters: no token goes over a border."""
    for model, prompt in (NAMES, 'ann'), (LINES, 'To be'):
        check('single characters', run('generate', model, '-p', prompt, '--heal', '-n', '9', '--samples', '30').stdout,
              run('generate', model, '-p', prompt, '-n', '9', '--samples', '30').stdout)


def test_refused():
    for words in ['--chat'], ['--slide'], ['--choices', 'a,b'], ['--ban', 'a'], ['--regex', 'a+']:
        done = run('generate', NAMES, '-p', 'a', '--heal', *words, code=2)
        check('refusal of %s' % words, done.stderr.startswith(b'mgpt generate: --heal goes with none of'), True)


for name, test in sorted(globals().items()):
    if name.startswith('test_'):
        test()
sys.exit(bool(failed))
