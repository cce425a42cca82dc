"""Every front end has the same bits: logits and all inner values of the command line, the Python package, the module of
lab pages, the specification and the amalgamation are those of single steps of the library (values.c).

MGPT_FRONTS=all: all golden models, both shipped models, all lengths (the longest with some); otherwise some of each.
Golden models without a table of positions get a context of 1024, which no weight depends on.
"""
import json
import os
import pathlib
import shutil
import subprocess
import zlib

import mgpt
import numpy as np
import pytest

ROOT = pathlib.Path(os.environ["MGPT_SOURCE_ROOT"])
LIBRARY, SPEC, ONE_FILE = (os.environ[f"MGPT_FRONTS_{name}"] for name in ("LIBRARY", "SPEC", "ONE_FILE"))
MGPT, GOLDEN = os.environ["MGPT"], ROOT / "tests/golden"
ALL = os.environ.get("MGPT_FRONTS") == "all"
# The engine computes 72 rows of logits at a time, a chunk has 96 or 192 tokens. Several chunks take most of the time.
LENGTHS = (1, 71, 72, 73, 145, 200) if ALL else (1, 73)
LONGEST = 1000
SHIPPED = ["names", "shakespeare"]
FEW = ["gpt2", "gemma3", "lfm2", "qwen2_moe"]
# With a table of positions: as long as it is. LongRoPE: the texts that the short factors are for.
LIMITED = {"biogpt", "gpt1", "gpt2", "gpt_bigcode", "bigcode_heads", "gpt_neo", "opt", "opt_350m", "phi3_longrope", "minicpm3", "deepseek_v32"}
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")


def output(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{words[0]}: {done.stderr}"
    return done.stdout


def converted(name, folder):
    """A golden model as GGUF, with a longer context where nothing limits it."""
    copy = folder / "checkpoint"
    shutil.copytree(GOLDEN / name, copy)
    config = json.loads((copy / "config.json").read_text())
    if name not in LIMITED:
        key = next((k for k in CONTEXT_KEYS if k in config), CONTEXT_KEYS[0])
        (copy / "config.json").write_text(json.dumps({**config, key: 1024}))
    told = (copy / "options").read_text().split() if (copy / "options").exists() else []
    if not told and not any(f.name.startswith(("tokenizer", "vocab")) for f in copy.iterdir()):
        told = ["--no-tokenizer"]
    output(MGPT, "convert", copy, folder / "model.gguf", *told)
    return folder / "model.gguf"


def read_lines(text):
    """{length: {name: bits}} of lines of values.c."""
    found = {}
    for line in text.splitlines():
        length, name, bits = line.split()
        found.setdefault(int(length), {})[name] = bits
    return found


class Subject:
    """A model, the lengths that its context has, and the bits of single steps."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.file = ROOT / f"weights/{name}.gguf" if name in SHIPPED else converted(name, folder)
        self.model = mgpt.Model(self.file)
        n_ctx = self.model.info.n_ctx
        assert n_ctx >= 1000 or name in LIMITED or name in SHIPPED
        most = LONGEST if ALL and name in FEW + SHIPPED else max(LENGTHS)
        self.lengths = [n for n in (*LENGTHS, LONGEST) if n < n_ctx and n <= most] + ([n_ctx] if n_ctx < most else [])
        self.want = read_lines(output(LIBRARY, self.file, "step", *self.lengths))
        assert list(self.want) == self.lengths and all("logits" in w and len(w) > 5 for w in self.want.values())
        n = self.model.info.n_tokens
        self.tokens = [(i * i * 7919 + i * 13 + 5) % n for i in range(self.lengths[-1])]

    def ids(self, n):
        return ",".join(map(str, self.tokens[:n]))


def all_models():
    golden = sorted(p.parent.name for p in GOLDEN.glob("*/ref.npz") if (p.parent / "config.json").exists())
    assert len(golden) > 55
    return SHIPPED + (golden if ALL else FEW)


@pytest.fixture(scope="module", params=all_models())
def subject(request, tmp_path_factory):
    made = Subject(request.param, tmp_path_factory.mktemp(request.param))
    yield made
    made.model.close()
    shutil.rmtree(made.folder)


def crc(array):
    return f"{zlib.crc32(np.ascontiguousarray(array, np.float32)):08x}"


def crc_of_squares(name, square):
    """Of [heads, T, T]: the keys that each query sees. What it must not see is -inf or 0."""
    hidden, bits = -np.inf if name.endswith("scores") else 0, 0
    n = square.shape[1]
    assert (square[:, ~np.tri(n, dtype=bool)] == hidden).all(), name
    for pos in range(n):
        bits = zlib.crc32(np.ascontiguousarray(square[:, pos, : pos + 1]), bits)
    return f"{bits:08x}"


def bits_of(name, value):
    return crc_of_squares(name, value) if name.endswith(("attn_scores", "pattern")) else crc(value)


def without_check(want):
    return {name: bits for name, bits in want.items() if name != "check"}


# ---- the library, in two forms ----


def test_taps_change_nothing(subject):
    assert 0 not in subject.want # values.c says where a tapped step differs from an untapped one


def test_feed(subject):
    assert read_lines(output(LIBRARY, subject.file, "feed", *subject.lengths)) == subject.want


@pytest.fixture(scope="module")
def one_file(tmp_path_factory):
    """values.c with mgpt.c."""
    folder = pathlib.Path(ONE_FILE)
    program = tmp_path_factory.mktemp("one") / "values"
    output(*os.environ.get("CC", "cc").split(), "-O1", "-DQUICK_TO_COMPILE", "-I", folder, ROOT / "tests/fronts/values.c",
           folder / "mgpt.c", "-o", program, "-lm", "-lpthread")
    return program


@pytest.mark.skipif(not ALL, reason="the test `amalgamation quick` has hashes of it")
@pytest.mark.parametrize("how", ["step", "feed"])
def test_amalgamation(subject, one_file, how):
    assert read_lines(output(one_file, subject.file, how, *subject.lengths)) == subject.want


# ---- the command line ----


def test_trace(subject):
    for n in subject.lengths:
        file = subject.folder / "trace.npz"
        output(MGPT, "trace", subject.file, "--ids", subject.ids(n), "--kv", "f32", "-o", file)
        with np.load(file) as arrays:
            assert arrays["tokens"].tolist() == subject.tokens[:n]
            got = {name: bits_of(name, arrays[name]) for name in arrays.files if name != "tokens"}
        assert got == without_check(subject.want[n]), n


def test_check(subject):
    """check --self has one hash for 100 variants of a run, which take a while."""
    for n in [n for n in subject.lengths if n in ((1, 73, subject.model.info.n_ctx) if ALL else (1,)) and n <= 73]:
        said = output(MGPT, "check", "--self", "-n", n, "--kv", "f32", subject.file)
        assert said.splitlines()[-1].split()[0] == subject.want[n]["check"], n


def test_specification(subject):
    for n in [n for n in subject.lengths if n <= 145 or ALL]:
        assert output(SPEC, subject.file, *subject.tokens[:n]).strip() == subject.want[n]["check"], n


# ---- the package ----


def engine_names(values):
    """What the engine computes, under its names: a norm's output is hook_out here if it has a gain."""
    outputs = {n.removesuffix("hook_out") + "hook_normalized": v for n, v in values.items() if n.endswith("ln1.hook_out")
               or n.endswith("ln2.hook_out") or n == "ln_final.hook_out"}
    return {n: v for n, v in values.items() if not n.endswith(("hook_out", "hook_scale"))} | outputs


def test_package(subject):
    model = subject.model
    for n in subject.lengths:
        tokens, want, seen = subject.tokens[:n], without_check(subject.want[n]), {}
        logits, cache = model.run_with_cache(tokens, remove_batch_dim=True)
        values = engine_names({**cache, "logits": logits[0]})
        assert {name: bits_of(name, value) for name, value in values.items()} == want, n
        def keep(value, hook):
            seen[hook.name] = bits_of(hook.name, value[0])
        logits = model.run_with_hooks(tokens, [(None, keep)])
        assert crc(logits) == crc(model.logits(tokens, kv="f32")) == want["logits"], n
        assert engine_names(seen) == want, n


def test_scores(subject):
    """Log-probabilities of the package, of the command and of the logits."""
    model = subject.model
    for n in subject.lengths:
        rows = model.logits(subject.tokens[:n])[:-1].astype(np.float64)
        found = model.score([subject.tokens[:n]])[0]
        shifted = rows - rows.max(-1, keepdims=True)
        want = np.take_along_axis(shifted, np.array(subject.tokens[1:n], int)[:, None], 1)[:, 0] - np.log(np.exp(shifted).sum(-1))
        assert np.allclose(found.logprobs, want, rtol=1e-12, atol=1e-12), n


# ---- the page ----


def test_page(subject):
    node = shutil.which("node")
    if node is None:
        assert "MGPT_CI" not in os.environ, "node is missing"
        pytest.skip("no node")
    page = subject.folder / "page.html"
    done = subprocess.run([MGPT, "lab", subject.file, "-o", page], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    got = read_lines(output(node, ROOT / "tests/fronts/values.js", page, *subject.lengths))
    assert got == {n: without_check(want) for n, want in subject.want.items()}
