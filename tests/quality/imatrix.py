#!/usr/bin/env python3
"""What mgpt imatrix measures, next to hooks on the same modules of transformers, for golden models.

    imatrix.py MGPT ROOT [NAME...]

The inputs of all Linear and Conv1D layers are squared and added up in float64 by their columns, those of experts by
the rows that a router has sent to them. A difference above 1e-4 of a tensor's largest sum is wrong; counts are exact.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import torch
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / 'weights'))
import gguf

NAMES = ('llama', 'gpt2', 'gpt_neox', 'olmo2', 'gemma3', 'phi3_longrope', 'lfm2', 'mixtral', 'qwen2_moe', 'olmoe')
# The last words of a module's name, and the tensors that it becomes.
LINEAR = (
    ('attn.c_attn|attention.query_key_value|qkv_proj', 'attn_qkv'), ('q_proj', 'attn_q'), ('k_proj', 'attn_k'), ('v_proj', 'attn_v'),
    ('attn.c_proj|attention.dense|o_proj|self_attn.out_proj', 'attn_output'), ('conv.in_proj', 'shortconv.in_proj'),
    ('conv.out_proj', 'shortconv.out_proj'), ('shared_expert.gate_proj', 'ffn_gate_shexp'),
    ('shared_expert.up_proj', 'ffn_up_shexp'), ('shared_expert.down_proj', 'ffn_down_shexp'), ('mlp.gate', 'ffn_gate_inp'),
    ('mlp.c_fc|dense_h_to_4h|up_proj|gate_up_proj|feed_forward.w3', 'ffn_up'), ('mlp.c_proj|dense_4h_to_h|down_proj|feed_forward.w2', 'ffn_down'),
    ('gate_proj|feed_forward.w1', 'ffn_gate'))


def tensor_of(module):
    layer = re.search(r'\.(\d+)\.', module)
    for pattern, tensor in LINEAR:
        if layer and re.search('(%s)$' % pattern, module):
            return 'blk.%s.%s.weight' % (layer[1], tensor)
    return None


class Sums(dict):
    def add(self, name, expert, n_experts, x):
        x = x.detach().double().reshape(-1, x.shape[-1]).numpy()
        sums, counts = self.setdefault(name, (np.zeros((n_experts, x.shape[1])), np.zeros(n_experts)))
        sums[expert] += (x ** 2).sum(0)
        counts[expert] += len(x)

    def experts(self, layer, module, args):
        """Experts that are parameters of one module: rows, the numbers of their experts."""
        hidden, chosen = args[0].reshape(-1, args[0].shape[-1]), args[1]
        for e in range(len(module.down_proj)):
            rows = hidden[(chosen == e).any(-1)]
            if len(rows) == 0:
                continue
            gate, up = torch.nn.functional.linear(rows, module.gate_up_proj[e]).chunk(2, -1)
            for name, x in (('gate', rows), ('up', rows), ('down', module.act_fn(gate) * up)):
                self.add('blk.%s.ffn_%s_exps.weight' % (layer, name), e, len(module.down_proj), x)


def measured(folder, ids):
    model, sums = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, experts_implementation='eager').eval(), Sums()
    for name, module in model.named_modules():
        layer = re.search(r'\.(\d+)\.', name)
        if type(module).__name__.endswith('Experts'):
            module.register_forward_pre_hook(lambda m, args, layer=layer[1]: sums.experts(layer, m, args))
        elif tensor_of(name) and hasattr(module, 'weight'):
            module.register_forward_pre_hook(lambda m, args, to=tensor_of(name): sums.add(to, 0, 1, args[0]))
    with torch.no_grad():
        for chunk in ids:
            model(torch.tensor([chunk]))
    return sums


def compare(mgpt, folder, name):
    chunks = [[(7 * i + 3 * k + i * i) % 30 for i in range(8)] for k in range(3)]
    with tempfile.TemporaryDirectory() as tmp:
        path = tmp + '/imatrix.gguf'
        subprocess.run([mgpt, 'imatrix', folder, '--ids', ','.join(str(i) for chunk in chunks for i in chunk),
                        '--chunk', '8', '-o', path], check=True, capture_output=True)
        keys, found = gguf.read(path)
    assert keys['general.type'] == 'imatrix' and keys['imatrix.chunk_count'] == 3 and keys['imatrix.chunk_size'] == 8
    want, wrong, worst = measured(folder, chunks), [], 0
    names = {n[:-len('.in_sum2')] for n in found if n.endswith('.in_sum2')}
    wrong += ['%s is %s' % (n, 'missing' if n in want else 'not in transformers') for n in sorted(names ^ set(want))]
    for n in sorted(names & set(want)):
        sums, counts = found[n + '.in_sum2'], found[n + '.counts'].ravel()
        error = np.abs(sums.reshape(want[n][0].shape) - want[n][0]).max() / want[n][0].max() if sums.size == want[n][0].size else np.inf
        worst = max(worst, error)
        if not (error < 1e-4 and (counts == want[n][1]).all()):
            wrong.append('%s: error %g, counts %s, expected %s' % (n, error, counts, want[n][1]))
    print('%s %s: %d matrices, largest error %.1e' % ('not ok' if wrong else 'ok', name, len(names), worst), *wrong[:8], sep='\n    ')
    return bool(wrong) or not names


if __name__ == '__main__':
    mgpt, root, *names = sys.argv[1:]
    sys.exit(any([compare(mgpt, '%s/tests/golden/%s' % (root, name), name) for name in names or NAMES]))
