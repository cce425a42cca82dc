#!/usr/bin/env python3
"""Makes models.jsonl and the references of tools/suite/data with transformers in float64 (README.md: versions).

usage: reference.py [--check] [ID ...]     no ID: all. --check compares with what is there (exit code 1: differs)
"""
import argparse
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers

import judge
import made
import shapes
import write

sys.path.insert(0, str(shapes.GOLDEN))
from make_hf import Float64, models  # noqa: E402
from renamed import as_exaone, as_minicpm  # noqa: E402

RENAMED = {'exaone': as_exaone, 'minicpm': as_minicpm}


def config_of(plan, changes):
    """transformers' configuration; exaone's and minicpm's are those of the family that they are renamed from."""
    base = plan['base']
    keys = models()[base][1].to_dict() if base in RENAMED else shapes.golden_keys(base)
    keys = shapes.config_keys(base, keys, {**plan['changes'], **changes})
    keys.pop('transformers_version', None)
    config = transformers.AutoConfig.for_model(keys.pop('model_type'), **keys)
    config.dtype = getattr(torch, plan['dtype'])
    return config


def run(directory, ids, dtype):
    """Logits [T, V] from the stored weights."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=dtype, attn_implementation='eager', experts_implementation='eager').eval()
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def logits_of(directory, ids):
    """Logits in float64 arithmetic throughout."""
    with Float64():
        out = run(directory, ids, torch.float64)
    assert out.dtype == np.float64
    return out


def saved(directory, config):
    """Writes config.json and a model as transformers saves it; returns its tensors."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation='eager').to(config.dtype)
    model.save_pretrained(directory)
    return made.stored(directory / 'model.safetensors')


def changed_logits(top, plan, changes, weights, ids):
    """The same weights under another configuration."""
    other = top / 'other'
    saved(other, config_of(plan, changes))
    (other / 'model.safetensors').write_bytes(weights)
    return logits_of(other, ids)[plan['rows']].astype(np.float32)


def distance(want, found):
    """Largest difference as a share of its row's root mean square."""
    return (abs(found - want).max(-1) / np.sqrt((want.astype(np.float64)**2).mean(-1))).max()


def make(plan):
    """The line of models.jsonl, the line of cases.jsonl, and {file: array}."""
    with tempfile.TemporaryDirectory() as place:
        top = pathlib.Path(place)
        config = config_of(plan, {})
        tensors = [[name, shape, *shapes.numbers_of(name, shape, config.model_type, plan['weights'])]
                   for name, (shape, _) in saved(top, config).items()]
        model = {'id': plan['id'], 'tensors': tensors}
        weights = made.safetensors(made.model_tensors(model), plan['dtype'])
        (top / 'model.safetensors').write_bytes(weights)
        contents = [data for _, data in made.stored(top / 'model.safetensors').values() if len(data) > 2]
        assert len(set(contents)) == len(contents), plan['id'] + ': two tensors are equal'
        ids = made.token_ids(plan['id'], plan['n'], config.vocab_size)
        rows = plan['rows']
        files = {plan['id']: logits_of(top, ids)[rows].astype(np.float32)}
        far = distance(files[plan['id']], run(top, ids, torch.float32)[rows])
        print('%-26s D %.1e in float32' % (plan['id'], far))
        if far > judge.RIGHT_D:
            print('%s: float32 is not right, only near' % plan['id'])
        case = {key: plan[key] for key in ('id', 'group', 'what', 'n', 'rows')}
        for number, (why, changes) in enumerate(plan['also']):
            files['%s.%d' % (plan['id'], number + 1)] = changed_logits(top, plan, changes, weights, ids)
            case.setdefault('also', []).append(why)
        if plan['convert']:
            case['convert'] = list(plan['convert'])
        if plan['bug']:
            far = distance(files[plan['id']], changed_logits(top, plan, plan['bug'], weights, ids))
            print('%-26s D %.2g with the bug %s' % (plan['id'], far, plan['bug']))
            if far <= judge.NEAR['bfloat16' if plan['dtype'] == 'bfloat16' else 'float'][0]:
                print('%s: its bug is not seen' % plan['id'])
        if plan['base'] in RENAMED:
            before = made.stored(top / 'model.safetensors')
            RENAMED[plan['base']](top)
            names = {entry: name for name, (_, entry) in made.stored(top / 'model.safetensors').items()}
            model['tensors'] = [[names[before[t[0]][1]], *t[1:]] for t in tensors]
        model['config'] = json.loads((top / 'config.json').read_text())
        return model, case, files


def lines_of(path):
    """{id: object} of a file of JSON Lines."""
    return {line['id']: line for line in map(json.loads, path.read_text().splitlines())} if path.exists() else {}


def differs(name, array):
    """What is different from the stored reference; None: nothing."""
    old = np.load(write.DATA / 'ref' / (name + '.npy'))
    far = distance(old, array) if old.shape == array.shape else np.inf
    return None if far <= 1e-6 else '%s: the reference differs by %.1e of its root mean square' % (name, far)


def same_line(old, new):
    """Whether two lines are equal but for the version of transformers."""
    old, new = (json.loads(json.dumps(line or {})) for line in (old, new))
    for line in (old, new):
        line.get('config', {}).pop('transformers_version', None)
    return old == new


def facts(case, array):
    """A line about a reference."""
    top = array.argmax(-1)
    return '%-26s logits std %5.2f max %6.2f, %d different likeliest tokens' % (case['id'], array.std(), abs(array).max(), len(set(top)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('names', nargs='*')
    parser.add_argument('--check', action='store_true')
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    paths = [write.DATA / name for name in ('models.jsonl', 'cases.jsonl')]
    old, wrong = [lines_of(path) for path in paths], []
    plans = list(shapes.plan(write.golden_notes()))
    for plan in plans:
        if args.names and plan['id'] not in args.names:
            continue
        model, case, files = make(plan)
        print(facts(case, files[plan['id']]), flush=True)
        if args.check:
            wrong += ['%s: not the line of %s' % (plan['id'], path.name) for path, lines, line in zip(paths, old, (model, case))
                      if not same_line(lines.get(plan['id']), line)]
            wrong += [line for line in (differs(*item) for item in files.items()) if line]
            continue
        old[0][plan['id']], old[1][plan['id']] = model, case
        (write.DATA / 'ref').mkdir(exist_ok=True)
        for name, array in files.items():
            np.save(write.DATA / 'ref' / (name + '.npy'), array)
        for path, lines in zip(paths, old):
            path.write_text(''.join(json.dumps(lines[p['id']]) + '\n' for p in plans if p['id'] in lines))
    print(*wrong, sep='\n', end='\n' if wrong else '')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
