"""Asks an engine: a command for each case, or a process that answers a line for each case. Nothing that an engine does
ends the run: it is answered with a verdict."""
import os
import pathlib
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

PROTOCOL = """\
1. suite run calls CMD once for each case. {model} is a file or directory, {ids} a file, {out} a file to write.
2. {ids} holds decimal token ids, separated by white space. No BOS is to be added.
3. Write raw float32 to {out}, little-endian: the logits of all tokens, one row of vocabulary size for each token.
4. Exit status 0: answered. Any other: refused; the last line on stderr is the reason. A signal: crash.
5. --serve 'CMD' starts CMD once instead. Each line on stdin is: model TAB ids TAB out, and TAB how if there is one.
6. Answer each with a line on stdout: ok, or refused REASON. Exit at the end of stdin. It is started again after a crash.
7. {how}, or the fourth field: another way of computing the same logits. Refuse the ways that the engine has not.
   --step: token by token; --chunk N: N at a time; --batch N: next to N - 1 other texts; --rewind: half, then something
   else, taken back, then the other half; --fork: half, then the other half in a copy of the session.
8. --tokenize: {ids} holds texts, a JSON string on each line. Write one line of ids to {out} for each, without BOS.
9. --hooks NAME,NAME: inner values by TransformerLens' names, one after another, each in its shape there without the batch:
   [T, width], queries and keys [T, heads, d], patterns [heads, T, T]. A refusal is not counted.
10. An answer takes at most 60 s (--timeout S; the first five times that). Numbers may be near (half precision), none missing, none NaN.
    A refusal is honourable, a silent wrong answer is not: refuse what the engine does not implement.
"""
FIRST = 5          # the first answer of a process may take this many times as long: libraries are loaded
LINE_MOST = 65536  # of an answer, in bytes
TAIL = 4096        # of what was printed on stderr, in bytes


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_line(file):
    """The last line that a process printed on stderr."""
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - TAIL))
    lines = file.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip()[-300:] if lines else ""


def kill_group(process):
    """Ends a process and what it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()


def verdict_of(status, said):
    """("ok" | "refused" | "crash", reason) of an exit status. Shells report signals as 128 + number."""
    number = -status if status < 0 else status - 128
    if status == 0:
        return "ok", ""
    if status < 0 or number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGKILL):
        return "crash", signal_name(number) + (f": {said}" if said else "")
    return "refused", said or f"exit status {status}"


class Command:
    """An engine that is started for each case."""

    def __init__(self, words, seconds):
        self.words, self.seconds, self.process = words, seconds, None
        self.has_how = "{how}" in words

    def ask(self, model, ids, out, how):
        paths = {"model": model, "ids": ids, "out": out}
        words = []
        for word in self.words:
            if word == "{how}":
                words += shlex.split(how)
                continue
            for name, path in paths.items():
                word = word.replace("{%s}" % name, str(path))
            words.append(word)
        with tempfile.TemporaryFile() as errors:
            try:
                process = self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                          stderr=errors, start_new_session=True)
            except OSError as failed:
                return "crash", f"{words[0]} cannot be started: {failed.strerror}"
            try:
                status = process.wait(self.seconds)
            except subprocess.TimeoutExpired:
                return "crash", f"time-out: no answer in {self.seconds:g} s"
            finally:
                kill_group(process)
            return verdict_of(status, last_line(errors))

    def close(self):
        """Ends a case that an interrupt has left."""
        if self.process is not None and self.process.poll() is None:
            kill_group(self.process)


class Server:
    """An engine that answers a line for each case. It is started when it is first asked, and again after a crash."""
    has_how = True

    def __init__(self, words, seconds):
        self.words, self.seconds = words, seconds
        self.process = self.errors = None
        self.rest, self.limit = b"", seconds

    def start(self):
        errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                                        start_new_session=True)
        self.errors, self.rest, self.limit = errors, b"", FIRST * self.seconds

    def read_line(self):
        """A line, or why there is none: "time-out" or "end"."""
        end, out = time.monotonic() + self.limit, self.process.stdout.fileno()
        while b"\n" not in self.rest and len(self.rest) < LINE_MOST:
            left = end - time.monotonic()
            if left <= 0 or not select.select([out], [], [], left)[0]:
                return None, "time-out"
            data = os.read(out, LINE_MOST)
            if not data:
                return None, "end"
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode("utf-8", "replace").strip(), ""

    def ended(self):
        """The verdict on a process that ended without an answer."""
        try:
            status = self.process.wait(self.seconds)
        except subprocess.TimeoutExpired:
            status = 0
        said = last_line(self.errors)
        kind, reason = verdict_of(status, said)
        self.stop()
        return "crash", reason if kind == "crash" else f"ended with exit status {status}" + (f": {said}" if said else "")

    def ask(self, model, ids, out, how):
        try:
            if self.process is not None and (self.rest or select.select([self.process.stdout], [], [], 0)[0]):
                self.stop()  # it said more than it was asked for, or has ended
            if self.process is None:
                self.start()
        except OSError as failed:
            return "crash", f"{self.words[0]} cannot be started: {failed.strerror}"
        fields = [str(model), str(ids), str(out)] + ([how] if how else [])
        try:
            self.process.stdin.write(("\t".join(fields) + "\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            return self.ended()
        line, why = self.read_line()
        if why == "end":
            return self.ended()
        if why:
            self.stop()
            return "crash", f"time-out: no answer in {self.limit:g} s"
        self.limit = self.seconds
        answer, _, reason = line.partition(" ")
        if answer == "refused":
            return "refused", reason.strip()[:300] or "no reason given"
        if line == "ok" and not self.rest:
            if not out.exists():
                self.stop()  # an answer too many, perhaps: the next case must not be judged by what comes now
            return "ok", ""
        self.stop()
        return "crash", f"text instead of ok or refused: {(line + ' ' + self.rest.decode('utf-8', 'replace')).strip()[:80]!r}"

    def stop(self):
        if self.process is not None:
            kill_group(self.process)
            for file in (self.process.stdin, self.process.stdout, self.errors):
                try:
                    file.close()
                except BrokenPipeError:
                    pass
            self.process = None

    def close(self):
        """Ends the process by the end of its input, or kills it."""
        if self.process is None:
            return
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            pass
        self.stop()


def find_program(words):
    """Why the program of a command cannot be started, or an empty text."""
    if not words:
        return "the command is empty"
    return "" if shutil.which(words[0]) else f"{words[0]}: not found, or not executable"


def out_file(folder, case):
    """Where the answer to a case is written. An old file there is removed."""
    path = pathlib.Path(folder) / (case["id"].replace("/", "_") + ".out")
    path.unlink(missing_ok=True)
    return path
