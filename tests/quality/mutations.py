"""The mutations of a C or Python file: one small fault each. See mutate.py."""
import ast
import hashlib
import io
import re
import tokenize


def masked(text):
    """The text with comments, strings and preprocessor lines blanked out, so that offsets stay the same."""
    blank = lambda m: re.sub(r'[^\n]', ' ', m.group())
    text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', blank, text, flags=re.S)
    return re.sub(r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', blank, text, flags=re.M)


SWAPS = {'<': ['<=', '>='], '<=': ['<', '>'], '>': ['>=', '<='], '>=': ['>', '<'], '==': ['!='], '!=': ['=='],
         '+': ['-'], '-': ['+'], '*': ['/'], '/': ['*'], '%': ['/'], '&&': ['||'], '||': ['&&'], '&': ['|'],
         '|': ['&'], '^': ['|'], '<<': ['>>'], '>>': ['<<'], '+=': ['-=', '='], '-=': ['+=', '='], '*=': ['/='],
         '|=': ['&='], '&=': ['|='], '<<=': ['>>='], '>>=': ['<<=']}
OPERATOR = re.compile(r'(?<=\s)(<<=|>>=|<=|>=|==|!=|&&|\|\||<<|>>|\+=|-=|\*=|\|=|&=|[<>+*/%&|^-])(?=\s)')
NUMBER = re.compile(r'(?<![\w.])(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)(?![\w.])')
REAL = re.compile(r'(?<![\w.])(0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*p[+-]?\d+|\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+)'
                  r'[fF]?(?![\w.])')
UNLIMITED = re.compile(r'\bCLI_(FLAG|TEXT)\b')  # no one reads the limits of such an option
DECLARES = re.compile(r'(return|break|continue|goto|case|default|else|do|for|while|if|switch|typedef|static|const|'
                      r'unsigned|struct|enum|int|char|float|double|void|size_t|long|mgpt_\w+|\w+_t)\b')


def closing(code, at):
    """The offset of the parenthesis that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += {'(': 1, ')': -1}.get(code[i], 0)
        if depth == 0:
            return i
    return -1


def statements(code):
    """Spans of statements that can go: calls, assignments, break and continue, each from the start of a line."""
    for m in re.finditer(r'^[ \t]+([A-Za-z_*(][^;{}]*;)[ \t]*$', code, flags=re.M):
        text = m.group(1)
        if re.fullmatch(r'(break|continue);', text):
            yield m.span(1)
        elif not DECLARES.match(text) and text.count('(') == text.count(')') and ('=' in text or '(' in text):
            if not re.match(r'\w+ \**\w+( =|;|\[)', text):
                yield m.span(1)


def mutations(text):
    """(offset, old, new) of every mutation of a file."""
    code = masked(text)
    depth = 0
    inside = []  # per offset: within braces
    for c in code:
        depth += {'{': 1, '}': -1}.get(c, 0)
        inside.append(depth > 0)
    found = set()

    def add(at, end, new):
        if inside[at]:
            found.add((at, text[at:end], new))

    for m in OPERATOR.finditer(code):
        for new in SWAPS[m.group(1)]:
            add(m.start(), m.end(), new)
    for m in NUMBER.finditer(code):
        if UNLIMITED.search(code[:m.start()].rsplit('\n', 1)[-1]):
            continue
        value = int(m.group(1), 8 if re.fullmatch(r'0\d+', m.group(1)) else 0)
        flag = re.search(r'return -?$|[^\w)\] ] ?-$|= -$|[?:] -$', code[:m.start()][-12:]) and value == 1
        for new in ([] if flag else [value + 1]) + ([value - 1] if value else []):
            add(m.start(), m.end(), str(new) + m.group(2))
    for m in REAL.finditer(code):
        digits = m.group().rstrip('fF')
        value = float.fromhex(digits) if digits[1:2] in 'xX' and len(digits) > 1 else float(digits)
        add(m.start(), m.end(), '(%s * 1.01f)' % m.group() if value else '1.0f')
    for m in re.finditer(r'\b(if|while) \(', code):
        end = closing(code, m.end() - 1)
        if end > 0:
            add(m.end() - 1, end + 1, '(!' + text[m.end() - 1:end + 1] + ')')
    for m in re.finditer(r'(?<![\w)])!(?=[\w(*])', code):
        add(m.start(), m.end(), '')
    for m in re.finditer(r'(\+\+|--)', code):
        add(m.start(), m.end(), '--' if m.group() == '++' else '++')
    for m in re.finditer(r'\bck_(add|mul|align|size|bytes)\(', code):
        end = closing(code, m.end() - 1)
        if end > 0:
            add(m.start(), end + 1, '(%s | 1)' % text[m.start():end + 1])
    for m in re.finditer(r'\breturn ([^;]+);', code):
        if m.group(1) not in ('NULL', 'EXIT_OK'):  # 0 already
            add(m.start(1), m.end(1), {'0': '1', 'MGPT_OK': '-1'}.get(m.group(1), '0'))
    for at, end in statements(code):
        add(at, end, ';' + '\n' * text.count('\n', at, end))
    return sorted(found)


# ---- Python ----

WORDS = {'and': 'or', 'or': 'and', 'True': 'False', 'False': 'True', 'not': '', 'break': 'pass', 'continue': 'pass'}


def annotations(tree):
    """The nodes that are never evaluated."""
    for node in ast.walk(tree):
        for field in ('annotation', 'returns'):
            if getattr(node, field, None) is not None:
                yield getattr(node, field)


def python_mutations(text):
    """(offset, old, new) of every mutation of a file: operators, numbers, words, conditions, results, statements."""
    starts = [0]
    for line in text.split('\n'):
        starts.append(starts[-1] + len(line) + 1)
    offset = lambda row, column: starts[row - 1] + len(text[starts[row - 1]:starts[row]].encode()[:column].decode())
    span = lambda node: (offset(node.lineno, node.col_offset), offset(node.end_lineno, node.end_col_offset))
    tree, found = ast.parse(text), set()
    hidden = [span(node) for node in annotations(tree)]

    def add(at, end, new):
        if not any(a <= at < b for a, b in hidden):
            found.add((at, text[at:end], new))

    for t in tokenize.generate_tokens(io.StringIO(text).readline):
        at = starts[t.start[0] - 1] + t.start[1]
        end = at + len(t.string)
        if t.type == tokenize.OP and text[at - 1] == text[end:end + 1] == ' ':
            for new in SWAPS.get(t.string, []):
                add(at, end, new)
        elif t.type == tokenize.NAME and t.string in WORDS:
            add(at, end + (t.string == 'not'), WORDS[t.string])
        elif t.type == tokenize.NUMBER and t.string.isdigit():
            for new in [int(t.string) + 1] + ([int(t.string) - 1] if int(t.string) else []):
                add(at, end, str(new))
    for node in ast.walk(tree):
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            at, end = span(node.test)
            add(at, end, 'not (%s)' % text[at:end])
        elif isinstance(node, ast.Return) and node.value is not None:
            add(*span(node.value), 'None')
        elif isinstance(node, (ast.Assign, ast.AugAssign)) or isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if node.col_offset:
                add(*span(node), 'pass')
    return sorted(found)


class Mutant:
    def __init__(self, file, text, at, old, new, nth):
        self.file, self.at, self.old, self.new = file, at, old, new
        self.number = text.count('\n', 0, at) + 1
        self.line = text.split('\n')[self.number - 1].strip()
        change = '%s -> %s' % (' '.join(old.split()), ' '.join(new.split()) or 'nothing')
        self.change = change if nth == 1 else '%s #%d' % (change, nth)
        self.id = '%s | %s | %s' % (file, self.change, self.line)

    def text(self, text):
        return text[:self.at] + self.new + text[self.at + len(self.old):]


def in_order(mutants, seed):
    """The order in which samples take them."""
    rank = lambda m: hashlib.sha256(('%s|%s' % (seed, m.id)).encode()).digest()
    return sorted(mutants, key=rank)


def mutants_of(file, text, seed):
    """All mutants of a file with this text, in the order in which samples take them."""
    seen, all_of_them = {}, []
    for at, old, new in (python_mutations if file.endswith('.py') else mutations)(text):
        m = Mutant(file, text, at, old, new, 1)
        seen[m.id] = seen.get(m.id, 0) + 1
        all_of_them.append(Mutant(file, text, at, old, new, seen[m.id]))
    return in_order(all_of_them, seed)
