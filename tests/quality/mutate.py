#!/usr/bin/env python3
"""Mutation testing: does a test fail when the code is wrong?

One small fault at a time is put into a copy of src/ or tools/; what includes the file is compiled again, the
tests of that file are linked with it and run until one fails, those first that have killed most for their time. A
mutant that no test notices has survived: it asks for a test, or for simpler code, or for a line in
tests/quality/mutants.txt that says why it changes nothing. A file of the Python package is not compiled: pytest
runs its tests (MGPT_PYTHON has pytest and NumPy).

    tests/quality/mutate.py                      25 mutants of each file
    tests/quality/mutate.py -n 0 src/run/kv.c    all of one file
    tests/quality/mutate.py --folder 20 src/run tools/repl    20 mutants of each of these folders
    tests/quality/mutate.py --matrix FILE ...    runs all tests, not until one fails; FILE gets which functions kill what
    tests/quality/mutate.py --slice 140          stops after 140 s; the next run goes on where this one stopped
    tests/quality/mutate.py --most 2             quick tests only: --again then tries the survivors with all
    tests/quality/mutate.py --again              tries the survivors of earlier runs again
    tests/quality/mutate.py --report             the figures so far, and the survivors

Which mutants a sample holds depends on --seed, the lines and the mutations, not on the rest of the file.
Objects are compiled without optimisation; what is linked with them is the release (build-mutants/, made when
missing). A survivor whose optimised objects are those of the code is not a mutant. groups.txt lists files and tests,
mutations.py the changes. Needs Python 3, no packages, and Linux.
"""
import argparse
import collections
import glob
import hashlib
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

import kill_matrix
from mutant_run import COMPARE, LIBRARY, PACKAGE, ROOT, ROWS, program_of, run_test
from mutations import in_order, mutants_of


def read_groups():
    """[(name, tests, files)] of groups.txt. A pattern stands for the files that no line names."""
    groups, patterns = [], []
    with open(os.path.join(ROOT, 'tests/quality/groups.txt')) as f:
        for line in f:
            if line.startswith('    '):
                (patterns if '*' in line else groups[-1][2]).append(line.strip() if '*' not in line else
                                                                    (groups[-1], line.strip()))
            elif ':' in line and not line.startswith('#'):
                name, tests = line.split(':', 1)
                groups.append((name, tests.split(), []))
    for group, pattern in patterns:
        named = {file for _, _, files in groups for file in files}
        paths = sorted(os.path.relpath(p, ROOT) for p in glob.glob(os.path.join(ROOT, pattern)))
        group[2].extend(p for p in paths if p not in named)
    return groups


GROUPS = read_groups()


def known_equivalents():
    """{id: reason} of tests/quality/mutants.txt; a change of `*` means every change of that line."""
    known = {}
    with open(os.path.join(ROOT, 'tests/quality/mutants.txt')) as f:
        for block in re.split(r'\n\s*\n', re.sub(r'^#.*\n', '', f.read(), flags=re.M)):
            lines = block.strip('\n').split('\n')
            ids = [x for x in lines if not x.startswith('    ')]
            for i in ids:
                if i:
                    known[i.strip()] = ' '.join(x.strip() for x in lines if x.startswith('    '))
    return known


def reason_of(known, m):
    return known.get(m.id) or known.get('%s | * | %s' % (m.file, m.line))


# ---- building and running -------------------------------------------------------------------------


class Build:
    """The release that mutants are linked into, and what ninja knows about it."""

    def __init__(self, directory, work):
        self.dir, self.work = directory, work
        if not os.path.exists(os.path.join(directory, 'build.ninja')):
            subprocess.run(['meson', 'setup', directory, ROOT], check=True, stdout=subprocess.DEVNULL)
        programs = {program_of(test) for _, tests, _ in GROUPS for test in tests} | {'tools/mgpt', LIBRARY, ROWS, COMPARE}
        subprocess.run(['ninja', '-C', directory, *sorted(programs)], check=True, stdout=subprocess.DEVNULL)
        self.includers = {}
        target = None
        for line in self.ninja('deps').split('\n'):
            if line and not line.startswith(' '):
                target = line.split(':')[0]
            elif line.strip():
                path = os.path.relpath(os.path.join(directory, line.strip()), ROOT)
                self.includers.setdefault(path, set()).add(target)
        self.commands, self.members = {}, {}

    def ninja(self, tool, *args):
        return subprocess.run(['ninja', '-C', self.dir, '-t', tool, *args], check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def command(self, target):
        """The command that makes a target; its last line of ninja's list."""
        if target not in self.commands:
            last = self.ninja('commands', target).rstrip('\n').split('\n')[-1]
            words = shlex.split(last)
            self.commands[target] = words[1:] if words[0].endswith('ccache') else words
        return list(self.commands[target])

    def objects(self, file):
        """Objects of the library and the tools that hold a file, the quick ones first; not those of lab's pages and Python."""
        wanted = [t for t in self.includers.get(file, ()) if re.match(r'(src|tools)/(?!python/|lab/wasm/).*\.c\.o$', t)]
        return sorted(wanted, key=lambda t: ('avx512' in t, 'avx2' in t, t))

    def compile(self, target, tree, out, flags):
        """Compiles an object from a copy of the tree; returns success."""
        words, kept, skip = self.command(target), [], False
        for w in words:
            if skip or w in ('-MD', '-MQ', '-MF', '-o', '-Werror', '-fstack-protector-strong'):
                skip = w in ('-MQ', '-MF', '-o')
            elif not w.startswith('-O'):
                kept.append(re.sub(r'(^|-I)\.\./(src|tools)\b', r'\g<1>%s/\2' % tree, w))
        kept += ['-w', '-DQUICK_TO_COMPILE', '-o', out, *flags]
        return subprocess.run(kept, cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def is_in(self, archive, target):
        """Whether an object is in an archive, or in one that it was made of."""
        if archive not in self.members:
            self.members[archive] = set(self.ninja('inputs', archive).split())
        return target in self.members[archive]

    def link(self, target, objects, out, sanitize=()):
        """Links a program with [(target, object)]: what is named before the archives is not taken from them."""
        words = self.command(target)
        at = words.index('-o')
        words[at + 1] = out
        archives = [w for w in words if w.endswith('.a')]
        words[at + 2:at + 2] = [o for t, o in objects if t.startswith('src/') or any(self.is_in(a, t) for a in archives)]
        done = subprocess.run(words + list(sanitize), cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        return done.returncode == 0


SANITIZERS = [('-O1', '-fsanitize=address,undefined', '-fno-sanitize-recover=all')]
SANDBOX = ('tools/common/sandbox.c', 'tools/common/sandbox_calls.c')
THREADS = ('-O1', '-fsanitize=thread')  # of what knows of threads


class Runner:
    def __init__(self, build, work, args):
        self.build, self.work, self.all_tests, self.plain, self.most = build, work, args.matrix, args.plain, args.most
        self.kills = collections.Counter()
        self.tree = os.path.join(work, 'tree')
        for folder in ('src', 'tools'):
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(self.tree, folder))
        for binary in (LIBRARY, ROWS, 'tools/mgpt'):
            shutil.copy(os.path.join(build.dir, binary), os.path.join(work, PACKAGE, 'mgpt'))
        shutil.copy(os.path.join(build.dir, COMPARE), work)
        self.controls_path = os.path.join(build.dir, 'controls.json')
        self.controls, self.digests = {}, {}
        if os.path.exists(self.controls_path):
            with open(self.controls_path) as f:
                self.controls = json.load(f)

    def compile_all(self, targets, flags):
        """[(target, object)] of the tree as it is, or None."""
        objects = [(t, os.path.join(self.work, 'm%d.o' % i)) for i, t in enumerate(targets)]
        plain = [w for w in flags if w.startswith('-O')]  # vector ISA levels are not instrumented in CI either
        done = all(self.build.compile(t, self.tree, o, plain if re.search('avx|amx', t) else flags)
                   for t, o in objects)
        return objects if done else None

    def run(self, test, objects, cpu, wall, sanitize=(), first=False):
        program = os.path.join(self.work, 'program')
        if test.startswith('python/'):
            program = os.path.join(self.build.dir, 'tools/mgpt')
        elif not self.build.link(program_of(test), objects, program, sanitize):
            return 'not linked', {}
        return run_test(test, program, self.work, cpu, wall, first)

    def control(self, test):
        """Seconds of the processor that a test takes without a mutant, which it must pass."""
        program = os.path.join(self.build.dir, program_of(test))
        if program not in self.digests:
            with open(program, 'rb') as f:
                self.digests[program] = hashlib.sha256(f.read()).hexdigest()
        if self.controls.get(test, [None])[0] != self.digests[program]:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            result, did = run_test(test, program, self.work, 600, 600)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if result:
                print('%s fails without a mutant: %s' % (test, kill_matrix.failed(test, did)), file=sys.stderr)
                sys.exit(3)
            self.controls[test] = [self.digests[program], sum(after[:2]) - sum(before[:2]), list(did)]
            with open(self.controls_path, 'w') as f:
                json.dump(self.controls, f)
        return self.controls[test][1]

    def in_turn(self, tests):
        """The tests, those first that have killed most for the time that they take; those of groups.txt are quick first."""
        seconds = [self.controls[t][1] if t in self.controls else 2 + 2 * i for i, t in enumerate(tests)]
        return sorted(tests, key=lambda t: (seconds[tests.index(t)] + 0.5) / (1 + self.kills[t]))

    def run_tests(self, tests, objects, times, sanitize=()):
        """What the tests make of objects, in so many times their time: (result, the functions that failed)."""
        results, killers = [], []
        for test in self.in_turn(tests):
            base = self.control(test)
            if base > self.most:
                continue
            result, did = self.run(test, objects, int(times * (2 + 4 * base)), times * (20 + 20 * base), sanitize,
                                   not self.all_tests)
            if result == 'not linked':
                return result, []
            if result:
                self.kills[test] += 1
                results.append(result)
                killers += kill_matrix.failed(test, did)
            if killers and not self.all_tests:
                break
        if not killers:
            return 'survived', []
        return 'killed' if 'failed' in results else 'killed by time', killers

    def optimised(self, targets):
        """The bytes of the objects as an optimising compiler makes them."""
        out = []
        for _, path in self.compile_all(targets, ['-O1']):
            with open(path, 'rb') as f:
                out.append(f.read())
        return out

    def put(self, m, text):
        with open(os.path.join(self.tree, m.file), 'w') as f:
            f.write(text)

    def judge(self, m, text, group):
        """What became of a mutant, and which functions of tests found it."""
        tests, targets = group[1], self.build.objects(m.file)
        times = 3 if m.file.startswith(('src/kernels', 'src/page')) else 1  # what is not optimised there is slow
        try:
            if m.file.endswith('.py'):
                for test in tests:
                    self.control(test)
                self.put(m, m.text(text))
                return self.run_tests(tests, None, times)
            self.put(m, m.text(text))
            objects = self.compile_all(targets, ['-O0'])
            if objects is None:
                return 'not compiled', []
            result, killers = self.run_tests(tests, objects, times)
            if result != 'survived':
                return result, killers
            mutant = self.optimised(targets)
            self.put(m, text)
            if mutant == self.optimised(targets):
                return 'same object', []
            if self.plain:
                return 'survived', []
            # CI runs all tests under the sanitizers as well: they see what is read past an end, what is not
            # freed, and who does not wait for whom.
            self.put(m, m.text(text))
            targets = sorted({*targets, *(o for f in SANDBOX for o in self.build.objects(f))})  # else LeakSanitizer is stopped
            for flags in SANITIZERS + ([THREADS] if m.file == 'src/base/threads.c' else []):
                result, killers = self.run_tests(tests, self.compile_all(targets, flags), 5, flags)
                if result.startswith('killed'):
                    return 'killed by a sanitizer', killers
            return 'survived', []
        finally:
            self.put(m, text)


# ---- the run --------------------------------------------------------------------------------------

DEAD = ('killed', 'killed by time', 'killed by a sanitizer')


def report(files, results, known, verbose):
    """A line for each file, the survivors below; returns the share that was killed."""
    print('%-36s %7s %7s %5s %9s %6s %8s' % ('', 'mutants', 'killed', 'time', 'sanitizer', 'same', 'survived'))
    total, survivors = {}, []
    for file, mutants in files:
        count = {}
        for m in mutants:
            what = results.get(m.id, {}).get('result', 'waiting')
            if what in ('survived', 'waiting') and reason_of(known, m):
                what = 'equivalent'
            count[what] = count.get(what, 0) + 1
            if what == 'survived':
                survivors.append(m)
        for what, n in count.items():
            total[what] = total.get(what, 0) + n
        print_counts(file, count)
    share = print_counts('all', total)
    print('not compiled %d, not linked %d, equivalent by tests/quality/mutants.txt %d, still waiting %d' %
          tuple(total.get(k, 0) for k in ('not compiled', 'not linked', 'equivalent', 'waiting')))
    for m in survivors if verbose else []:
        print('%s:%d  %s\n    %s' % (m.file, m.number, m.change, m.line))
    return share


def print_counts(name, count):
    killed = sum(count.get(k, 0) for k in DEAD)
    judged = killed + count.get('survived', 0)
    share = killed / judged if judged else 1
    print('%-36s %7d %6.1f%% %5d %9d %6d %8d' %
          (name, judged, 100 * share, count.get('killed by time', 0), count.get('killed by a sanitizer', 0),
           count.get('same object', 0), count.get('survived', 0)))
    return share


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('files', nargs='*', help='files, folders or names of groups (%s)' % ', '.join(g[0] for g in GROUPS))
    p.add_argument('-n', type=int, default=25, help='mutants of each file, 0: all')
    p.add_argument('--folder', type=int, metavar='N', help='N mutants of each folder, of all its files, in place of -n')
    p.add_argument('--seed', default='1')
    p.add_argument('--plain', action='store_true', help='no tests under the sanitizers: quicker, and more survive')
    p.add_argument('--most', type=float, default=1e9, metavar='S', help='no test that takes longer; --again tries what lives')
    p.add_argument('--matrix', metavar='FILE', help='run all tests; FILE keeps results and killers')
    p.add_argument('--slice', type=float, default=1e9, help='seconds after which to stop')
    p.add_argument('--again', action='store_true', help='survivors once more')
    p.add_argument('--report', action='store_true', help='run nothing')
    p.add_argument('--build', default=os.path.join(ROOT, 'build-mutants'))
    p.add_argument('--least', type=float, default=90, help='per cent killed, less is exit code 1')
    return p.parse_args()


def chosen(args):
    """[(file, text, mutants, group)]"""
    out = []
    for group in GROUPS:
        for file in group[2]:
            if not args.files or {file, os.path.dirname(file), group[0]} & set(args.files):
                with open(os.path.join(ROOT, file)) as f:
                    text = f.read()
                mutants = mutants_of(file, text, args.seed)
                out.append((file, text, mutants[:args.n] if args.n and not args.folder else mutants, group))
    if not out:
        sys.exit('no such file or group')
    return sample_folders(out, args) if args.folder else out


def sample_folders(work_list, args):
    """The same with the mutants that the sample of each folder takes."""
    folders, out = {}, []
    for file, _, mutants, _ in work_list:
        folders.setdefault(os.path.dirname(file), []).extend(mutants)
    taken = {m.id for mutants in folders.values() for m in in_order(mutants, args.seed)[:args.folder]}
    for file, text, mutants, group in work_list:
        mutants = [m for m in mutants if m.id in taken]
        if mutants:
            out.append((file, text, mutants, group))
    return out


def judge_all(args, work_list, results, known, journal):
    """Judges what has no result yet; returns how many are left when time is up."""
    work = tempfile.mkdtemp(prefix='mut-')
    try:
        start = time.monotonic()
        runner = Runner(Build(args.build, work), work, args)
        for r in results.values():
            runner.kills.update({k.split(': ')[0] for k in r['killers']})
        # One of each file alternately, so that an unfinished run has figures for all.
        turns = sorted((i, n) for n, w in enumerate(work_list) for i in range(len(w[2])))
        waiting = [(work_list[n][2][i], work_list[n][1], work_list[n][3]) for i, n in turns]
        waiting = [w for w in waiting if not reason_of(known, w[0]) and
                   (w[0].id not in results or (args.again and results[w[0].id]['result'] == 'survived'))]
        for i, (m, text, group) in enumerate(waiting):
            if time.monotonic() - start > args.slice:
                return len(waiting) - i
            began = time.monotonic()
            result, killers = runner.judge(m, text, group)
            results[m.id] = {'id': m.id, 'result': result, 'killers': killers, 'group': group[0],
                             'seconds': round(time.monotonic() - began, 2)}
            journal.write(json.dumps(results[m.id]) + '\n')
            journal.flush()
            if result == 'survived':
                print('survived: %s:%d  %s\n    %s' % (m.file, m.number, m.change, m.line), file=sys.stderr)
        return 0
    finally:
        shutil.rmtree(work)


def main():
    args = arguments()
    work_list, known, results = chosen(args), known_equivalents(), {}
    path = args.matrix or os.path.join(args.build, 'mutants.jsonl')
    if os.path.exists(path):
        with open(path) as f:
            for line in f:
                r = json.loads(line)
                results[r['id']] = r
    left = 0
    if not args.report:
        os.makedirs(args.build, exist_ok=True)
        with open(path, 'a') as journal:
            left = judge_all(args, work_list, results, known, journal)
    share = report([(f, ms) for f, _, ms, _ in work_list], results, known, args.report or not left)
    if args.matrix:
        kill_matrix.report([r for _, _, ms, _ in work_list for r in (results.get(m.id) for m in ms) if r], args.build,
                           dict(g[:2] for g in GROUPS))
    if left:
        print('%d are left: run it again' % left)
    return 4 if left else int(100 * share < args.least)


if __name__ == '__main__':
    sys.exit(main())
