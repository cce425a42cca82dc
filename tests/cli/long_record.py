"""Peak memory. long_record.py MGPT WEIGHTS [pickle]

With `pickle`, pickles of 2 to 12 MB: at most 3 times the file and 16 MB. (With a node for each number, floats took 5.4 times the file,
a dict of numbers 15.8 times.)
mgpt score --json: a context of 10 MB, of which the model sees 16 tokens, takes 40 MB for its tokens and 2 times the file (11 times
before); 60,000 contexts of 100 tokens take less than 4 times the file and 16 MB. A record of 50,000 tokens with 20 others each is written as it is made. (As a tree: 800 MB.)
"""
import json
import os
import pickle
import resource
import struct
import subprocess
import sys
import tempfile

import split_gguf

MGPT, WEIGHTS = sys.argv[1:3]
N_TOKENS, N_TOP, MOST = 50000, 20, 500 << 10  # kB


def with_number(metadata, name, value):
    at = metadata.index(name) + len(name) + 4
    return metadata[:at] + struct.pack('<I', value) + metadata[at + 4:]


def bigram():
    """names.gguf without layers, with a context of 2^20."""
    with open(WEIGHTS + '/names.gguf', 'rb') as f:
        n_kv, metadata, tensors, align = split_gguf.parse(f.read())
    metadata = with_number(metadata, b'microgpt.block_count', 0)
    metadata = with_number(metadata, b'microgpt.context_length', 1 << 20)
    kept = [t for t in tensors if t[0] in (b'token_embd.weight', b'output.weight')]
    return split_gguf.part(n_kv, metadata, kept, align, 0, 1, len(kept))


def peak():
    """kB of the largest child so far."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def child_peak(*args):
    """(exit code, kB)"""
    child = subprocess.Popen([MGPT, *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.WEXITSTATUS(status)
    print('%d kB, exit %d: %s' % (usage.ru_maxrss, child.returncode, ' '.join(args[:2])))
    return child.returncode, usage.ru_maxrss


def pickle_fits(folder, value, n, code):
    """A pickle whose items are these n times. It is written in pieces: what this program holds counts for its children, too."""
    one = pickle.dumps(value, protocol=2)
    begin, end = one.index(b'('), max(one.rfind(b'e'), one.rfind(b'u')) + 1  # MARK, items, APPENDS or SETITEMS
    with open(folder + '/x.pkl', 'wb') as f:
        f.write(one[:begin])
        for _ in range(n):
            f.write(one[begin:end])
        f.write(one[end:])
        size = f.tell() >> 10
    got, used = child_peak('convert', folder + '/x.pkl', folder + '/x.gguf')
    grows = os.environ.get('MGPT_SANITIZED') == '1'  # its realloc never grows in place
    return got == code and (grows or used < 3 * size + (16 << 10))


def pickles_fit(folder):
    return all([pickle_fits(folder, [i / 7 for i in range(1000)], 1100, 0),
                pickle_fits(folder, ({i: i for i in range(300, 1300)},), 400, 3),
                pickle_fits(folder, [[i / 7, i / 9] for i in range(1000)], 480, 3)])


def contexts_fit(folder):
    """One long context, and many short ones."""
    ok = os.environ.get('MGPT_SANITIZED') == '1'
    for n_records, n_names, most in ((1, 2500000, 66 << 10), (60000, 25, 42 << 10)):
        with open(folder + '/pairs', 'w') as f:
            for _ in range(n_records):
                f.write('{"context": "')
                for i in range(0, n_names, 25):
                    f.write('emma' * min(25, n_names - i))
                f.write('", "continuation": "olivia"}\n')
        code, used = child_peak('score', WEIGHTS + '/names.gguf', '-f', folder + '/pairs', '--json')
        if code or (used > most and not ok):
            return False
    return True


with tempfile.TemporaryDirectory() as folder:
    pickle_ok = 'pickle' not in sys.argv[3:] or pickles_fit(folder)
    contexts_ok = contexts_fit(folder)
    model, text = folder + '/bigram.gguf', folder + '/text'
    with open(model, 'wb') as f:
        f.write(bigram())
    with open(text, 'w') as f:
        json.dump({'text': 'emma' * (N_TOKENS // 4)}, f)
    with open(folder + '/out', 'wb') as out:
        code = subprocess.run([MGPT, 'score', model, '-f', text, '--json', '--top', str(N_TOP)],
                              stdout=out, timeout=100).returncode
    used = peak()
    with open(folder + '/out') as f:
        logprobs = json.load(f)['logprobs']
    ok = (code == 0 and used < MOST and len(logprobs['tokens']) == N_TOKENS + 2 and  # BOS and EOS
          all(len(top) == N_TOP for top in logprobs['top_logprobs'][1:]))
    print('%d kB, %d tokens' % (used, len(logprobs['tokens'])))
sys.exit(0 if ok and pickle_ok and contexts_ok else 1)
