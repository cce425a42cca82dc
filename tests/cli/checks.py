"""What some tests of commands have in common: a difference is printed and noted, and the rest runs on."""
import os
import re
import struct
import subprocess
import sys
import tempfile

from hashes import ROOT, RUNS, Hashes

failed = []
count = 0
said = None


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


def hash_runs(name):
    """From here on what run_text sees is hashed: the file is hashes/NAME.txt, which finish() compares."""
    global said
    said = Hashes(ROOT / 'tests/cli/hashes' / (name + '.txt'))


def note_run(words, done):
    def without(text):
        return re.sub(re.escape(tempfile.gettempdir()) + r'/[^/\s"\']*', 'TMP', text.replace(str(ROOT), 'ROOT'))
    name, printed = without(' '.join(map(str, words[1:])))[:90], without(done.stdout + done.stderr)
    if not RUNS.search(name) and done.returncode != 5:
        said.note(name, '%sexit code %d\n' % (printed, done.returncode))


def finish():
    """Ends a test that prints TAP."""
    if said:
        differ = [run for run in said.end() if run in said.made]
        holds('what all runs print has the hashes of hashes/' + said.path.name, not differ, '\n'.join(differ))
    print('1..%d' % count)
    sys.exit(bool(failed))


def gguf_with_keys(source, to, keys):
    """Writes a GGUF file with more keys: floats (F32), ints (I32), strings."""
    def text(s):
        return struct.pack('<Q', len(s.encode())) + s.encode()

    def entry(key, v):
        value = text(v) if isinstance(v, str) else struct.pack('<f' if isinstance(v, float) else '<i', v)
        return text(key) + struct.pack('<I', {float: 6, int: 5, str: 8}[type(v)]) + value
    with open(source, 'rb') as file:
        data = file.read()
    more = b''.join(entry(key, v) for key, v in keys.items())
    more += entry('test.pad', ' ' * (-len(more + entry('test.pad', '')) % 32))  # the data stays aligned
    n, = struct.unpack_from('<Q', data, 16)
    with open(to, 'wb') as file:
        file.write(data[:16] + struct.pack('<Q', n + len(keys) + 1) + more + data[24:])


def run_program(*words, code=0, timeout, text=None):
    """What subprocess.run gives for a program that has to end with this code. text: bytes for stdin; without, it is empty."""
    given = {'stdin': subprocess.DEVNULL} if text is None else {'input': text}
    done = subprocess.run(words, capture_output=True, timeout=timeout, **given)
    if done.returncode != code:
        failed.append(words)
        print('FAILED: %s: exit code %d, expected %d: %s' % (words[1:], done.returncode, code, done.stderr.decode()))
    return done


PEAK = """import os, re, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
with open('/proc/self/status') as file:
    least = re.search(r'VmHWM:\\s*(\\d+)', file.read())[1]
print(os.wait4(child, 0)[2].ru_maxrss, least)"""


def peak_memory(*words):
    """The most kB that a program had. A child begins with the peak of the program that starts it, so a small one does."""
    if not os.path.exists('/proc/self/status'):
        return 0
    done = subprocess.run([sys.executable, '-ISE', '-c', PEAK, *words], stdout=subprocess.PIPE, check=True)
    most, least = map(int, done.stdout.split())
    check('%d kB, of which the first %d are not seen' % (most, least), most > least + 1000, True)
    return most


def run_text(*words, text=None):
    """Runs a program that may fail; what it prints as text."""
    done = subprocess.run([str(word) for word in words], input=text, capture_output=True, text=True, errors='replace', check=False)
    if said:
        note_run(words, done)
    return done
