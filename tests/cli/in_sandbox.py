"""Whether the commands that read strangers' files are in the sandbox while they work: each is stopped at its
first output (a pipe that is full), where the kernel says what it has given up."""
import ctypes
import os
import subprocess
import sys
import time

if ctypes.CDLL(None).syscall(444, None, 0, 1) < 1:
    print("skipped: no Landlock here")
    sys.exit(0)
mgpt, root, tmp = sys.argv[1:4]
names = root + "/weights/names.gguf"
commands = {
    "info": ["info", names],
    "check": ["check", names, root + "/weights/names.ref.json"],
    "check --self": ["check", "--self", names],
    "trace": ["trace", names, "-p", "a", "-o", tmp + "/x.npz"],
    "patch": ["patch", names, "--clean", "a", "--metric", "kl", "--mode", "zero"],
    "lab": ["lab", names, "-p", "a", "-o", tmp + "/x.html"],
    "convert": ["convert", names, tmp + "/x.gguf"],
    "convert --dry-run": ["convert", names, "--dry-run"],
}


def given_up(pid):
    with open(f"/proc/{pid}/status") as f:
        status = f.read()
    return "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status


def is_in_sandbox(arguments):
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(write, True)
    p = subprocess.Popen([mgpt, *arguments], stdout=write, stderr=write)
    os.close(write)
    end, found = time.time() + 20, False
    while time.time() < end and p.poll() is None and not found:
        found = given_up(p.pid)
        time.sleep(0.005)
    os.close(read)
    p.wait()
    return found


bad = [name for name, arguments in commands.items() if not is_in_sandbox(arguments)]
print("not in the sandbox: " + ", ".join(bad) if bad else "all are in the sandbox")
sys.exit(bool(bad))
