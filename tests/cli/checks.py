"""What some tests of commands have in common: a difference is printed and noted, and the rest runs on."""
import subprocess
import sys

failed = []
count = 0


def check(what, found, expected):
    if found != expected:
        failed.append(what)
        print('FAILED: %s\n  found    %r\n  expected %r' % (what, found, expected))


def holds(what, good, seen=''):
    """A line of TAP for what has to be true, with the end of what was seen where it is not."""
    global count
    count += 1
    print('%s %d %s' % ('ok' if good else 'not ok', count, what))
    if not good:
        failed.append(what)
        print('# ' + str(seen)[-600:].replace('\n', '\n# '))


def finish():
    """Ends a test that prints TAP."""
    print('1..%d' % count)
    sys.exit(bool(failed))


def run_program(*words, code=0, timeout, **how):
    """What subprocess.run gives for a program that has to end with this code."""
    done = subprocess.run(words, capture_output=True, timeout=timeout, **how)
    if done.returncode != code:
        failed.append(words)
        print('FAILED: %s: exit code %d, expected %d: %s' % (words[1:], done.returncode, code, done.stderr.decode()))
    return done


def run_text(*words, text=None):
    """Runs a program that may fail; what it prints as text."""
    return subprocess.run([str(word) for word in words], input=text, capture_output=True, text=True, errors='replace', check=False)
