#!/usr/bin/env python3
"""mgpt imatrix and convert --imatrix: sums are those of mgpt trace, both forms of the file do the same, rounding is better
with it, and damaged files are refused.

    imatrix.py MGPT WEIGHTS
"""
import array
import json
import math
import os
import random
import re
import shutil
import struct
import sys
import tempfile
import zipfile

from checks import finish, hash_runs, holds, run_text

mgpt, root = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2] + '/..')
MODEL = root + '/weights/shakespeare.gguf'
TEXT = open(root + '/weights/names-steps/texts.txt', encoding='ascii').read()


def run(*args):
    return run_text(mgpt, *args)


def read_gguf(path):
    """{tensor: floats} of a file of F32 tensors, and its keys' bytes."""
    data, at = open(path, 'rb').read(), 24
    n_tensors, n_keys = struct.unpack_from('<QQ', data, 8)
    keys, infos = {}, []

    def text():
        nonlocal at
        n, = struct.unpack_from('<Q', data, at)
        at += 8 + n
        return data[at - n:at].decode()
    for _ in range(n_keys):
        key, kind = text(), struct.unpack_from('<I', data, at)[0]
        at += 4
        if kind == 4:
            keys[key], at = struct.unpack_from('<I', data, at)[0], at + 4
        elif kind == 8:
            keys[key] = text()
        else:
            n, at = struct.unpack_from('<Q', data, at + 4)[0], at + 12
            keys[key] = [text() for _ in range(n)]
    for _ in range(n_tensors):
        name, n_dims = text(), struct.unpack_from('<I', data, at)[0]
        dims = struct.unpack_from('<%dQ' % n_dims, data, at + 4)
        offset, at = struct.unpack_from('<Q', data, at + 8 + 8 * n_dims)[0], at + 16 + 8 * n_dims
        infos.append((name, dims, offset))
    start = (at + 31) // 32 * 32
    return keys, {name: array.array('f', data[start + offset:start + offset + 4 * math.prod(dims)])
                  for name, dims, offset in infos}


def old_form(tensors, calls=3):
    """The older file of the same means."""
    names = [name[:-8] for name in tensors if name.endswith('.in_sum2')]
    out = struct.pack('<i', len(names))
    for name in names:
        sums, count = tensors[name + '.in_sum2'], tensors[name + '.counts'][0]
        out += struct.pack('<i', len(name)) + name.encode() + struct.pack('<ii', calls, len(sums))
        out += array.array('f', (v / count * calls for v in sums)).tobytes()
    return out + struct.pack('<ii', 3, 4) + b'text'


def add_traced(sums, model, text, tensors, option='-p', times=1):
    """Adds the squares of what trace shows of a text at hooks: {hook: names of the matrices that read it}."""
    run('trace', model, option, text, '-o', 'trace.npz')
    with zipfile.ZipFile('trace.npz') as z:
        for hook, names in tensors.items():
            raw = z.read(hook + '.npy')
            begin = 10 + struct.unpack_from('<H', raw, 8)[0]
            rows, values = int(re.search(rb"\((\d+),", raw[:begin])[1]), array.array('f', raw[begin:])
            width = len(values) // rows
            for name in names:
                s = sums.setdefault(name + '.weight', [0.0] * width)
                for i, v in enumerate(values):
                    s[i % width] += times * v * v


def chunks_begin_with_bos():
    """Each chunk begins with BOS, in place of its first token; --head counts what the head multiplies."""
    model, text, sums = root + '/weights/names.gguf', 'annabelkarenoliviacarlnoemi', {}
    open('names.txt', 'w').write(text)
    r = run('imatrix', model, '-f', 'names.txt', '-o', 'names.gguf', '--chunk', '8', '--head')
    for at in (0, 8, 16):
        add_traced(sums, model, text[at:at + 7], {
            'blocks.0.ln1.hook_normalized': ['blk.0.attn_' + x for x in 'qkv'], 'blocks.0.attn.hook_z': ['blk.0.attn_output'],
            'blocks.0.ln2.hook_normalized': ['blk.0.ffn_up'], 'blocks.0.mlp.hook_post': ['blk.0.ffn_down'], 'blocks.0.hook_resid_post': ['output']})
    tensors = read_gguf('names.gguf')[1] if r.returncode == 0 else {}
    holds('BOS in front: tensors', {n + e for n in sums for e in ('.in_sum2', '.counts')} == set(tensors), str(sorted(tensors)) + r.stderr)
    holds('BOS in front: counts', all(tensors[n + '.counts'][0] == 24 for n in sums), {n: list(tensors[n + '.counts']) for n in sums})
    worst = max((abs(a - b) / (abs(b) + 1e-3), n) for n, s in sums.items() for a, b in zip(tensors[n + '.in_sum2'], s))
    holds('BOS in front: sums are those of the values that trace shows', worst[0] < 1e-5, worst)
    r = run('imatrix', model, '--ids', '0,13,13,0', '-o', 'ids.gguf')
    ids, sums = read_gguf('ids.gguf')[1]['blk.0.attn_q.weight.in_sum2'], {}
    add_traced(sums, model, '0,13,13,0', {'blocks.0.ln1.hook_normalized': ['q']}, '--ids')
    holds('--ids have no BOS in front', max(abs(a - b) / (b + 1e-3) for a, b in zip(ids, sums['q.weight'])) < 1e-5, r.stderr)
    r = run('imatrix', model, '-f', 'names.txt', '-o', 'plain.gguf')
    holds('without --head', set(read_gguf('plain.gguf')[1]) == {n for n in tensors if not n.startswith('output')}, r.stderr)


def before_the_head():
    """ModernBERT: the final norm is what the matrix before the head multiplies, and the head something else."""
    shutil.copytree(root + '/tests/golden/modernbert_decoder', 'bert')
    data = open('bert/model.safetensors', 'rb').read()
    n, = struct.unpack_from('<Q', data)
    head, body = json.loads(data[8:8 + n]), data[8 + n:]
    table = head['model.embeddings.tok_embeddings.weight']
    first, end = table['data_offsets']
    head['decoder.weight'] = dict(table, data_offsets=[len(body), len(body) + end - first])
    text = json.dumps(head).encode()
    open('bert/model.safetensors', 'wb').write(struct.pack('<Q', len(text)) + text + body + body[first:end])
    config = open('bert/config.json').read()
    open('bert/config.json', 'w').write(config.replace('"tie_word_embeddings": true', '"tie_word_embeddings": false'))
    r = run('imatrix', 'bert', '--ids', '1,2,3,4', '-o', 'bert.gguf', '--head')
    tensors, sums = read_gguf('bert.gguf')[1] if r.returncode == 0 else {}, {}
    add_traced(sums, 'bert', '1,2,3,4', {'ln_final.hook_normalized': ['cls'], 'mlm_head.ln.hook_normalized': ['output']}, '--ids')
    holds('what is before the head, and the head', all(
        abs(a - b) < 1e-5 * (b + 1e-3) for n, s in sums.items() for a, b in zip(tensors.get(n + '.in_sum2', [-1]), s)), r.stderr)


def measure():
    """The sums of two chunks, against the values that trace shows."""
    with open('text.txt', 'w') as file:
        file.write(''.join(c for c in TEXT if c.isalpha() or c in ' .,\n')[:150])
    r = run('imatrix', MODEL, '-f', 'text.txt', '-o', 'm.gguf', '--chunk', '60')
    holds('imatrix', r.returncode == 0 and 'wrote m.gguf: 42 matrices, 2 chunks of 60 tokens' in r.stderr, r.stderr)
    keys, tensors = read_gguf('m.gguf')
    holds('its keys', keys == {'general.type': 'imatrix', 'imatrix.datasets': ['text.txt'], 'imatrix.chunk_count': 2,
                               'imatrix.chunk_size': 60, 'general.alignment': 32}, keys)
    text = open('text.txt').read()
    sums = {}
    for at in (0, 60):
        add_traced(sums, MODEL, text[at:at + 60], {'blocks.%d.%s' % (layer, hook): ['blk.%d.%s' % (layer, kind) for kind in kinds.split()]
                                                   for hook, kinds in (('ln1.hook_normalized', 'attn_q attn_k attn_v'), ('attn.hook_z', 'attn_output'),
                                                                       ('ln2.hook_normalized', 'ffn_gate ffn_up'), ('mlp.hook_post', 'ffn_down'))
                                                   for layer in range(6)})
    holds('tensors', {n + e for n in sums for e in ('.in_sum2', '.counts')} == set(tensors), sorted(tensors)[:4])
    worst = max(abs(a - b) / (abs(b) + 1e-3) for n, s in sums.items() for a, b in zip(tensors[n + '.in_sum2'], s))
    holds('sums are those of the values that trace shows', worst < 1e-5, worst)
    holds('counts', all(tensors[n + '.counts'][0] == 120 for n in sums), '')
    for n, count in ('1', 60), ('2', 120), ('9', 120):
        r = run('imatrix', MODEL, '-f', 'text.txt', '-o', 'one.gguf', '-n', n, '--chunk', '60')
        holds('-n ' + n, '%d chunks' % (count // 60) in r.stderr and read_gguf('one.gguf')[1]['blk.0.attn_q.weight.counts'][0] == count, r.stderr)
    return tensors


def kl(path):
    """Of parts of the text that the sums are of, so that it has to fall."""
    held, sums = open('long.txt').read(), 0
    for at in range(0, 10000, 2000):
        r = run('check', path, MODEL, '-p', held[at:at + 250], '--tol', '100')
        sums += float(re.search(r'^mean KL +([^ ]+)', r.stdout, re.M)[1]) / 5
    return sums


def use(tensors):
    open('old.dat', 'wb').write(old_form(tensors))
    holds('the text of 10,000 characters', run('imatrix', MODEL, '-f', 'long.txt', '-o', 'long.gguf').returncode == 0)
    for kind in ('q4_1', 'q5_1'):
        run('convert', MODEL, 'plain.gguf', '--type', kind)
        r = run('convert', MODEL, 'weighed.gguf', '--type', kind, '--imatrix', 'long.gguf')
        holds(kind + ' with it', r.returncode == 0 and '42 matrices are rounded by importance' in r.stderr, r.stderr)
        plain, weighed = kl('plain.gguf'), kl('weighed.gguf')
        holds('%s: mean KL %.5f, with it %.5f' % (kind, plain, weighed), weighed < plain)
    run('convert', MODEL, 'a.gguf', '--type', 'q4_0', '--imatrix', 'm.gguf')
    r = run('convert', MODEL, 'b.gguf', '--type', 'q4_0', '--imatrix', 'old.dat')
    same = sum(a == b for a, b in zip(open('a.gguf', 'rb').read(), open('b.gguf', 'rb').read()))
    holds('the older form', r.returncode == 0 and same > 0.999 * os.path.getsize('a.gguf'), r.stderr)
    run('convert', MODEL, 'a.gguf', '--type', 'q8_0')
    run('convert', MODEL, 'b.gguf', '--type', 'q8_0', '--imatrix', 'm.gguf')
    holds('q8_0 is the same with it', open('a.gguf', 'rb').read() == open('b.gguf', 'rb').read())
    r = run('convert', MODEL, 'c.gguf', '--type', 'q2_k_s')
    holds('q2_k_s needs it', r.returncode == 2 and '--type q2_k_s needs --imatrix' in r.stderr, r.stderr)
    holds('and has it', run('convert', MODEL, 'c.gguf', '--type', 'q2_k_s', '--imatrix', 'm.gguf').returncode == 0)


def refused(what, bytes_, text):
    open('bad', 'wb').write(bytes_)
    r = run('convert', MODEL, 'no.gguf', '--type', 'q4_0', '--imatrix', 'bad')
    holds(what, r.returncode == 3 and text in r.stderr and r.stderr.count('\n') == 1 and not os.path.exists('no.gguf'), r.stderr)


def refuse(tensors):
    new, old = open('m.gguf', 'rb').read(), open('old.dat', 'rb').read()
    refused('a model', open(MODEL, 'rb').read(), 'not an importance matrix')
    refused('a text', b'no importance matrix at all', 'not an importance matrix')
    refused('nothing', b'', 'not an importance matrix')
    refused('another model', old.replace(b'blk.', b'blq.'), 'it is of another model')
    refused('another width', old.replace(struct.pack('<i', 352), struct.pack('<i', 351)), '')
    refused('without counts', new.replace(b'attn_q.weight.counts', b'attn_q.weight.couNts', 1), 'with blk.')
    at = new.rindex(array.array('f', tensors['blk.3.ffn_down.weight.in_sum2'][:8]).tobytes())
    for name, value in (('NaN', 'nan'), ('-1', '-1'), ('infinity', 'inf')):
        refused(name, new[:at] + struct.pack('<f', float(value)) + new[at + 4:], 'tensor blk.3.ffn_down.weight: value 0 is')
    rng, codes = random.Random(1), set()
    for whole in (new, old):
        for turn in range(60):
            cut = bytearray(whole[:rng.randrange(len(whole))] if turn % 2 else whole)
            for _ in range(turn % 5):
                if cut:
                    cut[rng.randrange(min(len(cut), 4000))] = rng.randrange(256)
            open('bad', 'wb').write(cut)
            codes.add(run('convert', MODEL, 'x.gguf', '--type', 'q4_0', '--imatrix', 'bad').returncode)
    holds('damaged files are refused or used', codes <= {0, 3}, codes)
    for args in ((), ('-f', 'text.txt'), ('-o', 'x.gguf'), ('-f', 'text.txt', '--ids', '1', '-o', 'x.gguf')):
        holds('imatrix %s' % ' '.join(args), run('imatrix', MODEL, *args).returncode == 2)
    open('empty', 'w').close()
    broken = open(root + '/weights/names.gguf', 'rb').read()
    open('nan.gguf', 'wb').write(broken[:5000] + b'\xff\xff\xff\x7f' + broken[5004:])
    for model, file, code, text in ((MODEL, 'empty', 2, 'empty: the text is empty'), ('nan.gguf', 'names.txt', 3, 'nan, expected a finite number')):
        r = run('imatrix', model, '-f', file, '-o', 'none.gguf')
        holds('no file of ' + text, r.returncode == code and text in r.stderr and not os.path.exists('none.gguf'), r.stderr)
    holds('a chunk beyond the context', run('imatrix', MODEL, '-f', 'text.txt', '-o', 'x.gguf', '--chunk', '257').returncode == 2)


def every_row_is_added():
    """Tokens that are all the same give the same rows at all positions, also of experts: as many times the sums of one. All experts
    together see each token as often as it has experts."""
    for name in 'llama', 'mixtral', 'flex_olmo', 'deepseek_v2':
        run('convert', root + '/tests/golden/' + name, 'model.gguf', '--no-tokenizer')
        one, six = ({}, {})
        for ids in '5', '5,5,5,5,5,5':
            run('imatrix', 'model.gguf', '--ids', ids, '-o', 'rows.gguf')
            one, six = six, read_gguf('rows.gguf')[1]
        worst = max((abs(a * 6 - b) / (abs(b) + 1e-3), n) for n in one for a, b in zip(one[n], six[n]))
        holds(name + ': six tokens have the sums of one six times', worst[0] < 1e-4, worst)
    sums, name = {}, 'blk.1.ffn_gate_exps.weight'
    run('convert', root + '/tests/golden/mixtral', 'model.gguf', '--no-tokenizer')
    run('imatrix', 'model.gguf', '--ids', '3,4,5,6,7,8,9', '-o', 'rows.gguf')
    add_traced(sums, 'model.gguf', '3,4,5,6,7,8,9', {'blocks.1.ln2.hook_normalized': [name[:-7]]}, '--ids', 2)
    found, width = read_gguf('rows.gguf')[1][name + '.in_sum2'], len(sums[name])
    worst = max(abs(sum(found[j::width]) - b) / (b + 1e-3) for j, b in enumerate(sums[name]))
    holds('the experts of mixtral: 2 a token', worst < 1e-5, worst)


def longest_chunk():
    shutil.copytree(root + '/tests/golden/llama', 'far')
    config = open('far/config.json').read()
    with open('far/config.json', 'w') as file:
        file.write(config.replace('"max_position_embeddings": 64', '"max_position_embeddings": 2048'))
    run('convert', 'far', 'model.gguf', '--no-tokenizer')
    r = run('imatrix', 'model.gguf', '--ids', ','.join(['3'] * 600), '-o', 'far.gguf')
    holds('a chunk has 512 tokens where the context has more', '1 chunks of 512 tokens' in r.stderr, r.stderr)


def every_matrix_is_seen():
    """Models whose matrices read other values than Llama's: what is written has been counted."""
    for name in 'deepseek_v2 deepseek_v3 minicpm3 gptj gpt1 lfm2 phi mixtral flex_olmo llama opt_350m nanochat'.split():
        run('convert', root + '/tests/golden/' + name, 'model.gguf', '--no-tokenizer')
        r = run('imatrix', 'model.gguf', '--ids', ','.join(str(3 + i % 20) for i in range(30)), '-o', 'seen.gguf', '--head')
        counts = {n: sum(v) for n, v in read_gguf('seen.gguf')[1].items() if n.endswith('.counts')} if r.returncode == 0 else {}
        holds(f'{name}: no matrix without a count', counts and all(counts.values()), r.stderr + str([n for n, v in counts.items() if not v]))
        down = 'blk.1.attn_kv_a_mqa.weight.counts' in counts
        holds(f'{name}: the latent', down == (name in ('deepseek_v2', 'deepseek_v3', 'minicpm3')), '')


hash_runs('imatrix')
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    with open('long.txt', 'w') as file:
        file.write(''.join(c for c in TEXT if c.isalpha() or c in ' .,\n')[:10000])
    sums = measure()
    use(sums)
    chunks_begin_with_bos()
    before_the_head()
    refuse(sums)
    every_matrix_is_seen()
    every_row_is_added()
    longest_chunk()
    os.chdir('/')
finish()
