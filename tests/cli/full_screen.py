"""mgpt repl --screen full in a terminal of its own: what its panes show is what the commands print, keys, sizes, and the terminal
as it was after q, Ctrl-C, Ctrl-Z, a crash and SIGTERM. The terminal is a model of the few sequences that are written."""
import fcntl
import itertools
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unicodedata

from checks import finish, holds, run_text

ROOT, MGPT = os.environ["MGPT_SOURCE_ROOT"], os.environ["MGPT"]
NAMES, LINES = ROOT + "/weights/names.gguf", ROOT + "/weights/shakespeare.gguf"
SEQUENCE = re.compile(rb"\x1b\[(\??[\d;]*)([A-Za-z])")
class Screen:
    """Cells of a terminal: characters, reversed or not, background; which buffer is shown, whether the cursor is."""

    def __init__(self, rows, cols):
        self.other = False  # the alternate buffer
        self.cursor = True
        self.draws = 0
        self.resize(rows, cols)

    def resize(self, rows, cols):
        self.rows, self.cols, self.row, self.col = rows, cols, 0, 0
        self.reverse, self.ground = False, None
        self.clear()

    def clear(self):
        self.cells = [[" "] * self.cols for _ in range(self.rows)]
        self.reversed = [[False] * self.cols for _ in range(self.rows)]
        self.grounds = [[None] * self.cols for _ in range(self.rows)]

    def feed(self, data):
        """Takes bytes; returns those of an unfinished sequence or character."""
        at = 0
        while at < len(data):
            byte = data[at:at + 1]
            if byte == b"\x1b":
                m = SEQUENCE.match(data, at)
                if not m:
                    assert len(data) - at < 32, "an unknown sequence: %r" % data[at:at + 32]
                    return data[at:]
                self.sequence(m[1].decode(), m[2].decode())
                at = m.end()
                continue
            n = 1 if byte < b"\x80" else 2 if byte < b"\xe0" else 3 if byte < b"\xf0" else 4
            if len(data) < at + n:
                return data[at:]
            self.put(data[at:at + n].decode())
            at += n
        return b""

    def put(self, c):
        if c in "\r\n":
            self.col, self.row = (0, self.row) if c == "\r" else (self.col, min(self.row + 1, self.rows - 1))
            return
        assert c.isprintable(), repr(c)
        width = 2 if unicodedata.east_asian_width(c) in "WF" else 1
        assert self.col + width <= self.cols, "%r beyond the last column of row %d" % (c, self.row)
        self.cells[self.row][self.col] = c
        self.reversed[self.row][self.col], self.grounds[self.row][self.col] = self.reverse, self.ground
        self.col += width

    def sequence(self, numbers, letter):
        if letter == "H":
            row, col = ([int(x) for x in numbers.split(";")] + [1, 1])[:2] if numbers else (1, 1)
            assert 1 <= row <= self.rows and 1 <= col <= self.cols, (numbers, self.rows, self.cols)
            self.row, self.col = row - 1, col - 1
        elif letter == "J":
            self.draws += 1
            self.clear()
        elif letter == "K":
            self.cells[self.row] = [" "] * self.cols
        elif letter == "m":
            if numbers in ("", "0"):
                self.reverse, self.ground = False, None
            elif numbers == "7":
                self.reverse = True
            elif numbers.startswith("48;"):
                self.ground = numbers
        elif letter in "hl" and numbers in ("?1049", "?25"):
            setattr(self, "other" if numbers == "?1049" else "cursor", letter == "h")
        else:
            raise AssertionError("an unknown sequence: %s%s" % (numbers, letter))

    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]


def lead(tell, term, command):
    """As a shell: runs a command in a process group of its own, which Ctrl-Z can stop, and tells its id and each status."""
    os.environ.update(TERM=term, LC_ALL="C.UTF-8")
    for name in ("COLORTERM", "NO_COLOR"):
        os.environ.pop(name, None)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        while fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)) == bytes(8):  # View sets the size
            time.sleep(0.001)
        os.execv(command[0], command)
    os.write(tell, struct.pack("i", pid))
    while True:
        status = os.waitpid(pid, os.WUNTRACED)[1]
        os.write(tell, struct.pack("i", status))
        if not os.WIFSTOPPED(status):
            os._exit(0)


class View:
    def __init__(self, model=NAMES, rows=24, cols=80, term="xterm-256color", options=()):
        self.screen, self.rest = Screen(rows, cols), b""
        self.told, tell = os.pipe()
        leader, self.fd = pty.fork()
        if leader == 0:
            lead(tell, term, [MGPT, "repl", model, "--screen", "full", *options])
        os.close(tell)
        self.before = termios.tcgetattr(self.fd)
        self.pid = self.number()
        self.size(rows, cols)
        self.settle(1)

    def number(self):
        """The next that the leader tells: the program's id, then its statuses."""
        return struct.unpack("i", os.read(self.told, 4))[0]

    def size(self, rows, cols):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def settle(self, draws=0, seconds=20):
        """Reads until the screen has been drawn so often, and nothing more comes; or until the program ends."""
        draws += self.screen.draws
        end = time.time() + seconds
        while time.time() < end:
            if not select.select([self.fd], [], [], 0.05)[0]:
                if self.screen.draws >= draws:
                    break
                continue
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                break
            self.rest = self.screen.feed(self.rest + data)
        return self.screen.lines()

    def keys(self, text):
        """A line that begins with a colon is drawn when it ends; other keys one by one."""
        os.write(self.fd, text.encode())
        return self.settle(1 if text[0] == ":" else len(re.sub(r"\x1b\[.", "k", text)))

    def end(self):
        """How it ended, and whether the terminal is as before."""
        status = self.number()
        self.settle(0)
        return status, not self.screen.other and self.screen.cursor and termios.tcgetattr(self.fd) == self.before


def piped(*typed, model=NAMES, width=80):
    return run_text(MGPT, "repl", model, "--width", width, text="".join(t + "\n" for t in typed)).stdout.splitlines()


def column(lines, first, last, rows):
    return [line[first:last].rstrip() for line in lines[rows]]


def pane(lines, rows, cols, head=0):
    """What is to be seen of a command's lines: the first `head`, then the end."""
    skipped = max(len(lines) - rows, 0)
    return [line[:cols].rstrip() for i, line in enumerate(lines) if i < head or i >= head + skipped]


def main():
    v = View(term="xterm")
    lines = v.screen.lines()
    holds("the title", lines[0] == "names.gguf main: 1 of 16 tokens, layer 0, head 0, temp 0", lines[0])
    holds("the other buffer, without a cursor", v.screen.other and not v.screen.cursor)
    holds("the text", lines[1] == "<BOS>" and lines[2:5] == [""] * 3, lines[1:5])
    want = piped("/top 7")
    holds("the next token is /top", column(lines, 0, 48, slice(5, 14)) == [w[:48].rstrip() for w in want], "\n".join(lines))
    holds("... with a chosen one", v.screen.reversed[6][0] and not v.screen.reversed[7][0])
    holds("keys", lines[23].startswith("space draw, enter take, u undo"), lines[23])
    lines = v.keys(":anna\r")
    holds("a typed line is text", lines[1] == "<BOS>anna" and "5 of 16" in lines[0], "\n".join(lines))
    holds("... and says what it did", lines[23].startswith('fed 4: "a" "n" "n" "a"'), lines[23])
    holds("the next token follows", column(lines, 0, 48, slice(5, 14)) == [w[:48].rstrip() for w in piped("anna", "/top 7")[1:]])
    holds("attention is /a", column(lines, 48, 80, slice(5, 14)) == pane(piped("anna", "/a 0 0", width=32)[1:], 9, 32, 3), "\n".join(lines))
    cache = piped("anna", "/kv 0 0", width=39)[1:]
    split = [i for i, line in enumerate(cache) if line.endswith(": values")][0]
    holds("the cache is /kv: keys", column(lines, 0, 39, slice(14, 23)) == pane(cache[:split], 9, 39, 4), "\n".join(lines + cache))
    holds("... and values", column(lines, 40, 79, slice(14, 23))[:len(cache) - split] == pane(cache[split:], 9, 39, 2), "\n".join(cache))
    lines = v.keys("\x1b[C\x1b[C")
    holds("right: the head after", "head 2" in lines[0] and column(lines, 48, 80, slice(5, 14)) == pane(
        piped("anna", "/a 0 2", width=32)[1:], 9, 32, 3), "\n".join(lines))
    lines = v.keys("\x1b[D")
    holds("left: the one before; [ and ] are layers", "head 1" in lines[0] and "layer 0" in v.keys("]")[0])
    before = v.screen.lines()
    lines = v.keys(" ")
    holds("space draws", lines[1] == "<BOS>annal" and "6 of 16" in lines[0] and "rank 1" in lines[23], "\n".join(lines))
    lines = v.keys("u")
    holds("u undoes: all but the message is as before", lines[1:23] == before[1:23] and "5 of 16, 1 ahead" in lines[23], "\n".join(lines))
    holds("r takes it again", v.keys("r")[1] == "<BOS>annal")
    v.keys("u")
    lines = v.keys("\x1b[B\x1b[B\x1b[A\x1b[B")
    holds("down and up choose", v.screen.reversed[8][0] and not v.screen.reversed[6][0])
    third = lines[8][:48].split()[-1].strip('"')
    holds("enter takes the chosen", v.keys("\r")[1] == "<BOS>anna" + third and v.screen.reversed[6][0])
    lines = v.keys(":/tokens\r")
    want = piped("anna" + third, "/tokens")[1:]
    holds("a command's lines are shown", [line.rstrip() for line in lines[14:14 + len(want)]] == [w.rstrip() for w in want], "\n".join(lines))
    holds("an error is a line", "did you mean /top?" in v.keys(":/tpo\r")[23])
    lines = v.keys(":xyz\x7f\x7f\x1b")
    holds("escape drops a line", lines[1] == "<BOS>anna" + third)
    holds("... backspace a character", v.keys(":xyz\x7f\x7f\r")[1].endswith(third + "x"))
    v.size(30, 100)
    v.screen.resize(30, 100)
    lines = v.settle(1)
    holds("a larger terminal", "7 of 16" in lines[0] and lines[29].startswith("fed 1") and column(lines, 0, 48, slice(5, 17))[:12] == [
        w[:48].rstrip() for w in piped("anna" + third + "x", "/top 10")[2 - 1:]], "\n".join(lines))
    v.size(20, 60)
    v.screen.resize(20, 60)
    lines = v.settle(1)
    holds("a smaller one: a line", lines == ["80 x 24 are needed, here are 60 x 20; q ends"] + [""] * 19, "\n".join(lines))
    v.size(24, 1)
    v.screen.resize(24, 1)
    v.settle(1)
    holds("... of one column: a line is typed unseen", v.keys(":xy\x1b")[0] == "8")
    v.size(24, 80)
    v.screen.resize(24, 80)
    holds("... and back", "7 of 16" in v.settle(1)[0])
    os.write(v.fd, b"q")
    holds("q ends it, the terminal as before", v.end() == (0, True))

    v = View(model=LINES)
    v.keys(":First Citizen: Before we proceed any further, hear me speak.\r")
    shown = [float(line.split()[2]) for line in piped("First Citizen: Before we proceed any further, hear me speak.", "/tokens", model=LINES)[3:-1]]
    grounds = v.screen.grounds[1][1:len(shown) + 1]
    sorted_by = [g for _, g in sorted(zip(shown, grounds))]
    holds("the text is coloured by surprisal: colours are in its order", len(shown) == 59 and len(list(itertools.groupby(sorted_by))) == len(
        set(sorted_by)) > 5 and sorted_by[0] != sorted_by[-1] and v.screen.grounds[1][0] is None, list(zip(shown, grounds)))
    lines = v.keys(":/feed " + "\\n" * 150 + "All: Speak.\r")
    holds("a long text: its end", lines[4].endswith("\\nAll: Speak.") and all(len(line) == 80 and "First" not in line for line in lines[1:4]), "\n".join(lines))
    lines = v.keys("]")
    holds("another layer", "layer 1" in lines[0])
    os.write(v.fd, b"\x03")
    status, restored = v.end()
    holds("Ctrl-C ends it with 130, the terminal as before", os.waitstatus_to_exitcode(status) == 130 and restored)

    v = View()
    v.keys(":ann\r")
    os.write(v.fd, b"\x1a")
    stopped = v.number()
    v.settle(0)
    holds("Ctrl-Z stops it, the terminal as before", os.WIFSTOPPED(stopped) and not v.screen.other and v.screen.cursor and
          termios.tcgetattr(v.fd) == v.before)
    os.kill(v.pid, signal.SIGCONT)
    lines = v.settle(1)
    holds("... and fg draws it again", v.screen.other and lines[1] == "<BOS>ann" and not termios.tcgetattr(v.fd)[3] & termios.ICANON)
    holds("... keys too", v.keys(" ")[1] == "<BOS>anna")
    os.kill(v.pid, signal.SIGSEGV)
    status, restored = v.end()
    holds("a crash leaves the terminal as before", os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSEGV and restored)
    v = View()
    os.kill(v.pid, signal.SIGTERM)
    status, restored = v.end()
    holds("SIGTERM too", os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM and restored)
    v = View()
    for _ in range(150):  # more draws than the terminal takes before they are read: signals meet a blocked write
        os.kill(v.pid, signal.SIGWINCH)
        time.sleep(0.005)
    data, draws = b"", []
    while select.select([v.fd], [], [], 0.3 if len(set(draws)) == 1 else 10)[0]:
        data += os.read(v.fd, 65536)
        draws = data.split(b"\x1b[0m\x1b[2J")[1:]
    holds("signals lose nothing of a draw", 1 < len(draws) < 150 and len(set(draws)) == 1, [len(d) for d in draws])
    v.keys(":/quit\r")
    holds("/quit ends it", v.end() == (0, True))
    p = run_text(MGPT, "repl", NAMES, "--screen", "full", text="")
    holds("without a terminal it is refused", p.returncode == 2 and "needs a terminal" in p.stderr and not p.stdout)
    terminal, end = pty.openpty()
    for streams in {"stdin": end, "stdout": subprocess.PIPE}, {"stdin": subprocess.DEVNULL, "stdout": end}:
        p = subprocess.run([MGPT, "repl", NAMES, "--screen", "full"], stderr=subprocess.PIPE, timeout=60, **streams)
        holds("... with half of one as well", p.returncode == 2 and b"needs a terminal" in p.stderr and not p.stdout)
    finish()


main()
