#!/usr/bin/env python3
r"""Makes the table of rounding errors in README: what types cost, next to files of llama-quantize.

    quality_table.py MGPT MODEL IMATRIX TEXT [LLAMA_QUANTIZE [TYPE...]]

CHUNKS pieces of the last tenth of the text are what all files are compared on with MODEL by `mgpt check`: the mean KL
divergence in nats, and how often the likeliest token is the same. IMATRIX is a file of `mgpt imatrix`, of another part
of the text. LLAMA_QUANTIZE takes [--imatrix FILE] IN OUT TYPE; without it its columns stay empty.

What one model loses depends on where its weights happen to be rounded: copies whose weights are multiplied by 1 + 0.1 g, g
normal, differ by up to 10 % in KL with one encoder. So each number is the mean over MODEL, of float32, and COPIES of it.

README's table is of a model with rows of 256 and 768, since K types take no shorter ones (November 2026, release b11739
of llama.cpp through llama_model_quantize; PyTorch on a CPU, 150 steps, held-out loss 1.4528):

    train_shakespeare.py tinyshakespeare.txt -o wide.gguf --widen weights/shakespeare.gguf --n-embd 256 --n-head 8 \
        --n-ff 768 --batch 6 --steps 150 --warmup 15 --lr 1.5e-3 --lr-end 0.05 --dropout 0.1 --type f32
    head -c 12000 tinyshakespeare.txt >text && mgpt imatrix wide.gguf -f text -o imatrix.gguf
    quality_table.py mgpt wide.gguf imatrix.gguf tinyshakespeare.txt llama-quantize Q6_K Q4_K_M Q4_0 Q3_K_M Q2_K
"""
import array
import os
import random
import re
import subprocess
import sys
import tempfile

CHUNKS, BYTES, COPIES = 6, 250, 3
TYPES = ('Q8_0', 'Q6_K', 'Q5_K_M', 'Q5_K_S', 'Q5_1', 'Q5_0', 'Q4_K_M', 'Q4_K_S', 'Q4_1', 'Q4_0', 'Q3_K_L', 'Q3_K_M', 'Q3_K_S', 'Q2_K')
# llama-quantize rounds the output of these to Q6_K; ours get the same types.
AS_THEIRS = {'Q4_0', 'Q4_1', 'Q5_0', 'Q5_1'}


def run(*args):
    r = subprocess.run(args, capture_output=True, text=True)
    if r.returncode not in (0, 1):
        sys.exit('%s: %s' % (' '.join(args), r.stderr))
    return r.stdout + r.stderr


def compare(mgpt, path, model, pieces):
    """(mean KL, share of the same likeliest token)."""
    kl = same = n = 0
    for piece in pieces:
        out = run(mgpt, 'check', path, model, '-p', piece, '--tol', '1e9')
        kl += float(re.search(r'^mean KL +(\S+)', out, re.M)[1]) / len(pieces)
        top = re.search(r'^top-1 +(\d+) of (\d+)', out, re.M)
        same, n = same + int(top[1]), n + int(top[2])
    return kl, same / n


def count(mgpt, path):
    """Weights of a file."""
    return int(re.search(r'^(?:parameters|weights) +([\d,]+)', run(mgpt, 'info', path), re.M)[1].replace(',', ''))


def copies(mgpt, model, folder):
    """Paths of the model and its copies."""
    with open(model, 'rb') as f:
        data = f.read()
    first = len(data) - 4 * count(mgpt, model)
    for seed in range(1, COPIES + 1):
        draw = random.Random(seed).gauss
        weights = array.array('f', (x * (1 + 0.1 * draw(0, 1)) for x in array.array('f', data[first:])))
        with open('%s/copy%d.gguf' % (folder, seed), 'wb') as f:
            f.write(data[:first] + weights.tobytes())
    return [model] + ['%s/copy%d.gguf' % (folder, seed) for seed in range(1, COPIES + 1)]


def cells(found):
    """Means over the models."""
    return '%.5f | %.1f %%' % tuple(by * sum(v) / len(v) for by, v in zip((1, 100), zip(*found))) if found else ' | '


def main():
    mgpt, model, weights, text, *more = sys.argv[1:]
    theirs, types = more[:1], more[1:] or TYPES
    text = open(text, encoding='utf-8').read()
    held = text[len(text) * 9 // 10:]
    step = len(held) // CHUNKS
    pieces = [held[i * step:i * step + BYTES] for i in range(CHUNKS)]
    with tempfile.TemporaryDirectory() as tmp:
        print('| type | bits per weight | KL | same top-1 | llama-quantize KL | same top-1 | with imatrix: KL | same top-1 | '
              'llama-quantize KL | same top-1 |\n' + '| --- ' * 10 + '|')
        models, out = copies(mgpt, model, tmp), tmp + '/out.gguf'
        for kind in types:
            as_theirs = ['--type-of', '^(output|token_embd)=q6_k'] if kind in AS_THEIRS else []
            row, size = [], None
            for imatrix in ([], ['--imatrix', weights]):
                ours, other = [], []
                for one in models:
                    run(mgpt, 'convert', one, out, '--type', kind.lower(), *as_theirs, *imatrix)
                    size = size or 8 * os.path.getsize(out) / count(mgpt, out)
                    ours.append(compare(mgpt, out, one, pieces))
                    if theirs:
                        run(theirs[0], *imatrix, one, out, kind)
                        other.append(compare(mgpt, out, one, pieces))
                row += [cells(ours), cells(other)]
            print('| %s | %.2f | %s |' % (kind, size, ' | '.join(row)), flush=True)


if __name__ == '__main__':
    main()
