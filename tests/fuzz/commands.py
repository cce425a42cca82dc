"""Seeds for the command line and for the small files that it reads, for seeds.py. Standard library only.

Those of the command line follow from the option tables, as --help prints them: each option of each command with values
that its kind takes and refuses, and the examples of the help.
"""
import itertools
import json
import re
import shlex
import subprocess

import tiny_models
from formats import ADAPTER_CONFIG, TINY_CONFIG, adapter_tensors, npy, safetensors, tiny_tensors

# A line of each command that works, by itself and with most options behind it; and what "in" and stdin have.
LINES = {
    "generate": ("-m m.gguf -p an -n 3", ""), "repl": ("m.gguf", "ann\n\n/top 3\n/lens\n"), "check": ("m.gguf ref.json", ""),
    "trace": ("m.gguf -p an -o out.npz", ""), "patch": ("m.gguf --clean ann --metric logprob:a --mode zero --over z", ""),
    "attend": ("", '{"q": [[1, 2]], "k": [[1, 0], [0, 1]], "v": [[1, 2], [3, 4]]}'), "lab": ("m.gguf -p an -o out.html", ""),
    "score": ("m.gguf -f in", "anna\nbob\n"), "tokenize": ("m.gguf", "anna\n"), "info": ("m.gguf", ""),
    "convert": ("model.json out.gguf --heads 4", ""), "bench": ("m.gguf -p 4 -n 4 -r 1", ""),
}
NUMBERS = ("0", "1", "-1", "1e9", "0x10", "99999999999999999999", "nan", "", "3,1")
FILES = ("in", "m.gguf", "-", "absent", "in:0.5:0")
TEXTS = ("ann", "off", "\x1b[2J\xff", "%s%n", "a=b", "0 - 1")
# Files of the help's examples by those that the target has.
NAMES = {"weights/names.gguf": "m.gguf", "weights/names.ref.json": "ref.json", "weights/shakespeare.gguf": "m.gguf"}


def help_of(mgpt, command):
    """(option, name of its value or None, the words of its help) of a table, and the examples."""
    text = subprocess.run([mgpt, command, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = re.findall(r"^  (?:    |-\w, |)(--[\w-]+|-\w)(?: (\S+))? +(.*)$", text.split("options:\n")[1].split("\n\n")[0], re.M)
    joined = re.sub(r"\n    (?=\S)", " ", text[text.rindex("example"):])
    return rows, re.findall(r"^  mgpt (%s .*)$" % command, joined, re.M)


def values(name, words):
    """What is tried for an option whose value is called `name`."""
    if not name:
        return [None]
    if name.strip("[]") in ("N", "N,N,...", "K", "T", "P", "X", "LIST"):
        return NUMBERS
    if "FILE" in name or name in ("OUT", "DIR"):
        return FILES
    return re.findall(r"\b[a-z0-9_]{2,12}\b", words)[:6] + name.split("|") + list(TEXTS)


def command_lines(mgpt):
    """(name, input): a seed of an option has all its values, one after the other where it may be repeated."""
    for command, (line, tail) in LINES.items():
        base = [command] + line.split()
        rows, examples = help_of(mgpt, command)
        seeds = [("base", base), ("help", [command, "--help"]), ("word", ["help", command]), ("none", [command])]
        seeds += [("two", base + base[1:]), ("stdin", [command, "m.gguf", "-"])]
        for option, name, words in rows:
            for i, value in enumerate(values(name, words)):
                seeds.append(("%s-%d" % (option.strip("-"), i), base + [option] + ([value] if value is not None else [])))
            seeds.append(("%s-ends" % option.strip("-"), base + [option]))
            seeds.append(("%s-is" % option.strip("-"), base + [option + "=2"]))
        for i, example in enumerate(examples):
            words = itertools.takewhile(lambda word: word[0] not in "|<>", shlex.split(example.split("   (")[0]))
            seeds.append(("example-%d" % i, [NAMES.get(word, word) for word in words]))
        for name, words in seeds:
            text = "\n".join(words) + "\n\n" + tail
            yield "%s-%s" % (command, name), text.encode("utf-8", "surrogateescape")
    for i, word in enumerate(("generat", "--version", "-x", "m.gguf", "help", "chat", "")):
        yield "word-%d" % i, (word + "\nm.gguf\n\n").encode()
    yield "lora", b"convert\nllama\nout.gguf\n--lora\nlora:0.5\n\n"
    yield "nano", b"convert\nnano.pt\nout.gguf\n--assume\nnanogpt\n--no-tokenizer\n--type\nq8_0\n\n"


def words_of(mgpt):
    """The dictionary of the command line: commands, options, values of options."""
    found = set(LINES) | set(NUMBERS) | set(FILES) | set(NAMES.values()) | {"model.json", "nano.pt", "llama", "lora", "help"}
    for command in LINES:
        for option, name, words in help_of(mgpt, command)[0]:
            found.add(option)
            if name and name.strip("[]") not in ("N", "K", "T", "P", "X") and "FILE" not in name:
                found.update(re.findall(r"\b[a-z0-9_]{2,12}\b", words)[:6])
    return sorted(filter(None, found))


def records():
    """Lines for mgpt score --json: each field with each type of value, alone and with the others."""
    fields = ("id", "text", "context", "continuation", "continuations", "other")
    typed = ('"ann"', '""', "7", "null", "true", '["a","nn"]', "[]", '[""]', '{"a":1}', "1e400", '"\\u0000"', '"\\ud800"')
    good = ['{"text":"anna"}', '{"context":"an","continuation":"na"}', '{"context":"","continuations":["a","bo","zz"],"id":[1]}']
    yield "good", "\n".join(good)
    yield "top", " " + "\n\r\n".join(good) + "\n"
    for field in fields:
        for i, value in enumerate(typed):
            row = '{"%s":%s}' % (field, value)
            both = '{"context":"an","continuation":"a","%s":%s}' % (field, value)
            yield "%s-%d" % (field, i), row + "\n" + good[i % 3] + "\n" + both
    yield "broken", '{"text":"a"\n[1]\n{"text":"a","text":"b"}\n{"text":"\xff"}\n{"id":1e999,"text":"\t"}\n{"text":"A9"}\n'
    yield "long", '{"text":"%s","id":"x"}\n{"context":"%s","continuation":"%s"}' % (40 * "ab", 30 * "c", 20 * "d")


def steering():
    """--steer and its file: control vectors of llama.cpp and arrays of numpy, for 3 layers of width 4."""
    one, all_rows = npy("<f4", [4], bytes(range(16))), npy("<f4", [3, 4], bytes(48))
    entries = {"general.type": "vector", "general.architecture": "controlvector", "controlvector.model_hint": "llama"}
    vectors = [("direction.%d" % i, [4], kind) for i, kind in ((1, "f32"), (2, "f16"))]
    files = {"rows": all_rows, "one": one, "f64": npy("<f8", [3, 4], bytes(96)), "f16": npy("<f2", [3, 4], bytes(24)),
             "gguf": tiny_models.gguf(entries, vectors), "wide": npy("<f4", [3, 5], bytes(60)),
             "layer0": tiny_models.gguf(entries, [("direction.0", [4], "f32")]), "empty": b""}
    for name, data in files.items():
        for i, spec in enumerate(("in", "in:-0.5", "in:1e30:2")):
            yield "%s-%d" % (name, i), spec.encode() + b"\n" + data
    for i, spec in enumerate(("in:2:0", "in:1:3", "in:1:-1", "in:nan:1", "in:1:1.5", ":1:1", "in::1", "in:1:", "a:b:c", "")):
        yield "spec-%d" % i, spec.encode() + b"\n" + one


def attested(mgpt, model, path):
    """A record that mgpt has written, and each of its members with values of each type."""
    subprocess.run([mgpt, "check", "--self", model, "-n", "4", "--attest", path], stdout=subprocess.DEVNULL, check=True)
    with open(path, "rb") as f:
        record = json.loads(f.read())
    yield "written", json.dumps(record)
    for key in record:
        for i, value in enumerate(("q8_0", "0123456789abcdef", 0, 3, -1, 2**40, [], [2**31], [0, 1.5], {}, None, "\u00e9\x1b")):
            yield "%s-%d" % (key, i), json.dumps(dict(record, **{key: value}))
    for key in ("model", "by"):
        for member in record[key]:
            for i, value in enumerate(("0123456789abcdef", "x" * 70, 7, None)):
                yield "%s-%s-%d" % (key, member, i), json.dumps(dict(record, **{key: dict(record[key], **{member: value})}))


def peft_configs(source, parts):
    """The keys that families/peft_config.c reads, each with values of each type. The configuration is the last part, so
    that one that becomes longer or shorter leaves the others as they are."""
    keys = sorted(set(re.findall(r'"([a-z]+_[a-z_]+)"', source)) - {"adapter_config"} | {"r"})
    config = json.dumps(TINY_CONFIG, separators=(",", ":")).encode()
    files = [("config.json", config), ("model.safetensors", safetensors(*tiny_tensors())), ("adapter", safetensors(*adapter_tensors()))]
    typed = (True, 2, "gaussian", {"k_proj": 2, "^model.layers.0": 3, "": -1, "(a|b)": 1e10})
    for key in keys:
        for i, value in enumerate(typed):
            says = json.dumps(dict(ADAPTER_CONFIG, **{key: value})).encode()
            yield "says-%s-%d" % (key, i), parts(files + [("adapter_config.json", says)])


def choosing():
    """Settings, expressions and schemas for fuzz_choose.c; records for generate."""
    numbers = b"\0" + bytes(range(1, 120)) * 3
    for i, text in enumerate(("(an|[b-d]x?)+e*", "a{2,3}.*", "[^a-y]|m?", "\\w+\\x61", "(?:a|(b|c)*d)", "^a|$", "(?j:[\\x00-z]{2})", "[0-9]")):
        yield "choose", "regex-%d" % i, b"r" + text.encode() + numbers
    lines = ("bias a+1\nbias 3-inf", "ban an\nban \\x65l", "dry 1:1.5:1\nrepeat-penalty 1.2", "typical 0.5\nxtc 0.5:0.1", "mirostat 2:3\ntop-nsigma 1",
             "regex [a-m]+\nban ab\npresence 1\nfrequency 0.5\nrepeat-last 3")
    for i, text in enumerate(lines):
        yield "choose", "settings-%d" % i, text.encode() + numbers
    schemas = ({"properties": {"a": {"type": "string", "maxLength": 2}, "b": {"type": ["integer", "null"], "minimum": -7}}, "required": ["b"]},
               {"type": "array", "items": {"enum": [1, "x", {"k": [0.5]}]}, "maxItems": 2}, {"type": "string", "pattern": "^[a\"]+.$"}, {"prefixItems": [{"const": None}]},
               {"anyOf": [{"$ref": "#/$defs/d"}], "$defs": {"d": {"type": "string", "format": "date"}}}, {"type": "number"}, {"type": "integer", "maximum": 305})
    for i, schema in enumerate(schemas):
        yield "choose", "schema-%d" % i, b"s" + json.dumps(schema).encode()
        yield "command", "json-schema-%d" % i, ("generate\nm.gguf\n-n\n3\n--json-schema\nin\n\n" + json.dumps(schema)).encode()
    record = {"id": 1, "prompt": "an", "n": 3, "seed": 5, "stop": ["e"], "ignore_end": True, "temperature": 1, "top_k": 3, "top_p": 0.9, "min_p": 0.1}
    odd = ([record, {"ids": [26, 0]}, {"prompt": ""}, {"prompt": 1}, {"ids": [27]}, {"n": 3}, {"prompt": "a", "n": -2}] +
           [dict(record, **{key: value}) for key in record for value in (None, "x", -1, [2], {}, 1e300)])
    for i in range(0, len(odd), 6):
        lines = "\n".join(map(json.dumps, odd[i:i + 6]))
        yield "command", "records-%d" % i, ("generate\nm.gguf\n-n\n2\n--records\nin\n\n" + lines + "\n{\n").encode()


def put_all(put, parts, mgpt, root, folder):
    for name, data in command_lines(mgpt):
        put("command", name, data)
    for target, made in (("score", records()), ("attest", attested(mgpt, root + "/weights/names.gguf", folder + "/made.json"))):
        for name, text in made:
            put(target, name, text.encode("latin-1"))
    for target, name, data in choosing():
        put(target, name, data)
    for name, data in steering():
        put("steer", name, data)
    with open(root + "/tools/convert/families/peft_config.c", encoding="utf-8") as f:
        for name, data in peft_configs(f.read(), parts):
            put("lora", name, data)
    with open(folder + "/command.dict", "w", encoding="utf-8") as f:
        f.writelines('"%s"\n' % word for word in words_of(mgpt))
