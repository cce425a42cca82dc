"""generate --records: the text of each record is that of its prompt alone, in any order, batch, shard and number of threads.

records.py MGPT WEIGHTS.
"""
import json
import os
import random
import subprocess
import sys

from checks import check, failed, peak_memory, run_program

MGPT, WEIGHTS = sys.argv[1:3]
NAMES, LINES = WEIGHTS + '/names.gguf', WEIGHTS + '/shakespeare.gguf'
OPTIONS = {'n': '-n', 'seed': '-s', 'temperature': '--temp', 'top_k': '--top-k', 'top_p': '--top-p', 'min_p': '--min-p'}


def run(*arguments, text=b'', code=0):
    return run_program(MGPT, 'generate', *arguments, code=code, timeout=200, text=text)


def lines_of(objects):
    return b''.join(json.dumps(x).encode() + b'\n' for x in objects)


def records(model, objects, *arguments, code=0):
    return run(model, '--records', '-', *arguments, text=lines_of(objects), code=code).stdout


def alone(model, record, *arguments):
    """What the command prints for a record's prompt with its settings as options."""
    words = ['-p', record['prompt']] if 'prompt' in record else ['--ids', ','.join(map(str, record['ids']))]
    for name, option in OPTIONS.items():
        words += [option, str(record[name])] if name in record else []
    stop = record.get('stop', [])
    for text in [stop] if isinstance(stop, str) else stop:
        words += ['--stop', text.replace('\n', '\\n')]
    words += ['--ignore-end'] if record.get('ignore_end') else []
    found = json.loads(run(model, *words, '--json', *arguments).stdout)
    del found['index']
    return {'id': record['id'], **found} if 'id' in record else found


def made(letters, n):
    draw = random.Random(n)
    out = []
    for i in range(n):
        record = {'id': draw.choice((i, str(i), [i], None, {}, {'i': [i, {}]}))} if draw.random() < 0.8 else {}
        text = ''.join(draw.choice(letters) for _ in range(draw.randrange(0 if letters[0] == 'a' else 1, 9)))
        record.update({'prompt': text} if draw.random() < 0.7 else {'ids': [draw.randrange(26) for _ in range(draw.randrange(1, 9))]})
        for name, values in (('n', (0, 1, 5, -1)), ('seed', (0, 1, 77)), ('temperature', (0, 0.5, 1)), ('top_k', (1, 5)), ('top_p', (0.5, 1)),
                             ('min_p', (0, 0.1)), ('stop', ('e', ['a', 'nn'], [])), ('ignore_end', (True, False))):
            if draw.random() < 0.3:
                record[name] = draw.choice(values)
        if letters[0] != 'a':
            record['n'] = record['n'] if 0 <= record.get('n', -1) else 12
        out.append(record)
    return out


def test_alone():
    for model, letters, n in ((NAMES, 'abcdefghijklmnopqrstuvwxyz', 70), (LINES, 'ETAO etaoin\nshr', 30)):
        asked = made(letters, n)
        whole = records(model, asked)
        for record, line in zip(asked, whole.splitlines(), strict=True):
            check('record %r' % record, json.loads(line), alone(model, record))
        for options in (['--batch', '1'], ['--batch', '7'], ['--batch', '64'], ['-t', '3'], ['--no-fused']):
            check('the same bytes with %s' % options, records(model, asked, *options), whole)
        order = list(range(n))
        random.Random(1).shuffle(order)
        other = records(model, [asked[i] for i in order]).splitlines()
        check('another order', [other[order.index(i)] for i in range(n)], whole.splitlines())
        check('shards', records(model, asked[:n // 3]) + records(model, asked[n // 3:]), whole)
    edits = ['--repeat-penalty', '1.3', '--dry', '0.8', '--xtc', '0.5:0.1', '--mirostat', '2', '--bias', 'a+1']
    asked = [{'prompt': 'an', 'seed': i} for i in range(20)]
    for record, line in zip(asked, records(NAMES, asked, *edits).splitlines(), strict=True):
        check('with edits: %r' % record, json.loads(line), alone(NAMES, record, *edits))
    defaults = ['-n', '3', '-s', '5', '--temp', '0.9', '--stop', 'l', '--top', '2', '--no-prompt', '-c', '9']
    asked = [{'prompt': 'an'}, {'prompt': 'an', 'n': 6, 'stop': 'i'}, {'prompt': 'anna', 'seed': 0, 'temperature': 0}]
    for record, line in zip(asked, records(NAMES, asked, *defaults).splitlines(), strict=True):
        own = dict({'n': 3, 'seed': 5, 'temperature': 0.9, 'stop': 'l'}, **record)
        check('options are defaults: %r' % record, json.loads(line), alone(NAMES, own, '--top', '2', '--no-prompt', '-c', '9'))
    check('a temperature of the record, where the options take the likeliest',
          json.loads(records(NAMES, [{'prompt': 'a', 'temperature': 2, 'seed': 9}], '--temp', '0')), alone(NAMES, {'prompt': 'a', 'temperature': 2, 'seed': 9}))


def test_drawn_seed():
    """-1: each record draws a seed of its own and names it; with it the text is the same."""
    asked = [{'id': i, 'prompt': 'a', 'seed': -1, 'temperature': 1} for i in range(4)]
    found = list(map(json.loads, records(NAMES, asked).splitlines()))
    seeds = [record.pop('seed') for record in found]
    check('different seeds', len(set(seeds)), 4)
    again = [dict(record, seed=seed) for record, seed in zip(asked, seeds)]
    check('the same texts', list(map(json.loads, records(NAMES, again).splitlines())), found)


BAD = (
    (b'{"id": 1, "prompt": "a", "prompts": "b"}', 'unknown field "prompts"'), (b'{"id": 1}', 'expected an object with a string called prompt'),
    (b'{"id": 1, "prompt": "a", "ids": [1]}', 'expected an object'), (b'{"id": 1, "prompt": ["a"]}', 'expected an object'),
    (b'[1]', 'expected an object'), (b'{"id": 1, "ids": [27]}', 'from 0 to 26, found another as number 1'),
    (b'{"id": 1, "ids": [0, -1]}', 'as number 2'), (b'{"id": 1, "ids": []}', 'at least one'), (b'{"id": 1, "prompt": "Q"}', "character 'Q'"),
    (b'{"id": 1, "prompt": "aaaaaaaaaaaaaaaaaaaa"}', 'the prompt has 21 tokens, the context holds 16'),
    (b'{"id": 1, "prompt": "a", "n": 1.5}', 'n: expected a whole number from -1'), (b'{"id": 1, "prompt": "a", "n": -2}', 'n: expected'),
    (b'{"id": 1, "prompt": "a", "seed": -2}', 'seed: expected'), (b'{"id": 1, "prompt": "a", "seed": "1"}', 'seed: expected'),
    (b'{"id": 1, "prompt": "a", "top_p": 1.5}', 'top_p: expected a number from 0 to 1'), (b'{"id": 1, "prompt": "a", "top_k": 0.5}', 'top_k: expected a whole'),
    (b'{"id": 1, "prompt": "a", "temperature": "hot"}', 'temperature: expected'), (b'{"id": 1, "prompt": "a", "stop": ""}', 'stop: expected'),
    (b'{"id": 1, "prompt": "a", "stop": [1]}', 'stop: expected'), (b'{"id": 1, "prompt": "a", "ignore_end": 1}', 'ignore_end: expected'),
    (b'{"id": 1, "prompt": "a", "stop": [' + b','.join([b'"x"'] * 17) + b']}', 'stop: 17 texts'), (b'no JSON', 'bad JSON'))


def test_bad():
    good = {'id': 'good', 'prompt': 'an'}
    text = b''.join(lines_of([good]) + line + b'\n' for line, _ in BAD) + b'\n' + lines_of([good])
    done = run(NAMES, '--records', '-', text=text, code=3)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    check('a record for each line', len(found), 2 * len(BAD) + 1)
    check('others go on', found[::2], [alone(NAMES, good)] * (len(BAD) + 1))
    for number, ((line, why), record) in enumerate(zip(BAD, found[1::2])):
        check('%r says why' % line, why in record['error'], True)
        check('... and which', record.get('id', record.get('line')), 1 if b'"id"' in line else 2 * number + 2)
    check('one line tells of them', (done.stderr.count(b'\n'), b'%d of %d records could not be drawn; line 2' % (len(BAD), len(found)) in done.stderr), (1, True))
    for arguments in (['-p', 'a'], ['--samples', '2'], ['--lookup'], ['--slide'], ['--chat'], ['--rng', 'python'], ['--session', 's'], ['--ban', 'x']):
        done = run(NAMES, '--records', '-', *arguments, code=2)
        check('refused with %s' % arguments, b'--records goes with none of' in done.stderr, True)
    check('no file', run(NAMES, '--records', '/none', code=5).stderr.count(b'\n'), 1)


def test_stream():
    """A record is answered before the next is written, and the file's name says what it holds."""
    process = subprocess.Popen([MGPT, 'generate', NAMES, '--records', '-'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for i in range(3):
        process.stdin.write(lines_of([{'id': i, 'prompt': 'a'}]))
        process.stdin.flush()
        check('answered at once', json.loads(process.stdout.readline())['id'], i)
    process.stdin.close()
    check('the end', process.wait(timeout=60), 0)
    process.stdout.close()
    path = '/tmp/mgpt-records-%d.jsonl' % os.getpid()
    try:
        with open(path, 'wb') as f:
            f.write(lines_of([{'prompt': 'an'}] * 3))
        check('--json -f FILE.jsonl', run(NAMES, '--json', '-f', path).stdout, records(NAMES, [{'prompt': 'an'}] * 3))
        most = []
        for n in (4000, 16000):
            with open(path, 'wb') as f:
                f.write(lines_of([{'prompt': 'To', 'n': 1, 'id': 'x' * 200}]) * n)
            most.append(peak_memory(MGPT, 'generate', LINES, '--records', path))
        if os.environ.get('MGPT_SANITIZED') != '1':
            check('memory for four times the file', most[1] < most[0] + 1500, True)
    finally:
        os.remove(path)


def main():
    test_alone()
    test_drawn_seed()
    test_bad()
    test_stream()
    print(len(failed), 'failed')
    return bool(failed)


if __name__ == '__main__':
    sys.exit(main())
