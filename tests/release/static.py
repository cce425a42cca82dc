"""The static program in an empty root, as root and as a user: static.py STATIC MGPT. What it prints must be what MGPT prints here.

Who may not have another root runs it in a folder. Another machine's program runs under qemu-user
where RUNNER names it.
"""
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(os.environ["MGPT_SOURCE_ROOT"])
RUNNER = os.environ.get("RUNNER", "").split()
BITS = {"names": "092da0f84bfcf144", "shakespeare": "25b9cfe007c02879"}
COMMANDS = (
    ["generate", "names.gguf", "-p", "an", "--seed", "5"],
    ["info", "names.gguf", "--isa", "scalar"],  # else it names the machine's
    ["score", "names.gguf", "-f", "names.txt"],
    ["convert", "model.json", "OUT.gguf", "--heads", "4"],
    ["repl", "names.gguf"],  # its lines: TYPED
    ["repl", "names.gguf", "--help"],
    ["generate", "absent.gguf"],
)
TYPED = "anna\n/lens\n/kv 0 0\n/quit\n"
failed = 0


def may_enter():
    """Whether this user may have another root: containers can forbid it to theirs."""
    pid = os.fork()
    if pid == 0:
        try:
            os.chroot("/")
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


ROOTED = may_enter()


def check(what, ok, *more):
    global failed
    failed += not ok
    print("ok" if ok else "not ok", what, *(more if not ok else ()), flush=True)


def enter(folder, user):
    """For preexec_fn: into the folder as the root of the file system, where that is allowed."""
    def go():
        os.chdir(folder)
        if ROOTED:
            if not RUNNER:
                os.chroot(".")
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
    return go


def said(folder, user, program, words):
    done = subprocess.run([*program, *words], input=TYPED, capture_output=True, text=True, preexec_fn=enter(folder, user), timeout=3600 if RUNNER else 900,
                          env={"HOME": "/", "LANG": "de_DE.ISO-8859-1"})
    return done.returncode, done.stdout, done.stderr


def typed(folder, program, terminal, keys):
    """What a terminal shows while keys are typed into the repl, each when the output before is complete."""
    pid, handle = pty.fork()
    if pid == 0:
        enter(folder, 0)()
        os.execve(program[0], [*program, "repl", "names.gguf"], {"TERM": terminal, "HOME": "/"})
    output, end = b"", time.monotonic() + 120

    def read(until):
        nonlocal output
        begin = len(output)
        while until not in output[begin:] and time.monotonic() < end and select.select([handle], [], [], 5)[0]:
            try:
                data = os.read(handle, 4096)
            except OSError:
                return
            output += data
    read(b"> ")
    for key, until in keys:
        os.write(handle, key.encode())
        read(until.encode())
    os.close(handle)
    os.waitpid(pid, 0)
    return output.decode(errors="backslashreplace")


def main(static, mgpt):
    done = subprocess.run(["ldd", static], capture_output=True, text=True)
    check("needs no library", RUNNER or "statically linked" in done.stdout or "not a dynamic executable" in done.stderr, done.stdout)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        folder.chmod(0o777)
        shutil.copy(static, folder / "mgpt")
        for name in BITS:
            shutil.copy(ROOT / f"weights/{name}.gguf", folder)
        shutil.copy(ROOT / "tests/fixtures/convert/state_dict.json", folder / "model.json")
        (folder / "names.txt").write_text("anna\nbob\n")
        program = [*RUNNER, str(folder / "mgpt")] if RUNNER or not ROOTED else ["/mgpt"]
        for user in (0, 12345) if ROOTED else (os.getuid(),):
            few = slice(None if user == 0 or not ROOTED else 1)
            for name, bits in list(BITS.items())[few]:
                code, out, err = said(folder, user, program, ["check", "--self", f"{name}.gguf"])
                check(f"user {user}: the bits of {name}", code == 0 and out.splitlines()[-1][:16] == bits, code, out, err)
            for words in COMMANDS[few]:
                (folder / "OUT.gguf").unlink(missing_ok=True)
                ours = said(folder, user, program, words), (folder / "OUT.gguf").exists() and (folder / "OUT.gguf").read_bytes()
                (folder / "OUT.gguf").unlink(missing_ok=True)
                there = subprocess.run([mgpt, *words], input=TYPED, capture_output=True, text=True, cwd=folder, env={"HOME": "/"})
                theirs = (there.returncode, there.stdout, there.stderr), (folder / "OUT.gguf").exists() and (folder / "OUT.gguf").read_bytes()
                want = 5 if "absent.gguf" in words else 0
                check(f"user {user}: {' '.join(words)}", ours == theirs and ours[0][0] == want, ours[0], theirs[0])
        if not RUNNER and ROOTED:
            keys = (("n\u00e9", "\u00e9"), ("\x1b[D", "\b"), ("X", "X"), ("\x7f\x1b[C\x7f\n", "> "), ("/quit\n", "never"))
            shown = typed(folder, program, "xterm-256color", keys)
            check("a terminal shows characters, not bytes, and its keys move", "\u00e9" in shown and "\\303" not in shown and "\x1b[" in shown, repr(shown))
            check("no word about the terminal", "termcap" not in shown and "terminal type" not in shown, repr(shown))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(*map(os.path.abspath, sys.argv[1:3]))
