#!/usr/bin/env python3
"""Well over a thousand malformed files of every format, through the commands that open files.

    MGPT=build/tools/mgpt MGPT_SOURCE_ROOT=. malformed.py [DIRECTORY]     (the files are kept there)

Each file is wrong in one way that is known, and every run is held to the same: no signal and no sanitizer,
an exit code of 2 to 5 (0 for the repl, which goes on), nothing on stdout, no file left behind, and one line
of fewer than 200 bytes on stderr that names the field and, where `at` says so, the byte. The address space
is that of the idle program, the file and 64 MiB; a second of CPU time is all there is (wall time would
measure the machine). Control files, from which the others are made, must be accepted.

Files that are not GGUF go through their own command, every eighth through the others, which see that much.
Under sanitizers every third file goes through one command in turn, without the limit of memory, which sanitizers
need for themselves. MGPT_MALFORMED=all sets every field of every GGUF file to every odd number, and leaves none out
under sanitizers: minutes;
all:3/8 is the third of eight parts of that.

Standard library only. What makes zip, npy, safetensors and tokenizers is in tests/fuzz/formats.py.
"""
import collections
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from malformed_files import (FIXTURES, MGPT, NAMES, ROOT, TINY_CONFIG, arrays, config_files, get, pickles,  # noqa: E402
                             safetensors, safetensors_files, sessions, simple_files, tiny_tensors, tokenizer_json)
from malformed_packed import packed_files  # noqa: E402
from malformed_gguf import Gguf, cases, controls, gguf_fields, gguf_meaning, good  # noqa: E402
from malformed_hf import adapters, mlx  # noqa: E402

ALL, _, PART = os.environ.get("MGPT_MALFORMED", "").partition(":")
ALL, PART = ALL == "all", [int(n) for n in (PART or "1/1").split("/")]
SANITIZED = os.environ.get("MGPT_SANITIZED") == "1"

seen = collections.Counter()  # what the runs of malformed files came to
longest = 0  # line, in bytes


def make(scratch):
    def convert(source, name, *more):
        path = os.path.join(scratch, name)
        subprocess.run([MGPT, "convert", source, path, *more], check=True, stderr=subprocess.DEVNULL)
        return get(path)
    small = convert(FIXTURES + "/convert/flat.json", "flat.gguf", "--heads", "4")
    llama = convert(FIXTURES + "/convert/v0.bin", "llama.gguf", "--tokenizer", FIXTURES + "/convert/tokenizer.bin")
    tiny = os.path.join(scratch, "tiny")
    os.makedirs(tiny)
    for name, data in (("config.json", json.dumps(TINY_CONFIG).encode()), ("model.safetensors", safetensors(*tiny_tensors())),
                       ("tokenizer.json", tokenizer_json(8))):
        with open(os.path.join(tiny, name), "wb") as f:
            f.write(data)
    bpe = convert(tiny, "bpe.gguf")
    for label, data, every in (("microgpt", small, 1 if ALL else 9), ("llama", llama, 1 if ALL else 29), ("bpe", bpe, 1 if ALL else 29)):
        good(label, {"m.gguf": data}, "gguf")
        good(label + "-again", {"m.gguf": Gguf(data).bytes()}, "gguf")
        gguf_fields(label, data, every)
        gguf_meaning(label, data)
    safetensors_files()
    config_files()
    packed_files()
    adapters()
    mlx()
    simple_files()
    pickles()
    arrays()
    sessions(scratch)


# ---- running ----

def commands(kind, main):
    """The command that the file is for comes first."""
    convert, generate = ["convert", main, "out.gguf"], ["generate", main, "-n", "2", "-t", "1", "-p", "a"]
    info, check = ["info", main], ["check", NAMES, main]
    if kind == "lora":
        return [["convert", ".", "out.gguf", "--lora", main], ["info", ".", "--lora", main]]
    if kind == "gguf":
        return [info, generate, convert, ["check", main, "../ref.json"]]
    if kind == "session":
        return [["repl", NAMES]]
    return [check, info, generate] if kind == "ref" else [convert, info, generate]


def idle_bytes():
    """Address space of a program that has a small model open."""
    p = subprocess.Popen([MGPT, "repl", NAMES, "-t", "1"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    p.stdin.write(b"/none\n")
    p.stderr.readline()
    pages = int(get(f"/proc/{p.pid}/statm").split()[0])
    p.communicate(b"")
    return pages * os.sysconf("SC_PAGESIZE")


def run(directory, files, kind, argv):
    room = (IDLE + sum(map(len, files.values())) + (64 << 20)) // 1024
    limits = "ulimit -t 1; " if not SANITIZED else "ulimit -t 10; "
    if IDLE and not SANITIZED:
        limits += f"ulimit -v {room}; "
    text = b"/load s.session\n" if kind == "session" else b""
    return subprocess.run(["sh", "-c", limits + 'exec "$@"', "sh", MGPT] + argv, cwd=directory, input=text,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)


def count(r):
    global longest
    seen["runs"] += 1
    seen["signals"] += r.returncode < 0 or r.returncode > 128
    seen["sanitizer lines"] += len(re.findall(rb"Sanitizer:|runtime error", r.stderr))
    seen[f"exit {r.returncode}"] += 1
    longest = max([longest] + [len(line) for line in r.stderr.split(b"\n")])


def judge(r, kind, field, at, proper):
    """What is wrong with a run of a malformed file, or nothing."""
    count(r)
    lines = r.stderr.decode("utf-8", "replace").split("\n")
    said = [line for line in lines[:-1] if not line.startswith("mgpt: options belong to the conversion: mgpt convert ")]
    if not 2 <= r.returncode <= 5:
        return f"exit code {r.returncode}"
    if lines[-1] or len(said) != 1 or not said[0].startswith("mgpt: "):
        return f"{len(said)} lines"
    if r.stdout:
        return "something on stdout"
    if len(said[0].encode()) >= 200:
        return f"a line of {len(said[0].encode())} bytes"
    if re.search(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffd]", said[0]):
        return "a control character"
    if proper and not re.search(field, said[0]):
        return f"no '{field}'"
    if proper and at and not re.search(r"byte \d+", said[0]):
        return "no byte"
    return None


def try_case(scratch, number, case):
    name, files, kind, field, at = case
    directory = os.path.join(scratch, re.sub(r"[^\w.-]", "_", f"{number}-{name}")[:100])
    os.makedirs(directory)
    for file, data in files.items():
        with open(os.path.join(directory, file), "wb") as f:
            f.write(data)
    main = "." if kind == "hf" else next(iter(files))
    if number % 16 == 0 and kind == "gguf":  # a line has room for what is wrong, however far away the file is
        main = "./" * 80 + main
    wrong, all_commands = [], list(enumerate(commands(kind, main)))
    if SANITIZED:
        all_commands = [all_commands[number % len(all_commands)]]
    elif kind != "gguf" and number % 8:  # info and generate convert it in memory, which is the same work
        all_commands = all_commands[:1]
    for i, argv in all_commands:
        try:
            r = run(directory, files, kind, argv)
        except subprocess.TimeoutExpired:
            seen["hangs"] += 1
            wrong.append(f"{name}: {' '.join(argv)}: hangs")
            continue
        fault = judge(r, kind, field, at, kind == "gguf" or i == 0)
        if set(os.listdir(directory)) != set(files):
            fault = fault or "leaves a file behind"
            for left in set(os.listdir(directory)) - set(files):
                os.remove(os.path.join(directory, left))
        if fault:
            wrong.append(f"{name}: {' '.join(argv)}: {fault}: {r.returncode} {r.stderr[:400]!r}")
    if not KEEP:
        shutil.rmtree(directory)
    return wrong


def try_control(scratch, number, control):
    name, files, kind = control
    directory = os.path.join(scratch, f"control-{number}-{name}")
    os.makedirs(directory)
    for file, data in files.items():
        with open(os.path.join(directory, file), "wb") as f:
            f.write(data)
    argv = commands(kind, "." if kind == "hf" else next(iter(files)))
    wrong = []
    for a in argv[:3] if kind == "gguf" else argv[:1]:
        r = run(directory, files, kind, a)
        if a[0] == "generate" and "character" in r.stderr.decode("utf-8", "replace"):
            continue  # an "a" is not in every vocabulary
        if r.returncode not in ((0, 1) if kind == "ref" else (0,)) or (kind == "session" and r.stderr):
            wrong.append(f"control {name}: {' '.join(a)}: {r.returncode} {r.stderr[:400]!r}")
    return wrong


def main():
    scratch = tempfile.mkdtemp(prefix="mgpt-malformed-")
    where = KEEP or scratch
    try:
        make(scratch)
        os.makedirs(where, exist_ok=True)
        shutil.copy(os.path.join(ROOT, "weights/names.ref.json"), os.path.join(where, "ref.json"))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            wrong = list(pool.map(lambda c: try_control(where, *c), enumerate(controls)))
            chosen = cases[::3] if SANITIZED and not ALL else cases[PART[0] - 1::PART[1]]
            wrong += list(pool.map(lambda c: try_case(where, *c), enumerate(chosen)))
    finally:
        shutil.rmtree(scratch)
    wrong = [line for lines in wrong for line in lines]
    for line in wrong:
        print("#", line)
    print(f"# {len(chosen)} of {len(cases)} malformed files, {len(controls)} control files")
    print("# " + ", ".join(f"{what} {seen[what]}" for what in ["runs", "signals", "hangs", "sanitizer lines"] +
                           sorted(s for s in seen if s.startswith("exit"))) + f"; longest line {longest} bytes")
    print("not ok 1" if wrong or len(cases) < 900 else "ok 1", "malformed files")
    print("1..1")
    return 1 if wrong else 0


KEEP = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else None
IDLE = idle_bytes()
sys.exit(main())
