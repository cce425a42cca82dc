#!/usr/bin/env python3
"""tools/suite/suite.py with engines that do everything wrong: each gets its verdict, and the run goes on.

The suite is made here: reference logits of 3 tokens, whose case ids say what the engine does with them.
"""
import array
import contextlib
import importlib
import io
import json
import os
import pathlib
import struct
import sys
import tempfile
import unittest
import unittest.mock
import zipfile
import zlib

ROOT = pathlib.Path(os.environ.get("MGPT_SOURCE_ROOT") or pathlib.Path(__file__).parents[2])
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools/suite"))
import causes  # noqa: E402
import suite  # noqa: E402
import write  # noqa: E402

HANGS = "^(hang|child|half)$"
T, V = 3, 8
LOGITS = [(7 * i % 11 - 5) / 4 for i in range(T * V)]

# What each case does: the engine's behaviour is the case's id up to the first "_". As a command, and as a server.
ENGINE = r"""
import array, json, os, signal, sys, time
ref = array.array("f", %r)
def answer(ids, out, how):
    name = os.path.basename(ids).split("_")[0].split(".")[0]
    a = array.array("f", ref)
    if name == "near": a[9] += 1e-3
    elif name == "integer": a[9] += 0.1
    elif name == "wrong": a[9] += 1
    elif name == "also": a[9] += 2
    elif name == "nan": a[9] = float("nan")
    elif name == "inf": a[9] = float("inf")
    elif name == "few": del a[-1]
    elif name == "many": a.append(0)
    elif name == "empty": del a[:]
    elif name == "rows": a[0] += 5
    elif name == "differs" and how: a[0] += 1e-7
    elif name == "segv": os.kill(os.getpid(), signal.SIGSEGV)
    elif name == "term": os.kill(os.getpid(), signal.SIGTERM)
    elif name == "shell": os._exit(134)
    elif name == "hang": time.sleep(100)
    elif name == "child":
        if os.fork() == 0:
            time.sleep(100)
        time.sleep(100)
    elif name == "says": sys.stdout.write("loading...\n" * 9); sys.stdout.flush()
    elif name == "dies": os._exit(7)
    elif name == "half": os.write(1, b"o"); time.sleep(100)
    elif name == "twice": os.write(1, b"ok\nok\n")
    elif name == "flood": os.write(1, b"x" * 300000)
    elif name == "refused": raise ValueError("no such\nmodel")
    elif name == "silent": return "silent"
    elif name == "tokens":
        lines = [json.loads(x) for x in open(ids)]
        open(out, "w").write("".join("%%s\n" %% (" ".join(str(ord(c)) for c in x)) for x in lines)); return
    elif name == "tokenswrong": open(out, "w").write("1 2\n[3, 5]\n"); return
    elif name == "tokensfew": open(out, "w").write("1 2\n"); return
    elif name.startswith("hooks"):
        assert how == ["--hooks", "q,pattern"] or how == ["--hooks q,pattern"], how
        if name == "hooksrefused": raise ValueError("no such way")
        if name == "hooksfirst": a[9] += 1
        a.extend(a[:4])
        if name in ("hookspattern", "hooksfirst"): a[-1] += 9
        if name == "hooksfew": del a[-1]
        if name == "hooksnan": a[-1] = float("nan")
    elif name == "tokenstext": open(out, "w").write("one two\n"); return
    if name == "nofile": return
    open(out, "wb").write(b"logits: 1.0 2.0\n" if name == "text" else a.tobytes())
if len(sys.argv) > 1:
    if "absent" in sys.argv[1]: sys.exit("started for a case without a file")
    try:
        if answer(sys.argv[2], sys.argv[3], sys.argv[4:]) == "silent": sys.exit(3)
    except ValueError as e:
        print("warning: x", file=sys.stderr); sys.exit(str(e).replace("\n", " "))
else:
    for line in sys.stdin:
        model, ids, out, *how = line.rstrip("\n").split("\t")
        try:
            said = "refused" if answer(ids, out, how) == "silent" else "ok"
        except ValueError as e:
            said = "refused " + str(e).replace("\n", " ")
        print(said, flush=True)
"""

# {case: (verdict of the command, verdict of the server, words of both reasons)}
WANT = {
    "right": ("right", "right", ""), "near": ("near", "near", ""), "integer": ("near", "near", ""), "wrong": ("wrong", "wrong", ""),
    "also": ("right", "right", "the other accepted answer: it is open"), "rows": ("right", "right", ""),
    "nan": ("wrong", "wrong", "NaN or infinity in row 1"), "inf": ("wrong", "wrong", "NaN or infinity in row 1"),
    "few": ("wrong", "wrong", "too few numbers: 23, expected 24"), "many": ("wrong", "wrong", "too many numbers: 25, expected 24"),
    "empty": ("wrong", "wrong", "too few numbers: 0"), "text": ("wrong", "wrong", "text, not float32: 'logits: 1.0 2.0'"),
    "nofile": ("wrong", "wrong", "no numbers: the file was not written"), "segv": ("crash", "crash", "SIGSEGV"),
    "term": ("crash", "crash", "SIGTERM"), "shell": ("crash", "crash", "SIGABRT"), "hang": ("crash", "crash", "time-out: no answer in 1"),
    "child": ("crash", "crash", "time-out"), "says": ("right", "crash", ""), "half": ("crash", "crash", "time-out"),
    "dies": ("refused", "crash", "exit status 7"), "twice": ("right", "crash", ""), "flood": ("right", "crash", ""),
    "refused": ("refused", "refused", "no such model"), "silent": ("refused", "refused", ""), "absent": ("absent", "absent", "no file in"),
    "right_last": ("right", "right", ""), "wrong_last": ("wrong", "wrong", ""), "wrong_step": ("wrong", "wrong", ""),
    "right_step": ("right", "right", ""), "differs": ("right", "right", ""), "differs_step": ("right", "right", ""),
    "tokens": ("right", "right", ""), "tokenswrong": ("wrong", "wrong", "1 of 2 texts differ, the first is text 2: 'b'"),
    "hooks": ("right", "right", "q"), "hookspattern": ("wrong", "wrong", "pattern"), "hooksfirst": ("wrong", "wrong", "q"),
    "hooksfew": ("wrong", "wrong", "too few numbers: 27, expected 28"), "hooksnan": ("wrong", "wrong", "pattern: NaN or infinity in row 1"),
    "hooksrefused": ("absent", "absent", "no such way"),
    "tokensfew": ("wrong", "wrong", "too few lines: 1, expected 2"), "tokenstext": ("wrong", "wrong", "text, not ids"),
}


def npy(values, *shape, kind="d"):
    header = "{'descr': '<f%d', 'fortran_order': False, 'shape': %s, }" % (8 if kind == "d" else 4, shape)
    header = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + array.array(kind, values).tobytes()


def write_suite(folder, names):
    folder = pathlib.Path(folder)
    other = list(LOGITS)
    other[9] += 2
    for name, data in {"ref.npy": npy(LOGITS, T, V), "other.npy": npy(other, T, V, kind="f"), "part.npy": npy(LOGITS[V:], T - 1, V),
                       "texts": b'"a"\n"b"\n', "ids": b"[97]\n[98]\n", "one": b"[1]\n", "wrong.ids": b"[1, 2]\n[3, 4]\n"}.items():
        (folder / name).write_bytes(data)
    with zipfile.ZipFile(folder / "inner.npz", "w") as archive:
        archive.writestr("q.npy", npy(LOGITS, T, 2, 4))
        archive.writestr("pattern.npy", npy(LOGITS[:4], 2, 1, 2))
    cases = []
    for name in names:
        (folder / f"{name}.txt").write_text("1 2\n3")
        case = {"id": name, "group": name[:3], "what": "it", "files": {"pt" if name == "absent" else "gguf": name}, "ids": name + ".txt", "ref": "ref.npy"}
        if name == "also":
            case["also"] = [{"ref": "other.npy", "why": "it is open"}]
        if name == "rows":
            case.update(ref="part.npy", rows=[1, 2])
        if name == "integer":
            case["integer"] = True
        if name.endswith("_step"):
            case.update(kind="behaviour", how="--step 1", like=name[:-5])
            case["ids"] = case["ids"].replace("_step", "")
        if name.startswith("hooks"):
            case.update(kind="hooks", names=["q", "pattern"], ref="inner.npz")
        if name.startswith("tokens"):
            (folder / f"{name}.txt").write_text('"a"\n"b"\n')
            case.update(kind="tokenizer", texts=case.pop("ids"), ref="ids" if name == "tokens" else "wrong.ids")
        cases.append(json.dumps(case))
    (folder / "cases.jsonl").write_text("\n".join(cases) + "\n\n")
    (folder / "suite.json").write_text('{"version": "test"}')


class Runner(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(self.temporary.name)
        write_suite(self.dir, WANT)
        (self.dir / "engine.py").write_text(ENGINE % LOGITS)
        self.command = ["--engine", f"{sys.executable} {self.dir}/engine.py {{model}} {{ids}} {{out}} {{how}}"]
        self.server = ["--serve", f"{sys.executable} {self.dir}/engine.py"]
        self.common = ["--format", "gguf,hf", "--timeout", "60", "--mgpt", "/nonexistent"]

    def tearDown(self):
        self.temporary.cleanup()

    def run_suite(self, *words, status=1):
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
            try:
                code = suite.main([str(word) for word in words])
            except SystemExit as ended:
                code = ended.code
        self.assertEqual(code, status, out.getvalue() + errors.getvalue())
        return out.getvalue() + errors.getvalue()

    def results(self, *words, status=1):
        self.run_suite("run", self.dir, *words, "--json", self.dir / "out.json", status=status)
        return json.loads((self.dir / "out.json").read_text())

    def judged(self, engine, at):
        found = self.results(*engine, *self.common, "--jobs", 3, "--case", "^(?!hang|child|half)")
        hung = self.results(*engine, *self.common, "--jobs", 3, "--case", HANGS, "--timeout", 0.2 if at else 1)
        cases = {c["id"]: c for c in found["cases"] + hung["cases"]}
        self.assertEqual([c["id"] for c in found["cases"]], [name for name in WANT if name in {c["id"] for c in found["cases"]}])
        self.assertEqual(len(cases), len(WANT))
        for name, want in WANT.items():
            with self.subTest(name):
                self.assertEqual(cases[name]["verdict"], want[at], cases[name])
                self.assertIn(want[2], cases[name].get("reason", ""))
        self.assertEqual([cases[n].get("bits") for n in ("right", "right_step", "differs_step")], [None, "equal", "differ"])
        self.assertEqual(sum(found["counts"].values()), len(found["cases"]))
        return cases

    def test_command(self):
        cases = self.judged(self.command, 0)
        self.assertEqual(cases["wrong"]["row"], 1)
        self.assertAlmostEqual(cases["near"]["D"], 1e-3 / (sum(x * x for x in LOGITS[V:2 * V]) / V) ** 0.5, 6)

    def test_server(self):
        cases = self.judged(self.server, 1)
        self.assertIn("'loading...", cases["says"]["reason"])

    def test_a_command_without_how(self):
        found = self.results(self.command[0], self.command[1].replace(" {how}", ""), *self.common, "--case", "_step|^(tokens|hooks)$", status=0)
        self.assertEqual([c["verdict"] for c in found["cases"]], ["absent"] * 5)

    def test_ids_with_slashes(self):
        path = self.dir / "cases.jsonl"
        path.write_text(path.read_text().replace('"id": "right"', '"id": "of/right"').replace('"id": "near"', '"id": "of/the/near"'))
        for engine in self.command, self.server:
            found = self.results(*engine, *self.common, "--case", "^of/", status=0)
            self.assertEqual({c["id"]: c["verdict"] for c in found["cases"]}, {"of/right": "right", "of/the/near": "near"})

    def test_engines_that_cannot_be_started(self):
        script = self.dir / "script"
        script.write_text("#!/nonexistent/sh\n")
        script.chmod(0o755)
        for words in (["--engine", f"{script} {{model}} {{ids}} {{out}}"], ["--serve", script]):
            found = self.results(*words, *self.common, "--case", "^right")
            self.assertEqual(found["counts"]["crash"], 2 if "{" in str(words[1]) else 3)
            self.assertIn("cannot be started", found["cases"][0]["reason"])

    def test_causes(self):
        """mgpt is asked once for equal answers of a model, and for each model."""
        (self.dir / "mgpt").write_text(f"#!/bin/sh\necho >>{self.dir}/calls\necho '{{\"cause\":\"'${{2##*/}}'\"}}'\n")
        (self.dir / "mgpt").chmod(0o755)
        found = self.results(*self.command, *self.common, "--case", "^wrong", "--mgpt", self.dir / "mgpt")
        self.assertEqual([c["cause"] for c in found["cases"]], ["wrong", "wrong_last", "wrong"])
        self.assertEqual((self.dir / "calls").read_text(), "\n\n")

    def test_what_causes_are_asked_for(self):
        """mgpt gets the first file that it reads, and the rows up to the first wrong one and 16 more, with their ids."""
        mgpt, ids, numbers = self.dir / "mgpt", self.dir / "ids", self.dir / "numbers"
        mgpt.write_text(f"#!{sys.executable}\nimport json, sys\nwith open(sys.argv[3], 'rb') as part:\n    read = part.read().hex()\n"
                        f"print(json.dumps({{'cause': json.dumps([sys.argv[2:], read])}}))\n")
        mgpt.chmod(0o755)
        given = list(range(100, 140))
        ids.write_text(" ".join(map(str, given)))
        values = array.array("f", range(40 * 5)).tobytes()
        numbers.write_bytes(values)
        files = {"onnx": "o", "bin": "b", "pt": "p", "hf4": "4", "hf": "h"}
        for row, n in ((0, 16), (3, 19), (23, 39), (24, 40), (39, 40), (None, 16)):
            words, read = json.loads(causes.cause_of(str(mgpt), {"input": ids, "files": files}, numbers, {"row": row}, 60))
            self.assertEqual(words, ["h", str(numbers.with_suffix(".part")), "--shape", f"{n},5", "--ids", ",".join(map(str, given[:n])),
                                     "--explain", "--tol", "f16", "--json"])
            self.assertEqual(read, values[:4 * 5 * n].hex())
            self.assertFalse(numbers.with_suffix(".part").exists())

    def test_what_causes_say(self):
        mgpt = self.dir / "mgpt"
        numbers = self.dir / "numbers"
        numbers.write_bytes(bytes(8))
        (self.dir / "ids").write_text("1 2")
        case = {"input": self.dir / "ids", "files": {"gguf": "g"}}
        none = {"cause": None, "hint": None, "tried": 7, "trials": []}
        for lines, told in (
                ([], "mgpt check compares nothing"), ([{"verdict": "different"}], "mgpt check compares nothing"), ([{"verdict": "same"}], "mgpt computes the same"),
                ([{"verdict": "different"}, {**none, "cause": "a"}], "a"), ([{**none, "cause": "a", "with": "b", "third": None}], "a, with b"),
                ([{**none, "cause": "a", "with": "b", "third": "c"}], "a, with b, with c"), ([none], "none of 7 suspects"), ([{**none, "hint": "h"}], "none of 7 suspects; a hint: h"),
                ([{**none, "trials": [{"cause": "x", "nmse": 2e-5}, {"cause": "y", "nmse": 3e-5}]}], "none of 7 suspects; the nearest: x, NMSE 2.0e-05")):
            text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
            mgpt.write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\n")
            mgpt.chmod(0o755)
            self.assertEqual(causes.cause_of(str(mgpt), case, numbers, {"row": 0}, 60), told)
        mgpt.write_text("#!/bin/sh\nexec sleep 60\n")
        self.assertEqual(causes.cause_of(str(mgpt), case, numbers, {"row": 0}, 0.5), "no cause found in 0.5 s")

    def test_equal_runs(self):
        """Two runs give the same but for times, with any number of jobs."""
        found = []
        for jobs in (1, 3):
            one = self.results(*self.server, *self.common, "--case", "^(right|near|wrong|segv|refused)", "--jobs", jobs)
            for timed in [one, *one["cases"]]:
                del timed["seconds"]
            found.append({**one, "date": ""})
        self.assertEqual(found[0], found[1])

    def test_expect(self):
        few = [*self.command, *self.common, "--case", "^(right|near|wrong|refused)$"]
        file, out = self.dir / "expect", []
        self.run_suite("run", self.dir, *few, "--write-expect", file)
        self.assertIn("refused refused # no such model\n", file.read_text())
        out.append(self.run_suite("run", self.dir, *few, "--expect", file, status=0))
        self.assertIn("as expected", out[0])
        text = file.read_text()
        file.write_text(text.replace("wrong wrong", "wrong right").replace("near near\n", ""))
        changed = self.run_suite("run", self.dir, *few, "--expect", file)
        self.assertIn("changed: wrong: right -> wrong", changed)
        self.assertIn("changed: near: not in the file -> near", changed)
        file.write_text(text + "gone right\n")
        self.run_suite("run", self.dir, *few, "--expect", file, status=0)  # not all cases were run
        write_suite(self.dir, ["right", "near", "wrong", "refused"])
        self.assertIn("changed: gone: right -> not in the suite", self.run_suite("run", self.dir, *few[:-2], "--expect", file))
        file.write_text("# patterns\n* right\n[nw]* wrong\nn??r near\nrefused refused\n")
        self.run_suite("run", self.dir, *few[:-2], "--expect", file, status=0)
        self.run_suite("run", self.dir, *few[:-2], "--format", "pt", "--expect", file)  # refused has no file
        file.write_text("* right\nw* wrong\nrefused refused\n")
        self.assertIn("changed: near: right -> near", self.run_suite("run", self.dir, *few[:-2], "--expect", file))
        for bad in ("right good\n", "right\n", "right right\nright right\n"):
            file.write_text(bad)
            self.assertIn("expect:", self.run_suite("run", self.dir, *few, "--expect", file, status=3))

    def test_pages(self):
        pages = []
        for name, engine in (("<a>", self.command), ("b", self.server)):
            self.run_suite("run", self.dir, *engine, *self.common, "--case", "^(right|near|wrong|segv|refused|absent|differs)", "--name", name, "--engine-version",
                           "7", "--json", self.dir / f"{len(pages)}.json", "--html", self.dir / "one.html")
            pages.append((self.dir / "one.html").read_text())
        for n in range(2):  # what is this run's
            result = json.loads((self.dir / f"{n}.json").read_text())
            (self.dir / f"{n}.json").write_text(json.dumps({**result, "date": "2026-11-30", "seconds": n}))
        self.run_suite("table", self.dir / "0.json", self.dir / "1.json", "--html", self.dir / "both.html", status=0)
        both = (self.dir / "both.html").read_text()
        self.assertIn("&lt;a&gt;", both)
        self.assertNotIn("<a>", both)
        for word in ("http:", "https:", "src=", "@import"):
            self.assertNotIn(word, both)  # nothing is fetched
        for word in ("prefers-color-scheme", "SIGSEGV", 'id="1-wrong"', 'href="#1-wrong"', "no such model", "6 of 11"):
            self.assertIn(word, both)
        self.assertEqual("%08x" % zlib.crc32(both.encode()), "cdee288e")  # a change of the page: look at it
        self.assertIn("NMSE", pages[0])
        self.run_suite("run", self.dir, *self.command, *self.common, "--case", "^right$", "--html", self.dir / "one.html", status=0)
        for said in ("<p>Nothing is wrong.", "<p>Nothing is refused."):
            self.assertIn(said, (self.dir / "one.html").read_text())
        (self.dir / "0.json").write_text("{}")
        self.assertIn("not a result", self.run_suite("table", self.dir / "0.json", "--html", self.dir / "x", status=3))

    def test_bad_usage(self):
        run = ["run", self.dir]
        for words, told in (
                (run + self.common, "one of --engine"), (run + self.command + self.server + self.common, "one of --engine"),
                (run + ["--engine", "nothing-here {model} {ids} {out}"] + self.common, "nothing-here: not found"),
                (run + ["--engine", "sh {model}"] + self.common, "{ids} {out} is missing"),
                (run + self.command + ["--format", "onnx"], "--format onnx: expected some of gguf"),
                (run + self.command + self.common + ["--case", "zzz"], "no case has this name"),
                (run + self.command + self.common + ["--jobs", "0"], "expected a number above 0"),
                (run + self.command + self.common + ["--timeout", "nan"], "expected a number above 0"),
                (run + self.command + self.common + ["--case", "("], "--case (: "), (run + self.command, "required: --format")):
            self.assertIn(told, self.run_suite(*words, status=2))
        self.assertIn("No such file", self.run_suite(*run, *self.command, *self.common, "--expect", "/nonexistent/x", status=5))
        self.assertEqual(self.run_suite("protocol", status=0).count("\n"), 14)

    def test_bad_suites(self):
        good, refs = (self.dir / "cases.jsonl").read_text().splitlines()[0], (self.dir / "ref.npy").read_bytes()
        case = json.loads(good)
        def without(key):
            return json.dumps({k: v for k, v in case.items() if k != key})
        for line, told in (
                ("{", "not JSON"), ("[]", "expected an object"), (good + "\n" + good, ":2: the id right is used twice"), ("\n", "no cases"),
                *((without(key), f'expected "{key}"') for key in ("id", "group", "ref", "ids", "files")),
                (json.dumps({**case, "kind": "x"}), "kind x: expected one of"), (json.dumps({**case, "files": {"hf": 3}}), 'expected "files"'),
                (json.dumps({**case, "kind": "behaviour"}), 'expected "how"'), (json.dumps({**case, "ref": "absent"}), "absent: expected a matrix"),
                (json.dumps({**case, "ref": "part.npy"}), "2 rows, expected 3 of the 3 positions"),
                (json.dumps({**case, "ref": "part.npy", "rows": [1, 3]}), "2 rows, expected 2 of the 3 positions"),
                (json.dumps({**case, "kind": "hooks"}), 'expected "names"'),
                (json.dumps({**case, "kind": "hooks", "names": ["q"]}), "ref.npy: expected arrays"),
                (json.dumps({**case, "kind": "hooks", "names": ["k"], "ref": "inner.npz"}), "inner.npz: expected arrays"),
                (json.dumps({**case, "rows": [-1]}), 'expected "rows"'), (json.dumps({**case, "also": [{"ref": "x"}]}), 'expected "also"'),
                (json.dumps({**case, "kind": "tokenizer", "texts": "texts", "ref": "right.txt"}), "right.txt: not JSON Lines"),
                (json.dumps({**case, "kind": "tokenizer", "texts": "texts", "ref": "texts"}), "texts: expected a list on each line"),
                (json.dumps({**case, "kind": "tokenizer", "texts": "texts", "ref": "one"}), "one: 1 lines, expected one for each of 2 texts"),
                (json.dumps({**case, "ids": "texts"}), "texts: invalid literal")):
            (self.dir / "cases.jsonl").write_text(line)
            self.assertIn(told, self.run_suite("run", self.dir, *self.command, *self.common, status=3))
        (self.dir / "cases.jsonl").write_text(good)
        for data in (b"", refs[:40], refs[:-1], refs[:-8], refs + bytes(8), refs.replace(b"<f8", b"<i8"), refs.replace(b"False", b"True "), refs.replace(b"(3, 8)", b"(3,)  ")):
            (self.dir / "ref.npy").write_bytes(data)
            self.assertIn("ref.npy: ", self.run_suite("run", self.dir, *self.command, *self.common, status=3))
        for text in ("", "[]", "{}"):
            (self.dir / "suite.json").write_text(text)
            self.assertIn("suite.json: ", self.run_suite("run", self.dir, *self.command, *self.common, status=3))
        self.assertIn("No such file", self.run_suite("run", self.dir / "no", *self.command, *self.common, status=3))

    def test_adapters_are_short(self):
        for path in (ROOT / "tools/suite/adapters").iterdir():
            if path.is_file() and path.name not in ("adapter.py", "texts.h"):  # what those in Python or C++ share
                self.assertLessEqual(len(path.read_text().splitlines()), 40, path.name)

    def test_texts_of_tokenizers(self):
        """The texts that reference_tokenizers.py draws are those of the suite; they need no tokenizers."""
        with unittest.mock.patch.dict(sys.modules, tokenizers=unittest.mock.MagicMock()):
            drawn = importlib.import_module("reference_tokenizers")
        self.assertEqual((write.DATA / "tok/texts.jsonl").read_text(), drawn.lines(drawn.texts()))

    def test_answers_are_kept(self):
        self.run_suite("run", self.dir, *self.command, *self.common, "--case", "^right$", "--keep", self.dir / "kept", status=0)
        self.assertEqual((self.dir / "kept/right.out").read_bytes(), array.array("f", LOGITS).tobytes())


if __name__ == "__main__":
    unittest.main()
