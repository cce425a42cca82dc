#!/usr/bin/env python3
"""Chat templates: are the ids of a conversation those of transformers' apply_chat_template?

    templates.py MGPT PATH... [-n 6] [--think] [-v] [--tsv FILE]

A PATH is a template (.jinja), a tokenizer_config.json or chat_template.json with one, a list of templates as llama.cpp
and Ollama publish it (index.json), or a directory of those. Beside a tokenizer.json (or .gz) the template is tried with
that tokenizer as its file has it (transformers 5 changes some: LlamaTokenizer, added_tokens_decoder), else with one
trained here that has the special tokens which the template spells.

Each runs in a model that answers every turn with "a": 1, 2 and 3 turns, with and without system text. The ids are read
back from --session. "same": the ids are equal; "refused": mgpt says why not; "none": transformers refuses as well.
The exit code is 1 when any are WRONG, or mgpt runs what transformers refuses. It needs PyTorch's Python
(../golden/README.md), with transformers and tokenizers.
"""
import argparse
import collections
import gzip
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import safetensors.numpy
import tokenizers
import transformers

TURNS = ['Hi there', '  What is "2 < 3"?\t', 'Tell me more\u00e9']
SYSTEM = ' Be brief. '
TOKENS = ('bos_token', 'eos_token', 'unk_token', 'pad_token')
MARKS = re.compile(r'<[^<>\s\'"{}]{1,40}>|\[/?[A-Z_]{1,30}\]')


def templates_of(path):
    """(name, template, directory) of each template below the path."""
    if path.is_dir():
        for p in sorted(path.rglob('*')):
            if p.suffix == '.jinja' or p.name in ('tokenizer_config.json', 'chat_template.json', 'index.json'):
                yield from templates_of(p)
        return
    text = path.read_bytes().decode('utf-8')
    if path.suffix == '.jinja':
        yield str(path), text, path.parent
        return
    data = json.loads(text)
    rows = data if isinstance(data, list) else [data]
    for i, row in enumerate(rows):
        found = row.get('chat_template', row.get('template')) if isinstance(row, dict) else None
        if isinstance(found, list):
            found = next((t['template'] for t in found if t['name'] == 'default'), None)
        if isinstance(found, str):
            yield '%s%s' % (path, '#%d' % i if len(rows) > 1 else ''), found, path.parent


def own_tokenizer(folder, to):
    """Copies the directory's tokenizer; False when there is none."""
    files = [f for f in folder.iterdir() if re.match(r'(tokenizer.json|special_tokens_map.json|added_tokens.json)(.gz)?$',
                                                     f.name)]
    if not any(f.name.startswith('tokenizer.json') for f in files):
        return False
    for f in files:
        data = gzip.decompress(f.read_bytes()) if f.suffix == '.gz' else f.read_bytes()
        (to / f.name.removesuffix('.gz')).write_bytes(data)
    config = folder / 'tokenizer_config.json'
    if config.exists():
        shutil.copy(config, to)
    return True


def made_tokenizer(template, to):
    """A byte-level BPE with the special tokens that the template spells."""
    t = tokenizers.Tokenizer(tokenizers.models.BPE())
    t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = tokenizers.decoders.ByteLevel()
    marks = sorted(set(MARKS.findall(template)) | {'<s>', '</s>'})
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator(['the user and the assistant talk about a model of text\n'] * 4, trainer)
    t.add_special_tokens(marks)
    t.save(str(to / 'tokenizer.json'))
    (to / 'tokenizer_config.json').write_text(json.dumps(
        {'tokenizer_class': 'PreTrainedTokenizerFast', 'bos_token': '<s>', 'eos_token': '</s>'}))


def write_model(to, n_vocab, answer):
    """GPT-2 whose final norm is a constant: the likeliest token is always `answer`."""
    e, ctx = 4, 16384
    zero = {'ln_1.weight': e, 'ln_1.bias': e, 'attn.c_attn.weight': (e, 3 * e), 'attn.c_attn.bias': 3 * e,
            'attn.c_proj.weight': (e, e), 'attn.c_proj.bias': e, 'ln_2.weight': e, 'ln_2.bias': e,
            'mlp.c_fc.weight': (e, e), 'mlp.c_fc.bias': e, 'mlp.c_proj.weight': (e, e), 'mlp.c_proj.bias': e}
    tensors = {'h.0.' + k: np.zeros(v, np.float32) for k, v in zero.items()}
    wte = np.zeros((n_vocab, e), np.float32)
    wte[answer, 0] = 1
    bias = np.zeros(e, np.float32)
    bias[0] = 1
    tensors |= {'wte.weight': wte, 'wpe.weight': np.zeros((ctx, e), np.float32), 'ln_f.weight': np.zeros(e, np.float32),
                'ln_f.bias': bias}
    safetensors.numpy.save_file(tensors, to / 'model.safetensors', {'format': 'pt'})
    (to / 'config.json').write_text(json.dumps(
        {'model_type': 'gpt2', 'architectures': ['GPT2LMHeadModel'], 'n_embd': e, 'n_head': 1, 'n_layer': 1, 'n_inner': e,
         'n_positions': ctx, 'vocab_size': n_vocab, 'activation_function': 'gelu_new', 'layer_norm_epsilon': 1e-5}))


def session_ids(path):
    """The tokens of a session's file: src/run/session_file.c."""
    data = path.read_bytes()
    return np.frombuffer(data, '<i4', int.from_bytes(data[32:40], 'little'), 64).tolist()


class Model:
    """A directory in which one template runs."""

    def __init__(self, mgpt, template, folder, to):
        self.mgpt, self.to, self.why = mgpt, to, None
        self.kind = 'its own' if own_tokenizer(folder, to) else 'made'
        if self.kind == 'made':
            made_tokenizer(template, to)
        config = json.loads((to / 'tokenizer_config.json').read_text()) if (to / 'tokenizer_config.json').exists() else {}
        config['chat_template'] = template
        config.pop('auto_map', None)
        (to / 'tokenizer_config.json').write_text(json.dumps(config))
        names = {k: v['content'] if isinstance(v, dict) else v for k, v in config.items() if k in TOKENS and v}
        self.tok = transformers.PreTrainedTokenizerFast(tokenizer_file=str(to / 'tokenizer.json'), **names)
        self.tok.chat_template = template
        self.answer = self.tok.encode('a', add_special_tokens=False)[-1]
        write_model(to, len(self.tok), self.answer)
        done = self.run('convert', to, to / 'm.gguf')
        if done.returncode:
            self.why = done.stderr.strip()

    def run(self, *args):
        return subprocess.run([self.mgpt, *map(str, args)], capture_output=True, text=True, errors='replace', timeout=120)

    def ours(self, n_turns, system, think):
        """The ids, or the line that refuses."""
        turns, session = self.to / 'turns', self.to / 'session'
        turns.write_text(''.join(t + '\n' for t in TURNS[:n_turns]))
        session.unlink(missing_ok=True)
        args = ['generate', self.to / 'm.gguf', '--chat', '-f', turns, '--temp', 0, '-n', 1, '--session', session]
        args += ['--system', system] if system else []
        args += ['--think', think] if think else []
        done = self.run(*args)
        if done.returncode < 0 or 'Sanitizer' in done.stderr:
            return 'CRASHED: ' + done.stderr
        return done.stderr.strip() if done.returncode else session_ids(session)[:-1]

    def theirs(self, n_turns, system, think):
        messages = [{'role': 'system', 'content': system}] if system else []
        for i in range(n_turns):
            messages.append({'role': 'user', 'content': TURNS[i]})
            if i < n_turns - 1:
                messages.append({'role': 'assistant', 'content': self.tok.decode([self.answer])})
        more = {name: think == 'on' for name in ('enable_thinking', 'thinking')} if think else {}
        try:
            return self.tok.apply_chat_template(messages, add_generation_prompt=True, return_dict=False, **more)
        except Exception as e:  # whatever a template does
            return '%s: %s' % (type(e).__name__, e)


def judge(ours, theirs):
    if isinstance(ours, str):
        return 'CRASHED' if ours.startswith('CRASHED') else 'none' if isinstance(theirs, str) else 'refused'
    if isinstance(theirs, str):
        return 'MORE'
    return 'same' if ours == theirs else 'WRONG'


def try_template(mgpt, name, template, folder, think, verbose):
    cases = [(n, s, t) for t in ([None, 'on', 'off'] if think else [None]) for s in (None, SYSTEM) for n in (1, 2, 3)]
    with tempfile.TemporaryDirectory() as to:
        try:
            m = Model(mgpt, template, folder, pathlib.Path(to))
        except Exception as e:
            return 'its tokenizer does not load', ['?: %s' % str(e)[:100]]
        if m.why:
            return m.kind, ['refused: ' + m.why[-160:]]
        out = []
        for case in cases:
            ours, theirs = m.ours(*case), m.theirs(*case)
            result = judge(ours, theirs)
            if result in ('WRONG', 'MORE', 'CRASHED') or (verbose and result != 'same'):
                print('%s %s: %s\n  ours   %s\n  theirs %s' % (
                    name, case, result, *('%r' % (m.tok.decode(x) if isinstance(x, list) else x) for x in (ours, theirs))))
            out.append(result if result != 'refused' else 'refused: ' + ours[-160:])
        return m.kind, out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('mgpt')
    parser.add_argument('paths', nargs='+', type=pathlib.Path)
    parser.add_argument('--think', action='store_true', help='--think on and off, too')
    parser.add_argument('-v', action='store_true')
    parser.add_argument('--tsv', type=pathlib.Path, help='write a row for each template')
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    count, all_same, rows, seen = collections.Counter(), 0, [], set()
    for path in args.paths:
        for name, template, folder in templates_of(path):
            if (template, folder) in seen or (template and not any(folder.glob('tokenizer.json*')) and template in seen):
                continue
            seen |= {(template, folder), template}
            kind, results = try_template(args.mgpt, name, template, folder, args.think, args.v)
            words = collections.Counter(r.split(':')[0] for r in results)
            count.update(words)
            all_same += set(words) <= {'same', 'none'}
            rows.append('\t'.join([name, kind, *results]))
            if set(words) - {'same', 'none'}:
                print('%s: %s %s' % (name, dict(words), next((r for r in results if r.startswith(('refused', '?'))), '')),
                      flush=True)
    if args.tsv:
        args.tsv.write_text('\n'.join(rows) + '\n')
    print('%d templates, %d with no case refused; cases: %s' % (len(rows), all_same, dict(count)))
    return bool(count['WRONG'] or count['MORE'] or count['CRASHED'])


if __name__ == '__main__':
    sys.exit(main())
