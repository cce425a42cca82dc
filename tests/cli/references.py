#!/usr/bin/env python3
"""mgpt check reads what other programs write (tests/fuzz/references.py), finds a wrong value in each, lets no NaN pass,
and refuses by name what cannot be compared. Also tokens named by their text. Standard library only."""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

sys.dont_write_bytecode = True
ROOT, MGPT = os.environ["MGPT_SOURCE_ROOT"], os.path.abspath(os.environ["MGPT"])
sys.path.insert(0, os.path.join(ROOT, "tests/fuzz"))
from checks import finish, holds  # noqa: E402
from formats import npy, npz, safetensors  # noqa: E402
from hashes import Hashes  # noqa: E402
from references import PROMPT, Tensor, flat, log_softmax, packed, references, torch  # noqa: E402

SAID = Hashes(os.path.join(ROOT, "tests/cli/hashes/references.txt"))
NAMES, LINES = os.path.join(ROOT, "weights/names.gguf"), os.path.join(ROOT, "weights/shakespeare.gguf")


def check(name, data, ids, *more, model=NAMES):
    with open(name, "wb") as f:
        f.write(data)
    given = ["--ids", ",".join(map(str, ids))] if ids else []

    def run(program):
        done = subprocess.run([program, "check", model, name, *given, *more], capture_output=True, text=True)
        return done.returncode, (done.stdout + done.stderr).replace(ROOT, "ROOT")
    code, output = run(MGPT)
    SAID.note(" ".join([name, *more]), output, lambda program: run(program)[1])
    return code, output


def passes(what, data, ids, positions):
    code, output = check(what, data, ids)
    holds(what, code == 0 and "positions   %d\n" % positions in output, output)


def refused(what, data, field, ids=None, code=3):
    got, output = check(what, data, ids)
    lines = output.splitlines()
    holds("refused: " + what, got == code and len(lines) == 1 and field in lines[0], output)


def good_files(ids, rows):
    wrong = [row[:] for row in rows]
    top = max(range(len(rows[-2])), key=lambda k: rows[-2][k])
    for row in wrong[-2:]:  # formats with one row have the last, log-probabilities do not
        row[top] += 0.01
    nan = [row[:] for row in rows]
    nan[-1][top] = nan[-2][top] = math.nan
    bits = zip(references(ids, rows), references(ids, wrong), references(ids, nan))
    for (name, data, needs, n), (_, other, _, _), (_, third, _, _) in bits:
        given = {"": None, "all": ids, "prompt": ids[:PROMPT]}[needs]
        passes(name, data, given, n)
        code, output = check(name, other, given)
        holds(name + ", one value wrong", code == 1 and "DIFFERENT" in output, output)
        check(name, other, given, "--explain", "--json")
        code, output = check(name, third, given)
        holds(name + ", NaN", code == 1 and "not finite" in output or code == 3 and "JSON" in output, output)


def half_types(ids, rows):
    """What is stored in 16 bits is compared with bounds for that."""
    n, v, values, tokens = len(rows), len(rows[0]), flat(rows), packed("i4", ids)
    head = {"ids": {"dtype": "I32", "shape": [n], "data_offsets": [0, 4 * n]},
            "logits": {"dtype": "BF16", "shape": [n, v], "data_offsets": [4 * n, 4 * n + 2 * n * v]}}
    files = [("bf16.safetensors", safetensors(head, tokens + packed("V2", values)))]
    for kind in "f2", "V2":
        files += [(kind + ".npz", npz([("ids.npy", npy("<i4", [n], tokens)), ("logits.npy", npy("<" + kind, [n, v], packed(kind, values)))])),
                  (kind + ".pt", torch({"ids": Tensor("i4", [n], tokens), "logits": Tensor(kind, [n, v], packed(kind, values))}))]
    for name, data in files:
        code, output = check(name, data, None, "--tol", "q8")
        holds(name, code == 0 and "positions   %d\n" % n in output, output)
        code, output = check(name, data, None)
        holds(name + ", as if it were float32", code == 1, output)


def texts(ids, rows):
    """OpenAI's own server names tokens by text only; <BOS> has none that is said."""
    p = [log_softmax(row) for row in rows]
    name = [chr(97 + i) for i in range(26)] + ["<BOS>"]
    tops = [{name[k]: row[k] for k in range(27) if row[k] > -3} for row in p]
    answer = [{"token": name[i], "logprob": p[k][i], "bytes": list(name[i].encode()), "top_logprobs": [
        {"token": t, "logprob": v, "bytes": list(t.encode())} for t, v in tops[k].items()]} for k, i in enumerate(ids[1:-1])]
    chat = json.dumps({"choices": [{"message": {}, "logprobs": {"content": answer}}]}).encode()
    passes("chat by text", chat, ids[:1], len(ids) - 2)
    by_id = [{"id": i, "logprob": p[k][i], "top_logprobs": [{"id": t, "logprob": v} for t, v in enumerate(p[k]) if v > -3]} for k, i in enumerate(ids[1:-1])]
    passes("chat by id", json.dumps({"choices": [{"message": {}, "logprobs": {"content": by_id}}]}).encode(), ids[:1], len(ids) - 2)
    echo = {"tokens": [name[i] for i in ids], "token_logprobs": [None] + [p[k][i] for k, i in enumerate(ids[1:])],
            "top_logprobs": [None] + tops[:-1]}
    data = json.dumps({"choices": [{"text": "", "logprobs": echo}]}).encode()
    passes("completions by text, with --ids", data, ids, len(ids) - 1)
    refused("completions by text, without", data, "token 0: its text is not a token of the model")


def digits():
    """Where tokens are named by texts, "3" is a text, with the prompt's ids as well; where all are ids, it is an id."""
    with open("text.jsonl", "w") as f:
        f.write('{"text": "Be 3 3a"}')
    done = subprocess.run([MGPT, "score", LINES, "-f", "text.jsonl", "--json", "--top", "9"], check=True, capture_output=True, text=True)
    score = json.loads(done.stdout)
    ids, logprobs = score["ids"], score["logprobs"]
    for by_id in (0, 1):
        tops = [top and {str(t["id"]) if by_id else t["token"]: t["logprob"] for t in top} for top in logprobs["top_logprobs"]]
        names = [str(i) for i in ids] if by_id else logprobs["tokens"]
        for name, top, own in zip(names[1:], tops[1:], logprobs["token_logprobs"][1:]):
            top[name] = own
        data = {"prompt_token_ids": ids, "logprobs": {"tokens": names, "top_logprobs": tops}}
        code, output = check("digits.json", json.dumps(data).encode(), None, model=LINES)
        holds("digits that are %s" % ("ids" if by_id else "texts"), code == 0 and "positions   %d\n" % (len(ids) - 1) in output, output)


def same_texts():
    """A text of two tokens, as a byte and a letter are in vocabularies of SentencePiece, names neither of them."""
    texts, v, model = [b"<unk>", b"\n<s>\n", b"\n</s>\n", b"<0x41>", b"A", b"<0x42>", b"B"], 7, "same.gguf"
    with open("same.bin", "wb") as f:
        f.write(struct.pack("<I", 6) + b"".join(struct.pack("<fI", -i, len(text)) + text for i, text in enumerate(texts)))
    subprocess.run([MGPT, "convert", os.path.join(ROOT, "tests/fixtures/convert/v0.bin"), model, "--tokenizer", "same.bin"], check=True, capture_output=True)
    subprocess.run([MGPT, "trace", model, "--ids", "1,3,6", "--hooks", "logits", "-o", "same.npz"], check=True, capture_output=True)
    with zipfile.ZipFile("same.npz") as z:
        data = z.read("logits.npy")[-3 * 4 * v:]
    p = [log_softmax(struct.unpack_from("<%df" % v, data, t * 4 * v)) for t in range(3)]
    for letter in "AB":  # a search finds the first token of one, and the last of the other
        for form, entry in (("key", {"1": p[0][1], letter: -9}),
                            ("token", [{"id": 1, "logprob": p[0][1]}, {"token": letter, "logprob": -9}]),
                            ("bytes", [{"id": 1, "logprob": p[0][1]}, {"token": "?", "bytes": [ord(letter)], "logprob": -9}])):
            code, output = check("same.json", json.dumps({"ids": [1, 3, 6], "top_logprobs": [None, entry, {"2": p[1][2]}]}).encode(), None, model=model)
            holds("%s of two tokens as a %s" % (letter, form), code == 0 and "several tokens of the model are not compared: 1 in" in output, output)
        answer = {"choices": [{"message": {}, "logprobs": {"content": [{"token": letter, "logprob": p[0][3]}]}}]}
        code, output = check("same.json", json.dumps(answer).encode(), [1], model=model)
        holds("%s of two tokens as an answer" % letter, code == 3 and "its text is that of several tokens of the model" in output, output)


def wide_characters():
    """The table has a text of East Asian letters, two columns each, as far as there is room."""
    texts = [b"<unk>", b"\n<s>\n", b"\n</s>\n", b"<0x41>", b"A", b"B", "日本日本日本日本".encode()]
    with open("far.bin", "wb") as f:
        f.write(struct.pack("<I", 24) + b"".join(struct.pack("<fI", -i, len(text)) + text for i, text in enumerate(texts)))
    subprocess.run([MGPT, "convert", os.path.join(ROOT, "tests/fixtures/convert/v0.bin"), "far.gguf", "--tokenizer", "far.bin"], check=True, capture_output=True)
    subprocess.run([MGPT, "trace", "far.gguf", "--ids", "1,6", "--hooks", "logits", "-o", "far.npz"], check=True, capture_output=True)
    with open("far.npz", "rb") as f:
        code, output = check("far.npz", f.read(), None, model="far.gguf")
    holds("letters of two columns", code == 0 and ' "日本日本...\n' in output, output)


def long_header(ids, rows):
    """safetensors: a header longer than what is read at first, of a file that is much longer."""
    metadata = {"about": "x" * 9000}
    size, head = len(ids) * len(rows[0]) * 4, {"__metadata__": metadata}
    head["logits"] = {"dtype": "F32", "shape": [len(ids), len(rows[0])], "data_offsets": [0, size]}
    head["tokens"] = {"dtype": "I32", "shape": [len(ids)], "data_offsets": [size, size + 4 * len(ids)]}
    head["else"] = {"dtype": "U8", "shape": [30000], "data_offsets": [size + 4 * len(ids), size + 4 * len(ids) + 30000]}
    text = json.dumps(head).encode()
    data = b"".join(struct.pack("<%df" % len(row), *row) for row in rows) + struct.pack("<%di" % len(ids), *ids) + bytes(30000)
    passes("safetensors with a long header", struct.pack("<Q", len(text)) + text + data, None, len(ids))


def generated(ids, rows):
    """What generate of transformers returns: sequences, and a tuple of rows for what was drawn."""
    n, v = len(ids), len(rows[0])
    drawn = 4
    sequences = Tensor("i8", [1, n], packed("i8", ids))

    def parts(of, shape=None):
        return tuple(Tensor("f4", shape or [1, v], packed("f4", row)) for row in of)
    tail = rows[n - 1 - drawn:n - 1]
    passes("generate.pt", torch({"sequences": sequences, "logits": parts(tail)}), None, drawn)
    wrong = [row[:] for row in tail]
    wrong[2][3] += 0.01
    code, output = check("wrong.pt", torch({"sequences": sequences, "logits": parts(wrong)}), None)
    holds("generate.pt, one value wrong", code == 1 and "position %d, logit of id 3" % (n - 3) in output, output)
    both = {"sequences": sequences, "scores": parts(wrong), "logits": parts(tail)}
    code, output = check("both.pt", torch(both), None)
    holds("logits are better than scores", code == 0 and "these are scores" not in output, output)
    top = [[x if x >= sorted(row)[-5] else -math.inf for x in row] for row in tail]
    code, output = check("scores.pt", torch({"sequences": sequences, "scores": parts(top)}), None)
    holds("scores after top-k", code == 0 and "these are scores" in output
           and "-inf at all but 5 ids: scores after top-k or another filter (4 positions)" in output, output)
    warm = [[x / 0.7 for x in row] for row in top]
    code, output = check("warm.pt", torch({"sequences": sequences, "scores": parts(warm)}), None, "--explain")
    holds("scores after a temperature", "cause                            a temperature of 0.7: scores, not logits" in output, output)
    top[1][top[1].index(max(top[1]))] += 0.01
    code, output = check("scores.pt", torch({"sequences": sequences, "scores": parts(top)}), None)
    holds("scores after top-k, one value wrong", code == 1 and "not finite" not in output, output)
    kept = (6, 3, 9, 4)
    top = [[x if x >= sorted(row)[-k] else -math.inf for x in row] for k, row in zip(kept, tail)]
    code, output = check("scores.pt", torch({"sequences": sequences, "scores": parts(top)}), None)
    holds("scores after top-p", code == 0 and "-inf at all but 3 to 9 ids: scores after top-p or another filter (4 positions)" in output, output)
    suppressed = [row[:3] + [-math.inf] + row[4:] for row in rows]
    for most in "1 id", "2 ids":
        code, output = check("suppressed.pt", torch({"tokens": sequences, "logits": Tensor("f4", [n, v], packed("f4", flat(suppressed)))}), None)
        holds("suppressed tokens: " + most, code == 0 and "-inf at %s at most: suppressed tokens" % most in output, output)
        suppressed[1][7] = -math.inf
    nothing = [row[:] for row in rows]
    nothing[2] = [-math.inf] * v
    code, output = check("nothing.pt", torch({"tokens": sequences, "logits": Tensor("f4", [n, v], packed("f4", flat(nothing)))}), None)
    holds("a row of -inf alone is not finite", code == 1 and "not finite" in output, output)
    code, output = check("nothing.pt", torch({"tokens": sequences, "logits": Tensor("f4", [n, v], packed("f4", flat(nothing)))}), None, "--explain")
    holds("the reference has nothing there", code == 1 and "the reference is not finite from position 2 on" in output
           and "-nan" not in output and "NMSE nan" not in output, output)
    refused("two texts at once.pt", torch({"sequences": sequences, "logits": parts([row + row for row in tail], [2, v])}), "of one text")
    refused("more rows than tokens.pt", torch({"sequences": sequences, "logits": parts([rows[0]] * (n + 1))}), "%d tokens in sequences, but %d rows" % (n, n + 1))
    passes("a pass over sequences.pt", torch({"sequences": sequences, "logits": Tensor("f4", [1, n, v], packed("f4", flat(rows)))}), None, n)
    refused("rows of integers.pt", torch({"sequences": sequences, "logits": (sequences,)}), "logits are integers")


def processed(ids, rows):
    """Rows that were changed as a whole are named."""
    n, v = len(ids), len(rows[0])

    def penalty(t):
        return [(x * 1.2 if x < 0 else x / 1.2) if i in ids[:t + 1] else x for i, x in enumerate(rows[t])]
    cases = [("constants", [[x + math.sin(9 * t) for x in row] for t, row in enumerate(rows)], "a constant added, one a row: the same probabilities"),
             ("to base 2", [[x / math.log(2) for x in log_softmax(row)] for row in rows], "logarithms of probabilities to base 2"),
             ("logarithms", [log_softmax(row) for row in rows], "logarithms of probabilities, not"),
             ("a penalty", [penalty(t) for t in range(n)], "a repetition penalty of 1.2 on the tokens so far")]
    front = "7," + ",".join(map(str, ids[:n - 2]))
    subprocess.run([MGPT, "trace", NAMES, "--ids", front, "--hooks", "logits", "-o", "front.npz"], check=True, capture_output=True)
    with zipfile.ZipFile("front.npz") as z:
        data = z.read("logits.npy")[-4 * v * (n - 2):]
    cases.append(("a token in front", [list(struct.unpack("<%df" % v, data[4 * v * t:4 * v * (t + 1)])) for t in range(n - 2)],
                  "padding in front that the others see: token 7, 1 time"))
    for name, changed, cause in cases:
        m = len(changed)
        data = torch({"tokens": Tensor("i8", [m], packed("i8", ids[:m])), "logits": Tensor("f4", [m, v], packed("f4", flat(changed)))})
        code, output = check(name + ".pt", data, None, "--explain")
        holds(name, code == 1 and any(line.startswith("cause ") and cause in line for line in output.splitlines()), output)

    changed, m = cases[-1][1], n - 2
    some = [[x if x >= sorted(row)[-8] else -math.inf for x in row] for row in changed[m - 5:m - 1]]
    sequences = Tensor("i8", [1, m], packed("i8", ids[:m]))
    parts = tuple(Tensor("f4", [1, v], packed("f4", row)) for row in some)
    last = Tensor("f4", [1, v], packed("f4", changed[-1]))
    for name, data in (("four rows of scores", {"sequences": sequences, "scores": parts}),
                       ("the last row alone", {"tokens": Tensor("i8", [m], packed("i8", ids[:m])), "logits": last})):
        code, output = check(name + ".pt", torch(data), None, "--explain")
        lines = output.splitlines()
        holds(name + ", explained", code == 1 and any(line.startswith("cause ") and cases[-1][2] in line for line in lines), output)


def bad_input(ids, rows):
    n, v, values = len(rows), len(rows[0]), flat(rows)
    tokens, logits = Tensor("i8", [n], packed("i8", ids)), Tensor("f4", [n, v], packed("f4", values))
    npy_ids, npy_rows = ("tokens.npy", npy("<i8", [n], packed("i8", ids))), ("logits.npy", npy("<f4", [n, v], packed("f4", values)))
    both = {"tokens": tokens, "logits": logits}
    hook = Tensor("f4", [n, v], packed("f4", values))
    refused("transposed.npz", npz([npy_ids, ("logits.npy", npy("<f4", [v, n], packed("f4", values)))]),
            "shape [27, %d], expected [tokens, 27] of one text: transposed" % n)
    refused("two texts.npz", npz([("tokens.npy", npy("<i8", [2, n], packed("i8", ids + ids))),
                                  ("logits.npy", npy("<f4", [2, n, v], packed("f4", values + values)))]), "shape [2, %d, 27]" % n)
    refused("tokens of two.npz", npz([("tokens.npy", npy("<i8", [2, n], packed("i8", ids + ids))), npy_rows]),
            "tokens: shape [2, %d] of integers, expected a list of integers for one text" % n)
    refused("integer logits.npz", npz([npy_ids, ("logits.npy", npy("<i4", [n, v], bytes(4 * n * v)))]), "logits are integers")
    refused("float tokens.pt", torch(dict(both, tokens=Tensor("f4", [n], packed("f4", ids)))), "of floats, expected a list of integers")
    refused("a token too large.pt", torch(dict(both, tokens=Tensor("i8", [n], packed("i8", [2**40] + ids[1:])))), "token 0 is 1099511627776")
    refused("a negative token.npz", npz([("tokens.npy", npy("<i2", [n], packed("i2", [-1] + ids[1:]))), npy_rows]), "token 0 is -1")
    refused("fewer rows.pt", torch(dict(both, logits=Tensor("f4", [2, v], packed("f4", values[:2 * v])))), "tokens, but 2 rows of logits")
    refused("logits twice.pt", torch((logits, both)), "there are two arrays called logits")
    refused("no logits.pt", torch({"tokens": tokens}), "no array called logits")
    refused("no tokens.pt", torch({"logits": logits}), "give them with --ids")
    refused("tokens twice.pt", torch(both), "tokens of its own", ids, 2)
    refused("a hook of another text.pt", torch(dict(both, **{"blocks.0.hook_resid_pre": Tensor("f4", [2, v], packed("f4", values[:2 * v]))})),
            "blocks.0.hook_resid_pre: shape [2, 27], expected [T, ...] with T = %d" % n)
    refused("a layer too many.pt", torch(dict(both, **{"hidden_states": (hook, hook, hook)})), "layers")
    refused("a hook of no layer.pt", torch(dict(both, **{"blocks.1.hook_resid_pre": hook})), "layers")
    refused("a stride past the end.pt", torch(dict(both, logits=logits._replace(strides=[v + 1, 1]))), "logits")
    refused("complex.safetensors", safetensors({"logits": {"dtype": "C64", "shape": [1, v], "data_offsets": [0, 8 * v]}}, bytes(8 * v)), "C64")
    refused("object.npz", npz([("tokens.npy", npy("|O", [n], b"")), npy_rows]), "type '|O'")
    for name, value, field in (
            ("a ragged list", {"input": ids, "logits": rows[:-1] + [rows[-1][:-1]]}, "row %d has 26 logits" % (n - 1)),
            ("ragged tokens", {"input": [ids, ids[1:]], "logits": rows}, "token 0 is not an integer"),
            ("no prompt", {"choices": [{"logprobs": {"content": [{"token": "a", "logprob": -1}]}}]}, "tokens of its prompt"),
            ("too few", {"prompt_token_ids": ids, "prompt_logprobs": [None, {"0": -1}]}, "2 entries, expected one for each of %d" % n),
            ("a positive one", {"prompt_token_ids": ids[:2], "prompt_logprobs": [None, {"0": {"logprob": 1}}]}, "no log-probability"),
            ("an id too large", {"prompt_token_ids": ids[:2], "prompt_logprobs": [None, {"27": {"logprob": -1}}]}, "no id from 0 to 26"),
            ("no ids", {"prompt_logprobs": [None, {"0": -1}]}, "give them with --ids")):
        refused(name + ".json", json.dumps(value).encode(), field)
    code, output = check("above.json", json.dumps({"prompt_token_ids": ids[:2], "prompt_logprobs": [None, {"0": 1e-7}]}).encode(), None)
    holds("a probability that rounding has made more than 1", code == 1 and "verdict     DIFFERENT" in output, output)
    refused("infinity.json", b'{"ids": [1, 2], "top_logprobs": [null, {"3": -Infinity}]}', "bad JSON")


def two_positions(ids):
    """A value that is wrong at positions 2 and 4, more so at 4: the first is named, and what begins there."""
    text = ",".join(map(str, ids))
    subprocess.run([MGPT, "trace", NAMES, "--ids", text, "-o", "trace.safetensors"], check=True, capture_output=True)
    with open("trace.safetensors", "rb") as f:
        data = f.read()
    n = struct.unpack_from("<Q", data)[0]

    def spoilt(changes, hook="blocks.0.hook_mlp_out", columns=range(16), of=data):
        out, first = bytearray(of), 8 + n + json.loads(data[8:8 + n])[hook]["data_offsets"][0]
        for pos, change in changes.items():
            for i in columns:
                at = first + 4 * (pos * 16 + i)
                struct.pack_into("<f", out, at, change(struct.unpack_from("<f", out, at)[0]))
        return bytes(out)

    code, output = check("two.safetensors", spoilt({2: lambda v: v + 1, 4: lambda v: v + 2}), None)
    holds("the first of two wrong positions", "layer 0, position 2, token" in output and "first bad " in output, output)
    code, output = check("zero.safetensors", spoilt({3: lambda v: v * (1 + 1e-6)}), None)
    holds("a rounding is no difference", code == 0 and "18 hooks agree" in output, output)
    header = json.loads(data[8:8 + n])  # a hook that the model does not have is not counted
    q, end = header["blocks.0.attn.hook_q"], len(data) - 8 - n
    first, last = q["data_offsets"]
    header["blocks.0.attn.hook_rot_q"] = dict(q, data_offsets=[end, end + last - first])
    text = json.dumps(header).encode()
    code, output = check("more.safetensors", struct.pack("<Q", len(text)) + text + data[8 + n:] + data[8 + n + first:8 + n + last], None)
    holds("a hook that never fires", code == 0 and "18 hooks agree" in output, output)
    for hook in (name for name in json.loads(data[8:8 + n]) if "hook_" in name):
        code, output = check("nan.safetensors", spoilt({3: lambda v: math.nan}, hook), None)
        holds(hook + ": a value that is not a number", code == 1 and "an inner value is not a number: different" in output, output)
    code, output = check("head.safetensors", spoilt({3: lambda v: v + 1}, "blocks.0.attn.hook_z", range(8, 12)), None)
    holds("the head that differs", "position 3, token" in output and ", head 2, index" in output, output)
    for hook in "ln_embed.hook_normalized", "blocks.0.ln1.hook_normalized", "blocks.0.ln2.hook_normalized":
        before = spoilt({pos: lambda v: 2 * v for pos in range(len(ids))}, hook)  # a norm before its gain is
        code, output = check("place.safetensors", before, None)                   # none of those that are bad
        holds(hook + ": recorded elsewhere", code == 0 and 'recorded elsewhere               "%s"' % hook in output and "18 hooks agree" in output, output)
        code, output = check("place.safetensors", spoilt({3: lambda v: v + 1}, of=before), None)
        holds("... and one that is bad", 'recorded elsewhere               "%s"' % hook in output and "(1 of 18 hooks are bad)" in output, output)


def some_hooks():
    """--explain begins between the last good hook and the first bad one, whichever of them are recorded: the cause, and the number of
    suspects that are tried until it is found."""
    golden = os.path.join(ROOT, "tests/golden/granite")
    subprocess.run([MGPT, "convert", golden, "mine.gguf", "--no-tokenizer"], check=True, capture_output=True)
    with open(os.path.join(golden, "config.json")) as f:
        config = json.load(f)
    os.makedirs("theirs")
    os.symlink(os.path.join(golden, "model.safetensors"), "theirs/model.safetensors")
    for key in "embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling":
        with open("theirs/config.json", "w") as f:
            json.dump({**config, key: 1}, f)
        subprocess.run([MGPT, "convert", "theirs", "theirs.gguf", "--no-tokenizer"], check=True, capture_output=True)
        for hooks in "*", "blocks.*,logits", "hook_embed,blocks.1.*,logits", "blocks.*.attn.*,logits", "logits":
            subprocess.run([MGPT, "trace", "theirs.gguf", "--ids", "3,17,8,12,2,9,21", "--hooks", hooks, "-o", "some.npz"], check=True, capture_output=True)
            with open("some.npz", "rb") as f:
                code, output = check("%s of %s.npz" % (key, hooks), f.read(), None, "--explain", "--json", model="mine.gguf")
            holds("%s: a cause from %s" % (key, hooks), code == 1 and '"restored":true' in output, output)


def wide_rows():
    """Rows that are longer than what is read at a time: of a part of an array (logits[:, :-1]), and one alone."""
    n, v, e, wide = 3, 5000, 4, "wide.gguf"
    layer = "model.layers.0."
    shapes = {"model.embed_tokens.weight": [v, e], "model.norm.weight": [e], layer + "input_layernorm.weight": [e],
              layer + "post_attention_layernorm.weight": [e],
              **{layer + "self_attn.%s_proj.weight" % x: [e, e] for x in "qkvo"},
              **{layer + "mlp.%s_proj.weight" % x: [e, e] for x in ("gate", "up", "down")}}
    head, data = {}, b""
    for name, shape in shapes.items():
        values = packed("f4", [math.sin(i) for i in range(math.prod(shape))])
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    os.mkdir("wide")
    with open("wide/model.safetensors", "wb") as f:
        f.write(safetensors(head, data))
    with open("wide/config.json", "w") as f:
        json.dump({"model_type": "llama", "vocab_size": v, "hidden_size": e, "num_hidden_layers": 1, "num_attention_heads": 1,
                   "intermediate_size": e, "max_position_embeddings": 8, "rms_norm_eps": 1e-5, "hidden_act": "silu",
                   "tie_word_embeddings": True}, f)
    subprocess.run([MGPT, "convert", "wide", wide, "--no-tokenizer"], check=True, capture_output=True)
    subprocess.run([MGPT, "trace", wide, "--ids", "7,8,9", "--hooks", "logits", "-o", "wide.npz"], check=True, capture_output=True)
    with zipfile.ZipFile("wide.npz") as z:
        rows = struct.unpack("<%df" % (n * v), z.read("logits.npy")[-4 * n * v:])
    more = [x for t in range(n) for x in (*rows[v * t:v * (t + 1)], 99)]
    logits = Tensor("f4", [n, v], packed("f4", more))._replace(strides=[v + 1, 1])
    code, output = check("part.pt", torch({"tokens": Tensor("i8", [n], packed("i8", [7, 8, 9])), "logits": logits}), None, model=wide)
    holds("a part of wide rows", code == 0 and "positions   3\n" in output, output)
    subprocess.run([MGPT, "trace", wide, "--ids", "7,200,255", "--hooks", "logits", "-o", "byte.npz"], check=True, capture_output=True)
    with zipfile.ZipFile("byte.npz") as z:
        far = npz([("tokens.npy", npy("|u1", [n], bytes([7, 200, 255]))), ("logits.npy", z.read("logits.npy"))])
    code, output = check("bytes.npz", far, None, model=wide)
    holds("tokens as bytes from 128 on", code == 0 and "positions   3\n" in output, output)
    logits = Tensor("f4", [v], packed("f4", rows[:v]))
    code, output = check("one.pt", torch({"tokens": Tensor("i8", [1], packed("i8", [7])), "logits": logits}), None, model=wide)
    holds("a wide row", code == 0 and "positions   1\n" in output, output)


def main():
    with open(os.path.join(ROOT, "weights/names.ref.json")) as f:
        record = max(json.load(f), key=lambda r: len(r["input"]))
    ids, rows = record["input"], record["logits"]
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        good_files(ids, rows)
        half_types(ids, rows)
        texts(ids, rows)
        digits()
        same_texts()
        wide_characters()
        long_header(ids, rows)
        generated(ids, rows)
        processed(ids, rows)
        bad_input(ids, rows)
        two_positions(ids)
        some_hooks()
        wide_rows()
        os.chdir(ROOT)
    differ = SAID.end()
    holds("what all of this prints has the hashes of hashes/references.txt", not differ, differ)
    finish()


main()
