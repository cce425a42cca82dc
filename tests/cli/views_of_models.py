#!/usr/bin/env python3
"""The repl's tables of many architectures against the values that mgpt trace writes: /r, /v, /qk, /h, /m, /kv, /lens and /dla.

    views_of_models.py MGPT ROOT
"""
import array
import math
import os
import re
import struct
import subprocess
import sys
import tempfile
import zipfile

from checks import finish, holds

MGPT, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
IDS = [1, 5, 2, 9, 14]
N = len(IDS)
MODELS = '''laguna laguna_values afmoe gptj phi gpt1 gpt2 llama gemma2 gemma3 gemma4 mixtral olmo opt_350m bloom mpt deepseek_v2 minicpm3 lfm2 nanochat
    exaone4 gpt_oss cohere2 granite olmoe gpt_neox falcon gemma4_e'''.split()
CAPS, ALIBI = {'gemma2': 2.0}, {'bloom': 3, 'mpt': 6}  # of the configurations: a cap of scores; heads, whose slopes begin at 2^-8
NUMBER = r'([-+]?(?:\d[\d.e+-]*|nan|inf))'


def traced(path):
    """{hook: (shape, floats)}"""
    subprocess.run([MGPT, 'trace', path, '--ids', ','.join(map(str, IDS)), '-o', 'trace.npz'], check=True, capture_output=True)
    found = {}
    with zipfile.ZipFile('trace.npz') as z:
        for name in z.namelist():
            raw = z.read(name)
            begin = 10 + struct.unpack_from('<H', raw, 8)[0]
            shape = [int(x) for x in re.findall(r'\d+', re.search(rb"'shape': \(([^)]*)\)", raw[:begin])[1].decode())]
            if b"'<f4'" in raw[:begin]:
                found[name[:-4]] = shape, array.array('f', raw[begin:])
    return found


def row(values, hook, *index):
    """The last axis of a value at an index."""
    shape, data = values[hook]
    at = 0
    for size, i in zip(shape, index):
        at = at * size + i
    n = math.prod(shape[len(index):])
    return data[at * n:(at + 1) * n]


def near(a, b, by=2e-4):
    return abs(float(a) - b) <= by * max(1, abs(b))


def say(path, line, *options):
    """What a line prints after the tokens, and to stderr."""
    text = '/ids ' + ' '.join(map(str, IDS)) + '\n' + line + '\n'
    done = subprocess.run([MGPT, 'repl', path, '--width', '300', *options], input=text, capture_output=True, text=True)
    return done.stdout.split('\n', 1)[1] if '\n' in done.stdout else '', done.stderr


def check_residuals(name, path, values):
    """/r: each row has the lengths of the hook that it is called after."""
    rows = re.findall(r'^(\d+) (pre|mid|post) +(.*)$', say(path, '/r')[0], re.M)
    hooks = [h for h in values if 'hook_resid_' in h and (h.endswith(('mid', 'post')) or h.startswith('blocks.0.'))]
    holds(name + ' /r: its rows', len(rows) == len(hooks), [r[:2] for r in rows])
    for layer, half, numbers in rows:
        hook = 'blocks.%s.hook_resid_%s' % (layer, half)
        want = [math.sqrt(sum(v * v for v in row(values, hook, t))) for t in range(N)] if hook in values else []
        holds('%s /r: %s %s' % (name, layer, half), all(map(near, numbers.split(), want)) and len(want) == N, numbers)


def slope(n, head):
    """ALiBi's: powers of 2^-8 for a power of two of heads; of other numbers, every other one of twice as many."""
    power = 1 << n.bit_length() - 1
    return 2 ** (-8 * (head + 1) / power) if head < power else 2 ** (-8 * (2 * (head - power) + 1) / (2 * power))


def check_score(name, path, layer, head):
    """/qk: from the scaled product to the score. What is added is said in the models that have it, and in no other."""
    for query, key, kv in ((N - 1, 2, 'f32'), (N - 1, 0, 'f16'), (1, 1, 'f32'), (3, 1, 'q8_0')):
        what, eight = '%s layer %d head %d /qk %d %d %s: ' % (name, layer, head, query, key, kv), kv == 'q8_0'
        shown = say(path, '/qk %d %d %d %d' % (layer, head, query, key), '--kv', kv)[0]
        scaled = re.search(r'^(?:/ sqrt\(\d+\)|\* \S+) +' + NUMBER, shown, re.M)
        found = re.search(r"^engine's score +" + NUMBER + '(.*)$', shown, re.M)
        if not found:  # a window
            holds(what + 'not seen', 'does not see key' in shown and 'ALiBi' not in shown, shown[-300:])
            continue
        x, by, added = float(scaled[1]), 0.05 if eight else 1e-5, re.findall(r'^ALiBi, (\d+) back +' + NUMBER, shown, re.M)
        want = -slope(ALIBI[name], head) * (query - key) if name in ALIBI else 0
        holds(what + 'ALiBi', len(added) == (name in ALIBI and key < query) and all(int(n) == query - key and abs(float(a) - want) < by for n, a in added), added)
        want = CAPS[name] * math.tanh(x / CAPS[name]) if name in CAPS else x + want
        holds(what + 'the score', abs(float(found[1]) - want) <= by * max(1, abs(x)), (found[0], want))
        note = "   (after the model's cap of %g)" % CAPS[name] if name in CAPS else ''
        holds(what + 'its note', found[2] == note + '   (with a query of 8 bits)' * eight, found[0])


def check_head(name, path, values, layer, head):
    what = '%s layer %d head %d' % (name, layer, head)
    place = 'blocks.%d.attn.' % layer
    shown = say(path, '/v %d %d -1' % (layer, head))[0]
    differs = re.search(r'differs from z by at most ' + NUMBER, shown)
    holds(what + ' /v: weights and values give z', differs and float(differs[1]) < 1e-5, shown[-200:])
    weights = re.findall(r'^ *(\d+) \S+ +' + NUMBER + ' +' + NUMBER, shown.split('weight * value')[0], re.M)
    pattern = row(values, place + 'hook_pattern', head, N - 1)
    holds(what + ' /v: weights', weights and all(near(w, pattern[int(k)]) for k, w, _ in weights), weights)
    z = re.search(r'^z +(.*)$', shown, re.M)
    holds(what + ' /v: z', z and all(map(near, z[1].split(), row(values, place + 'hook_z', N - 1, head))), z and z[0])
    shown = say(path, '/qk %d %d %d %d' % (layer, head, N - 1, 2))[0]
    score = re.search(r"^engine's score +" + NUMBER, shown, re.M)
    holds(what + ' /qk: score', score and near(score[1], row(values, place + 'hook_attn_scores', head, N - 1)[2]), shown[-300:])
    check_score(name, path, layer, head)
    shown = say(path, '/a %d %d' % (layer, head))[0]
    rows = re.findall(r'^(\d) \S+ +(.*)$', shown, re.M)
    for q, numbers in rows:
        want = row(values, place + 'hook_pattern', head, int(q))
        holds('%s /a: query %s' % (what, q), all(near(x, w) for x, w in zip(numbers.split(), want) if x != '·'), numbers)
    holds(what + ' /a: queries', [q for q, _ in rows][:N] == [str(t) for t in range(N)], rows)


def check_kv(name, path, values, layer):
    place = 'blocks.%d.attn.' % layer
    key = place + ('hook_rot_k' if place + 'hook_rot_k' in values else 'hook_k')
    if key not in values:
        return
    shown, heads = say(path, '/kv %d %d' % (layer, values[key][0][1] - 1))[0], values[key][0][1]
    for part, hook in zip(shown.split(': values'), (key, place + 'hook_v')):
        for t, numbers in re.findall(r'^(\d) \S+ +(.*)$', part, re.M):
            holds('%s layer %d /kv: %s of %s' % (name, layer, hook, t), all(map(near, numbers.split(), row(values, hook, int(t), heads - 1))), numbers)


def check_neurons(name, path, values, layer):
    place = 'blocks.%d.mlp.' % layer
    shown = say(path, '/m %d -1' % layer)[0]
    holds('%s layer %d /m: layers without experts' % (name, layer), (' neurons, ' in shown) == (place + 'hook_expert_weights' not in values), shown)
    if ' neurons, ' in shown:
        n = len(row(values, place + 'hook_post', N - 1))
        holds('%s layer %d /m: how many' % (name, layer), ': %d neurons, ' % n in shown and ('the strongest 16 of %d;' % n in shown if n > 16 else 'the strongest' not in shown), shown)
    for i, post, pre in re.findall(r'^(\d+) +' + NUMBER + ' +' + NUMBER, shown, re.M):
        for hook, found in (('hook_post', post), ('hook_pre', pre)):
            holds('%s layer %d /m: %s of %s' % (name, layer, hook, i), near(found, row(values, place + hook, N - 1)[int(i)]), (post, pre))


def check_lens(name, path, values):
    """/lens: a row for each half layer that the model has; what a layer begins with where the last one left something else."""
    want, last = [], None
    for hook in ('blocks.%d.hook_resid_%s' % (i // 3, ('pre', 'mid', 'post')[i % 3]) for i in range(3 * 99)):
        x = row(values, hook, N - 1) if hook in values else last
        if hook in values and not (hook.endswith('pre') and x == last):
            want.append(hook)
        last = x
    rows = re.findall(r'^(\d+) (pre|mid|post) ', say(path, '/lens')[0], re.M)
    holds(name + ' /lens: its rows', ['blocks.%s.hook_resid_%s' % r for r in rows] == want, rows)


def check_logits(name, path, values):
    logits = row(values, 'logits', N - 1)
    best = max(range(len(logits)), key=logits.__getitem__)
    most = 1 / sum(math.exp(x - logits[best]) for x in logits)
    shown = say(path, '/lens')[0].strip().split('\n')[-1]
    last = re.match(r'\d+ post +(\d+) +' + NUMBER + ' +' + NUMBER, shown)
    holds(name + ' /lens: the last row is what the model says', last and last[1] == '1' and near(last[2], most, 1e-3) and near(last[3], most, 1e-3), shown)
    shown, said = say(path, '/dla')
    found = {key: float(value) for key, value in re.findall(r'^(sum|engine|rounding) +' + NUMBER, shown, re.M)}
    want = logits[best] - sum(logits) / len(logits)
    if found:
        holds(name + ' /dla: the logit minus the mean', near(found['engine'], want, 1e-3), (found, want))
        holds(name + ' /dla: the parts are its sum', ('caps logits' in shown or near(found['sum'], found['engine'], 1e-3)) and abs(found['rounding']) < 1e-3, found)
    else:
        holds(name + ' /dla', said.startswith('mgpt: '), shown + said)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in MODELS:
            path = name + '.gguf'
            subprocess.run([MGPT, 'convert', ROOT + '/tests/golden/' + name, path, '--no-tokenizer'], check=True, capture_output=True)
            values = traced(path)
            check_residuals(name, path, values)
            layers = sorted({int(h.split('.')[1]) for h in values if 'hook_pattern' in h})
            for layer in layers[:3]:
                heads = values['blocks.%d.attn.hook_pattern' % layer][0][0]
                check_head(name, path, values, layer, (2 * layer + 1) % heads if layer else heads - 1)
                check_kv(name, path, values, layer)
                check_neurons(name, path, values, layer)
            check_lens(name, path, values)
            check_logits(name, path, values)
        os.chdir('/')
    finish()


main()
