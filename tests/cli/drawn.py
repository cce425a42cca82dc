"""Everything that generate says: each pair of settings of drawing tokens, as text and as JSON, and other ways of asking for texts.

hashes/drawn.txt has a hash of each run (hashes.py says how to look at a difference and how to write it again).
"""
import itertools
import json
import shutil
import sys

sys.dont_write_bytecode = True
from said import make_chat  # noqa: E402
from small_vocabularies import pairs_model, unigram_model  # noqa: E402
from transcript import MGPT, ROOT, compare, told  # noqa: E402

SETTINGS = ['--temp 1.5', '--top-k 4', '--top-p 0.8', '--min-p 0.05', '--bias TOKEN+2', '--ban BANNED', '--regex REGEX', '--repeat-penalty 1.4', '--repeat-last 2 --presence 0.8',
            '--frequency 0.7', '--dry 1.2:1.5:1:12', '--top-nsigma 1.2', '--typical 0.7', '--xtc 0.8:0.06', '--mirostat 2:2.5:0.3', '--rng python --rng-skip 3', '--ignore-end', '--slide -c 9',
            '--stop STOP', '--heal', '--kv q8_0', '--lookup 4', '--json-schema schema', '--first 3 --batch 2', '--temp 0', '--repeat-penalty 0.8 --temp 1']
MODELS = {'names': {'TOKEN': 'n', 'BANNED': 'an', 'REGEX': '[a-m]*[n-z]?', 'STOP': 'e', 'prompts': ['-p an', '-p m --no-prompt', '', '-p zzz']},
          'pairs': {'TOKEN': 'he', 'BANNED': 'lo', 'REGEX': '(he|l|o|[ a-e])*', 'STOP': 'l', 'prompts': ['-p hel', '-p the --no-prompt', '--ids 3,4', '-e -p \\x68o']}}
MORE = ['--choices he,lo,yes', '--choices he,hel,lo --temp 0', '--choices x', '--choices he,he', '--samples 0', '--samples 5 --batch 3', '-n 0', '-n 1', '-n 999', '--top 3', '--top 0', '--top 999',
        '--temp -1', '--temp nan', '--top-p 0', '--top-p 1.5', '--min-p 1', '--typical 0', '--xtc 2', '--mirostat 1', '--mirostat 2:x', '--dry x', '--dry 1:0', '--bias x', '--bias he+1 --bias lo-inf',
        '--ban he --ban lo --ban l', '--regex (', '--regex [', '--regex a{2,1}', '--regex \\bx', '--rng none', '--rng-skip 1', '--seed x', '--seed 18446744073709551615', '--stop he --stop e --stop lo',
        '--session s -n 3', '--draft MODEL', '--lookup', '--lookup 1 --temp 0', '-c 3', '-c 5 -n 9', '-c 5 -n 9 --slide', '--ids 99', '--ids 1,2,x', '--ids 0', '--special -p <e>he', '--check-finite',
        '--heal -p yesl', '--heal -p he\\x20 -e', '--heal --choices o,lo', '--steer none', '--samples 2 --session s', '--records prompts', '--records prompts --top 2 --seed 5', '--records prompts --temp 0',
        '--records prompts --choices he,lo', '-f text', '-f text --json', '-f none', '--json -f prompts.jsonl', '--chat', '-p a -f text', '--regex (he)+ --ignore-end -n 12', '--json-schema schema --top 2']
RECORDS = [{'prompt': 'he', 'id': 1}, {'prompt': 'hello', 'n': 3, 'seed': 2, 'stop': 'l'}, {'ids': [3, 4, 5], 'temperature': 0}, {'prompt': '', 'top_k': 2, 'top_p': 0.5, 'min_p': 0.1, 'id': {'a': [1, None]}},
           {'prompt': 'he', 'choices': ['lo', 'l', 'yes'], 'id': 'c'}, {'ids': [99]}, {'prompt': 3}, {}, {'prompt': 'he', 'n': -1}, {'prompt': 'he', 'n': 0}, {'prompt': 'q'}, {'prompt': 'he', 'seed': 2**64},
           {'prompt': 'he', 'ignore_end': True, 'n': 4}, {'prompt': 'he', 'what': 1}, {'prompt': 'he', 'ids': [1]}, {'prompt': 'he', 'choices': []}, {'prompt': 'he', 'stop': [1]}, {'ids': []}, {'prompt': 'he', 'temperature': -1}]
CHAT = ['-p hi', '-p hi --system be', '-p hi --json', '-p hi --think on', '-p hi --think off', '--chat-file talk -p why', '--chat-file talk', '--chat-file bad -p a', '-p hi --chat-format chatml', '-p hi --chat-format llama3',
        '-p hi --chat-format none', '-p hi --chat-var why=x --chat-var a', '-p hi --chat-var why=x', '-f turns', '-f turns --keep-turns 1 -c 50', '-f turns --keep-turns 0', '-f turns -c 20', '-f turns --system x --json',
        '-p hi --chat-template template', '-p hi --chat-template broken', '-p hi --stop e', '-p hi --choices yes,no', '-f turns --session s', '-p hi --samples 2', '-p hi --ignore-end', '-p hi --regex [a-f]+', '-p hi --heal']


def make_files(folder, mgpt, name):
    (folder / 'schema').write_text(json.dumps({'enum': ['he', 'lo', 'an', 'hello', 3]} if name == 'pairs' else {'type': ['boolean', 'null']}))
    (folder / 'text').write_text('hel\n\n')
    for records in 'prompts', 'prompts.jsonl':
        (folder / records).write_text('\n'.join(['', *map(json.dumps, RECORDS), '[1]', 'x', '{"prompt": "he"']))
    if name == 'names':
        return ROOT / 'weights/names.gguf'
    if name == 'chat':
        make_chat(folder)
        (folder / 'talk').write_text(json.dumps([{'role': 'user', 'content': 'hi'}, {'role': 'assistant', 'content': 'so'}]))
        (folder / 'bad').write_text('[{"role": 3}]')
        (folder / 'turns').write_text('hi there\n\nwhy?\nlast')
        (folder / 'template').write_text('{% for m in messages %}{{ m.role[0] }}{{ m.content }}.{% endfor %}')
        (folder / 'broken').write_text('{% for m in %}')
        return folder / 'chat'
    return {'pairs': pairs_model, 'unigram': unigram_model}[name](mgpt, str(ROOT), str(folder))


def drawing(name, *groups):
    """A run of the command for each list of options, in one text."""
    def run(mgpt, folder):
        model, texts = make_files(folder, mgpt, name), []
        for words in groups:
            texts.append(told(['generate', model, *(str(model) if w == 'MODEL' else w for w in words)], folder, mgpt=mgpt).replace('FOLDER/m/', 'FOLDER/'))
            (folder / 's').unlink(missing_ok=True) if '--samples' in words else None
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return '\n'.join(texts)
    return run


def pairs():
    for name, own in MODELS.items():
        words = [[own.get(w, w) for w in setting.split()] for setting in SETTINGS]
        for i, first in enumerate(words):
            groups = []
            for j, second in enumerate(words[i:], i):
                ask = own['prompts'][(i + j) % 4].split()
                how = ['--json', '--top', '2'] if (i ^ j) & 1 else []
                groups.append([*ask, *first, *(second if j > i else []), *how, '--seed', str(i + j), '--samples', '2', '-n', '8'])
            yield '%s %s and others' % (name, SETTINGS[i]), drawing(name, *groups)


def others():
    for name, option in itertools.product(('pairs', 'unigram'), MORE):
        words = option.split()
        ask = [] if {'-p', '-f', '--ids', '--records'} & set(words) else ['-p', 'he']
        n = [] if {'-n', '--choices'} & set(words) else ['-n', '7']
        yield '%s %s' % (name, option), drawing(name, [*ask, *words, '--seed', '4', *n], [*ask, *words, *n, *([] if '--json' in words else ['--json'])])
    for option in CHAT:
        words = option.split()
        n = [] if '--choices' in words else ['-n', '9']
        yield 'chat ' + option, drawing('chat', ['--chat', *words, *n, '--seed', '1'], ['--chat', *words, *n, '--temp', '0'])


compare('drawn', [*pairs(), *others()])
