#!/usr/bin/env python3
"""mgpt repl in a terminal: what Tab completes, and the prompt after Ctrl-Z and fg."""
import os
import pty
import select
import signal
import sys
import tempfile
import termios
import time

MGPT, ROOT = os.environ["MGPT"], os.environ["MGPT_SOURCE_ROOT"]
results = []


class Terminal:
    def __init__(self, directory):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
            os.execv(MGPT, [MGPT, "repl", os.path.join(ROOT, "weights/names.gguf")])
        self.read("0> ")

    def read(self, expected, seconds=10):
        """What is printed until `expected` is, or the time is over."""
        seen, end = b"", time.time() + seconds
        while expected.encode() not in seen and time.time() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    seen += os.read(self.fd, 4096)
                except OSError:  # it has ended
                    break
        return seen.decode("utf-8", "replace")

    def keys(self, text, expected):
        os.write(self.fd, text.encode())
        return self.read(expected)


def check(name, seen, expected):
    ok = expected in seen
    results.append(ok)
    print("ok" if ok else "not ok", len(results), name)
    if not ok:
        print(f"#   expected {expected!r} in {seen!r}")


with tempfile.TemporaryDirectory() as directory:
    os.mkdir(os.path.join(directory, "folder"))
    for file in ["folder/one.session", "table.txt", "with space"]:
        open(os.path.join(directory, file), "w").close()
    t = Terminal(directory)
    for typed, completed in [("/atte", "/attention "), ("/loa", "/load "), ("/load fo", "/load folder/"),
                             ("/load folder/o", "/load folder/one.session "), ("/save ta", "/save table.txt "),
                             ("/a 0 0 -o ta", "/a 0 0 -o table.txt "), ("/w tok", "/w token_embd.weight "),
                             ("/weight tok", "/weight token_embd.weight "), ("/set te", "/set temp ")]:
        rest = completed[len(typed):].rstrip(" ")
        check(f"Tab: {typed}", t.keys(typed + "\t", rest), rest)
        t.keys("\x15", "0> ")  # the line is dropped
    check("a directory is completed without a space", t.keys("/load fo\to\t", "ne.session"), "ne.session")
    t.keys("\x15", "0> ")
    t.keys("ann", "ann")
    os.kill(t.pid, signal.SIGSTOP)
    os.waitpid(t.pid, os.WUNTRACED)
    shells = termios.tcgetattr(t.fd)
    shells[3] |= termios.ICANON | termios.ECHO
    termios.tcsetattr(t.fd, termios.TCSANOW, shells)
    os.kill(t.pid, signal.SIGCONT)
    check("the prompt and the line are drawn after SIGCONT", t.read("0> ann"), "0> ann")
    check("... and keys are read one by one", str(termios.tcgetattr(t.fd)[3] & termios.ICANON), "0")
    check("... and the line goes on", t.keys("a\r", "5> "), 'fed 5: <BOS> "a" "n" "n" "a"')
    t.keys("quit\r", "\n")
    check("quit ends it", str(os.waitpid(t.pid, 0)[1]), "0")
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(MGPT, [MGPT, "convert", os.path.join(ROOT, "weights/names.gguf"), os.path.join(directory, "x.gguf")])
    seen = b""
    while select.select([fd], [], [], 10)[0]:
        try:
            seen += os.read(fd, 4096)
        except OSError:  # it has ended
            break
    check("a conversion on a terminal", str(os.waitpid(pid, 0)[1]), "0")
    check("... says what it wrote", seen.decode(), "x.gguf: 4192 weights")
    check("... and has no progress where it is short", str(b"%" in seen), "False")
print(f"1..{len(results)}")
sys.exit(not all(results))
