"""What some tests of commands have in common: a difference is printed and noted, and the rest runs on."""
import subprocess

failed = []


def check(what, found, expected):
    if found != expected:
        failed.append(what)
        print('FAILED: %s\n  found    %r\n  expected %r' % (what, found, expected))


def run_program(*words, code=0, timeout, **how):
    """What subprocess.run gives for a program that has to end with this code."""
    done = subprocess.run(words, capture_output=True, timeout=timeout, **how)
    if done.returncode != code:
        failed.append(words)
        print('FAILED: %s: exit code %d, expected %d: %s' % (words[1:], done.returncode, code, done.stderr.decode()))
    return done
