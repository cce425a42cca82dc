"""Makes the scripts of the lab's page smaller: no comments, no spaces that mean nothing, short names of variables.

It reads the JavaScript of tools/lab/page and no other: statements end in semicolons, there are no classes and no labels, and a
regular expression does not follow a parenthesis. Properties keep their names, as do variables of the top level, which
other files use. A name that is a variable in one place of a file and not in another is refused.
"""
import re
import sys

WORDS = frozenset('''as async await break case catch const continue default delete do else false finally for function get if in
    instanceof let new null of return set super switch this throw true try typeof undefined void while'''.split())
TOKEN = re.compile(r'''(?P<space>\s+)|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<text>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")|(?P<number>\.?\d[\w.]*(?:(?<=[eE])-\d+)?)
    |(?P<name>[A-Za-z_$][\w$]*)|(?P<mark>\+\+|--|\.\.\.|=>|\?\.(?!\d)|\*\*=?|\?\?=?|&&=?|\|\|=?|>>>?=?|<<=?|[-+*/%&|^!=<>]=?=?|[{}()\[\];,.?:~])''', re.S | re.X)
REGEX = re.compile(r'/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*')
TEMPLATE = re.compile(r'(?:[^`\\$]|\\.|\$(?!\{))*(?:`|\$\{)', re.S)


class Token:
    """kind: space, text, number, name, mark. inside: '(', '[', 'block', 'object' or 'template', where it is; '' at the top level."""
    def __init__(self, kind, text, inside):
        self.kind, self.text, self.inside = kind, text, inside
        self.outer = self.begin = self.end = None  # indices of the bracket around it and, of a bracket, of its other one


def is_object(before):
    """Whether a brace after this token begins an object or a pattern."""
    return before is not None and (before.text in ('(', '[', ',', '=', ':', '?', '&&', '||', '??', '...', 'return', 'const', 'let', 'of', 'in')
                                   or before.text.endswith('${'))


def tokens_of(script):
    out, open_, at, before = [], [], 0, None
    while at < len(script):
        value = before is not None and (before.kind in ('number', 'text') or before.text in (')', ']', '}')
                                        or (before.kind == 'name' and before.text not in WORDS))
        if script[at] == '`' or (script[at] == '}' and open_[-1] == 'template'):
            if script[at] == '}':
                open_.pop()
            kind, text = 'text', script[at] + TEMPLATE.match(script, at + 1).group()
        elif script[at] == '/' and script[at + 1] not in '/*' and not value:
            kind, text = 'text', REGEX.match(script, at).group()
        else:
            found = TOKEN.match(script, at)
            kind, text = found.lastgroup, found.group()
        at += len(text)
        if kind == 'comment':
            continue
        if text in (')', ']', '}'):
            open_.pop()
        token = Token(kind, text, open_[-1] if open_ else '')
        if text in ('(', '['):
            open_.append(text)
        elif text == '{':
            open_.append('object' if is_object(before) else 'block')
        elif kind == 'text' and text.endswith('${'):
            open_.append('template')
        out.append(token)
        before = before if kind == 'space' else token
    return out


def pattern(tokens, at, ends):
    """Names that the declarations from here on declare, up to one of the ends outside of brackets; initializers are skipped."""
    names, depth, skip = [], 0, None
    while depth > 0 or tokens[at].text not in ends:
        t = tokens[at]
        opens, closes = t.text in ('(', '[', '{') or t.text.endswith('${'), t.text[0] in ')]}'
        depth += int(opens) - int(closes)
        if opens or closes:
            skip = None if skip is not None and depth < skip else skip
        elif skip is None and t.text in ('=', 'of', 'in'):
            skip = depth
        elif skip == depth and t.text == ',':
            skip = None
        elif skip is None and t.kind == 'name' and not (t.inside == 'object' and tokens[at + 1].text == ':'):
            names.append(t.text)
        at += 1
    return names


def match_brackets(tokens):
    open_ = []
    for i, t in enumerate(tokens):
        if t.kind != 'number' and t.text[0] in ')]}':
            t.begin = open_.pop()
            tokens[t.begin].end = i
        t.outer = open_[-1] if open_ else None
        if t.text in ('(', '[', '{') or (t.kind == 'text' and t.text.endswith('${')):
            open_.append(i)


def statement_end(tokens, at, ends):
    """Where what begins here ends: after its block, or at the first of these marks that is not in brackets or in a ? b : c, unless else follows."""
    if tokens[at].text == '{':
        return tokens[at].end
    asked = 0
    while tokens[at].text not in ends or (tokens[at].text == ':' and asked) or tokens[at + 1].text == 'else':
        asked += {'?': 1, ':': -1}.get(tokens[at].text, 0)
        at = (tokens[at].end or at) if tokens[at].end and tokens[at].text in ('(', '[', '{') else at
        while tokens[at].kind == 'text' and tokens[at].end:
            at = tokens[at].end
        at += 1
    return at


class Variable:
    """Variables, parameters and functions below the top level. Tokens [begin, end) see it."""
    def __init__(self, name, begin, end):
        self.name, self.begin, self.end, self.uses, self.short = name, begin, end, [], None


def declared(tokens):
    found = {}

    def add(names, begin, end):
        for name in names:
            found.setdefault((name, begin, end), Variable(name, begin, end))

    def add_here(names, i):
        """In the block around token i, or in a loop from its head on."""
        outer = tokens[i].outer
        if tokens[outer].text == '(':
            add(names, outer, statement_end(tokens, tokens[outer].end + 1, (';',)))
        else:
            add(names, outer, tokens[outer].end)

    for i, t in enumerate(tokens):
        before = tokens[i - 1]
        if t.text in ('const', 'let') and t.inside:
            add_here(pattern(tokens, i + 1, (';', ')')), i)
        elif t.text == 'function' and t.inside and tokens[i + 1].text != '(':
            add_here([tokens[i + 1].text], i)
        elif t.text == '=>' and before.kind == 'name':
            add([before.text], i - 1, statement_end(tokens, i + 1, (',', ';', ')', ']', '}', ':')))
        elif t.text in ('=>', '{') and before.text == ')':
            begin = before.begin
            if t.text == '=>' or t.inside == 'object' or tokens[begin - 1].text in ('catch', 'function') or tokens[begin - 2].text == 'function':
                end = statement_end(tokens, i + 1 if t.text == '=>' else i, (',', ';', ')', ']', '}', ':'))
                add(pattern(tokens, begin + 1, (')',)), begin, end)
    return list(found.values())


def is_property(tokens, i):
    t, before, after = tokens[i], tokens[i - 1].text if i else '', tokens[i + 1].text if i + 1 < len(tokens) else ''
    return before in ('.', '?.') or (t.inside == 'object' and (before in ('{', ',') and after in (':', '(') or before in ('get', 'set')))


def short_names():
    letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$'
    yield from letters
    yield from (a + b for a in letters for b in letters + '0123456789' if a + b not in WORDS)


def rename(tokens):
    match_brackets(tokens)
    variables, by_name, free = declared(tokens), {}, []
    for v in variables:
        by_name.setdefault(v.name, []).append(v)
    for i, t in enumerate(tokens):
        if t.kind == 'name' and t.text not in WORDS and not is_property(tokens, i):
            seen = [v for v in by_name.get(t.text, []) if v.begin <= i < v.end]
            if seen:
                min(seen, key=lambda v: v.end - v.begin).uses.append(i)
            elif t.inside and t.text in by_name:
                sys.exit(f'minify.py: {t.text} is a variable in one place and not in another, after ' + ' '.join(x.text for x in tokens[max(0, i - 12):i]))
            else:
                free.append(i)
    named = []
    for v in sorted(variables, key=lambda v: (v.begin, -len(v.uses), v.name)):
        taken = {w.short for w in named if w.end == v.end or any(v.begin <= i < v.end for i in w.uses)} | {tokens[i].text for i in free if v.begin <= i < v.end}
        v.short = next(n for n in short_names() if n not in taken)
        named.append(v)
    for v in variables:
        for i in v.uses:
            t = tokens[i]
            short_hand = t.inside == 'object' and tokens[i - 1].text in ('{', ',') and tokens[i + 1].text in ('}', ',', '=')
            t.text = f'{v.name}:{v.short}' if short_hand and v.name != v.short else v.short


def minify(script):
    """A script's tokens with as little between them as the language allows."""
    tokens = tokens_of(script)
    lines = {id(t) for t, space in zip(tokens, tokens[1:]) if space.kind == 'space' and '\n' in space.text}
    tokens = [t for t in tokens if t.kind != 'space']
    rename(tokens)
    out = ''
    for before, t in zip([Token('mark', ';', '')] + tokens, tokens):
        ends, begins = before.text[-1], t.text[0]
        if re.match(r'[\w$]', ends) and re.match(r'[\w$]', begins) and before.kind in ('name', 'number') and t.kind in ('name', 'number'):
            out += ' '
        elif id(before) in lines and before.text in ('}', ')', ']') and (t.kind != 'mark' or t.text in ('[', '(', '{', '!', '++', '--')):
            out += '\n'
        elif ends == begins and ends in '+-':
            out += ' '
        out += t.text
    return out
