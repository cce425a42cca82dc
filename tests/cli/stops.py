"""generate --stop and --ignore-end: the text that a search in the uncut text gives, however it is drawn and printed.

stops.py MGPT WEIGHTS. Without --stop the same numbers draw the same texts, so each is cut here, byte by byte.
"""
import json
import os
import pty
import subprocess
import sys
import tempfile

from checks import check, failed, run_program

MGPT, WEIGHTS = sys.argv[1:3]
NAMES, LINES = WEIGHTS + '/names.gguf', WEIGHTS + '/shakespeare.gguf'


def run(*arguments, code=0):
    return run_program(MGPT, 'generate', *arguments, code=code, timeout=120)


def cut(text, stops, start=0):
    """The text before the stop text that is complete first, and which."""
    for end in range(start + 1, len(text) + 1):
        for stop in sorted(stops, key=len, reverse=True):
            if end - len(stop) >= start and text[:end].endswith(stop):
                return text[:end - len(stop)], stop
    return text, None


def given(stops):
    return [x for stop in stops for x in ('--stop', stop.replace('\n', '\\n'))]


def records(*arguments):
    return [json.loads(line) for line in run(*arguments, '--json').stdout.decode().splitlines()]


def ends(record):
    return record['text'], record['finish_reason'], record.get('stop_text')


def expected_of(plain, stops, start=0):
    """What is expected of records that have been drawn without stop texts."""
    out = []
    for r in plain:
        text, stop = cut(r['text'], stops, start)
        out.append((text, 'stop' if stop else r['finish_reason'], stop))
    return out


def test_samples():
    """Many samples side by side, in trees and threads, and one after the other."""
    plain = records(NAMES, '--samples', '600', '--temp', '1')
    for stops in (['a'], ['nn', 'ann'], ['zzz', 'e', 'el'], ['xyzzy'], ['le', 'lei', 'eila']):
        expected = expected_of(plain, stops)
        for how in ([], ['--batch', '1'], ['--batch', '8'], ['-t', '1'], ['-t', '16', '--batch', '3']):
            found = records(NAMES, '--samples', '600', '--temp', '1', *given(stops), *how)
            check('samples %s %s' % (stops, how), [ends(r) for r in found], expected)
        text = run(NAMES, '--samples', '600', '--temp', '1', *given(stops)).stdout.decode()
        check('samples as lines %s' % stops, text, ''.join(t + '\n' for t, _, _ in expected))
        alone = [ends(records(NAMES, '--first', str(i), '--temp', '1', *given(stops))[0]) for i in range(12)]
        check('samples alone %s' % stops, alone, expected[:12])


def test_long_text():
    """One text with a prompt that has the stop texts, too; with look-up, a draft, ids, on a terminal."""
    prompt = 'ROMEO:\nBut soft, the king. the'
    at = [LINES, '-p', prompt, '-n', '220', '--temp', '0.7', '-s', '5']
    plain = records(*at)
    begun = plain[0]['text'][len(prompt) - 2:len(prompt) + 1]  # it begins in the prompt
    for stops in (['the'], ['\n\n'], ['.', ',\n'], ['not in there'], ['ROMEO', '\nK'], [begun, begun[1:]]):
        expected = expected_of(plain, stops, len(prompt))
        for how in ([], ['--lookup'], ['--draft', LINES], ['--slide'], ['-t', '1']):
            check('text %s %s' % (stops, how), [ends(r) for r in records(*at, *given(stops), *how)], expected)
        check('printed %s' % stops, run(*at, *given(stops)).stdout.decode(), expected[0][0] + '\n')
        check('no prompt %s' % stops, run(*at, '--no-prompt', *given(stops)).stdout.decode(),
              expected[0][0][len(prompt):] + '\n')
        check('terminal %s' % stops, on_terminal(*at, *given(stops)), expected[0][0].replace('\n', '\r\n') + '\r\n')


def on_terminal(*arguments):
    main, other = pty.openpty()
    with subprocess.Popen([MGPT, 'generate', *arguments], stdout=other, stderr=subprocess.DEVNULL,
                          stdin=subprocess.DEVNULL) as running:
        os.close(other)
        text = b''
        while True:
            try:
                part = os.read(main, 4096)
            except OSError:
                break
            if not part:
                break
            text += part
        os.close(main)
        running.wait(60)
    return text.decode()


def test_terminal_samples():
    """A sample that is shown while it grows never shows the beginning of a stop text that follows."""
    plain = records(NAMES, '--samples', '40', '--temp', '1')
    expected = ''.join(t + '\r\n' for t, _, _ in expected_of(plain, ['anna', 'el']))
    check('samples on a terminal', on_terminal(NAMES, '--samples', '40', '--temp', '1', '--stop', 'anna', '--stop', 'el'),
          expected)


def test_session():
    """A session that a stop text has ended goes on behind it, as one long run."""
    with tempfile.TemporaryDirectory() as folder:
        at = [LINES, '-n', '120', '--temp', '0.7', '-s', '3', '--json']
        whole = json.loads(run(*at, '-p', 'KING').stdout)['tokens']
        kept = ['--session', folder + '/s', '--stop', 'e']
        tokens = json.loads(run(*at, '-p', 'KING', *kept).stdout)['tokens']
        for _ in range(3):
            part = json.loads(run(LINES, '-n', '120', '--temp', '0.7', '--json', *kept).stdout)
            check('session goes on', part['tokens'][:len(tokens)], tokens)
            tokens = part['tokens']
        check('session in parts', tokens, whole[:len(tokens)])
        check('session has parts', len(tokens) > len('KING') + 3, True)


def test_ignore_end():
    """End tokens are drawn as others; -n ends, or the context."""
    r = records(NAMES, '--temp', '0', '--ignore-end', '-n', '9')[0]
    plain = records(NAMES, '--temp', '0')[0]
    n = len(plain['tokens'])
    check('goes on', (r['tokens'][:n], r['tokens'][n], len(r['tokens'])), (plain['tokens'], 26, 10))
    check('reason', r['finish_reason'], 'length')
    many = records(NAMES, '--temp', '1', '--ignore-end', '--samples', '50')
    check('to the end of the context', {len(r['tokens']) for r in many}, {17})
    alone = [records(NAMES, '--temp', '1', '--ignore-end', '--first', str(i))[0]['tokens'] for i in range(5)]
    check('alone', alone, [r['tokens'] for r in many[:5]])


def test_refused():
    for arguments, words in ((['--stop', ''], 'empty'), (['--stop', 'a\\q'], 'backslash'),
                             (['--stop', '\\xFF'], 'UTF-8'), (['--chat', '--ignore-end'], '--ignore-end'),
                             ([x for _ in range(17) for x in ('--stop', 'a')], '16')):
        check('refused %s' % arguments, words in run(NAMES, *arguments, code=2).stderr.decode(), True)


for name, test in list(globals().items()):
    if name.startswith('test_'):
        test()
print('%d failed' % len(failed))
sys.exit(bool(failed))
