"""mgpt patch --clean-file: means, standard errors and p over many pairs against a program of its own, from the numbers of each
pair alone; JSON, npz, html and tables; what is refused."""
import array
import itertools
import json
import math
import os
import pathlib
import shutil
import struct
import tempfile
import zipfile

from checks import finish, hash_runs, holds, run_text

ROOT, MGPT = pathlib.Path(os.environ["MGPT_SOURCE_ROOT"]), os.environ["MGPT"]
NAMES = ROOT / "weights/names.gguf"
CLEAN = ["olivia", "elivia", "amelia", "anabel", "arabel"]
CORRUPT = ["elivia", "olivia", "emelia", "enabel", "orabel"]
def patch(*args):
    return run_text(MGPT, "patch", NAMES, *args)


def flat(values):
    return [x for v in values for x in flat(v)] if isinstance(values, list) else [values]


def signs(n):
    """Rows of signs: all of up to 12, else 4,096 whose bits are those of SplitMix64, the true ones first."""
    if n <= 12:
        return [tuple(reversed(s)) for s in itertools.product((1, -1), repeat=n)]
    rows, state, mask = [(1,) * n], 0, 2**64 - 1
    for _ in range(4095):
        row = []
        for i in range(n):
            if i % 64 == 0:
                state = (state + 0x9E3779B97F4A7C15) & mask
                z = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & mask
                z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
                bits = z ^ z >> 31
            row.append(-1 if bits >> (i % 64) & 1 else 1)
        rows.append(tuple(row))
    return rows


def added(values):
    """As a program adds: sum() compensates from Python 3.12 on."""
    total = 0.0
    for x in values:
        total += x
    return total


def statistics(changes, rows):
    n, total = len(changes), added(changes)
    mean = total / n
    stderr = math.sqrt(sum((d - mean) ** 2 for d in changes) / (n - 1) / n)
    far = sum(abs(added(s * d for s, d in zip(row, changes))) >= abs(total) * (1 - 1e-12) for row in rows)
    return mean, stderr, far / len(rows)


def expected(clean, corrupt, metrics, options, into="corrupt"):
    """(clean, corrupt) of each pair, and of each grid a list of statistics and mean values."""
    alone = [json.loads(patch("--clean", a, *(["--corrupt", b] if b else []), "--metric", m, "--json", *options).stdout)
             for a, b, m in zip(clean, corrupt, metrics)]
    rows, base = signs(len(alone)), [r[into]["value"] for r in alone]
    grids = [[statistics([v - b for v, b in zip(site, base)], rows) for site in zip(*[flat(r["grids"][g]["values"]) for r in alone])]
             for g in range(len(alone[0]["grids"]))]
    return alone, sum(base) / len(base), grids


def close(a, b):
    return len(a) == len(b) and all(abs(x - y) <= 1e-9 for x, y in zip(a, b))


def main():
    hash_runs("patch_pairs")
    tmp = pathlib.Path(tempfile.mkdtemp())
    os.chdir(tmp)

    def write(name, lines, end="\n"):
        (tmp / name).write_text("".join(line + end for line in lines))
    write("clean", CLEAN)
    write("corrupt", CORRUPT, "\r\n")
    files = ["--clean-file", "clean", "--corrupt-file", "corrupt"]
    options = ["--over", "resid_pre,z", "--positions", "1,3,-1"]
    alone, base, grids = expected(CLEAN, CORRUPT, ["n - a"] * 5, options)
    p = patch(*files, "--metric", "n - a", "--json", *options)
    r = json.loads(p.stdout)
    holds("--json: pairs and runs", r["pairs"] == 5 and close([r["corrupt"]["value"], r["clean"]["value"]], [
        base, sum(a["clean"]["value"] for a in alone) / 5]) and r["clean"]["tokens"] == alone[0]["clean"]["tokens"] and not p.stderr)
    for g, want in zip(r["grids"], grids):
        holds("... %s: means" % g["over"], close(flat(g["values"]), [base + w[0] for w in want]))
        holds("... standard errors", close(flat(g["stderr"]), [w[1] for w in want]))
        holds("... p of all signs", close(flat(g["p"]), [w[2] for w in want]) and len(set(flat(g["p"]))) > 1)
    holds("... the shape of one pair", [len(x) for x in r["grids"][1]["values"][0]] == [3] * 4)
    # More pairs: some signs. A metric of each, one prompt only.
    texts = [chr(97 + i % 26) + "n" + "nre"[i // 26] + "a" for i in range(70)]
    metrics = ["%s - a" % "nlre"[i % 4] for i in range(70)]
    write("many", texts)
    write("metrics", metrics)
    _, base, grids = expected(texts, [None] * 70, metrics, ["--mode", "zero", "--over", "z", "--heads", "0,2,3"], "clean")
    r = json.loads(patch("--clean-file", "many", "--metric-file", "metrics", "--mode", "zero", "--over", "z", "--heads", "0,2,3", "--json").stdout)
    g = r["grids"][0]
    holds("70 pairs, a metric each: means, standard errors", close(flat(g["values"]), [base + w[0] for w in grids[0]]) and close(
        flat(g["stderr"]), [w[1] for w in grids[0]]) and r["metric"] == "metrics")
    holds("... p of 4,096 signs", close(flat(g["p"]), [w[2] for w in grids[0]]) and 0.001 < min(flat(g["p"])) < 0.9)
    # Other forms.
    p = patch(*files, "--metric", "n - a", "--npz", "x.npz", *options)
    with zipfile.ZipFile("x.npz") as z:
        data = {n: z.read(n) for n in z.namelist()}
    r = json.loads(patch(*files, "--metric", "n - a", "--json", *options).stdout)

    def doubles(name):
        return array.array("d", data[name + ".npy"][10 + struct.unpack_from("<H", data[name + ".npy"], 8)[0]:]).tolist()
    holds("--npz", p.returncode == 0 and all(doubles(g["over"] + key) == flat(g[name]) for g in r["grids"] for key, name in (
        ("", "values"), (".stderr", "stderr"), (".p", "p"))) and all(doubles(run) == [a[run]["value"] for a in alone] for run in ("clean", "corrupt")))
    p = patch(*files, "--metric", "n - a", "--html", "x.html", *options)
    html = (tmp / "x.html").read_text()
    holds("--html", p.returncode == 0 and "means over 5 pairs" in html and html.count("<td title=\"standard error ") == 3 + 12 and
          'standard error %.3g, p %.3g"' % (r["grids"][1]["stderr"][0][2][1], r["grids"][1]["p"][0][2][1]) in html)
    out = patch(*files, "--metric", "n - a", "--over", "resid_pre").stdout
    full = json.loads(patch(*files, "--metric", "n - a", "--json").stdout)["grids"][0]
    holds("tables", "means over 5 pairs" in out and "+- %.4f, p %.4f\n" % (full["stderr"][0][1], full["p"][0][1]) in out)
    holds("one pair has no standard error", json.loads(patch("--clean-file", "one", "--metric", "logprob:n", "--mode", "zero", "--json").stdout)
          ["grids"][0]["stderr"][0][0] is None if not write("one", ["anna"]) else False)
    (tmp / "longer").write_text("ann\nannab")  # the last line has no end
    write("shorter", ["annab", "ann"])
    p = patch("--clean-file", "longer", "--metric", "logprob:n", "--mode", "zero", "--positions", "-1,-2", "--json")
    holds("prompts of two lengths, from the end", p.returncode == 0 and json.loads(p.stdout)["pairs"] == 2)
    # What is refused.
    write("three", ["ann", "anna", "anno"])
    write("bad", ["ann", "anN"])
    write("token", ["n - a", "nn - a"])
    write("empty", [])
    (tmp / "nul").write_bytes(b"ann\nan\0\n")
    for args, text, code in [(["--clean-file", "longer", "--metric", "kl", "--mode", "zero"], "line 2 has another number of tokens", 2),
                             (["--clean-file", "shorter", "--metric", "kl", "--mode", "zero"], "line 2 has another number of tokens", 2),
                             (["--clean-file", "clean", "--corrupt-file", "three", "--metric", "kl"], "three has 3 lines: expected as many", 2),
                             (["--clean-file", "longer", "--corrupt-file", "one2", "--metric", "kl"], "longer, line 2 has 6 tokens and one2, line 2 4", 2),
                             (["--clean-file", "bad", "--metric", "kl", "--mode", "zero"], "bad, line 2", None),
                             (["--clean-file", "longer", "--metric-file", "token", "--mode", "zero", "--positions", "0"], "token, line 2: 'nn' is 2 tokens", 2),
                             (["--clean-file", "empty", "--metric", "kl", "--mode", "zero"], "empty has 0 lines", 2),
                             (["--clean-file", "nul", "--metric", "kl", "--mode", "zero"], "nul: byte 6 is NUL", 3),
                             (["--clean-file", "none", "--metric", "kl", "--mode", "zero"], "none: ", 5),
                             (["--clean-file", "clean", "--clean", "ann", "--metric", "kl", "--mode", "zero"], "not as both", 2),
                             (["--clean-file", "clean", "--metric", "kl", "--why"], "--why goes with --clean", 2),
                             (["--corrupt-file", "clean", "--metric", "kl"], "Give --clean-file", 2),
                             (["--clean-file", "clean", "--metric", "kl"], "Give --corrupt-file", 2),
                             ([*files, "--metric", "kl", "--metric-file", "metrics"], "only one of them", 2), (files, "what is measured?", 2)]:
        write("one2", ["ann", "ann"])
        p = patch(*args)
        holds("refused: " + text, text in p.stderr and p.stderr.strip().count("\n") == 0 and p.returncode == (code or p.returncode) != 0 and not p.stdout)
    shutil.rmtree(tmp)
    finish()


main()
