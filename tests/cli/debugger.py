"""The repl's /tokens, /edit, /insert and /delete, /watch, /with and /steer: their numbers are those that score, trace, generate
and a repl of its own give, and what is refused is refused in one line."""
import array
import json
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import zipfile

from checks import finish, hash_runs, holds, run_text

ROOT, MGPT = pathlib.Path(os.environ["MGPT_SOURCE_ROOT"]), os.environ["MGPT"]
NAMES, LINES = ROOT / "weights/names.gguf", ROOT / "weights/shakespeare.gguf"
def mgpt(*args, text=None):
    return run_text(MGPT, *args, text=text)


def repl(*typed, model=NAMES, options=()):
    """What lines print, and on stderr; the exit code."""
    p = mgpt("repl", model, *options, text="".join(line + "\n" for line in typed))
    return p.stdout, p.stderr, p.returncode


def table(path):
    return [[float(x) for x in line.split()] for line in path.read_text().splitlines() if line[0] != "#"]


def score(text, n=27):
    p = mgpt("score", NAMES, "--json", "--top", n, "--no-end", "-f", "-", text=json.dumps({"text": text}) + "\n")
    return json.loads(p.stdout)["logprobs"]


def sums(tmp):
    """What /dla prints as sums, of the parts that it writes: with one layer of four heads, and with six."""
    for model in NAMES, LINES:
        out = repl("anna", f"/dla -1 n -o {tmp / 'p'}", "/dla -1 n", model=model)[0]
        rows = table(tmp / "p")
        about = re.search(r"embedding (\S+), position (\S+), biases (\S+), rounding (\S+), sum (\S+)", (tmp / "p").read_text())
        embedding, position, biases, rounding, total = (float(x) for x in about.groups())
        heads, mlps = math.fsum(x for row in rows for x in row[:4]), math.fsum(row[4] for row in rows)
        want = {"token embedding": embedding, "all heads": heads, "all MLPs": mlps, "biases": biases, "sum": total, "engine": total}
        want.update({"position embedding": position} if position else {})
        told = {name: float(x) for name, x in re.findall(r"^([a-zA-Z ]+?) +(-?\d+\.\d{4})$", out, re.M)}
        holds(f"/dla: sums of {len(rows)} layers", len(rows[0]) == 5 and all(abs(told[k] - v) < 1e-4 for k, v in want.items()), out)
        holds("... and they are all", abs(embedding + position + heads + mlps + biases + rounding - total) < 1e-5, out)


def tokens(tmp):
    out, err, code = repl("anna", "/set temp 0.5", "/set top-k 4", f"/tokens 27 -o {tmp / 't'}", "/tokens 2", "/b 2", "/tokens")
    rows, want = table(tmp / "t"), score("anna")
    ids = [26, 0, 13, 13, 0]
    holds("/tokens: positions and ids", [r[:2] for r in rows] == [[i, t] for i, t in enumerate(ids)] and not err)
    holds("... nothing is said of the first", all(map(math.isnan, rows[0][2:5])))
    holds("... log-probabilities are those of score, to the bit", [r[2] for r in rows[1:]] == want["token_logprobs"][-4:])
    tops = [[(c["id"], c["logprob"]) for c in t] for t in want["top_logprobs"][-4:]]
    holds("... the likeliest too", [list(zip(map(int, r[5::2]), r[6::2])) for r in rows[1:]] == tops)
    holds("... and ranks", all([c[0] for c in t].index(int(r[1])) + 1 == r[4] for r, t in zip(rows[1:], tops)))

    def drawn(t, token):
        kept = {i: math.exp(2 * p) for i, p in t[:4]}  # temperature 0.5
        return kept.get(token, 0) / sum(kept.values())
    holds("... a draw's probability is after temperature and top-k",
          all(abs(r[3] - drawn(t, int(r[1]))) < 1e-6 for r, t in zip(rows[1:], tops)) and any(r[3] > 0 for r in rows[1:]))
    holds("... printed: a line of each", re.search(r"^   2:     13    -1\.9966  0\.\d+     2  \"n\"          0\.145 \"l\"      0\.136 \"n\"$",
                                                   out, re.M) is not None)
    holds("... and of those ahead", out.endswith('   3:     13%30s"n"  ahead\n   4:      0%30s"a"  ahead\n3 of 16, 2 ahead\n' % ("", "")))
    # Drawn tokens: the numbers with which generate drew them.
    p = json.loads(mgpt("generate", NAMES, "--temp", "0.9", "-s", "3", "-n", "6", "--json", "--top", "2").stdout)["logprobs"]
    repl("/set temp 0.9", "/set seed 3", "/g 6", f"/tokens -o {tmp / 'd'}")
    rows = table(tmp / "d")[1:]
    holds("... of drawn tokens as generate --json has them",
          len(rows) >= 3 and [r[3] for r in rows] == p["draw_probs"][:len(rows)] and [r[2] for r in rows] == p["token_logprobs"][:len(rows)])


def changes():
    def rest(text, n):
        return sum(score(text)["token_logprobs"][-n:])
    for line, was, now, n in [("/edit 2 m", "annabel", "amnabel", 5), ("/insert 3 ol", "annabel", "anolnabel", 5),
                              ("/delete 2 3", "annabel", "abel", 3)]:
        out = repl("annabel", line)[0]
        want = "the %d tokens after it: log-probability %.4f, now %.4f\n" % (n, rest(was, n), rest(now, n))
        holds("%s: what it does to the tokens after it" % line, want in out)
    holds("... none after the last", "after it:" not in repl("ann", "/edit 3 m")[0])
    holds("... the first of a text has no probability", "the 2 tokens after it" in repl("/ids 0 13 13", "/insert 0 b")[0])


def npz(path):
    """{name: (shape, values)} of float32 arrays."""
    arrays = {}
    with zipfile.ZipFile(path) as z:
        for name in z.namelist():
            data = z.read(name)
            n = struct.unpack_from("<H", data, 8)[0]
            head = eval(data[10:10 + n])  # noqa: S307: mgpt's own
            if head["descr"] == "<f4":
                arrays[name[:-4]] = head["shape"], array.array("f", data[10 + n:])
    return arrays


def at(value, *index):
    shape, data = value
    place = 0
    for i, n in zip(index, shape):
        place = place * n + i
    return data[place]


def watched(hooks, name, last):
    """A value of a trace, at the last position."""
    hook, index = re.match(r"(\S+?)\[([-\d,]+)\]", name).groups()
    i = [int(k) for k in index.split(",")]
    if hook.endswith(("pattern", "scores")):
        return at(hooks[hook], i[0], last, i[1] % (last + 1) if i[1] < 0 else i[1])
    return at(hooks[hook], last, *i)


def watch(tmp):
    values = {"0.3[-1]": "blocks.0.attn.hook_pattern[3,-1]", "0.1[1]": "blocks.0.attn.hook_pattern[1,1]",
              "blocks.0.attn.hook_attn_scores[2,-2]": None, "mlp.0[7]": "blocks.0.mlp.hook_post[7]",
              "blocks.0.attn.hook_q[1,2]": None, "blocks.0.hook_resid_post[15]": None, 'logits["n"]': 'logits[13] "n"',
              "hook_pos_embed[0]": None}
    names = [long or short for short, long in values.items()]
    out, err, _ = repl(*["/watch " + v for v in values], "ann", "/s 2", "/b", "/edit 1 b", "/ab 0.0 zero")
    before, after = out.split("fed", 1)
    holds("/watch: no value before the first token", before.count("none\n") == 36 and before.count("\n") == 36 and not err)
    shown = re.findall(r"^      (\S+(?: \"n\")?) +(-?[\d.]+|none)$", after, re.M)
    steps = [shown[i:i + len(names)] for i in range(0, len(shown), len(names))]
    holds("... all values after each step", len(steps) == 6 and all([n for n, _ in row] == names for row in steps))
    for row, typed in zip(steps, ["ann", "anna", "annal", "anna", "bnna", "bnna\n/ab 0.0 zero"]):
        repl(typed, f"/trace on * {tmp / 't.npz'}")
        hooks, last = npz(tmp / "t.npz"), len(typed.split("\n")[0])
        holds("... those of a trace: %s" % typed.split("\n")[-1], row == [(n, "%.6f" % watched(hooks, n, last)) for n in names])
    out, err, _ = repl("/watch 0.0[5]", "ann", "/unwatch 0.0[5]", "/watch", "/s", "/watch 0.1[0]", "/unwatch", "/watch")
    holds("... a key that is not there yet is none", out.count("none") == 2 and not err)
    holds("/unwatch ends one, or all", out.count("no value is watched\n") == 2 and out.count("hook_pattern") == 3)
    holds("a longer text in one pass gives the same as steps",
          repl("/watch 0.2[0]", "a", "n", "n")[0].splitlines()[-1] == repl("/watch 0.2[0]", "ann")[0].splitlines()[-1])
    for line, text in [("/watch off", "(/unwatch: show none)"), ("/reset x", "unexpected 'x': /reset takes nothing"),
                       ("/heal 3", "unexpected '3'"), ("/watch x", "expected a value as"), ("/watch 0.9[1]", "head 9: expected 0 to 3"),
                       ("/watch 1.0[1]", "blocks.1.attn.hook_pattern"), ("/watch mlp.0[64]", "expected a whole number from 0 to 63"),
                       ("/watch logits[27]", "token 27: expected 0 to 26"), ("/watch blocks.*[1]", "hooks, expected one"),
                       ("/watch 0.0[99]", "from -16 to 15"), ("/watch 0.0[1,2]", "left over"), ("/unwatch 0.0[0]", "is not watched")]:
        out, err, code = repl(line)
        holds("%s is refused" % line, text in err and err.count("\n") == 1 and code == 2 and not out)
    many = ["/watch mlp.0[%d]" % i for i in range(64)] + ["/watch 0.0[0]"]
    holds("65 values are too many", "which is the most" in repl(*many)[1])


def with_model(tmp):
    other = tmp / "q.gguf"
    mgpt("convert", NAMES, other, "--type", "f16")
    both = repl("anna", f"/with {other}", "/top 27")[0].splitlines()[3:-1]
    alone = [repl("anna", "/top 27", model=m)[0].splitlines()[2:-1] for m in (NAMES, other)]
    split = [[line.split(None, 7) for line in both][i] for i in range(len(both))]
    here = sorted((s[6], s[0], s[1], s[2]) for s in split)
    there = sorted((s[6], s[3], s[4], s[5]) for s in split)
    want = [sorted((s[1], s[0], s[2], s[3]) for s in [line.split(None, 4) for line in a]) for a in alone]
    holds("/top with a second model has the numbers of each alone", len(both) == 27 and here == want[0] and there == want[1] and here != there)
    for options in (), ("--kv", "q8_0"), ("--kv", "f16"), ("--isa", "scalar"), ("--no-fused", "--kv", "q8_0"):
        same = [line.split() for line in repl("anna", f"/with {NAMES}", "/top 27", options=options)[0].splitlines()[3:-1]]
        holds("the second model runs with the options of the first: %s" % " ".join(options), len(same) == 27 and all(s[:3] == s[3:6] for s in same), same)
    out, err, code = repl("anna", f"/with {other}", "/diff")
    sums = [sum(json.loads(mgpt("score", m, "--json", "--no-end", "-f", "-", text='{"text":"anna"}\n').stdout)["logprobs"]["token_logprobs"][-4:])
            for m in (NAMES, other)]
    holds("/diff alone: the text in both", "log-probability of 4 tokens: here %.4f, with %.4f\n" % tuple(sums) in out and not err and code == 0)
    holds("... and the next token", "KL(here || with) 0.0" in out)
    out = repl("anna", "/branch b", "x", f"/with {other}", "/diff main", "/ab 0.0 zero", "/with off", "/top 1", "/diff")[0]
    own = repl("anna", "/branch b", "x", "/diff main", model=other)[0]
    holds("/diff NAME shows both", own[own.index("KL("):] in out[out.index("with " + str(other) + ":\n"):] and "no second model" in out)
    holds("... and off is off", " rank      id  probability      logit   token" in out)
    for name, text, exit_code in [(LINES, "65 logits a row", 3), (tmp / "none", "cannot open", 5)]:
        out, err, code = repl("anna", f"/with {other}", f"/with {name}", "/with")
        holds("another vocabulary, or no model: one line, and the one before stays",
              text in err and err.count("\n") == 1 and code == exit_code and out.endswith("with %s\n" % other))
    holds("/diff alone without a second model", repl("anna", "/diff")[2] == 2)
    long = mgpt("repl", NAMES, text="/with %s\n" % other)
    holds("a second model before the first token", long.returncode == 0)
    model, most = ROOT / "tests/golden/llama", []
    at_once = os.environ | {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=0"}  # what is freed is gone
    for n in 1, 600:  # 40 kB each
        (tmp / "withs").write_text("/with %s\n" % model * n)
        with open(tmp / "withs", encoding="utf-8") as typed, subprocess.Popen(
                [MGPT, "repl", model], stdin=typed, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=at_once) as process:
            most.append(os.wait4(process.pid, 0)[2].ru_maxrss)
    holds("a checkpoint that was the second model has left the memory", most[1] - most[0] < 8 << 10, most)


def steer(tmp):
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 16), }"
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    row = array.array("f", [((7 * j) % 11 - 5) / 8 for j in range(16)])
    (tmp / "v.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + row.tobytes())
    head = head.replace(b"(1, 16)", b"(16,)  ")
    (tmp / "one.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + row.tobytes())
    want = [repl("anna", "/top 9", options=o)[0].splitlines()[-10:]
            for o in ((), ("--steer", f"{tmp / 'v.npy'}:2"), ("--steer", f"{tmp / 'v.npy'}:-0.5"))]
    out, err, code = repl("anna", f"/steer {tmp / 'v.npy'} 2", "/top 9", f"/steer {tmp / 'one.npy'} -0.5 0", "/top 9", "/steer", "/steer off",
                          "/top 9", "/steer")
    tops = re.findall(r"^( +1 +\d+ .*\n(?:.*\n){8}entropy.*)$", out, re.M)
    holds("/steer is --steer, in a session that goes on", [t.splitlines() for t in tops] == [want[1], want[2], want[0]] and want[0] != want[1])
    holds("... and says what is in force", out.count("one.npy times -0.5, layer 0\nlayers: 0\n") == 2 and out.endswith("no steering\n"))
    holds("... and what it changes", out.count("KL(before || after)") == 3 and not err and code == 0)
    out = repl("anna", "/branch b", "/sw main", f"/steer {tmp / 'v.npy'} 2", "/sw b", "/top 9")[0]
    holds("... in all timelines", out.splitlines()[-10:] == want[1])
    out = repl("anna", "/steer", "/steer off", options=("--steer", f"{tmp / 'v.npy'}:2"))[0]
    holds("... --steer is listed, and put off", "v.npy:2\nlayers: 0" in out and out.endswith("no steering\n"))
    for line, text, exit_code in [(f"/steer {tmp / 'v.npy'} x", "the scale: expected a number, found 'x'", 2), (f"/steer {tmp / 'no'} 1", "cannot open", 5),
                                  (f"/steer {tmp / 'one.npy'} 1", "give its layer", 2), (f"/steer {tmp / 'one.npy'} 1 1", "the layer: expected 0 to 0", 2),
                                  (f"/steer {NAMES}", "direction.1", 3), (f"/steer {tmp / 'v.npy'} 1 0 0", "unexpected '0'", 2)]:
        out, err, code = repl("anna", line, "/steer")
        holds("%s is refused" % line.split("/")[-1], text in err and err.count("\n") == 1 and code == exit_code and out.endswith("no steering\n"))


def main():
    hash_runs("debugger")
    tmp = pathlib.Path(tempfile.mkdtemp())
    sums(tmp)
    tokens(tmp)
    changes()
    watch(tmp)
    with_model(tmp)
    steer(tmp)
    shutil.rmtree(tmp)
    finish()


main()
