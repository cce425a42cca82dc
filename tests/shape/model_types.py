#!/usr/bin/env python3
"""models.txt: what is wrong in it ends the build with its line, and the lists of model types elsewhere are its own."""
import ast
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ['MGPT_SOURCE_ROOT'])
FAMILIES = ROOT / 'tools/convert/families'
sys.path.insert(0, str(FAMILIES))
import models  # noqa: E402
import models_table  # noqa: E402

BASE = """base; activation silu; head lm_head.weight; prefixes model.; layers layers.N.
  keys n_embd=hidden_size n_layer=n_layer n_head=n_head n_ctx=n_ctx
  attn_q  q_proj
  bias attention_bias  attn_q
a like base; arch llama
"""
LINE = BASE.count('\n') + 1  # of what follows it
# What follows it, the line that is named, and the sentence.
FAULTS = [
    ('  atn_q  q_proj', 0, '"atn_q" is neither a word nor a tensor of GGUF'),
    ('  attn_k  k_proj  baised', 0, '"baised" is not a flag of a row: bias transposed'),
    ('  attn_k  k_proj\n  attn_k  k', 1, 'a second row of attn_k'),
    ('  attn_k  k_proj  usual\n  attn_k  k  variant\n  attn_k  k_proj  usual', 2, 'a second row of attn_k'),
    ('  attn_{q,k}  self.{q,k,v}_proj', 0, '2 tensors of GGUF have 3 names'),
    ('  attn_k', 0, '"attn_k" has no name'),
    ('  attn_k  k_proj  as EQZ', 0, 'as EQZ: expected one or two letters of EVTFQKPHAGLRB'),
    ('b like c', 0, 'b like c: there is no c above'),
    ('b likes a', 0, 'expected NAME or NAME like OTHER'),
    ('a like base', 0, 'a is a second time here, first in line 5'),
    ('  drop attn_k', 0, 'drop attn_k: it has no such row of another'),
    ('  attn_k  k_proj\n  drop attn_k', 1, 'drop attn_k: it has no such row of another'),
    ('  bias mlp_bias  ffn_up\nb like a', 0, 'bias of ffn_up: a has no such row'),
    ('  bias mlp_biases  attn_q', 0, 'bias mlp_biases: expected attention_bias attention_out_bias mlp_bias'),
    ('  bias mlp_bias=2  attn_q', 0, 'bias mlp_bias: expected KEY or KEY=1, and rows'),
    ('  keys n_embed=hidden_size', 0, '"n_embed" is not a number that keys name: n_embd n_layer'),
    ('  keys n_ff=4*', 0, '"4*" is not KEY, KEY|VALUE or -'),
    ('  read number logit_scale', 0, 'read number: expected 3 words, found 1'),
    ('  read nomber logit_scale logit_scale 1', 0, '"read nomber" is unknown: expected on off has is'),
    ('  read window 4096 some', 0, 'read window: "some" is unknown: expected one layers'),
    ('  read as c', 0, 'read as c: there is no type of this name above'),
    ('  order pair', 0, 'order pair: expected pairs swap keep'),
    ('  norms +2', 0, 'norms +2: expected +1 bias plain'),
    ('  tied yes', 0, 'tied: nothing follows it, found "yes"'),
    ('  arch', 0, 'arch: expected 1 words, found 0'),
    ('  rope 10000 1 rope_theta', 0, 'rope: expected 1 or 2 or 4 words, found 3'),
    ('b like a; models', 0, 'models: expected what people call them'),
    ('b like a\n\n# a comment\nc', 3, 'c has no arch, and no type is like it'),
    ('b wraps c; skips vision.', 0, 'wraps c: there is no type of this name above'),
    ('b wraps a; skip vision.', 0, 'expected NAMES wraps TYPE; [models NAMES;] [tied;] skips WORDS'),
    ('b wraps a; tied; skips v. w. x. y. z.', 0, 'skips: expected at most 4 words, found 5'),
    ('b; arch llama\nc like a', 0, 'b has no "activation"'),
]
# Types whose rows are another's, with other windows or defaults: no golden model.
NOT_GOLDEN = {'apertus1p5_text', 'emu3_text_model', 'gemma4_unified_text', 'glm_moe_dsa', 'internlm3', 'iquestcoder', 'ministral',
              'qwen2_vl_text', 'qwen2_5_vl_text', 'qwen3_vl_text', 'sarvam_mla'}

bad = 0


def check(what, is_so, found=''):
    """One line for a check."""
    global bad
    print(('ok ' if is_so else 'not ok: ') + what, '' if is_so else '\n  ' + str(found), sep='')
    bad |= not is_so


def faults(path):
    """Every kind of fault, in a file of this path; one through the program that the build runs."""
    row = '"layers.N.q_proj", "blk.N.attn_q", \'Q\', \'E\', HF_ATTENTION_BIAS'
    for text, status, out, err in ((BASE, 0, row, ''), (BASE + 'b like c', 1, '', '%s:%d: b like c: there is no c above\n' % (path, LINE))):
        path.write_text(text, encoding='utf-8')
        ran = subprocess.run([sys.executable, FAMILIES / 'models.py', path, FAMILIES / 'hf_reads.txt'], capture_output=True, text=True)
        check('models.py ends with %d' % status, ran.returncode == status and out in ran.stdout and ran.stderr == err, ran)
    for text, line, sentence in FAULTS:
        path.write_text(BASE + text + '\n', encoding='utf-8')
        found = 'no fault'
        try:
            models.parse(path)
        except SystemExit as end:
            found = str(end.code)
        check('line %d: %s' % (LINE + line, sentence), found.startswith('%s:%d: %s' % (path, LINE + line, sentence)), found)
    verbs = (*models.SWITCHES, *models.VALUES, *models.OWN, 'keys', 'bias', 'drop', 'models', 'rope', 'norms', 'prefixes', 'read')
    for words in (*verbs, *('read ' + kind for kind in models.STEPS)):
        path.write_text('%s  %s\n' % (BASE, words), encoding='utf-8')
        try:  # nothing follows it: a fault of this line, or none
            models.parse(path)
        except Exception as error:
            check('%s alone' % words, False, repr(error))
        except SystemExit as end:
            check('%s alone' % words, str(end.code).startswith('%s:%d: ' % (path, LINE)), end.code)


def drawn():
    """The types of fresh.py, which needs transformers to run: its text is read."""
    for node in ast.parse((ROOT / 'tests/quality/fresh.py').read_text(encoding='utf-8')).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], 'id', '') == 'TYPES':
            return {key.value for key in node.value.keys}
    return set()


def described():
    """{golden model: what it exercises} of hf_configs.py and what it imports, which need transformers to run: their text is read."""
    found = {}
    for file in ('hf_configs.py', 'hf_gates.py', 'hf_latent.py'):
        tree = ast.parse((ROOT / 'tests/golden' / file).read_text(encoding='utf-8'))
        (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == 'models']
        rows = function.body[-1].value
        found |= {name.value: {word.arg: word.value for word in row.elts[2].keywords}['what'].value
                  for name, row in zip(rows.keys, rows.values) if name}
    return found


def lists():
    """The other places that name model types."""
    claimed = models.claimed(models.parse(FAMILIES / 'models.txt'))
    types = {t.name for t in claimed}
    reads = {line.split()[0] for line in models.reads(FAMILIES / 'hf_reads.txt')['types']}
    check('hf_reads.txt has the types of models.txt', reads == types, sorted(reads ^ types))
    check('fresh.py draws no others', drawn() <= types, sorted(drawn() - types))
    golden = {json.loads(p.read_text(encoding='utf-8'))['model_type'] for p in ROOT.glob('tests/golden/*/config.json')}
    check('there are golden models of them', golden == types - NOT_GOLDEN, sorted(golden ^ (types - NOT_GOLDEN)))
    stated, listed = described(), dict(re.findall(r'^\| `(\w+)` \| `.*?` \| (.*?) \|', (ROOT / 'tests/golden/table.md').read_text(encoding='utf-8'), re.M))
    check('golden/table.md is of hf_configs.py', stated == listed, sorted(stated.items() ^ listed.items()))


def tables(path):
    """A table goes between its two marks, or is compared; a file that lacks one of them stays as it is."""
    begin, end = '<!-- models -->\n', '<!-- end of models -->\n'
    whole, new = 'a\n%sold\n%sb\n' % (begin, end), 'a\n%snew\n%sb\n' % (begin, end)
    expected = '%s: expected the lines %s and %s' % (path, begin.strip(), end.strip())
    for what, text, is_check, wanted, said in (
            ('whole', whole, False, new, ''), ('checked', whole, True, whole, '%s: another table of models' % path), ('checked, as wanted', new, True, new, ''),
            ('without its begin', whole.replace(begin, ''), False, None, expected), ('without its end', whole.replace(end, ''), False, None, expected)):
        path.write_text(text, encoding='utf-8')
        found = ''
        try:
            models_table.put(path, 'models', 'new\n', is_check)
        except SystemExit as stop:
            found = str(stop.code)
        after = path.read_text(encoding='utf-8')
        check('a table: ' + what, after == (wanted or text) and found.startswith(said) and bool(found) == bool(said), (found, after))


with tempfile.TemporaryDirectory() as folder:
    faults(pathlib.Path(folder) / 'models.txt')
    tables(pathlib.Path(folder) / 'README.md')
lists()
sys.exit(bad)
