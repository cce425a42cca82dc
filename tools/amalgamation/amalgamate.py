"""Joins the library to mgpt.c, with a copy of mgpt.h: cc -O2 -I. main.c mgpt.c -lm -lpthread.

usage: amalgamate.py OUTPUT_FOLDER COMPILE_COMMANDS.json SOURCE.c...

The sources are those that every machine compiles; the ISA levels are src/kernels/isa and fused_isa.c. Each source is
a unit: its text with the headers in TEMPLATES, which depend on the unit, in place of their #include lines. All other
headers come once, before the units. Names of file scope that two units define, as the preprocessor's output has
them, get the name of the unit at their end; names that units share become mgpt_i_NAME. The units of an ISA level are
inside pragmas for its instructions. Kernels take almost all of the time to compile: PARTS lets several compilers
share them.
"""
import collections
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SRC = ROOT / 'src'
TEMPLATES = re.compile(r'.*_tmpl\.h|.*\.inc|kernels/simd/.*|kernels/isa/.*\.h')
INCLUDE = re.compile(r'^ *# *include +(?:"(.*?)"|<(.*?)>|(VEC_FILE_OF\(ISA\))).*\n', re.M)
DEFINE = re.compile(r'^ *# *define +(\w+)', re.M)
X86, ARM = 'defined(__x86_64__)', 'defined(__aarch64__)'
# Of a level: where it is, its instructions as the target attribute has them.
AVX512 = 'avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c'
LEVELS = {
    'avx2': (X86, 'avx2,fma,f16c'), 'avx512': (X86, AVX512), 'avx512vnni': (X86, AVX512 + ',avx512vnni'),
    'amx': ('defined(MGPT_AMX)', AVX512 + ',avx512vnni'), 'neon': (ARM, ''),
    'neon_dot': ('defined(MGPT_NEON_DOT)', 'arch=armv8.2-a+dotprod')}
MACHINES = [['-D__x86_64__', '-DMGPT_AMX'], ['-D__aarch64__', '-DMGPT_NEON_DOT']]
# Other system headers are everywhere.
ONLY = {'immintrin.h': X86, 'cpuid.h': X86, 'arm_neon.h': ARM, 'wasm_simd128.h': 'defined(__wasm__)',
        'sys/auxv.h': 'defined(__linux__)', 'sys/sysctl.h': 'defined(__APPLE__)',
        'sys/syscall.h': 'defined(__linux__)', 'pcre2.h': 'defined(MGPT_PCRE2)', 'sys/file.h': '!defined(_WIN32)',
        'sys/mman.h': '!defined(_WIN32)', 'io.h': 'defined(_WIN32)', 'windows.h': 'defined(_WIN32)'}
FUSED = 'fused_isa.c'
# The part that compiles a unit of an ISA level, where it is not the first: parts take about the same time.
PARTS = {'avx2': 2, 'int_avx2': 2, 'neon': 2, 'avx512': 3, 'int_avx512': 3, 'int_neon': 3,
         'fused_isa_avx2': 4, 'fused_isa_avx512': 4, 'fused_isa_neon': 4}
SPLIT = {'tok_split.c': 'defined(MGPT_PCRE2)', 'no_split.c': '!defined(MGPT_PCRE2)',
         'tok_regex.c': 'defined(MGPT_PCRE2)', 'no_regex.c': '!defined(MGPT_PCRE2)', 'outfile_left.c': '!defined(_WIN32)'}

HEAD = '''\
/* mgpt {version} in one file, made from its sources by tools/amalgamation/amalgamate.py.
 *
 *     cc -O2 -I. main.c mgpt.c -lm -lpthread
 *
 * or in four parts, which a machine compiles at the same time:
 *
 *     for part in 1 2 3 4; do cc -O2 -I. -DMGPT_PART=$part -c mgpt.c -o mgpt$part.o & done; wait
 *     cc -O2 -I. main.c mgpt[1-4].o -lm -lpthread
 *
 * On Windows (MinGW-w64): x86_64-w64-mingw32-gcc -O2 -Wa,-muse-unaligned-vector-move -I. main.c mgpt.c -lpthread -static
 * Without that option of the assembler it uses no AVX, since gcc aligns vectors on the stack wrongly there.
 *
 * C11, gcc or clang. It is faster with -O3 from clang, and on machines other than x86-64 and aarch64. mgpt.h is the
 * manual. Models with a BPE vocabulary need PCRE2: -DMGPT_PCRE2 and -lpcre2-8.
 * Logits have the same bits with any option but -ffast-math, its parts, and -ffp-contract=fast of clang.
 *
{licence}
 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#if !defined(_FILE_OFFSET_BITS)
#define _FILE_OFFSET_BITS 64
#endif
#if defined(_WIN32) && !defined(__USE_MINGW_ANSI_STDIO)
#define __USE_MINGW_ANSI_STDIO 1
#endif
#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#if !defined(_WIN32_WINNT)
#define _WIN32_WINNT 0x0A00
#endif
#endif
#if defined(__FAST_MATH__)
#error "mgpt: logits would have other bits with -ffast-math"
#endif
#if defined(__linux__) && defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 11)
#define MGPT_AMX
#endif
#if defined(__linux__) && defined(__aarch64__)
#define MGPT_NEON_DOT
#endif
#if !defined(__linux__)
#define MGPT_NO_FALLOCATE
#endif
#if defined(__x86_64__)
#define FUSED_LEVELS LEVEL(scalar) LEVEL(avx2) LEVEL(avx512)
#elif defined(__aarch64__)
#define FUSED_LEVELS LEVEL(scalar) LEVEL(neon)
#else
#define FUSED_LEVELS LEVEL(scalar)
#endif
#if !defined(MGPT_PART)
#define MGPT_PART 0 /* everything */
#endif
#define STBDS_NO_SHORT_NAMES
#if MGPT_PART <= 1
#define STB_DS_IMPLEMENTATION
#endif
#define PCRE2_CODE_UNIT_WIDTH 8
'''
# Sums are not contracted to fused multiply-adds, and no code reads errno or the floating-point exception flags.
ARITHMETIC = '''
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#pragma clang diagnostic ignored "-Wunused-function"
#else
#pragma GCC optimize("fp-contract=off", "no-math-errno", "no-trapping-math")
#endif
#if MGPT_PART > 1 /* tables of other parts */
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#endif
'''
# What runs for each token: at -O2 of gcc prompts take twice as long. The rest, and scalar kernels, compile in two thirds
# of the time at -O2.
FAST = '''\
#if !defined(__clang__)
#pragma GCC {0}
#endif
'''
TARGET = '''\
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("{0}"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("{0}")
#endif
#undef fmaf /* there is an instruction */
'''
TARGET_END = '''\
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#if defined(_WIN32)
#define fmaf spec_fmaf
#endif
'''

Unit = collections.namedtuple('Unit', 'path isa condition target')


def read(path):
    return pathlib.Path(path).read_text(encoding='utf-8')


# ---- names of file scope, out of what the preprocessor prints ----

TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\d[\w.]*|\S')


def group_end(tokens, i):
    """The index after the bracket that closes the one at i."""
    depth = 0
    while True:
        depth += (tokens[i] in '([{') - (tokens[i] in ')]}')
        i += 1
        if depth == 0:
            return i


def declared(tokens):
    """(name, is external) of the names that a declaration or definition at file scope adds. A tag is 'struct NAME'."""
    plain, i = [], 0
    while i < len(tokens):
        if tokens[i] in ('__attribute__', '_Alignas', '__asm__'):
            i = group_end(tokens, i + 1)
        elif tokens[i] == '{':
            end = group_end(tokens, i)
            if len(plain) > 1 and plain[-2] in ('struct', 'union', 'enum'):
                yield ('struct ' + plain[-1], False)
            if 'enum' in plain[-2:]:
                inside = ['{', *tokens[i + 1:end - 1]]
                yield from ((b, False) for a, b in zip(inside, inside[1:]) if a in '{,' and re.match(r'[A-Za-z_]', b))
            plain.append('{}')
            i = end
        else:
            plain.append(tokens[i])
            i += 1
    is_external = 'static' not in plain and 'typedef' not in plain
    before = plain[:plain.index('=')] if '=' in plain else plain
    if '_Static_assert' in plain or 'extern' in plain:
        return
    if '(' in before:  # a function, a type of functions, or a pointer to one
        at = before.index('(')
        yield (next(t for t in before[at + 1:] if t not in ('*', 'const')) if before[at + 1] == '*' else before[at - 1],
               is_external)
    elif '[' in before:
        yield (before[before.index('[') - 1], is_external)
    elif len(before) > 1 and before[-1] != '{}' and before[-2] not in ('struct', 'union', 'enum'):
        yield (before[-1], is_external)


def file_scope(text):
    """Declarations and definitions, as lists of tokens."""
    tokens, start, i = TOKEN.findall(text), 0, 0
    while i < len(tokens):
        if tokens[i] in ('(', '[', '{'):
            is_body = tokens[i] == '{' and i > start and tokens[i - 1] == ')'
            i = group_end(tokens, i)
            if is_body:
                yield tokens[start:i]
                start = i
        elif tokens[i] == ';':
            yield tokens[start:i]
            start = i = i + 1
        else:
            i += 1


def names_of(compiler, stubs, path, defines, own):
    """{name: is external} of what the files `own` have at file scope, on either machine. System headers are empty."""
    found = {}
    for machine in MACHINES:
        command = [*compiler, '-E', '-undef', '-nostdinc', '-w', '-I', SRC, '-I', ROOT / 'include', '-I', stubs,
                   '-D__GNUC__=4', '-DFUSED_LEVELS=', *machine, *defines, path]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        parts = re.split(r'^# \d+ "(.*?)".*\n', text, flags=re.M)
        for tokens in file_scope(''.join(t for p, t in zip(parts[1::2], parts[2::2]) if p in own)):
            found.update(declared(tokens))
    return found


def all_names(compiler, units, headers, shared, stb):
    """names_of for each unit, and for what they share."""
    with tempfile.TemporaryDirectory() as stubs:
        everything = pathlib.Path(stubs, 'all.c')
        everything.write_text(''.join('#include "%s"\n' % p for p in [stb, *shared]), encoding='utf-8')
        for name in {*system_headers([stb, *headers, *(u.path for u in units)]), 'stb_ds.h'}:
            pathlib.Path(stubs, name).parent.mkdir(exist_ok=True)
            pathlib.Path(stubs, name).touch()
        templates = {str(h) for h in headers if is_template(h)}
        common = names_of(compiler, stubs, everything, ['-DSTB_DS_IMPLEMENTATION', '-DSTBDS_NO_SHORT_NAMES'],
                          {str(p) for p in [stb, *shared]})
        return common, {u: names_of(compiler, stubs, u.path, ['-DISA=' + u.isa] if u.path.name == FUSED else [],
                                    {str(u.path)} | templates) for u in units}


# ---- text ----

def system_headers(paths):
    return {m[2] for p in paths for m in INCLUDE.finditer(read(p)) if m[2] and not (SRC / m[2]).exists()}


def own_headers(path, seen):
    """Appends to `seen` all headers below src/ and include/ that a file needs, each after those that it needs."""
    for m in INCLUDE.finditer(read(path)):
        found = [d / m[1] for d in (SRC, ROOT / 'include') if m[1] and (d / m[1]).exists()]
        for header in sorted((SRC / 'kernels/simd').glob('vec_*.h')) if m[3] else found:
            if header not in seen:
                own_headers(header, seen)
                seen.append(header)


def is_template(path):
    return path.is_relative_to(SRC) and bool(TEMPLATES.fullmatch(str(path.relative_to(SRC))))


def expand(path, isa, seen):
    """The text of a file with its templates, each guarded one once; lines of other headers are left out."""
    def replace(m):
        name = 'kernels/simd/vec_%s.h' % isa if m[3] else m[1] or ''
        header = SRC / name
        if not name or not is_template(header) or header in seen:
            return ''
        text = expand(header, isa, seen)
        if re.search(r'^#ifndef MGPT_', text, re.M):
            seen.add(header)
        return text
    return INCLUDE.sub(replace, re.sub(r'^#define _\w+_SOURCE.*\n', '', read(path), flags=re.M))


def isa_of(path):
    m = re.search(r'^#define ISA (\w+)', read(path), re.M)
    return m[1] if m else 'scalar'


def all_units(sources):
    def condition(name):
        system = {'posix': '!defined(_WIN32)', 'windows': 'defined(_WIN32)'}
        return SPLIT.get(name) or system.get(name.removesuffix('.c').split('_')[-1])
    units = [Unit(s, 'scalar', condition(s.name), '') for s in sources if s.name != 'stb_ds.c']
    for path in sorted((SRC / 'kernels/isa').glob('*.c')):
        name = path.stem.removeprefix('int_')
        if name in LEVELS:
            units.append(Unit(path, isa_of(path), *LEVELS[name]))
    fused = SRC / 'page' / FUSED
    units.append(Unit(fused, 'scalar', None, ''))
    return units + [Unit(fused, level, *LEVELS[level]) for level in ('avx2', 'avx512', 'neon')]


def stem(unit):
    return unit.path.stem + ('_' + unit.isa if unit.path.name == FUSED else '')


def lines(form, names):
    return ''.join(form.format(n) + '\n' for n in names)


def member_spans(text):
    """Where the names of members are in struct bodies."""
    spans = set()
    for body in re.finditer(r'\b(?:struct|union)(?: \w+)? *\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}', text):
        spans |= {body.start() + m.start(1) for m in re.finditer(r'(\b\w+)[;,[:]', body[0])}
    return spans


def rename(text, names, to):
    """The text with `to` after each of the names. Those that a macro of the text may paste become macros."""
    prefixes = tuple(re.findall(r'(\w+_)##', text))
    pasted = {n for n in names if n.startswith(prefixes)}
    members = member_spans(text)

    def replace(m):
        is_tag = (m[1] or '').endswith(' ')
        key = 'struct ' + m[2] if is_tag else m[2]
        renamed = key in names and key not in pasted and (is_tag or not m[1]) and m.start(2) not in members
        return m[0] + to if renamed else m[0]
    text = re.sub(r'(\.|->|\b(?:struct|union|enum) )?\b([A-Za-z_]\w*)', replace, text)
    return ''.join('#define %s %s%s\n' % (n, n, to) for n in sorted(pasted)) + text


def write_unit(unit, names, twice, taken):
    """names: {name: is external} of the unit; twice: those that others have too; taken: those that macros may not have."""
    text = expand(unit.path, unit.isa, set())
    if unit.path.name == FUSED:
        text = '#define ISA %s\n' % unit.isa + text
    own = {n for n in names if n in twice and not names[n]} | set(DEFINE.findall(text)) & taken
    text = rename(text, own, '_' + stem(unit))
    text += lines('#undef {}', sorted(set(DEFINE.findall(text))))
    if unit.target:
        text = TARGET.format(unit.target) + text + TARGET_END
    if unit.path.parent == SRC / 'run' or unit.condition in {condition for condition, _ in LEVELS.values()}:
        text = FAST.format('push_options\n#pragma GCC optimize("O3")') + text + FAST.format('pop_options')
    condition = '(MGPT_PART == 0 || MGPT_PART == %d)' % PARTS.get(stem(unit), 1)
    if unit.condition:
        condition += ' && (%s)' % unit.condition
    text = '#if %s\n%s#endif\n' % (condition, text)
    return '\n/* ======== %s ======== */\n%s' % (unit.path.relative_to(ROOT), text)


def find_stb(commands):
    """The compiler, and the path of stb_ds.h, by the command that compiles its unit."""
    entry = next(c for c in json.loads(read(commands)) if c['file'].endswith('base/stb_ds.c'))
    words = shlex.split(entry['command'])
    compiler = words[:next(i for i, w in enumerate(words) if w.startswith('-'))]
    made = subprocess.run([*compiler, *(w for w in words if re.match('-I|-isystem|/', w)), '-M', SRC / 'base/stb_ds.c'],
                          check=True, capture_output=True, text=True, cwd=entry['directory']).stdout
    return compiler, pathlib.Path(entry['directory'], re.search(r'\S*stb_ds\.h', made)[0])


def main():
    folder, commands, *sources = sys.argv[1:]
    compiler, stb = find_stb(commands)
    units = all_units([pathlib.Path(s).resolve() for s in sources])
    headers = []
    for unit in units:
        own_headers(unit.path, headers)
    shared = [h for h in headers if not is_template(h) and h.name != 'mgpt.h']
    system = sorted(system_headers([*headers, *(u.path for u in units)]) - {'stb_ds.h', 'mgpt.h'})
    common, names = all_names(compiler, units, headers, shared, stb)
    external = sorted({n for table in [common, *names.values()] for n, is_external in table.items()
                       if is_external and not n.startswith('mgpt_')})
    count = collections.Counter(n for table in [common, *names.values()] for n in table)
    twice = {n for n in count if count[n] > 1}
    taken = set(external) | {n for h in shared for n in DEFINE.findall(read(h))}
    version = re.search(r'MGPT_VERSION "(.*?)"', read(ROOT / 'include/mgpt.h'))[1]
    licence = '\n'.join((' * ' + line).rstrip() for line in read(ROOT / 'LICENSE').strip().split('\n'))
    out = [HEAD.format(version=version, licence=licence)]
    out += ['#if %s\n#include <%s>\n#endif\n' % (ONLY[s], s) if s in ONLY else '#include <%s>\n' % s for s in system]
    out += ['#if defined(_WIN32)\n#undef far\n#undef near\n', *(re.sub('#include "fmaf.h".*', '', read(SRC / 'base' / h)) for h in ('fmaf.h', 'windows.h')),
            '#endif\n']
    out += [ARITHMETIC, lines('#define {0} mgpt_i_{0}', external), read(stb), '\n#include "mgpt.h"\n']
    out += ['\n/* ======== %s ======== */\n%s' % (h.relative_to(ROOT), INCLUDE.sub('', read(h))) for h in shared]
    out += [write_unit(u, names[u], twice, taken) for u in units]
    pathlib.Path(folder, 'mgpt.c').write_text(''.join(out), encoding='utf-8')
    shutil.copy(ROOT / 'include/mgpt.h', folder)
    pathlib.Path(folder, 'mgpt.c.d').write_text('%s: %s\n' % (pathlib.Path(folder, 'mgpt.c'), ' '.join(
        map(str, [*headers, *(u.path for u in units)]))), encoding='utf-8')


if __name__ == '__main__':
    main()
