"""Runs one test of mutate.py: what it is called, its limits, and what became of it."""
import os
import resource
import signal
import subprocess
import time

import kill_matrix

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), '../..'))
LIBRARY, ROWS, PACKAGE = 'tools/python/libmgpt.so', 'tools/python/_rows.py', 'tree/tools/python'
COMPARE = 'tests/npz_compare'  # cli/trace wants it


def program_of(test):
    return 'tools/mgpt' if test.startswith(('cli/', 'python/')) else 'tests/test_' + test.split(':')[0]


def limit(cpu):
    def set_limits():
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 31, 1 << 31))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.setsid()
    return set_limits


def command_of(test, program, work):
    name, *words = test.split(':')
    path = os.path.join(ROOT, 'tests', name)
    if test.startswith('python/'):
        return [os.environ.get('MGPT_PYTHON', 'python3'), '-m', 'pytest', '-q', '-rA', '-p', 'no:cacheprovider',
                *([path + '::' + word for word in words] or [path])]
    if test.startswith('cli/'):
        return ['python3', path, program, os.path.join(ROOT, 'weights')] if name.endswith('.py') \
            else ['sh', path + '.sh', os.path.join(work, os.path.basename(COMPARE))]
    return [program] + words


def wait_for(p, path, wall, first):
    """Its exit code; or, where `first` says so, 1 from the first function on that is printed as failed."""
    end, seen = time.monotonic() + wall, 0
    while time.monotonic() < end:
        try:
            return p.wait(0.1 if first else wall)
        except subprocess.TimeoutExpired:
            size = os.path.getsize(path)
        if size > seen:
            seen = size
            with open(path, errors='replace') as f:
                if kill_matrix.failed('', kill_matrix.functions_of('', f.read())) != ['']:
                    return 1
    return -signal.SIGXCPU


def run_test(test, program, work, cpu, wall, first=False):
    """('' when it passes, else what happened; what its functions did, as kill_matrix.py reads it)."""
    env = dict(os.environ, MGPT_SOURCE_ROOT=ROOT, MGPT=program, TMPDIR=work, MALLOC_CHECK_='3', MGPT_BUILD='/nowhere',
               PYTHONPATH=os.path.join(work, PACKAGE), PYTHONDONTWRITEBYTECODE='1', PYTHONUNBUFFERED='1',
               ASAN_OPTIONS='allocator_may_return_null=1:detect_leaks=1', UBSAN_OPTIONS='halt_on_error=1')
    with open(os.path.join(work, 'output'), 'w+', errors='replace') as output:
        p = subprocess.Popen(command_of(test, program, work), cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=output,
                             stderr=subprocess.STDOUT, preexec_fn=limit(cpu))
        code = wait_for(p, output.name, wall, first)
        try:
            os.killpg(p.pid, signal.SIGKILL)  # and all that it has started
        except ProcessLookupError:
            pass
        p.wait()
        output.seek(0)
        functions = kill_matrix.functions_of(test, output.read())
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return 'time', functions
    return 'failed' if code else '', functions
