#!/usr/bin/env python3
"""Makes hf_reads.txt: which keys of config.json the classes of Hugging Face's transformers read.

    python3 tools/convert/families/hf_reads.py > tools/convert/families/hf_reads.txt

(with transformers 5.24.0; `hf_reads.py --check` compares and is a test of suite torch). The sources of transformers are
read, not run: every `config.KEY` and `getattr(config, "KEY")` in the file of a causal language model, in files that it
imports, in its configuration's methods, and in the modules that all models share. A key that no class reads changes no
logits. Of the model types of models.txt, the class's name, other spellings of keys and defaults are there, too.
"""
import ast
import dataclasses
import importlib
import inspect
import json
import os
import pathlib
import re
import sys
import textwrap

os.environ.update(TRANSFORMERS_VERBOSITY='error', HF_HUB_OFFLINE='1')
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import models
ROOT = pathlib.Path(transformers.__file__).parent
VERSION = '5.24.0'

SHARED = ('modeling_rope_utils.py', 'masking_utils.py', 'modeling_layers.py', 'activations.py', 'cache_utils.py',
          'integrations/*.py')
CONFIGS = ('config', 'text_config', 'cfg')
# What every configuration has, or had: of generation, training and the library itself.
BASE = """add_cross_attention architectures attn_implementation auto_map bad_words_ids cross_attention_hidden_size
    finetuning_task gradient_checkpointing initializer_range is_decoder keys_to_ignore_at_inference low_cpu_mem_usage
    loss_type model_type name_or_path num_labels offload_state_dict output_past prefix pretraining_tp pruned_heads
    quantization_config summary_activation summary_first_dropout summary_proj_to_labels summary_type
    summary_use_proj task_specific_params tf_legacy_loss tie_encoder_decoder tokenizer_class torch_dtype torchscript
    transformers_version use_bfloat16 use_return_dict""".split()
TRAINING = re.compile(r'dropout|_pdrop$|layerdrop|router_aux|router_z|initializer|output_router_logits|_loss')


def is_config(node):
    """Whether an expression is a configuration: its last name says so."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr == 'get_text_config'
    return (isinstance(node, ast.Name) and node.id in CONFIGS) or (isinstance(node, ast.Attribute) and node.attr in CONFIGS)


def reads_of(tree, is_ours=is_config):
    """Names of attributes that are read from a configuration anywhere in the tree."""
    found = set()
    for n in ast.walk(tree):
        if isinstance(n, ast.Attribute) and is_ours(n.value) and isinstance(n.ctx, ast.Load):
            found.add(n.attr)
        if (isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in ('getattr', 'hasattr')
                and len(n.args) > 1 and is_ours(n.args[0]) and isinstance(n.args[1], ast.Constant)):
            found.add(n.args[1].value)
    return found


def imported(path, tree):
    """Files of models that this one takes code from."""
    for n in ast.walk(tree):
        if isinstance(n, ast.ImportFrom) and n.level == 2 and n.module and '.modeling_' in n.module:
            yield path.parent.parent.joinpath(*n.module.split('.')).with_suffix('.py')


def file_reads(path, seen):
    """The same in a file and in those that it imports."""
    if path in seen or not path.exists():
        return set()
    seen.add(path)
    tree = ast.parse(path.read_text(encoding='utf-8'))
    found = reads_of(tree)
    for other in imported(path, tree):
        found |= file_reads(other, seen)
    return found


def config_reads(config):
    """Keys that the methods of a configuration look at: other keys follow from them."""
    found = set()
    for c in config.__mro__:
        if not c.__module__.startswith('transformers.models'):
            continue
        source = textwrap.dedent(inspect.getsource(c))
        found |= reads_of(ast.parse(source), lambda n: isinstance(n, ast.Name) and n.id == 'self')
        found |= set(re.findall(r'kwargs\.(?:pop|get)\(\s*["\'](\w+)', source))
    return {k for k in found if not callable(getattr(config, k, None))}


def class_of(model_type, types):
    """The class that computes logits, by name; None: transformers has none."""
    stated = types[model_type].values.get('class') if model_type in types else None
    name = stated[0] if stated else CAUSAL.get(model_type)
    return name if isinstance(name, str) or name is None else name[0]


def all_reads(types):
    """Keys that a class of a causal language model reads, or that all models share."""
    found = set()
    for pattern in SHARED:
        for path in ROOT.glob(pattern):
            found |= file_reads(path, set())
    parts = {t.name for t in types.values() if 'class' in t.values}
    for model_type in sorted({*CAUSAL, *parts} & set(CONFIG_MAPPING_NAMES)):
        config = CONFIG_MAPPING[model_type]
        folder = pathlib.Path(inspect.getfile(config)).parent
        for path in sorted(folder.glob('modeling_*.py')):
            if 'class %s(' % class_of(model_type, types) in path.read_text(encoding='utf-8'):
                found |= file_reads(path, set())
        found |= config_reads(config) | set(getattr(config, 'attribute_map', None) or {})
    base = base_keys()
    return sorted(k for k in found if re.fullmatch(r'[a-z]\w+', k) and k not in base and not TRAINING.search(k)
                  and not callable(getattr(transformers.PreTrainedConfig, k, None)))


def base_keys():
    """Keys of any configuration."""
    return {k for k in [*BASE, *transformers.PreTrainedConfig().__dict__, *transformers.GenerationConfig().__dict__]
            if not k.startswith('_')}


def sizes(types):
    """Keys of config.json that have the numbers of any type of models.txt."""
    keys = {'vocab_size', 'num_local_experts', 'num_experts', 'num_experts_per_tok', 'moe_intermediate_size',
            'shared_expert_intermediate_size', 'shared_intermediate_size'}
    return keys | {key.split('|')[0] for t in types for key in t.keys.values() if key != '-' and '*' not in key.split('|')[0]}


def spellings(t, config, keys):
    """Other spellings of keys: (other, '=' where both mean the same always, '~' where only in place of it, mgpt's)."""
    pairs = [(*pair.split('=')[:1], '~', *pair.split('=')[1:]) for pair in t.values.get('spelled', [])]
    for a, b in (getattr(config, 'attribute_map', None) or {}).items():
        if 'own_class' in t.values:
            a, b = b, a
        if b in keys and not (a in keys and a.endswith('_experts')):
            pairs.append((a, '=', b))
    return sorted(pairs)


def defaults(config, keys):
    """Numbers and names that the class takes for absent keys; not those that it computes."""
    values = {f.name: f.default for f in dataclasses.fields(config) if f.name in keys}
    return {k: v for k, v in sorted(values.items()) if isinstance(v, (int, float, str)) and not isinstance(v, bool)}


def needed(t, values):
    """The class's values of the keys that a model must have, in the order of models.DEFAULTS; -: there is none."""
    for field in models.DEFAULTS:
        key = 'vocab_size' if field == 'n_vocab' else t.keys.get(field, '-')
        yield str(values.get(key, '-'))  # KEY|VALUE is no key: models.txt has the value
    yield from ('%s=%s' % (k, v) for k, v in values.items() if t.values.get('experts') and 'expert' in k)


def table():
    """The whole file."""
    types = models.parse(HERE / 'models.txt')
    claimed = sorted(models.claimed(types), key=lambda t: t.name)
    keys = sizes(claimed)
    out = ['# Made by hf_reads.py with transformers %s, not edited by hand; models.py makes C of it.' % transformers.__version__]
    for name, words in (('base: keys of any configuration', base_keys()), ('read: keys that a class reads', all_reads(types))):
        out += [name, *textwrap.wrap(' '.join(sorted(words)), 108, initial_indent='  ', subsequent_indent='  ',
                                     break_long_words=False, break_on_hyphens=False)]
    out += ['types: TYPE CLASS [own], its values for absent keys (%s, KEY=VALUE); other spellings of keys' % ' '.join(models.DEFAULTS)]
    for t in claimed:
        own = t.values.get('own_class', [None])[0]
        config = CONFIG_MAPPING[t.name] if t.name in CONFIG_MAPPING_NAMES else None
        values = needed(t, {} if own or not config else defaults(config, keys))
        pairs = ['%s%s%s' % p for p in spellings(t, config, keys)]
        out += [' '.join(['  ' + t.name, own or class_of(t.name, types), *(['own'] if own else []), *values])]
        out[-1] += '; ' + ' '.join(pairs) if pairs else ''
    return '\n'.join(out + [''])


def main():
    if sys.argv[1:] != ['--check']:
        print(table(), end='')
        return 0
    if transformers.__version__ != VERSION:
        print('transformers %s is here: hf_reads.txt is of %s' % (transformers.__version__, VERSION))
        return 77
    same = table() == (HERE / 'hf_reads.txt').read_text(encoding='utf-8')
    print('hf_reads.txt is what hf_reads.py makes' if same else 'not ok: hf_reads.txt differs: make it again')
    return not same


if __name__ == '__main__':
    sys.exit(main())
