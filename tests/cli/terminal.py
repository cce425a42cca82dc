#!/usr/bin/env python3
"""mgpt repl in a terminal: what Tab completes, and the prompt after Ctrl-Z and fg. And what bash, zsh and fish complete
after `mgpt`, those of them that are here."""
import os
import pty
import select
import shutil
import signal
import subprocess
import tempfile
import termios
import time

from checks import finish, holds

MGPT, ROOT = os.environ["MGPT"], os.environ["MGPT_SOURCE_ROOT"]


class Terminal:
    rest = b""  # what was printed after what the last read waited for

    def __init__(self, directory, prompt, *command):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.environ.update(TERM="xterm", LC_ALL="C.UTF-8", PS1=prompt)
            os.execvp(command[0], command)
        self.prompt = prompt
        self.read(prompt)

    def read(self, expected, seconds=30, wanted=True):
        """What is printed until `expected` is, or the time is over, which fails where it is wanted."""
        seen, end = self.rest, time.time() + seconds
        while expected.encode() not in seen and time.time() < end:
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    seen += os.read(self.fd, 4096)
                except OSError:  # it has ended
                    break
        self.rest = seen.partition(expected.encode())[2]
        if wanted and expected.encode() not in seen:
            holds(f"{expected!r} is printed", False, repr(seen))
        return seen.decode("utf-8", "replace")

    def keys(self, text, expected):
        self.rest = b""
        os.write(self.fd, text.encode())
        return self.read(expected)

    def complete(self, typed, completed, drop="\x15"):
        rest = completed[len(typed):].rstrip(" ")
        check(f"Tab: {typed}", self.keys(typed + "\t", rest), rest)
        self.keys(drop, self.prompt)  # the line is dropped


def check(name, seen, expected):
    holds(name, expected in seen, f"expected {expected!r} in {seen!r}")


def shown_first(*arguments):
    """What is printed up to the first "%" of a command, which is then ended."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(MGPT, [MGPT, *arguments])
    t = Terminal.__new__(Terminal)
    t.fd = fd
    seen = t.read("%")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(fd)
    return seen


def on_terminal(*arguments):
    """The exit code and what is printed."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(MGPT, [MGPT, *arguments])
    seen = b""
    while select.select([fd], [], [], 10)[0]:
        try:
            seen += os.read(fd, 4096)
        except OSError:  # it has ended
            break
    return os.waitpid(pid, 0)[1], seen


def asking(directory, name, *more):
    """A conversion of a fixture that asks, at its first question."""
    t = Terminal.__new__(Terminal)
    t.pid, t.fd = pty.fork()
    if t.pid == 0:
        os.execv(MGPT, [MGPT, "convert", "--ask", os.path.join(ROOT, "tests/fixtures/torch", name), os.path.join(directory, "asked.gguf"), *more])
    t.first = t.read("> ")
    return t


with tempfile.TemporaryDirectory() as directory:
    for folder in "folder", "bin":
        os.mkdir(os.path.join(directory, folder))
    os.symlink(os.path.abspath(MGPT), os.path.join(directory, "bin/mgpt"))
    os.environ["PATH"] = os.path.join(directory, "bin") + os.pathsep + os.environ["PATH"]
    for file in ["folder/one.session", "folder/.hidden", "table.txt", "with space", "né1", "nè2"]:
        open(os.path.join(directory, file), "w").close()
    t = Terminal(directory, "0> ", MGPT, "repl", os.path.join(ROOT, "weights/names.gguf"))
    check("at the prompt keys are read one by one", str(termios.tcgetattr(t.fd)[3] & termios.ICANON), "0")
    for typed, completed in [("/atte", "/attention "), ("/loa", "/load "), ("/load fo", "/load folder/"),
                             ("/load folder/o", "/load folder/one.session "), ("/load folder/.h", "/load folder/.hidden "),
                             ("/save ta", "/save table.txt "), ("/save\x16\tta", "/save\x16\ttable.txt "),
                             ("/a 0\x16\t0 -o\x16\tta", "/a 0\x16\t0 -o\x16\ttable.txt "),
                             ("/a 0 0 -o ta", "/a 0 0 -o table.txt "), ("/w tok", "/w token_embd.weight "),
                             ("/weight tok", "/weight token_embd.weight "), ("/set te", "/set temp "), ("/trace on blocks.0.attn.hook_pat", "/trace on blocks.0.attn.hook_pattern "),
                             ("/trace on logits ta", "/trace on logits table.txt ")]:
        t.complete(typed, completed)
    check("what two names begin with ends between characters", t.keys("/load n\té\t", "1 "), "1 ")
    t.keys("\x15", "0> ")
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
    # Bracketed paste: several lines are one text, those of commands are lines of their own.
    t = Terminal(directory, "0> ", MGPT, "repl", os.path.join(ROOT, "weights/shakespeare.gguf"))
    t.keys("\x1b[200~So\rit\tis\n\x1b[201~", "is")  # a tab completes nothing; it is not in the vocabulary
    check("a pasted text has its control characters", t.keys("\r", "0> "), "U+0009 at byte 5")
    t.keys("\x1b[200~a\\b\rc\x1b[201~", "c")
    t.keys("\r", "0> ")
    check("a pasted backslash is two in the history", t.keys("\x1b[A\r", "U+005C"), r'/feed a\\b\nc')
    t.read("0> ")
    t.keys("\x1b[200~Ay\rno\r\x1b[201~", "no")
    seen = t.keys("\r", "6> ")
    check("... and its line ends", seen, r'fed 6: "A" "y" "\n" "n" "o" "\n"')
    seen = t.keys("\x1b[A\r", "12> ")
    check("... and so it is in the history", seen, r'/feed Ay\nno\n')
    check("... from where it runs", seen, r'"A" "y" "\n" "n" "o" "\n"')
    t.keys("\x1b[200~/b 2\r/tokens\r\x1b[201~", "tokens")
    seen = t.keys("\r", '"  ahead')
    check("pasted commands run one by one", seen, "10 of 256, 2 ahead")
    check("... each of them", seen, '"  ahead')
    t.read("\x1b[?2004h10> ")  # before it the terminal itself echoes keys and takes Ctrl-C
    t.keys("\x1b[200~So\rit", "it")
    t.keys("\x03", "\x1b[?2004h10> ")  # what is typed before the next prompt is a part of the line that Ctrl-C ends
    check("Ctrl-C ends a paste: Enter is Enter again", t.keys("/top 1\r", "entropy"), "entropy")
    t.read("\x1b[?2004h10> ")
    seen = t.keys("abc\x03/top 1\r", "entropy")
    check("what is typed right after Ctrl-C is the next line", seen, "entropy")
    t.read("\x1b[?2004h10> ")
    for _ in range(100):  # as soon as a key is shown: the program may not wait for the next one yet
        t.keys("x", "x")
        ended = t.keys("\x03", "\x1b[?2004h10> ")
        if not ended:
            break
    check("no Ctrl-C is lost", ended, "10> ")
    # A command that takes seconds: Ctrl-C ends it, SIGTERM ends the program, too.
    t.keys("/feed " + "so it is " * 20 + "\r", "190> ")
    os.write(t.fd, b"/why\r")
    t.read("metric", 1, wanted=False)
    check("Ctrl-C ends a command", t.keys("\x03", "190> "), "190> ")
    os.write(t.fd, b"/why\r")
    t.read("metric", 1, wanted=False)
    os.kill(t.pid, signal.SIGTERM)
    check("SIGTERM ends a command and no prompt follows", str("190> " in t.read("190> ", 10, wanted=False)), "False")
    ended, until = (0, 0), time.time() + 10
    while ended[0] == 0 and time.time() < until:
        time.sleep(0.02)
        ended = os.waitpid(t.pid, os.WNOHANG)
    check("... as its sender sees", str(ended), str((t.pid, signal.SIGTERM.value)))
    shells = {"bash": ("bash", "--norc", "--noprofile", "-i"), "zsh": ("zsh", "-f", "-i")}
    for shell in filter(shutil.which, shells):
        t = Terminal(directory, "sh> ", *shells[shell])
        if shell == "zsh":
            t.keys("autoload -U compinit; compinit -u -D; setopt no_list_beep\r", "sh> ")
        t.keys(f"source <(mgpt completions {shell}); echo do''ne\r", "done")
        t.read("sh> ")
        for typed, completed in [("mgpt gene", "mgpt generate "), ("mgpt help tok", "mgpt help tokenize "),
                                 ("mgpt generate --samp", "mgpt generate --samples "),
                                 ("mgpt generate --rng py", "mgpt generate --rng python "),
                                 ("mgpt generate --kv=q", "mgpt generate --kv=q8_0 "),
                                 ("mgpt trace --hooks logits,ln_f", "mgpt trace --hooks logits,ln_final.hook_normalized "),
                                 ("mgpt info fol", "mgpt info folder"), ("mgpt score -f ta", "mgpt score -f table.txt ")]:
            t.complete(typed, completed, "\x15\r")
        check(f"{shell}: no file for a number", t.keys("mgpt generate --first ta\t.", "."), "--first ta\a.")
        t.keys("\x15exit\r", "exit")
        os.waitpid(t.pid, 0)
    if shutil.which("fish"):
        for typed, completed in [("gene", "generate"), ("generate --samp", "--samples"), ("generate --kv ", "q8_0"),
                                 ("generate --kv=q", "--kv=q8_0"), ("info fol", "folder/"), ("generate --first ta", "")]:
            ask = f"mgpt completions fish | source; complete -C 'mgpt {typed}' | cut -f 1"
            seen = subprocess.run(["fish", "--no-config", "-c", ask], cwd=directory, stdout=subprocess.PIPE, text=True).stdout
            check(f"fish: {typed}", f"\n{seen}", f"\n{completed}\n" if completed else "\n")
            check("... and no file where none fits", str("table.txt" in seen), "False")
    names = os.path.join(ROOT, "weights/names.gguf")
    code, seen = on_terminal("convert", names, os.path.join(directory, "x.gguf"))
    check("a conversion on a terminal", str(code), "0")
    check("... says what it wrote", seen.decode(), "x.gguf: 4192 weights")
    check("... and has no progress where it is short", str(b"%" in seen), "False")
    lines = "".join(chr(97 + i * j * j % 26) for i in range(1, 1001) for j in range(1, 61))
    texts = os.path.join(directory, "texts.txt")
    with open(texts, "w") as file:
        file.writelines(lines[i:i + 60] + "\n" for i in range(0, len(lines), 60))
    shakespeare = os.path.join(ROOT, "weights/shakespeare.gguf")
    for words in (("score", shakespeare, "-f", texts), ("check", "--self", shakespeare)):
        check(f"{words[0]} that takes long shows how far it is", shown_first(*words), " %")
    samples = "generate", names, "--samples", "30", "-s", "3"
    piped = subprocess.run([MGPT, *samples], stdout=subprocess.PIPE, text=True, check=True).stdout
    check("samples that grow on a terminal", on_terminal(*samples)[1].decode().replace("\r\n", "\n"), piped)
    # Facts that are not in the file are asked for, one after the other; a number or a name answers.
    t = asking(directory, "freecodecamp/model.pth")
    check("--ask: the activation", t.first, "the activation of the MLP")
    check("... what is no answer", t.keys("tanh\r", "name> "), "'tanh' is no answer")
    check("... by its name; the order of the norms", t.keys("relu\r", "name> "), "the order of the norms")
    check("... by its number; the scale", t.keys("2\r", "name> "), "what the scores of attention are divided by")
    check("... and the file is written", t.keys("head\r", "weights, F32"), "asked.gguf")
    os.waitpid(t.pid, 0)
    ref = os.path.join(ROOT, "tests/fixtures/torch/freecodecamp/ref.npz")
    check("... and computes what the program computes",
          str(os.spawnv(os.P_WAIT, MGPT, [MGPT, "check", os.path.join(directory, "asked.gguf"), ref])), "0")
    # Heads must divide the width. What another answer settles is not asked for.
    for name, answers in (("own-words/model.pt", "5 1.5 3 gelu_erf pre head sinusoidal none heads"),
                          ("rms-lecture/model.pth", "relu pre head layer"), ("rotated/model.pt", "silu pre head rms 1e-6 half 10000")):
        t = asking(directory, name)
        *first, last = answers.split()
        for word in first:
            seen = t.keys(word + "\r", "> ")
            if word in ("5", "1.5"):
                check(f"{word} heads", seen, f"'{word}' is no answer")
        check(f"--ask {name}", t.keys(last + "\r", "weights, F32"), "asked.gguf")
        os.waitpid(t.pid, 0)
    t = asking(directory, "freecodecamp/model.pth", "--lora", names)
    for word in "relu", "post":
        t.keys(word + "\r", "> ")
    check("the answered file is read with its adapters", t.keys("head\r", "expected 'adapter'"), "expected 'adapter'")
    os.waitpid(t.pid, 0)
    # With a terminal on one side only nothing is asked: nobody would see the question, or could answer it.
    for off in "</dev/null", "2>/dev/null":
        pid, fd = pty.fork()
        if pid == 0:
            os.execvp("sh", ["sh", "-c", f'timeout --foreground 20 "$0" convert --ask "$1" "$2" {off}; echo "code $?"', MGPT,
                             os.path.join(ROOT, "tests/fixtures/torch/freecodecamp/model.pth"), os.path.join(directory, "no.gguf")])
        t = Terminal.__new__(Terminal)
        t.fd = fd
        check(f"--ask {off} is refused", t.read("code 2"), "code 2")
        os.waitpid(pid, 0)
finish()
