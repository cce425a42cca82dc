"""Peak memory. long_record.py MGPT WEIGHTS [pickle]

With `pickle`, a pickle of 1,100,000 floats: at most 4 times the file and 24 MB. (With arrays that grew by copying it took 77 MB.)
mgpt score --json: a record of 50,000 tokens with 20 others each is written as it is made. (As a tree: 800 MB.)
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


def pickle_fits(folder):
    with open(folder + '/floats.pkl', 'wb') as f:
        thousand = pickle.dumps([i / 7 for i in range(1000)], protocol=2)
        begin, end = thousand.index(b'('), thousand.rindex(b'.')  # MARK, floats, APPENDS
        f.write(thousand[:begin] + thousand[begin:end] * 1100 + thousand[end:])
        size = f.tell() >> 10
    code = subprocess.run([MGPT, 'convert', folder + '/floats.pkl', folder + '/x.gguf'], stderr=subprocess.PIPE).returncode
    used = peak()
    print('%d kB for a pickle of %d kB' % (used, size))
    copies = os.environ.get('MGPT_SANITIZED') == '1'  # its realloc never grows in place
    return code == 0 and (copies or used < 4 * size + (24 << 10))


with tempfile.TemporaryDirectory() as folder:
    pickle_ok = 'pickle' not in sys.argv[3:] or pickle_fits(folder)
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
sys.exit(0 if ok and pickle_ok else 1)
