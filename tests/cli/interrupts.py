"""Ctrl-C ends every long command. It leaves no file and no unfinished table behind, but keeps the session that was asked for.

interrupts.py MGPT SOURCE [SECONDS]. Runs each command on a model of 44 million weights and interrupts it after some
processor time. The exit is 130, or death by the signal where nothing is to be saved. Prints the most processor time that a
command took to end; with SECONDS, more than these are an error too (0.1 is the aim: what remains is freeing memory).
"""
import math
import os
import signal
import subprocess
import sys
import tempfile
import time

MGPT, SOURCE = os.path.abspath(sys.argv[1]), sys.argv[2]
LIMIT = float(sys.argv[3]) if len(sys.argv) > 3 else math.inf
TIMES = 0.25, 0.6
IDS = ','.join(str((7 * i * i + 3 * i) % 4000) for i in range(500))
NOISE = '{"input": [%s], "logits": [%s]}' % (', '.join(map(str, range(12))), ', '.join(
    '[%s]' % ', '.join(str((t * 31 + i * i * 7) % 101 / 10) for i in range(8192)) for t in range(12)))


def commands(model):
    yield 'bench', model
    yield 'bench', '--kernels', 'F32'
    yield 'lab', model, '--max', '200', '-o', 'lab.html', '--ids', '1,2,3'
    yield 'lab', model, '--static', '-o', 'lab.html', '--ids', IDS[:200].rpartition(',')[0]
    yield 'trace', model, '--ids', IDS, '-o', 'trace.npz'
    yield 'patch', model, '--why', '--clean', IDS[:400].rpartition(',')[0], '--metric', 'logprob:5'
    yield 'convert', model, 'out.gguf', '--type', 'Q4_K'
    yield 'generate', model, '--ids', '1,2,3', '-n', '400', '--samples', '50'
    yield 'check', '--self', '--full', model
    yield 'check', model, 'noise.json', '--explain'
    yield 'check', model, model, '-n', '500'


def used(process):
    """Seconds of the processor, of all threads."""
    return time.clock_gettime((~process.pid << 3) | 2)  # CPUCLOCK_SCHED, as clock_getcpuclockid has it


def after_interrupt(arguments, at):
    """(exit code, seconds used from the signal on, whether it was running)"""
    with open('printed', 'wb') as out:  # a job in the background of a shell ignores SIGINT, and so would mgpt
        process = subprocess.Popen([MGPT, *arguments], stdout=out, stderr=subprocess.DEVNULL,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    try:
        while (before := used(process)) < at:
            if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return process.wait(), 0, False
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage.ru_utime + usage.ru_stime - before, True
    finally:
        if process.returncode is None:
            process.kill()
            process.wait()


def main():
    n = bad = most = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run([sys.executable, SOURCE + '/tests/quality/release_model.py', 'model.gguf'], check=True)
        with open('noise.json', 'w') as f:
            f.write(NOISE)
        for arguments in commands('model.gguf'):
            for at in TIMES:
                n += 1
                code, seconds, running = after_interrupt(arguments, at)
                most = max(most, seconds)
                half = arguments[0] == 'bench' and os.path.getsize('printed')  # of a table
                if code not in (130, -signal.SIGINT) or seconds > LIMIT or not running or half:
                    bad += 1
                    print('not ok', *(word[:20] for word in arguments), 'at %g s: exit %d, %.0f ms after it' % (at, code, 1e3 * seconds))
        # What was drawn is kept for the next run.
        code, _, running = after_interrupt(('generate', 'model.gguf', '--ids', '1,2,3', '-n', '400', '--session', 'kept'), TIMES[1])
        n += 1
        if code != 130 or not running or not os.path.exists('kept'):
            bad += 1
            print('not ok generate --session: exit %d, kept: %s' % (code, os.path.exists('kept')))
        left = [name for name in os.listdir() if name not in ('model.gguf', 'noise.json', 'printed', 'kept')]
    print(n, 'interrupts', bad, 'bad, at most %.0f ms' % (1e3 * most), 'left:' if left else '', *left)
    return bool(bad or left)


sys.exit(main())
