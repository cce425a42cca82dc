#!/usr/bin/env python3
"""Makes the C tables of Hugging Face's model types (struct hf_family) out of models.txt, while mgpt is built.

    models.py models.txt hf_reads.txt > hf_models.inc

models.txt says what its words mean; hf_reads.txt has the keys that classes of transformers read. A fault in models.txt ends the
build with its file, its line and one sentence.
"""
import re
import sys

# Tensors of GGUF in the order in which files get them, with their shapes in the letters of state_size.
SHAPES = {
    'token_embd': 'VE', 'position_embd': 'TE', 'token_embd_norm': 'E', 'attn_norm': 'E', 'attn_norm_2': 'E', 'ffn_norm': 'E',
    'attn_q': 'QE', 'attn_k': 'KE', 'attn_v': 'KE', 'attn_qkv': 'PE', 'attn_q_norm': 'H', 'attn_k_norm': 'H',
    'attn_q_a': 'UE', 'attn_q_a_norm': 'U', 'attn_q_b': 'QU', 'attn_kv_a_mqa': 'DE', 'attn_kv_a_norm': 'C', 'attn_kv_b': 'WC',
    'attn_gate': 'QE', 'attn_output': 'EQ', 'shortconv.in_proj': 'BE', 'shortconv.out_proj': 'EE', 'attn_output_norm': 'E',
    'post_attention_norm': 'E', 'ffn_gate': 'FE', 'ffn_up': 'FE', 'ffn_down': 'EF', 'post_ffw_norm': 'E',
    'inp_gate': 'IE', 'proj': 'EI', 'post_norm': 'E', 'layer_output_scale.weight': 'O',
    'attn_sinks.weight': 'A', 'attn_output.bias': 'E',
    'layer_output_norm': 'E', 'per_layer_token_embd': 'VJ', 'per_layer_model_proj': 'JE', 'per_layer_proj_norm': 'I',
    'output_norm': 'E', 'cls': 'EE', 'cls.norm': 'E', 'output.bias': 'V'}
OF_MODEL = ('token_embd', 'position_embd', 'token_embd_norm', 'per_layer_token_embd', 'per_layer_model_proj',
            'per_layer_proj_norm', 'output_norm', 'cls', 'cls.norm', 'output.bias')  # the others are of layers
OF_RESIDUAL = [name for name, shape in SHAPES.items() if name.endswith(('norm', 'norm_2')) and shape == 'E']
LETTERS = 'EVTFQKPHAGLRBCDUWZMIJO'

FLAGS = {'bias': 'STATE_BIAS', 'transposed': 'STATE_TRANSPOSED', 'grouped': 'STATE_GROUPED', 'attention': 'STATE_ATTENTION',
         'convolution': 'STATE_CONVOLUTION', '+1': 'STATE_PLUS_ONE', 'variant': 'HF_VARIANT', 'usual': 'HF_USUAL',
         'sequential': 'HF_SEQUENTIAL', 'whole_rows': 'HF_WHOLE_ROWS', 'first_rows': 'STATE_FIRST_ROWS', 'optional': 'STATE_OPTIONAL', 'q': 'STATE_Q',
         'k': 'STATE_K', 'v': 'STATE_V', 'gate': 'STATE_GATE', 'up': 'STATE_UP'}
ONE_OF = ('variant', 'usual')  # rows of one tensor, of which a model has one
BIASES = {'attention_bias': 'HF_ATTENTION_BIAS', 'attention_out_bias': 'HF_OUT_BIAS', 'mlp_bias': 'HF_MLP_BIAS',
          'use_bias': 'HF_USE_BIAS', 'use_qkv_bias': 'HF_QKV_BIAS', 'enable_bias': 'HF_ENABLE_BIAS', 'bias': 'HF_BIAS',
          'always': 'STATE_BIAS', 'perhaps': 'STATE_BIAS_OPTIONAL', 'never': None}
ORDERS = {'pairs': 'STATE_PAIRS', 'swap': 'STATE_SWAP', 'keep': None}
NORMS = {'+1': 'STATE_PLUS_ONE', 'bias': 'STATE_BIAS', 'plain': None}
KEYS = ('n_embd', 'n_layer', 'n_head', 'n_head_kv', 'head_dim', 'n_ff', 'n_ctx', 'eps', 'activation')
DEFAULTS = (*KEYS, 'n_vocab')  # columns of hf_reads.txt
SWITCHES = ('tied', 'untied', 'windowed', 'partial_rope', 'resting_pairs', 'states_head_dim', 'transposed_experts', 'mixture_norms', 'experts', 'latent')
VALUES = ('arch', 'program', 'activation', 'head', 'layers', 'knows', 'full_every', 'window', 'order', 'put')
OWN = ('ignores', 'class', 'own_class', 'spelled', 'models')  # not of types that are like it
WINDOWS = ('one', 'layers', 'layers_or_one', 'used', 'all')
# How many words follow: of "read KIND", and whether there may be more.
STEPS = {'on': (1, True), 'off': (1, True), 'has': (1, False), 'is': (2, False), 'in': (1, False), 'set': (2, False),
         'unless': (3, False), 'flag': (3, True), 'number': (3, False), 'positive': (3, False), 'size': (3, False),
         'experts': (0, True), 'expert_norm': (1, False), 'window': (2, True), 'do': (1, False), 'as': (1, False),
         'nothing': (0, False)}


WRAPPERS = []  # [name, type of the text part in C, tied, first words of the other parts' tensors, what people call them]


class Fault(Exception):
    """What is wrong, and the line of models.txt where that is not the one that is read."""


class Type:
    """What one type has, after all that it is like."""

    def __init__(self, name, line, like=None):
        self.name, self.line = name, line
        self.values = {k: v for k, v in like.values.items() if k not in OWN} if like else {}
        self.keys = dict(like.keys) if like else {}
        self.rows = dict(like.rows) if like else {}  # {(tensor, variant, usual or ''): (name, flags, shape)}
        self.biases = dict(like.biases) if like else {}  # {tensor: key}
        self.steps = list(like.steps) if like else []
        self.own_rows, self.own_biases, self.reads, self.stated = set(), [], False, set()

    def has(self, tensor):
        """Whether there is a row of this tensor."""
        return any(key[0] == tensor for key in self.rows)


def braces(word):
    """a{b,c}d: abd, acd."""
    before, brace, rest = word.partition('{')
    inside, _, after = rest.partition('}')
    return [before + part + after for part in inside.split(',')] if brace else [word]


def expect(is_so, fault, *args, line=None):
    """Ends with the fault unless it is so."""
    if not is_so:
        raise Fault(fault % args, line)


def add_keys(t, words):
    """keys FIELD=KEY, FIELD=KEY|VALUE, FIELD=VALUE of n_embd, FIELD=-."""
    for word in words:
        field, _, key = word.partition('=')
        expect(field in KEYS, '"%s" is not a number that keys name: %s', field, ' '.join(KEYS))
        expect(re.fullmatch(r'-|\w+(\|[\w*]+)?|\d+\*n_embd', key), '"%s" is not KEY, KEY|VALUE or -', key)
        t.keys[field] = key


def add_read(t, types, words):
    """read KIND ...; the first one of a type replaces what it is like."""
    expect(words and words[0] in STEPS, '"read %s" is unknown: expected %s', words[0] if words else '', ' '.join(STEPS))
    kind, rest = words[0], words[1:]
    least, more = STEPS[kind]
    expect(least <= len(rest) and (more or len(rest) == least), 'read %s: expected %d words, found %d', kind, least, len(rest))
    if not t.reads:
        t.reads, t.steps = True, []
        if 'window' not in t.stated:
            t.values.pop('window', None)
    if kind == 'as':
        expect(rest[0] in types, 'read as %s: there is no type of this name above', rest[0])
        t.steps += types[rest[0]].steps
    elif kind in ('on', 'off') and not rest[0].endswith(':'):
        t.steps += [[kind, key] for key in rest]
    elif kind != 'nothing':
        t.steps.append(words)
    if kind == 'window':
        expect(rest[1] in WINDOWS, 'read window: "%s" is unknown: expected %s', rest[1], ' '.join(WINDOWS))
        t.values['window'] = rest[:1]


def add_row(t, verb, words):
    """GGUF NAME FLAGS, or several with {,}."""
    expect(words, '"%s" has no name', verb)
    tensors, names, flags = braces(verb), braces(words[0]), list(words[1:])
    expect(len(tensors) == len(names), '%d tensors of GGUF have %d names', len(tensors), len(names))
    shape = None
    if 'as' in flags:
        at = flags.index('as')
        shape = ''.join(flags[at + 1:at + 2])
        expect(re.fullmatch('[%s]{1,2}' % LETTERS, shape), 'as %s: expected one or two letters of %s', shape, LETTERS)
        del flags[at:at + 2]
    for flag in flags:
        expect(flag in FLAGS, '"%s" is not a flag of a row: %s', flag, ' '.join(FLAGS))
    for tensor, name in zip(tensors, names):
        expect(tensor in SHAPES, '"%s" is neither a word nor a tensor of GGUF', tensor)
        condition = ''.join(flag for flag in flags if flag in ONE_OF)
        expect((tensor, condition) not in t.own_rows, 'a second row of %s', tensor)
        if not any(own == tensor for own, _ in t.own_rows):  # nothing is left of what it is like
            t.rows = {key: row for key, row in t.rows.items() if key[0] != tensor}
            t.biases.pop(tensor, None)
        t.own_rows.add((tensor, condition))
        t.rows[tensor, condition] = name, flags, shape or SHAPES[tensor]


def add_drop(t, words):
    """drop ROWS."""
    for tensor in words:
        expect(t.has(tensor) and tensor not in [own for own, _ in t.own_rows], 'drop %s: it has no such row of another', tensor)
        t.rows = {key: row for key, row in t.rows.items() if key[0] != tensor}
        t.biases.pop(tensor, None)


def add_bias(t, words, line):
    """bias KEY ROWS; done at the type's end."""
    key, _, on = (words or [''])[0].partition('=')
    expect(key in BIASES, 'bias %s: expected %s', key, ' '.join(BIASES))
    expect(on in ('', '1') and len(words) > 1, 'bias %s: expected KEY or KEY=1, and rows', key)
    t.own_biases += [(tensor, words[0], line) for tensor in words[1:]]


def add_statement(t, types, words, line):
    """One statement of a type."""
    verb, rest = words[0], words[1:]
    if verb in SWITCHES:
        expect(not rest, '%s: nothing follows it, found "%s"', verb, ' '.join(rest))
        t.values[verb[2:] if verb == 'untied' else verb] = verb != 'untied'
    elif verb == 'keys':
        add_keys(t, rest)
    elif verb == 'read':
        add_read(t, types, rest)
    elif verb == 'bias':
        add_bias(t, rest, line)
    elif verb == 'drop':
        add_drop(t, rest)
    elif verb == 'models':
        expect(rest, 'models: expected what people call them')
        t.values[verb] = rest
    elif verb in VALUES + OWN + ('rope', 'norms', 'prefixes'):
        many = {'rope': (1, 2, 4), 'norms': (1, 2), 'prefixes': range(1, 9), 'spelled': range(1, 9)}.get(verb, (1,))
        known = {'order': ORDERS, 'norms': NORMS}.get(verb)
        expect(len(rest) in many, '%s: expected %s words, found %d', verb, ' or '.join(map(str, many)), len(rest))
        for word in rest if known else []:
            expect(word in known, '%s %s: expected %s', verb, word, ' '.join(known))
        t.stated.add(verb)
        if rest == ['-']:
            t.values.pop(verb, None)
        else:
            t.values[verb] = rest
    else:
        add_row(t, verb, rest)


def add_wrappers(types, line):
    """NAMES wraps TYPE; [models NAMES;] [tied;] skips WORDS."""
    found = re.fullmatch(r'(\S[^;]*) wraps (\S+);( models [^;]+;)?( tied;)? skips (\S.*)', line.split('#')[0].rstrip())
    expect(found, 'expected NAMES wraps TYPE; [models NAMES;] [tied;] skips WORDS')
    names, like, tied, words = found[1].split(), found[2], found[4], found[5].split()
    expect(like == '-' or like in types, 'wraps %s: there is no type of this name above', like)
    expect(len(words) <= 4, 'skips: expected at most 4 words, found %d', len(words))
    WRAPPERS.extend((name, 'NULL' if like == '-' else text(like), int(bool(tied)), words, (found[3] or '')[8:-1]) for name in names)


def finish(t):
    """What can be seen when all statements of a type are read."""
    for tensor, key, line in t.own_biases:
        expect(t.has(tensor), 'bias of %s: %s has no such row', tensor, t.name, line=line)
        t.biases[tensor] = key
    if 'arch' in t.values:
        for verb in ('activation', 'head', 'layers', 'prefixes'):
            expect(verb in t.values, '%s has no "%s"', t.name, verb, line=t.line)
        for key in ('n_embd', 'n_layer', 'n_head', 'n_ctx'):
            expect(key in t.keys, '%s has no key of %s', t.name, key, line=t.line)


def parse(path):
    """{name: Type}, in the order of the file. Faults end the program. Appends models with other parts to WRAPPERS."""
    types, t, used = {}, None, set()
    WRAPPERS.clear()
    number = 0
    try:
        with open(path, encoding='utf-8') as f:
            lines = f.read().splitlines()
        for number, line in enumerate(lines, 1):
            if ' wraps ' in line.split('#')[0]:
                add_wrappers(types, line)
                continue
            for at, part in enumerate(line.split('#')[0].split('; ')):
                words = part.split()
                if words and at == 0 and part[0] not in ' \t':
                    if t:
                        finish(t)
                    expect(words[0] not in types, '%s is a second time here, first in line %d', words[0],
                           types[words[0]].line if words[0] in types else 0)
                    expect(len(words) == 1 or (len(words) == 3 and words[1] == 'like'), 'expected NAME or NAME like OTHER')
                    expect(len(words) == 1 or words[2] in types, '%s like %s: there is no %s above', words[0], words[-1], words[-1])
                    used.update(words[2:])
                    t = types[words[0]] = Type(words[0], number, types[words[2]] if words[2:] else None)
                elif words:
                    expect(t, 'expected NAME at the begin of a line before any statement')
                    add_statement(t, types, words, number)
        if t:
            finish(t)
        for t in types.values():
            expect('arch' in t.values or t.name in used, '%s has no arch, and no type is like it', t.name, line=t.line)
    except Fault as fault:
        sys.exit('%s:%d: %s' % (path, fault.args[1] or number, fault.args[0]))
    return types


def made(types):
    """Those that are tables in C."""
    return [t for t in types.values() if 'arch' in t.values]


def claimed(types):
    """Those of them that config.json can name."""
    return [t for t in made(types) if 'program' not in t.values]


# ---- C -----------------------------------------------------------------------------------------

def text(value):
    """A string of C."""
    return '"%s"' % value


def rows_of(t, absent):
    """The rows in C. Adds to `absent` the flags of biases that are there where their key is absent."""
    for (tensor, _), (name, flags, shape) in sorted(t.rows.items(), key=lambda row: list(SHAPES).index(row[0][0])):
        out = [FLAGS[flag] for flag in flags]
        key, _, on = t.biases.get(tensor, 'never').partition('=')
        out += [BIASES[key]] if BIASES[key] else []
        if on:
            absent.add(BIASES[key])
        if tensor in OF_RESIDUAL:
            out += [NORMS[word] for word in t.values.get('norms', []) if NORMS[word]]
        if tensor in ('attn_q', 'attn_k'):
            out += [ORDERS[word] for word in t.values.get('order', []) if ORDERS[word]]
        if tensor.endswith(('.bias', '.weight')):
            out.append('STATE_BARE')
        to = tensor
        if tensor not in OF_MODEL:
            name, to = t.values['layers'][0] + name, 'blk.N.' + tensor
        letters = ["'%s'" % letter for letter in shape]
        is_one = 'grouped' not in flags or {'q', 'k', 'v'} & set(flags)
        for part in (None,) if is_one else ('STATE_Q', 'STATE_K', 'STATE_V'):
            all_flags = sorted(set(out) | ({part} if part else set()))
            yield '    {%s, %s, %s, %s},' % (text(name), text(to), ', '.join(['0'] * (2 - len(letters)) + letters),
                                             ' | '.join(all_flags) or '0')


def keys_of(keys):
    """Members of struct hf_keys."""
    for field in KEYS:
        key, _, value = keys.get(field, '-').partition('|')
        if '*' in key:
            key, value = '-', key
        if key != '-':
            yield '.%s = %s' % (field, text(key))
        if value:
            value = value.split('*')[0]
            yield '.%s_absent = %s' % (field, value if value.isdigit() else text(value))


def step_of(words):
    """One step: struct hf_step."""
    kind, rest = words[0], words[1:]
    members = {}
    if kind == 'do':
        members = {'key': text(rest[0]), 'call': 'hf_' + rest[0]}
    elif kind == 'off' and rest[0].endswith(':'):
        members = {'key': text(rest[0][:-1]), 'why': text(' '.join(rest[1:]))}
    elif kind == 'window':  # ABSENT WHICH [KEY of a period] [period]
        kind += '_' + rest[1]
        members = {'key': text(rest[2]) if rest[3:] else None, 'value': rest[-1] if rest[2:] else None}
    elif kind in ('on', 'off', 'has', 'in', 'experts'):
        members = {'key': text(rest[0]) if rest else None}
    elif kind in ('is', 'expert_norm'):
        members = {'key': text(rest[1]) if rest[1:] else None, 'value': rest[0]}
    elif kind == 'set':
        members = {'at': rest[0], 'value': rest[1]}
    elif kind == 'unless':
        members = {'key': text(rest[0]), 'at': rest[1], 'value': rest[2]}
    else:
        members = {'key': text(rest[1]), 'at': rest[0], 'value': rest[2]}
    if kind == 'flag' and rest[3:] == ['not']:
        kind = 'flag_not'
    if 'at' in members:
        member = {'flag': 'INT', 'flag_not': 'INT', 'size': 'SIZE'}.get(kind, 'FLOAT')
        members['at'] = 'HF_TO_VARIANT' if members['at'] == 'variant' else 'HF_TO_%s(%s)' % (member, members['at'])
    return '    {%s},' % ', '.join('.%s = %s' % m for m in {'kind': 'HF_' + kind.upper(), **members}.items() if m[1])


def reads(path):
    """{section: lines of words} of hf_reads.txt."""
    sections, lines = {}, []
    with open(path, encoding='utf-8') as f:
        for line in f:
            if line.startswith(' '):
                lines.append(line.strip())
            elif not line.startswith('#'):
                lines = sections.setdefault(line.split(':')[0], [])
    return sections


def class_of(t, rows):
    """The member `class` of a type, out of its row of hf_reads.txt."""
    row = rows.get(t.name)
    if not row:
        return '{"", 0, "", ""}'
    values, _, spelled = row.partition('; ')
    name, *words = values.split()
    own = words[:1] == ['own']
    columns = dict(zip(DEFAULTS, words[own:]))
    found = {'vocab_size' if field == 'n_vocab' else t.keys[field]: v for field, v in columns.items() if v != '-'}
    found.update(word.split('=') for word in words[own + len(DEFAULTS):])
    return '{%s, %d, %s, %s}' % (text(name), not own, text(spelled), text(' '.join('%s=%s' % p for p in sorted(found.items()))))


def family_of(t, rows, out):
    """The member of the list of families; appends the tables that it names to out."""
    word, absent, v = t.name.replace('-', '_'), set(), t.values
    out += ['static const struct state_row %s_rows[] = {' % word, *rows_of(t, absent), '};']
    out.append('static const struct hf_keys %s_keys = {%s};' % (word, ', '.join(keys_of(t.keys))))
    out.append('static const char *const %s_prefixes[] = {%s, NULL};' % (word, ', '.join(map(text, v['prefixes']))))
    members = [text(t.name), text(v['arch'][0]), '&%s_keys' % word, text(v['activation'][0]), word + '_prefixes',
               text(v['head'][0]), '.rows = %s_rows, .n_rows = HF_COUNT(%s_rows)' % (word, word)]
    if t.steps:
        out += ['static const struct hf_step %s_steps[] = {' % word, *map(step_of, t.steps), '};']
        members.append('.steps = %s_steps, .n_steps = HF_COUNT(%s_steps)' % (word, word))
    if 'rope' in v:
        theta, part, *names = (v['rope'] + ['1'])[:2] + v['rope'][2:]
        out.append('static const struct hf_rope_keys %s_rope = {%s, %s, %s};' % (
            word, ', '.join(map(text, names or ['rope_theta', 'partial_rotary_factor'])), theta.replace('?', 'NAN'), part))
        members.append('.rope = &%s_rope' % word)
    members += ['.%s = 1' % switch for switch in SWITCHES if v.get(switch)]
    members += ['.%s = %s' % (verb, v[verb][0]) for verb in ('full_every', 'window') if verb in v]
    members += ['.%s = %s' % (verb, text(v[verb][0])) for verb in ('program', 'knows', 'ignores') if verb in v]
    members += ['.biases = ' + ' | '.join(sorted(absent))] if absent else []
    members += ['.put = {%s, hf_put_%s}' % (text(v['put'][0]), v['put'][0])] if 'put' in v else []
    members.append('.class = ' + class_of(t, rows))
    return '    {%s},' % ', '.join(members)


def main():
    out, sections = ['/* Made of models.txt and hf_reads.txt by models.py. */'], reads(sys.argv[2])
    for name in ('base', 'read'):
        out += ['const char *const hf_%s_keys[] = {' % name, *('    " %s ",' % line for line in sections[name]), '    NULL};']
    classes = dict(line.split(' ', 1) for line in sections['types'])
    rows = [family_of(t, classes, out) for t in made(parse(sys.argv[1]))]
    out += ['static const struct hf_family families[] = {', *rows, '};', 'static const struct hf_wrapper wrappers[] = {']
    out += ['    {%s, %s, %d, {%s}},' % (text(name), like, tied, ', '.join(map(text, words))) for name, like, tied, words, _ in WRAPPERS]
    print(*out, '};', sep='\n')


if __name__ == '__main__':
    main()
