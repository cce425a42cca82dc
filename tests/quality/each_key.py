#!/usr/bin/env python3
"""One key of a configuration at a time: does mgpt run what transformers runs, refuse it by name, or run it wrongly?

    each_key.py MGPT [--types opt,phi3] [--keep DIR] [-v]

Takes every golden model of transformers (tests/golden), leaves out each key of its config.json or gives it another value of its
kind, computes the logits in float64 with transformers' own code, and compares them as fresh.py does. Where the value asks for
other tensors, the model is made anew. Values that transformers itself does not take are no models. The exit code is 1 when
anything is WRONG. fresh.py draws everything at random; this is its other half: one thing, but each.
"""
import argparse
import collections
import json
import pathlib
import shutil
import sys
import tempfile

import fresh
import numpy as np
import torch
import transformers as hf

import make_hf

IDLE = {'architectures', 'dtype', 'torch_dtype', 'transformers_version', 'model_type', 'bos_token_id', 'eos_token_id', 'pad_token_id',
        'initializer_range', 'use_cache', 'vocab_size'}
ACTS = ['gelu', 'gelu_new', 'silu', 'relu', 'gelu_pytorch_tanh', 'relu2', 'quick_gelu', 'tanh', 'sigmoid']
ROPES = 'default linear llama3 yarn dynamic longrope proportional'
MOST = 3_000_000  # weights of a model that is made anew
# transformers 5 forgets the rope base that DBRX has in attn_config, and published files have it only there.
KNOWN = {('dbrx', 'rope_parameters absent')}


def ropes(value, d):
    """Other parameters of rope, of one kind of layers at a time where they differ."""
    inner = [k for k, v in value.items() if isinstance(v, dict)]
    for kind in ROPES.split():
        new = d.rope(kind, theta=(value.get('rope_theta') or 10000.0,), rotated=value.get('partial_rotary_factor'))
        if not inner:
            yield {**value, **new}
        for k in inner:
            yield {**value, k: {**value[k], **new}}
    yield {k: v for k, v in value.items() if k != 'partial_rotary_factor'}


def others(key, value, d):
    """Values of the same kind."""
    if value == 'default' or value in ROPES.split():
        return []
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, int):
        return [value + 1, value * 2, max(0, value - 1), None]
    if isinstance(value, float):
        return [value * 0.5, value * 3, 1.0, None]
    if isinstance(value, dict):
        return list(ropes(value, d))
    if isinstance(value, list):
        return [value[::-1], value[:-1], None, *([[value[0]] * len(value), [value[-1]] * len(value)] if value else [])]
    if isinstance(value, str):
        return ACTS if value in ACTS else []
    return [7, 0.5, True]


def cases(config, known, d):
    """(what was done, the configuration) for each key of the file, and those of the class that the file leaves out."""
    for key, value in config.items():
        if key in IDLE or key.endswith(('dropout', 'pdrop')):
            continue
        yield f'{key} absent', {k: v for k, v in config.items() if k != key}
        for new in others(key, value, d):
            if new != value:
                yield f'{key}={json.dumps(new)}', {**config, key: new}
    for key, value in known.items():
        if key in config or key in IDLE or key.startswith('_') or isinstance(value, dict):
            continue
        for new in others(key, value, d):
            if new is not None:
                yield f'{key}={json.dumps(new)} (new)', {**config, key: new}


def reference(directory, tokens):
    """Writes ref.npz; the names of tensors that the file lacks."""
    with make_hf.Float64():
        model, info = hf.AutoModelForCausalLM.from_pretrained(
            directory, dtype=torch.float64, attn_implementation='eager', experts_implementation='eager', output_loading_info=True)
        if any(info.values()):
            return info
        with torch.no_grad():
            logits = model.eval()(tokens[None], use_cache=False).logits[0].numpy()
    if not np.isfinite(logits).all():
        raise ValueError('logits are not finite')
    np.savez(directory / 'ref.npz', tokens=tokens.numpy(), logits=logits)
    return {}


def lacks(directory, tokens):
    """Whether the configuration asks for tensors of other names or shapes."""
    try:
        return any(reference(directory, tokens).values())
    except RuntimeError as e:
        if 'ignore_mismatched_sizes' not in str(e):
            raise
        return True


def made_anew(directory):
    config = hf.AutoConfig.from_pretrained(directory)
    with torch.device('meta'):
        size = hf.AutoModelForCausalLM.from_config(config, attn_implementation='eager').num_parameters()
    if size > MOST:
        raise ValueError(f'{size} weights')
    model = hf.AutoModelForCausalLM.from_config(config, attn_implementation='eager')
    make_hf.randomise(model)
    for old in directory.glob('*.safetensors*'):
        old.unlink()
    model.to(torch.float32).save_pretrained(directory)


def one(mgpt, golden, config, work):
    shutil.copytree(golden, work)
    (work / 'config.json').write_text(json.dumps(config))
    tokens = torch.tensor(np.load(golden / 'ref.npz')['tokens'][:16])
    try:
        torch.manual_seed(1)
        if lacks(work, tokens):
            made_anew(work)
            if lacks(work, tokens):
                return 'not a model', 'other tensors'
    except Exception as e:  # what transformers refuses is not a model that people have
        return 'not a model', f'{type(e).__name__} {str(e)[:100]!r}'
    return fresh.verdict(mgpt, work, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('mgpt')
    parser.add_argument('--types', help='names of golden directories')
    parser.add_argument('--keep', type=pathlib.Path, help='where what is WRONG is kept')
    parser.add_argument('-v', action='store_true', help='a line for each model')
    args = parser.parse_args()
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    torch.set_num_threads(1)
    names = args.types.split(',') if args.types else sorted(p.parent.name for p in (fresh.ROOT / 'tests/golden').glob('*/config.json'))
    total = collections.Counter()
    for name in names:
        golden, n = fresh.ROOT / 'tests/golden' / name, 0
        config = json.loads((golden / 'config.json').read_text())
        if 'quantization_config' in config or config['model_type'] not in hf.CONFIG_MAPPING or not (golden / 'ref.npz').exists():
            continue
        known = hf.CONFIG_MAPPING[config['model_type']]().to_dict()
        d = fresh.Draw(1)
        d.shape()
        for what, changed in cases(config, known, d):
            with tempfile.TemporaryDirectory(dir=args.keep) as work:
                work = pathlib.Path(work) / 'model'
                found, why = one(args.mgpt, golden, changed, work)
                found = 'known' if (name, what) in KNOWN and found == 'WRONG' else found
                if found == 'WRONG' and args.keep:
                    work.rename(pathlib.Path(tempfile.mkdtemp(prefix=f'{name}-{n}-', dir=args.keep)) / 'model')
                n += 1
            total[found] += 1
            if args.v or found == 'WRONG':
                print(f'{name} {what}: {found}: {why}', flush=True)
        print(f'# {name}:', ', '.join(f'{k} {v}' for k, v in total.items()), flush=True)
    sys.exit(1 if total['WRONG'] else 0)


if __name__ == '__main__':
    main()
