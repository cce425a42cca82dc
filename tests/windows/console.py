"""Ctrl-C in a console: console.py PROGRAM NAMES LARGE, run by wine. NAMES: names.gguf; LARGE: what tests/quality/release_model.py
writes. A pseudo-terminal is the console, which makes of its byte 3 the event that Windows sends.

generate ends with 130 in the middle of its texts. In the repl a command ends and the prompt comes back. While it waits for
a line, two of them do not end it: the next line is taken. ReadConsole of wine 8 does not return at them, as that of Windows
does, so there is no new prompt here.
"""
import os
import pty
import re
import select
import sys
import termios
import time

WAIT = 120  # seconds for a machine that is busy; more is an error
CTRL_C = b"\x03"
failed = 0


def check(what, ok, output):
    global failed
    failed += not ok
    print("ok" if ok else "not ok", what, *([] if ok else [output[-600:]]), flush=True)


class Console:
    def __init__(self, *words):
        self.output, self.end = b"", time.monotonic() + WAIT
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvp("wine", ["wine", *words])
        modes = termios.tcgetattr(self.terminal)
        modes[0] &= ~termios.ICRNL  # Enter is a carriage return, also before wine sets its modes
        termios.tcsetattr(self.terminal, termios.TCSANOW, modes)

    def read(self):
        """Adds to output; False at the end of the program."""
        if not select.select([self.terminal], [], [], 1)[0]:
            return time.monotonic() < self.end
        try:
            data = os.read(self.terminal, 65536)
        except OSError:
            return False
        self.output += data
        return bool(data)

    def until(self, text):
        """Reads until the text comes after what was read before; whether it came."""
        begin = len(self.output)
        while text not in self.output[begin:]:
            if not self.read():
                return False
        return True

    def type(self, keys):
        os.write(self.terminal, keys)

    def type_line(self, line):
        """After the prompt was shown, wine still has to begin to read."""
        time.sleep(2)
        self.type(line + b"\r")

    def code(self):
        """The exit code once it has ended; None if it runs on."""
        while self.read():
            pass
        if time.monotonic() >= self.end:
            os.kill(self.pid, 9)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.terminal)
        return code if time.monotonic() < self.end else None


def generate(program, model):
    console = Console(program, "generate", model, "--samples", "100000000", "--temp", "0.5")
    check("generate writes", console.until(b"aliza"), console.output)
    console.type(CTRL_C)
    code = console.code()
    check(f"Ctrl-C ends generate with 130: {code}", code == 130, console.output)


def repl(program, model):
    console = Console(program, "repl", model)
    check("the repl asks", console.until(b"0>"), console.output)
    console.type_line(b"/ids 1 2 3")
    check("it takes a line", console.until(b"3>"), console.output)
    console.type_line(b"/until p > 2")
    check("/until draws", console.until(b"6293 6293"), console.output)
    console.type(CTRL_C)
    came = console.until(b">")
    at = re.findall(rb"(\d+)>", console.output)[-1]
    check(f"Ctrl-C ends a command before the context of 512 is full, not the repl: {at}", came and 3 < int(at) < 512, console.output)
    time.sleep(2)
    for _ in range(2):
        console.type(CTRL_C)
        time.sleep(1)
    console.type_line(b"/ids 1")
    check("after two Ctrl-C at the prompt it takes a line", console.until(b"%d>" % (int(at) + 1)), console.output)
    console.type_line(b"/quit")
    code = console.code()
    check(f"the repl ends with 0: {code}", code == 0, console.output)


def main(program, names, large):
    generate(program, names)
    repl(program, large)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
