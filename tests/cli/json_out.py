"""--json of tokenize, trace, convert and lab: the fields that scripts read, and nothing else on stdout; --quiet.

json_out.py MGPT WEIGHTS.
"""
import json
import os
import re
import sys
import tempfile

from checks import check, failed, run_program

MGPT, WEIGHTS = sys.argv[1:3]
NAMES = WEIGHTS + '/names.gguf'


def run(*words, code=0):
    done = run_program(MGPT, *words, code=code, timeout=100)
    return done.stdout.decode(), done.stderr.decode()


def object_of(*words):
    out, err = run(*words, '--json')
    check((words, 'one line'), out.count('\n'), 1)
    check((words, 'stderr'), err, '')
    return json.loads(out)


def asked_facts(folder):
    """Questions of checkpoints that have all kinds: those that are printed, with what answers them. Returns what is asked."""
    asked = set()
    for name in 'gated/model.pt', 'own-words/model.pt', 'parameters/model.pt', 'encoder-layer/model.pt', 'mingpt-2020/model.pt':
        file = WEIGHTS + '/../tests/fixtures/torch/' + name
        found = json.loads(run('convert', file, folder + '/x.gguf', '--json', code=3)[0])['open']
        asked |= {q['what'] for q in found}
        told = re.findall("^mgpt:   (.*?): (--.*)[.] In the model's code: (.*)$", run('convert', file, folder + '/x.gguf', code=3)[1], re.M)
        if not told: # of the number of heads alone the error says all
            check('the only question of ' + file, [q['options'] for q in found], [[{'option': '--heads N', 'programs': []}]])
            continue
        check('questions of ' + file, [(q['what'], q['how']) for q in found], [(what, how) for what, _, how in told])
        for q, (_, options, _) in zip(found, told):
            check('what answers them', all(o['option'] in options for o in q['options']), True)
    return asked


def main(folder):
    check('ids', object_of('tokenize', NAMES, '-p', 'anna'), {'ids': [26, 0, 13, 13, 0], 'tokens': ['<BOS>', 'a', 'n', 'n', 'a']})
    check('no ids', object_of('tokenize', NAMES, '-p', '', '--no-bos'), {'ids': [], 'tokens': []})
    check('text', object_of('tokenize', NAMES, '--decode', '-p', '0 13 13 0'), {'text': 'anna'})
    check('no text', object_of('tokenize', NAMES, '--decode', '-p', ''), {'text': ''})
    run('tokenize', NAMES, '--decode', '-p', '0 27', '--json', code=2)
    hooks = ('--hooks', 'blocks.0.attn.hook_z,blocks.0.attn.hook_pattern,logits')
    check('hooks', object_of('trace', NAMES, '--list', *hooks),
          {'hooks': {'blocks.0.attn.hook_pattern': [4, None, None], 'blocks.0.attn.hook_z': [None, 4, 4], 'logits': [None, 27]}})
    path = folder + '/x.npz'
    check('trace', object_of('trace', NAMES, '-p', 'ann', '-o', path, *hooks),
          {'file': path, 'bytes': os.path.getsize(path), 'tokens': [26, 0, 13, 13],
           'hooks': {'blocks.0.attn.hook_pattern': [4, 4, 4], 'blocks.0.attn.hook_z': [4, 4, 4], 'logits': [4, 27]}})
    check('trace says it in a line', run('trace', NAMES, '-p', 'ann', '-o', path, *hooks),
          ('', 'mgpt: %s: 4 tokens, 3 hooks, %d bytes\n' % (path, os.path.getsize(path))))
    check('--quiet', run('trace', NAMES, '-p', 'ann', '-o', path, '--quiet'), ('', ''))
    out = folder + '/x.gguf'
    found = object_of('convert', NAMES, out, '--type', 'f16')
    tensors = found.pop('tensors')
    check('convert', found, {'in': NAMES, 'out': out, 'format': 'GGUF', 'architecture': 'microgpt', 'weights': 4192, 'type': 'F16',
                             'bytes': os.path.getsize(out), 'notes': []})
    check('its tensors', (len(tensors), tensors[0]), (9, {'name': 'token_embd.weight', 'type': 'F16', 'shape': [16, 27]}))
    os.remove(out)
    plan = object_of('convert', NAMES, out, '--type', 'f16', '--dry-run')
    check('the plan', (plan['out'], plan['tensors'], plan['weights'], os.path.exists(out)), (out, tensors, 4192, False))
    plan = object_of('convert', NAMES, '--dry-run')
    check('without a name', plan['out'], None)
    state = folder + '/w.json'
    with open(state, 'w', encoding='utf-8') as file:
        json.dump({'wte': [[0.5, 0.25]] * 3}, file)
    out_text, err = run('convert', state, out, '--json', code=3)
    check('a refusal is a line on stderr', (out_text, err.startswith('mgpt: ' + state)), ('', True))
    asks = WEIGHTS + '/../tests/fixtures/torch/nanogpt/ckpt.pt'
    with open(WEIGHTS + '/../src/kernels/activations.h', encoding='utf-8') as file:
        activations = re.findall(r'^    X\(\w+, (\w+)\)', file.read(), re.M)
    out_text, err = run('convert', asks, out, '--json', code=3)
    asked = json.loads(out_text)
    check('the error of open facts', err, 'mgpt: %s: %s\n' % (asks, asked['error']))
    check('open facts', ([(q['what'], [o['option'] for o in q['options']]) for q in asked['open']], asked['likely'], asked['programs'][3], asked['also']),
          ([('the activation of the MLP', ['--activation ' + a for a in activations])], 'nanogpt', 'nanogpt', None))
    check('programs that answer so', asked['open'][0]['options'][4]['programs'], ['nanogpt', 'mingpt-2020'])
    asked = json.loads(run('convert', WEIGHTS + '/../tests/fixtures/torch/rms-lecture/model.pth', out, '--json', code=3)[0])
    check('options that answer', [q['options'][-1] for q in asked['open']][1::3],
          [{'option': '--post-norm', 'programs': ['freecodecamp', 'gpt1', 'encoder-layer']}, {'option': '--eps X', 'programs': []}])
    check('facts that were asked for', len(asked_facts(folder)), 13)
    page = folder + '/x.html'
    check('lab', object_of('lab', NAMES, '-p', 'anna', '-o', page), {'file': page, 'page': 'live', 'bytes': os.path.getsize(page), 'tokens': 5,
                                                                     'reason': None})
    check('recorded', object_of('lab', NAMES, '-p', 'anna', '-o', page, '--static'),
          {'file': page, 'page': 'recorded', 'bytes': os.path.getsize(page), 'tokens': 5, 'reason': 'it was asked for with --static'})
    check('lab --quiet', run('lab', NAMES, '-p', 'anna', '-o', page, '--quiet'), ('', ''))
    check('an error is no note', run('tokenize', NAMES, '-p', '3', '--quiet', code=2)[1][:6], 'mgpt: ')
    check('a full context', run('generate', NAMES, '-p', 'anna', '--ignore-end')[1],
          'mgpt: the context is full (16 positions): the text ends there\n')
    check('--quiet', run('generate', NAMES, '-p', 'anna', '--ignore-end', '--quiet')[1], '')


with tempfile.TemporaryDirectory() as FOLDER:
    main(FOLDER)
sys.exit(bool(failed))
