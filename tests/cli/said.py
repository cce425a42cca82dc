"""What said.sh asks of files.

said.py show FILE...: what is in a file that mgpt wrote: arrays of an .npz, .npy or .safetensors file with their numbers,
the words and tables of a page, the text of any other file.
said.py make FOLDER: models and inputs of the runs that need more than a line of shell.
said.py missing MGPT FOLDER: options of commands (--help) and commands of the repl (/help all) that no run has.
Standard library only.
"""
import ast
import html
import io
import json
import math
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import zipfile

sys.dont_write_bytecode = True
from checks import gguf_with_keys  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORMATS = {"<f4": "f", "<f2": "e", "<f8": "d", "<i4": "i", "<i8": "q", "F32": "f", "F16": "e", "I32": "i", "I64": "q"}
COMMANDS = ("generate", "repl", "check", "trace", "patch", "attend", "lab", "score", "tokenize", "info")


def print_array(name, shape, kind, data):
    values = struct.unpack("<%d%s" % (len(data) // struct.calcsize(FORMATS[kind]), FORMATS[kind]), data)
    print(name, list(shape), kind)
    width = shape[-1] if shape else 1
    for i in range(0, len(values), width):
        print(" ", " ".join("%.4g" % v for v in values[i:i + width]))


def print_npy(name, data):
    n = struct.unpack_from("<H", data, 8)[0]
    header = ast.literal_eval(data[10:10 + n].decode())
    kind = header["descr"]
    if kind in FORMATS:
        print_array(name, header["shape"], kind, data[10 + n:])
    else:  # text
        print(name, list(header["shape"]), kind, data[10 + n:].replace(b"\0", b""))


def print_safetensors(data):
    n = struct.unpack_from("<Q", data)[0]
    for name, found in json.loads(data[8:8 + n]).items():
        if name == "__metadata__":
            print(name, {k: v for k, v in found.items() if "version" not in k})
        else:
            print_array(name, found["shape"], found["dtype"], data[8 + n:][slice(*found["data_offsets"])])


def print_page(text):
    """What a reader sees without its program, a piece a line; names and contents of <meta>."""
    for found in re.findall(r"<(?:meta|title|link)\b[^>]*>", text.split("<script", 1)[0]):
        if "sha256" not in found:
            print(found)
    text = re.sub(r"(?s)<(script|style|noscript)\b.*?</\1>", "", text).split("This page contains:")[0]
    text = re.sub(r"<rect[^>]*fill=\"([^\"]*)\"[^>]*>", r"\n\1 ", text)
    pieces = [html.unescape(piece).strip() for piece in re.sub(r"<[^>]*>", "\n", text).split("\n")]
    print("\n".join(" ".join(piece.split()) for piece in pieces if piece))


def show(path):
    data = pathlib.Path(path).read_bytes()
    if data[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                print_npy(name, archive.read(name))
    elif path.endswith(".npy"):
        print_npy(path, data)
    elif path.endswith(".safetensors"):
        print_safetensors(data)
    elif path.endswith(".html"):
        print_page(data.decode())
    else:
        print(data.decode(), end="")


# ---- inputs ----

TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}"
            "{{ '<|im_start|>assistant\\n' }}{% endif %}{% if why %}{{ why }}{% endif %}{% if enable_thinking is false %}no{% endif %}")
MESSAGES = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "so"}]
EDGES = [{"prompt": "annaanna"}, {"prompt": "annaannab"}, {"prompt": "ab", "n": 0}, {"prompt": "alexin", "ignore_end": False, "temperature": 0},
         {"prompt": "an", "stop": list("bcdfghjklmpqrtvw")}, {"prompt": "an", "stop": list("bcdfghjklmpqrtvwx")}, {"prompt": "an", "choices": ["a", "b"]}]
# In a session of the repl, with settings of its own.
SESSION = "/set\nan\n/s 3\n/tokens 2\n/g 4\n/top 3\n"
TRACED = "/trace on *hook_z,logits seen10.npz\nann\n/trace\n/g 1\n/trace off\n/trace\n/help trace\n/help\n/quit\nanna\n"
# Files that the views write; what is longer than a line, a branch of the list, a screen, a piece of a tensor.
TABLES = ("anna\n/h 0 -o h.table\n/kv 0 1 -o kv.table\n/m 0 2 -o m.table\n/lens 3 -o lens.table\n/r -o r.table\n/qk 0 1 4 2 -o qk.table\n"
          "/v 0 1 -1 -o v.table\n/dla 3 n -o dla.table\n/tokens 2 -o tokens.table\n/steer up.npy 0.5\n/ab 0.1 zero\n"
          "/branch two\n/b 1\n/sw main\n/save saved.session\n/save edited.session\n/with half.gguf\n/diff\n")
LONG = ("To be, or not to be: that is the question\n/branch a\n/branches\n/v 5 3 -1\n/w blk.0.ffn_down.weight\n/w blk.0.ffn_down.weight -o w.table\n"
        "/insert 1 x\n/ids \"n\\\" n\"\n/insert 40 abcdefg\n/insert 0 ABCDEFGHIJ\n/insert 0 A\n/trace on * a.npz\n/trace on * b\n/trace\n")
COLOURS = "anna\n/a 0 3\n/a 0 3 scores\n/a 0 3 log\n/h 0\n/dla\n/r\n/lens\n/m 0\n/kv 0 1\n/w output.weight\n"


def make_chat(folder):
    """tests/golden/qwen3 with a vocabulary of 33 letters and marks, and a template."""
    model = folder / "chat"
    shutil.copytree(ROOT / "tests/golden/qwen3", model)
    letters = ["\u010a", "\u0120", *"abcdefghijklmnopqrstuvwxyz.?"]
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    (model / "tokenizer.json").write_text(json.dumps({
        "added_tokens": [{"id": i, "content": mark, "special": True} for i, mark in enumerate(marks)], "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "model": {"type": "BPE", "vocab": {letter: i for i, letter in enumerate(letters, 3)}, "merges": []}}))
    (model / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "chat_template": TEMPLATE}))


def make(folder):
    folder = pathlib.Path(folder)
    make_chat(folder)
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 16), }".ljust(117) + "\n"
    (folder / "up.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() +
                                    struct.pack("<16f", *((i * 5 % 7 - 3) / 2 for i in range(16))))
    (folder / "logits.bin").write_bytes(struct.pack("<81f", *(math.sin(i * i) * 3 for i in range(81))))
    gguf_with_keys(str(ROOT / "weights/names.gguf"), str(folder / "author.gguf"),
                   {"general.sampling.temp": 0.6, "general.sampling.top_k": 5, "general.sampling.penalty_repeat": 1.2})
    for name, text in {"talk": json.dumps(MESSAGES), "turns": "hi there\n\nwhy?\n", "template": TEMPLATE.replace("assistant", "a"),
                       "session.in": SESSION, "traced.in": TRACED, "colours.in": COLOURS, "ids.in": SESSION.replace("an\n", "/ids 3 1 4\n"),
                       "exact": "a" * 30, "sys": json.dumps([{"role": "system", "content": "be"}, *MESSAGES[:1]]), "tool": json.dumps([{"role": "tool", "content": "a"}]),
                       "parts": json.dumps([{"role": "user", "content": [{"text": "h"}, {"text": "i"}]}]), "picture": json.dumps([{"role": "user", "content": [{"text": "h"}, {"image": "i"}]}]),
                       "short": "a\nab\n", "wrong": '{"prompt": "a", "seed": -2}\n{"prompt": "a", "stop": [""]}\n{"prompt": "a", "choices": []}\n{"prompt": "a", "ignore_end": 1}\n',
                       "bare": '{"ids": [3], "stop": "a"}\n{"ids": [3], "choices": ["a"]}\n{"ids": [3], "n": 2, "seed": 1}\n{"prompt": "a", "ids": [3]}\n{"n": 1}\n{"ids": "3"}\n', "edited.session": "\n{\"format\": \"mgpt session\"}", "tables.in": TABLES, "long.in": LONG, "edges.jsonl.old": "\n".join(map(json.dumps, EDGES)),
                       "pairs.jsonl": "".join('{"context": "", "continuation": "%s"}\n' % "abcdefghijklmnopq"[:n] for n in (15, 16, 17))}.items():
        (folder / name).write_text(text)


# ---- what no run has ----

def ask(mgpt, *words, typed=""):
    return subprocess.run([mgpt, *words], input=typed, capture_output=True, text=True).stdout


def missing(mgpt, folder):
    """Lines that name what no run of said.runs, said.in and views.in has."""
    folder = pathlib.Path(folder)
    runs = [line for line in (folder / "said.runs").read_text().splitlines() if not line.startswith("#")]
    for command in COMMANDS:
        words = {word.split("=")[0] for line in runs if line.startswith(command + " ") for word in line.split()}
        listed = ask(mgpt, command, "--help").split("\noptions:\n")[1].split("\n\n")[0]
        for names in re.findall(r"(?m)^ {2,6}(-\w(?:, --[\w-]+)?|--[\w-]+)\b", listed):
            if names != "-h, --help" and not words & set(names.split(", ")):
                print(command, names)
    scripts = [SESSION, TRACED, *((folder / name).read_text() for name in ("said.in", "views.in"))]
    typed = {line.split()[0] for script in scripts for line in script.splitlines() if line.startswith("/")}
    for line in ask(mgpt, "repl", str(folder.parents[1] / "weights/names.gguf"), typed="/help all\n").splitlines():
        names = re.match(r" {1,2}((/[a-z]+|/\?)(, (/[a-z]+|/\?))*)( |$)", line)
        if names and not typed & set(re.split(r"[, ]+", names[1])):
            print("repl", names[1])


if __name__ == "__main__":
    if sys.argv[1] == "show":
        for path in sys.argv[2:]:
            show(path)
    else:
        {"make": make, "missing": missing}[sys.argv[1]](*sys.argv[2:])
