"""score in windows: the numbers of lm-evaluation-harness' loglikelihood_rolling, of a file and of records.

rolling.py MGPT SOURCE. Which tokens a window sees and which it scores is worked out here, token by token, from what the
harness promises; the numbers of a window are those that `score --json` has of its ids alone.
"""
import json
import math
import os
import pty
import random
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time

from checks import check, failed, peak_memory, run_program

MGPT, SOURCE = sys.argv[1:3]
NAMES, LINES = SOURCE + '/weights/names.gguf', SOURCE + '/weights/shakespeare.gguf'
sys.path.insert(0, SOURCE + '/tests/fuzz')
import tiny_models  # noqa: E402


def score(model, *arguments, text=None, code=0):
    return run_program(MGPT, 'score', model, *arguments, code=code, timeout=300, text=text)


def report(out):
    """{'tokens': '12', 'nll/token': '0.5', ...}"""
    return dict(re.match(r'(\S+) +(.*?)(?: nats)?$', line).groups() for line in out.decode().splitlines())


def records(model, objects, *arguments, code=0):
    out = score(model, '-f', '-', '--json', *arguments, text=b''.join(json.dumps(x).encode() + b'\n' for x in objects), code=code)
    return [json.loads(line) for line in out.stdout.splitlines()]


def seen_and_scored(n, window, stride):
    """(first token that is seen, first that is scored, end): token 0 is only seen. Every token is scored once, from as many
    tokens before it as its window has."""
    at, out = 1, []
    while at < n:
        end = min(n, at + (stride if out else window))
        out.append((max(0, end - 1 - window), at, end))
        at = end
    return out


def expected(model, ids, window, stride):
    """Log-probabilities of all tokens but the first."""
    parts = seen_and_scored(len(ids), window, stride)
    alone = records(model, [{'ids': ids[first:end]} for first, _, end in parts])
    logprobs = []
    for (first, at, end), record in zip(parts, alone):
        logprobs += record['logprobs']['token_logprobs'][at - first:]
    return logprobs


def ids_of(model, text):
    out = subprocess.run([MGPT, 'tokenize', model, '--no-bos'], input=text, capture_output=True, check=True).stdout
    return [int(x) for x in out.split()]


def first_of(model):
    """The token before a file's; -1: none."""
    info = json.loads(subprocess.run([MGPT, 'info', model, '--json'], capture_output=True, check=True).stdout)
    return info['bos'] if info['bos'] >= 0 else info['eos']


def sums_of(logprobs, text):
    """The report as it should be."""
    nll = 0.0
    for p in logprobs:
        nll -= p
    words = len(text.decode().split())
    rows = {'texts': '1', 'tokens': str(len(logprobs)), 'bytes': str(len(text)), 'words': str(words)}
    for unit, n in (('token', len(logprobs)), ('byte', len(text)), ('word', words)):
        rows['nll/' + unit] = '%.12f' % (nll / n)
        rows['bits/' + unit] = '%.12f' % (nll / n / math.log(2))
    rows['perplexity'] = '%.12f' % math.exp(nll / len(logprobs))
    return rows


def test_file(folder):
    """A file with line ends, in windows of many sizes."""
    text = subprocess.run([MGPT, 'generate', LINES, '-p', 'A', '-n', '150', '--samples', '4'], capture_output=True, check=True).stdout
    path = folder + '/text'
    with open(path, 'wb') as f:
        f.write(text)
    first, ids = first_of(LINES), ids_of(LINES, text)
    n_text = len(ids)
    ids = ([first] if first >= 0 else []) + ids
    for window, stride in ((256, 256), (256, 100), (64, 17), (10, 10)):
        found = report(score(LINES, '-f', path, '--window', str(window), '--stride', str(stride)).stdout)
        logprobs = expected(LINES, ids, window, stride)
        rows = sums_of(logprobs, text)
        check('window %d, stride %d' % (window, stride), {k: found.get(k) for k in rows}, rows)
        check('... its windows', found['windows'], '%d of %d tokens, stride %d' % (len(seen_and_scored(len(ids), window, stride)), window, stride))
        check('... its definition', found['definition'][-14:].split()[-1], str(window - stride + 1))
    whole = score(LINES, '-f', path, '--window')
    check('the window is the context', whole.stdout, score(LINES, '-f', path, '--window', '256', '--stride', '256').stdout)
    for options in (['-t', '1'], ['-t', '5'], ['--no-fused']):
        check('the same bytes with %s' % options, score(LINES, '-f', path, '--window', *options).stdout, whole.stdout)
    check('from stdin', score(LINES, '-f', '-', '--window', text=text).stdout, whole.stdout)
    check('a text of one window has no other numbers', report(score(LINES, '-f', '-', '--window', text=text[:200]).stdout)['tokens'],
          str(200 if first >= 0 else 199))
    check('without BOS the first token is only seen', report(score(LINES, '-f', path, '--window', '--no-bos').stdout)['tokens'],
          str(n_text - 1))


def test_records():
    """Texts around the lengths of windows, as lines and as records: nothing is cut."""
    draw = random.Random(1)
    texts = [''.join(draw.choice('abcdefghijklmnopqrstuvwxyz') for _ in range(n)) for n in (3, 15, 16, 17, 32, 100)]
    for window, stride in ((16, 16), (16, 5), (7, 3)):
        options = ['--window', str(window), '--stride', str(stride)]
        for text, found in zip(texts, records(NAMES, [{'text': text} for text in texts], *options)):
            logprobs = expected(NAMES, found['ids'], window, stride)
            what = 'record of %d characters, window %d, stride %d' % (len(text), window, stride)
            check(what + ': ids', len(found['ids']), len(text) + 2)
            check(what, found['logprobs']['token_logprobs'][1:], logprobs)
            total = 0.0
            for p in logprobs:
                total -= p
            check(what + ': sum', found['sum_logprob'], 0 - total)
            n = len(seen_and_scored(len(found['ids']), window, stride))
            check(what + ': windows', found.get('windows', 1), n)
            check(what + ': not cut', 'truncated' in found, False)
    lines = score(NAMES, '-f', '-', '--each', text='\n'.join(texts).encode())
    sums = records(NAMES, [{'text': text} for text in texts])
    rows = [line.split(b'\t') for line in lines.stdout.splitlines() if b'\t' in line]
    check('lines have the numbers of records', [(float(nll), int(n)) for nll, n, _ in rows], [(0 - r['sum_logprob'], r['n_tokens']) for r in sums])
    check('... and nothing is said of cuts', lines.stderr, b'')
    check('... but of windows', report(lines.stdout[lines.stdout.index(b'texts '):])['windows'],
          '%d of 16 tokens, stride 16' % sum(r.get('windows', 1) for r in sums))
    top = records(NAMES, [{'text': texts[-1]}], '--top', '2')[0]['logprobs']
    check('--top in windows', [max(a['logprob'] for a in row) >= p for row, p in zip(top['top_logprobs'][1:], top['token_logprobs'][1:])],
          [True] * 101)


def tiny(folder, name, vocabulary):
    """A model of random weights, as a path."""
    arch = 'gpt2' if vocabulary is BYTE_PAIRS else 'llama'
    needs = re.compile(r'output_norm|position|attn_qkv.weight')
    draw = random.Random(3)
    data = tiny_models.gguf_model(SOURCE, arch, needs.match, layers=1, more=vocabulary)
    data = re.sub(b'\x00\x00\x80\x3e', lambda m: struct.pack('<f', draw.gauss(0, 0.7)), data)
    with open(folder + '/' + name, 'wb') as f:
        f.write(data)
    return folder + '/' + name


BYTE_PAIRS = dict(tiny_models.BYTE_PAIRS, **{'tokenizer.ggml.tokens': ('a', 'b', 'ab', 'c', '\u0120', '<|x|>', '\u010a', 'd')})


def test_pieces(folder):
    """A file of more than a piece has the tokens of the whole, and memory does not grow with it."""
    draw = random.Random(2)
    for name, vocabulary, letters in (('bpe', BYTE_PAIRS, 'abcd'), ('spm', tiny_models.PIECES, 'ab')):
        model = tiny(folder, name, vocabulary)
        line = [' ' * draw.choice((0, 0, 1, 3)) + ' '.join(''.join(draw.choices(letters, k=draw.randrange(1, 9))) for _ in range(9))
                for _ in range(800)]
        text = ''
        while len(text) < 1_100_000:
            text += draw.choice(line) + '\n' * draw.choice((1, 1, 1, 2))
        path = folder + '/pieces'
        with open(path, 'w') as f:
            f.write(text)
        found = report(score(model, '-f', path, '--window').stdout)
        with open(folder + '/record', 'w') as f:
            f.write(json.dumps({'text': text}) + '\n')
        whole = json.loads(score(model, '-f', folder + '/record', '--json', '--no-end').stdout)
        check(name + ': tokens of the pieces', found['tokens'], str(whole['n_tokens']))
        check(name + ': their numbers', found['nll/token'], '%.12f' % (-whole['sum_logprob'] / whole['n_tokens']))
        check(name + ': bytes and words', (found['bytes'], found['words']), (str(len(text)), str(len(text.split()))))
        if name == 'bpe':
            most = []
            for n in (2, 4):  # a second piece takes more than one alone, further ones no more
                with open(path, 'w') as f:
                    f.write(text * n)
                most.append(peak_memory(MGPT, 'score', model, '-f', path, '--window', '-t', '1'))
            if os.environ.get('MGPT_SANITIZED') != '1':
                check('memory for twice the file', most[1] < most[0] + 3000, True)
        else:
            score(model, '-f', '-', '--window', text=text.encode()[:1000] + b'!\n', code=0)


def test_half_characters(folder):
    """A token that is half a character is printed as its bytes, any other as its text."""
    halves = dict(BYTE_PAIRS, **{'tokenizer.ggml.tokens': ('a', 'b', 'ab', '\u00c3', '\u0120', '<|x|>', '\u00a9', '\u00c3\u00a9')})
    with open(folder + '/record', 'w') as f:
        f.write('{"ids": [0, 1]}\n')
    record = json.loads(score(tiny(folder, 'halves', halves), '-f', folder + '/record', '--json', '--top', '8').stdout)
    check('half characters', {c['id']: c['token'] for c in record['logprobs']['top_logprobs'][1]},
          dict(enumerate(['a', 'b', 'ab', 'bytes:\\xc3', ' ', '<|x|>', 'bytes:\\xa9', '\u00e9'])))


def rest_of(master):
    """What a terminal still holds when its program has ended: one read may return a part of it."""
    said = b''
    try:
        while piece := os.read(master, 4096):
            said += piece
    except OSError:  # Linux says so that nobody has the other end
        pass
    os.close(master)
    return said


def test_interrupt(folder):
    """Ctrl-C: the numbers of what is done, exit code 130; progress on a terminal."""
    path = folder + '/long'
    with open(path, 'wb') as f:
        f.write(''.join(random.Random(7).choices('abcdefgh iklmnop\n', k=1_500_000)).encode())  # no window is like another
    master, terminal = pty.openpty()
    process = subprocess.Popen([MGPT, 'score', LINES, '-f', path, '--window', '64', '-t', '1'], stdout=subprocess.PIPE, stderr=terminal,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    os.close(terminal)
    said, until = b'', time.monotonic() + 60
    while b' %' not in said and time.monotonic() < until:
        if select.select([master], [], [], 1)[0]:
            said += os.read(master, 4096)
    process.send_signal(signal.SIGINT)
    out = process.communicate(timeout=60)[0]
    said += rest_of(master)
    check('progress is shown', bool(re.search(rb'mgpt: +\d+ %', said)), True)
    check('interrupted: exit code', process.returncode, 130)
    found = report(out)
    check('interrupted: that is said', 'of %s tokens' % found.get('tokens') in said.decode(), True)
    n = int(found['tokens'])
    check('interrupted: whole windows', n % 64, 0)
    with open(path, 'rb') as f:
        head = f.read(n + (first_of(LINES) < 0))
    check('interrupted: the numbers of the beginning', found['nll/token'], report(score(LINES, '-f', '-', '--window', '64', text=head).stdout)['nll/token'])


def test_refused(folder):
    path = folder + '/bad'
    with open(path, 'wb') as f:
        f.write(b'anna\nann3\n')
    for arguments, code, said in ((['--window', '17'], 2, b'--window 17: the context holds 16 tokens'),
                                  (['--window', '8', '--stride', '9'], 2, b'--stride 9: more than the window of 8 tokens'),
                                  (['--window', '--each'], 2, b'not with --each'), (['--window'], 2, b'U+000A')):
        done = score(NAMES, '-f', path, *arguments, code=code)
        check('refused: %s' % arguments, said in done.stderr and done.stdout == b'' and done.stderr.count(b'\n') == 1, True)
    said = score(tiny(folder, 'bpe', BYTE_PAIRS), '-f', '-', '--window', text=b'ab <|x|> ab\n', code=2).stderr
    check('refused: a control token spelt out, which is text', b'byte 0x3C at byte 3 is not in the vocabulary' in said, True)
    check('refused: an empty file', b'nothing to score' in score(NAMES, '-f', '-', '--window', text=b'', code=2).stderr, True)
    check('refused: no file', score(NAMES, '-f', folder + '/none', '--window', code=5).stderr.count(b'\n'), 1)


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_file(folder)
        test_records()
        test_pieces(folder)
        test_half_characters(folder)
        test_interrupt(folder)
        test_refused(folder)
    print(len(failed), 'failed')
    return bool(failed)


if __name__ == '__main__':
    sys.exit(main())
