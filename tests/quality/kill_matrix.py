"""Which functions of the tests kill which mutants. See mutate.py --matrix."""
import collections
import json
import os
import re

LINE = re.compile(r'^(?:\[ +(OK|FAILED) +\] ([A-Za-z_]\w*)|(ok|not ok) (\d+ .*)|(PASSED|FAILED|ERROR) \S*?::(\S+).*)$', re.M)


def functions_of(test, output):
    """{function: passed} of what cmocka, a script of tests/cli or pytest has printed."""
    return {'%s: %s' % (test, b or d or f): (a or c or e) in ('OK', 'ok', 'PASSED')
            for a, b, c, d, e, f in LINE.findall(output)}


def failed(test, functions):
    """The functions that failed, or the whole test: it ended before it could name one."""
    return [name for name, passed in functions.items() if not passed] or [test]


def report(records, build, tests):
    """Tests that alone kill something, and functions of them that killed nothing of these mutants."""
    with open(os.path.join(build, 'controls.json')) as f:
        controls = json.load(f)
    kills, alone, seen = collections.Counter(), collections.Counter(), collections.Counter()
    for r in records:
        tests = {k.split(': ')[0] for k in r['killers']}
        kills.update(tests | set(r['killers']))
        for names in tests, set(r['killers']) - tests:
            alone.update(names if len(names) == 1 else ())
        seen[r['group']] += 1
    functions = {f for group in seen for t in tests[group] for f in controls.get(t, [0, 0, []])[2]}
    print('\n%-32s %9s %7s %7s %12s' % ('test', 'functions', 'kills', 'alone', 'kill nothing'))
    for test in sorted({f.split(': ')[0] for f in functions} | {k for k in kills if ': ' not in k}):
        own = [f for f in functions if f.startswith(test + ': ')]
        print('%-32s %9d %7d %7d %12d' % (test, len(own), kills[test], alone[test], sum(kills[f] == 0 for f in own)))
    print('%d of %d functions are the only killer of a mutant, %d kill with others only, %d kill nothing:' %
          (sum(alone[f] > 0 for f in functions), len(functions),
           sum(kills[f] > 0 and alone[f] == 0 for f in functions), sum(kills[f] == 0 for f in functions)))
    for f in sorted(functions):
        if kills[f] == 0:
            print('    ' + f)
