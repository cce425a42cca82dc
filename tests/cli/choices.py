"""generate --choices: the log-probabilities that score gives, the distribution of 10,000 draws, sessions, records, bad input;
a vocabulary whose choices change the prompt's tokens.

choices.py MGPT ROOT [with_convert].
"""
import json
import math
import os
import sys
import tempfile

from checks import check, failed, run_program
from small_vocabularies import pairs_model

MGPT, ROOT = sys.argv[1:3]
NAMES, LINES = ROOT + '/weights/names.gguf', ROOT + '/weights/shakespeare.gguf'


def run(*words, code=0, text=None):
    return run_program(MGPT, *words, code=code, timeout=120, text=text)


def generate(model, *words):
    return [json.loads(line) for line in run('generate', model, '--json', *words).stdout.splitlines()]


def scored(model, context, texts):
    """What score says of continuations."""
    record = json.dumps({'context': context, 'continuations': texts}).encode()
    return [r['sum_logprob'] for r in json.loads(run('score', model, '--json', '-f', '-', text=record).stdout)['continuations']]


def test_scores():
    for model, prompt, texts in ((NAMES, 'ann', ['a', 'abel', 'e', 'i', 'ie', 'ieabc']), (NAMES, 'b', ['z', 'ob', 'o']),
                                 (LINES, 'To be or not', [' to be', ' to', ', to', '\n', ' to be or'])):
        words = ['-p', prompt, '--choices', ','.join(t.replace('\n', '\\n').replace(',', '\\,') for t in texts), '--temp', '0']
        record, = generate(model, *words)
        found, expected = [c['logprob'] for c in record['choices']], scored(model, prompt, texts)
        check('logprobs after %r' % prompt, found, expected)
        check('texts', [c['text'] for c in record['choices']], texts)
        check('tokens', all(c['tokens'] == generate(model, '-p', prompt + c['text'], '-n', '0')[0]['tokens'][-len(c['tokens']):]
                            for c in record['choices']), True)
        total = math.fsum(map(math.exp, expected))
        check('probabilities', [abs(c['prob'] - math.exp(e) / total) < 1e-12 for c, e in zip(record['choices'], expected)], [True] * len(texts))
        check('the likeliest', (record['choice'], record['text'], record['finish_reason']),
              (expected.index(max(expected)), prompt + texts[expected.index(max(expected))], 'stop'))
        check('text', run('generate', model, *words).stdout.decode(), record['text'] + '\n')
        check('choice alone', run('generate', model, *words, '--no-prompt').stdout.decode(), texts[record['choice']] + '\n')
        for how in (['-t', '3'], ['--batch', '7'], ['--lookup'], ['--draft', model], ['--no-fused'], ['--ids', ','.join(map(str, generate(model, '-p', prompt, '-n', '0')[0]['tokens']))]):
            check('the same with %s' % how, generate(model, *(words[2:] if how[0] == '--ids' else words), *how), [record])


def test_draws():
    """10,000 draws: chi-square with 3 degrees of freedom; at a temperature, and with a filter."""
    expected = [math.exp(x) for x in scored(NAMES, 'ann', ['a', 'e', 'ie', 'i'])]
    for words, p in (([], [x ** (1 / 0.8) for x in expected]), (['--temp', '1'], expected), (['--temp', '1', '--top-k', '2'], [*expected[:2], 0, 0])):
        if words[2:]:
            p = [x if x >= sorted(expected)[-2] else 0 for x in expected]
        counts = [0] * 4
        for record in generate(NAMES, '-p', 'ann', '--choices', 'a,e,ie,i', '--samples', '10000', *words):
            counts[record['choice']] += 1
        chi = sum((c - 10000 * x / sum(p)) ** 2 / (10000 * x / sum(p)) for c, x in zip(counts, p) if x)
        check('chi-square %s of %s' % (words, counts), chi < 16.27 and all(x or not c for c, x in zip(counts, p)), True)


def test_sessions():
    """The text that goes on, and the numbers that come next, are those of one run."""
    with tempfile.TemporaryDirectory() as folder:
        file = folder + '/s'
        first = run('generate', NAMES, '-p', 'an', '-n', '1', '-s', '3', '--session', file).stdout.decode().strip()
        record, = generate(NAMES, '--choices', 'a,na,n', '--session', file)
        check('choices of a session', [c['logprob'] for c in record['choices']], scored(NAMES, first, ['a', 'na', 'n']))
        more, = generate(NAMES, '--session', file, '-n', '2', '--temp', '0')
        check('the session has the choice', more['tokens'], generate(NAMES, '-p', record['text'], '-n', '2', '--temp', '0')[0]['tokens'])


def test_records():
    asked = [{'prompt': 'ann', 'seed': i, 'choices': ['a', 'e,', 'ie'][:2 + i % 2] if i % 2 else ['a', 'e', 'ie']} for i in range(12)]
    asked = [{**r, 'choices': [c.strip(',') for c in r['choices']]} for r in asked] + [{'prompt': 'b', 'id': 'x'}]
    lines = b''.join(json.dumps(r).encode() + b'\n' for r in asked)
    whole = run('generate', NAMES, '--records', '-', '--choices', 'o,i', text=lines).stdout
    for record, line in zip(asked, whole.splitlines(), strict=True):
        words = ['-p', record['prompt'], '-s', str(record.get('seed', 0)), '--choices', ','.join(record.get('choices', ['o', 'i']))]
        expected, = generate(NAMES, *words)
        del expected['index']
        check('record', json.loads(line), {**({'id': record['id']} if 'id' in record else {}), **expected})
    for batch in '1', '3':
        check('batch', run('generate', NAMES, '--records', '-', '--choices', 'o,i', '--batch', batch, text=lines).stdout, whole)
    bad = [({'choices': []}, 'choices: expected an array'), ({'choices': 'a'}, 'choices: expected an array'), ({'choices': ['']}, 'choice 1 is empty'),
           ({'choices': ['a', 'b', 'a']}, 'choice 3 is choice 1 again'), *(({'choices': ['a'], **other}, 'do not go with choices') for other in ({'n': 1}, {'stop': 'x'}, {'ignore_end': True})), ({'choices': [1]}, 'array of strings')]
    lines = b''.join(json.dumps({'prompt': 'a', **r}).encode() + b'\n' for r, _ in bad)
    for (_, text), line in zip(bad, run('generate', NAMES, '--records', '-', text=lines, code=3).stdout.splitlines(), strict=True):
        check('error of a record', text in json.loads(line)['error'], True)


def test_refused():
    for choices, code, text in (('a,', 2, 'choice 2 is empty'), ('', 2, 'choice 1 is empty'), ('a,b,a', 2, 'choice 3 is choice 1 again'),
                                ('a\\q', 2, 'choice 1: a backslash'), ('a,?', 2, "choice 2: character '?'"), ('a' * 16, 4, 'choice 1: 18 tokens')):
        done = run('generate', NAMES, '-p', 'a', '--choices', choices, code=code)
        check('refusal of %r' % choices, text in done.stderr.decode() and done.stderr.count(b'\n') == 1 and not done.stdout, True)
    for words in ['-n', '3'], ['--stop', 'a'], ['--ignore-end'], ['--slide'], ['--json', '--top', '1'], ['--ban', 'a'], ['--regex', 'a']:
        done = run('generate', NAMES, '-p', 'a', '--choices', 'a,b', *words, code=2)
        check('refusal of %s' % words, b'--choices goes with none of' in done.stderr, True)


def test_borders():
    """Choices that change the prompt's last tokens: all are scored from where they and the prompt part."""
    with tempfile.TemporaryDirectory() as folder:
        model = pairs_model(MGPT, ROOT, folder)
        done = run('generate', model, '-p', 'a', '--regex', 'h\\n', code=2) # only token 1 is a line end, and it ends texts
        check('a token that ends texts is none of them', b'no text of this model' in done.stderr, True)
        bare = pairs_model(MGPT, ROOT, folder, 'bare', normalizer={'type': 'Replace', 'pattern': {'String': '_'}, 'content': ''})
        for i, choices in enumerate(('_,b', 'b,_', 'b,h,__')):  # a choice of which the normalizer leaves nothing
            done = run('generate', bare, '-p', 'a', '--choices', choices, code=2)
            check('a choice that vanishes, of ' + choices, b'choice %d: has no token of its own' % (i + 1) in done.stderr and not done.stdout, True)
        record, = generate(model, '-p', 'a b he', '--choices', 'llo,r,l', '--temp', '0')
        tokens = {text: generate(model, '-p', text, '-n', '0')[0]['tokens'] for text in ('a b he', 'a b hello', 'a b her', 'a b hel')}
        common = len(os.path.commonprefix(list(tokens.values())))
        check('a choice changes the prompt', tokens['a b hel'][:len(tokens['a b he'])] != tokens['a b he'], True)
        check('tokens that are scored', [c['tokens'] for c in record['choices']], [tokens['a b he' + t][common:] for t in ('llo', 'r', 'l')])
        check('their logprobs', [c['logprob'] for c in record['choices']], scored(model, 'a b', [' hello', ' her', ' hel']))
        check('tokens of the text', record['tokens'], tokens[record['text']])
        ids = [3, 2, 8, 7]  # "a", " ", "h", "e": not the tokens of "a he"
        own, = generate(model, '--ids', ','.join(map(str, ids)), '--choices', 'lo,ld', '--temp', '0')
        check('after tokens that are not those of their text', ([c['tokens'] for c in own['choices']], own['tokens'][:4]), ([[17], [18]], ids))


for name, test in sorted(globals().items()):
    if name.startswith('test_') and (name != 'test_borders' or 'with_convert' in sys.argv[3:]):
        test()
sys.exit(bool(failed))
