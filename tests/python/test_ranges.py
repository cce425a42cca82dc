"""Arguments are refused where the commands refuse their options, in one short line; objects show and copy themselves."""
import copy
import pickle
import re
import subprocess
from pathlib import Path

import mgpt
import numpy as np
import pytest
from mgpt._ranges import RANGES
from mgpt.show import Heatmap

PROGRAM = Path(mgpt.__file__).with_name("mgpt")
BEYOND = {name: [least - 1, most + 1 if whole else most * 2 + 1] + ([] if whole else [float("nan")]) for name, (_, least, most, whole) in RANGES.items()}


def command(root, option, value):
    done = subprocess.run([PROGRAM, "generate", root / "weights/names.gguf", "-p", "a", "-n", "1", "--json", option, str(value)],
                          capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def in_python(model, name, value):
    list(model.generate("a", **{"n": 1, name: value}))


@pytest.mark.parametrize("name, value", [(name, value) for name, values in BEYOND.items() for value in values])
def test_beyond_a_range(root, names, name, value):
    with pytest.raises(ValueError, match=f"^{name}: expected a number from"):
        in_python(names, name, value)
    code, text = command(root, RANGES[name][0], value)
    assert code == 2 and ("expected" in text or "allowed" in text)


@pytest.mark.parametrize("name", [name for name in RANGES if name not in ("threads", "n_ctx")])
def test_ends_of_a_range(root, names, name):
    option, least, most, _ = RANGES[name]
    for value in (least, most):
        in_python(names, name, value)
        assert command(root, option, value)[0] == 0


@pytest.mark.parametrize("call", [
    lambda m: m.token_text(2**40), lambda m: m.token_text(-1), lambda m: m.is_end(27), lambda m: mgpt.Decoder(m).put(27), lambda m: mgpt.Decoder(m).put(2**32), lambda m: m.tensor_of("W_Q", 2**32), lambda m: m.has("W_Q", -2), lambda m: m.head_scores(1), lambda m: m.decode([10**9, 5]),
    lambda m: m.score([[26, 0, 10**9]]), lambda m: m.score([[27]]), lambda m: mgpt.Model(m.path, isa="avx2\0x"),
    lambda m: m.tensor("a\0b"), lambda m: mgpt.Model(m.path, threads=-1), lambda m: mgpt.Sampler(seed=2**70),
    lambda m: m.session(threads=2**40)])
def test_values_out_of_range(names, call):
    with pytest.raises((ValueError, mgpt.Error)) as refused:
        call(names)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("name, value, text", [("n", np.int32(-5), "-5"), ("temperature", np.float64(-1), "-1.0"), ("top_k", np.int64(-3), "-3"),
                                               ("seed", np.float32(1.5), "1.5")])
def test_numbers_of_numpy_are_shown_as_numbers(names, name, value, text):
    with pytest.raises((TypeError, ValueError), match=f"^{name}: .*, found {text}$"):
        names.generate("a", **{name: value})


@pytest.mark.parametrize("call", [
    lambda m: m.generate("a", temperature="x" * 10**6), lambda m: m.session(n_ctx="y" * 10**6),
    lambda m: m.run_with_hooks("a", [("hook_embed", list(range(10**5)))]), lambda m: mgpt.Model(b"x" * 10**6),
    lambda m: m.session().rewind([1] * 10**6), lambda m: m.generate("a", seed=1.5), lambda m: m.generate("a", top_k=True),
    lambda m: m.tensor_of("W_Q", "0"), lambda m: mgpt.Decoder(m).put("a")])
def test_type_errors_are_short(names, call):
    with pytest.raises(TypeError) as refused:
        call(names)
    assert len(str(refused.value)) < 200


def test_sessions_are_context_managers(names):
    with names.session() as session:
        session.feed([26, 1])
    with pytest.raises(ValueError, match="closed"):
        session.step(1)


def test_copies(names, root, monkeypatch):
    monkeypatch.chdir(root / "weights")
    near = pickle.dumps(mgpt.Model("names.gguf"))
    monkeypatch.chdir("/")
    assert pickle.loads(near).encode("a") == [26, 0]
    again = pickle.loads(pickle.dumps(names))
    assert again.logits("anna").tobytes() == names.logits("anna").tobytes()
    golden = mgpt.Model(root / "tests/golden/gpt2", convert=["--no-tokenizer"], threads=1)
    assert pickle.loads(pickle.dumps(golden)).logits([1, 2]).tobytes() == golden.logits([1, 2]).tobytes()
    assert copy.deepcopy(names) is names and copy.copy(names) is names
    session = names.session()
    session.feed([26, 1])
    fork = copy.deepcopy(session)
    assert copy.copy(session) is not session and fork.tokens == [26, 1] and fork.step(2).tobytes() == session.step(2).tobytes()
    with pytest.raises(TypeError, match=r"save\(\).*fork\(\)"):
        pickle.dumps(session)


def test_adapters_are_checked_and_shown(root, tmp_path):
    """check, lab and patch run what the model runs, not the file without its adapter."""
    golden, words = root / "tests/golden/gpt2", ["--no-tokenizer"]
    plain = mgpt.Model(golden, convert=words)
    adapted = mgpt.Model(golden, convert=words, lora=root / "tests/fixtures/lora/gpt2")
    logits = [m.logits([1, 2, 3], kv="f32") for m in (plain, adapted)]
    assert abs(logits[0] - logits[1]).max() > 1e-3
    assert mgpt.check(adapted, {"tokens": [1, 2, 3], "logits": logits[1]})
    assert not mgpt.check(adapted, {"tokens": [1, 2, 3], "logits": logits[0]})
    assert mgpt.check(plain, {"tokens": [1, 2, 3], "logits": logits[0]})
    pages = [m.lab("", "--title", "t", "--ids", "1,2").html for m in (plain, adapted)]
    assert pages[0] != pages[1]


def test_shown(names):
    result = mgpt.check(names, names.path.replace(".gguf", ".ref.json"))
    assert repr(result).startswith("<mgpt.CheckResult ok>\nsequence 0")
    html = result._repr_html_()
    assert html.count("<table") == html.count("</table>") >= 3 and "<th>max|diff|</th>" in html and "<td>same</td>" in html
    heat = repr(names.run_with_cache("anna")[1].show("pattern", layer=0, head=0))
    lines = heat.splitlines()
    assert len(lines) == 7 and lines[2].endswith("\u2588    ") and lines[0].startswith("blocks.0.attn.hook_pattern: 0 to 1")
    big = Heatmap("big", [np.ones((300, 300), np.float32)], [str(i) for i in range(300)], None, [""])
    assert len(repr(big).splitlines()) <= 65


def test_heatmaps_have_the_numbers():
    """A cell has its place, its number and a colour by its distance from 0, or from the smallest number."""
    heat = Heatmap("x", [np.array([[-1, 0.5], [2, np.nan]])], ["a<", "b"], ["c", "d"], ["head 3"])
    cell, text = '<rect x="{}" y="{}" width="14" height="14" fill="rgb({})"><title>{}</title></rect>', 'font-size="10" fill="currentColor">{}</text>'
    html = heat._repr_html_()
    bar = re.search(r'<div>x: -1 <span style="[^"]*linear-gradient\(to right,(rgb.*)\)"></span> 2</div>', html)
    stops = re.findall(r"rgb\((.*?)\)", bar[1])
    assert len(stops) == 9 and (stops[0], stops[4], stops[8]) == ("95,150,197", "231,191,160", "111,45,6"), stops
    assert html == (
        '<div style="font:12px sans-serif">' + bar[0] + '<figure style="display:inline-block;margin:4px">'
        '<svg xmlns="http://www.w3.org/2000/svg" width="88" height="88">'
        + cell.format(60, 60, "95,150,197", "a&lt; \u2192 c: -1") + cell.format(74, 60, "231,191,160", "a&lt; \u2192 d: 0.5")
        + cell.format(60, 74, "111,45,6", "b \u2192 c: 2")
        + '<text x="56" y="71.2" text-anchor="end" ' + text.format("a&lt;") + '<text x="56" y="85.2" text-anchor="end" '
        + text.format("b") + '<text transform="translate(71.2,56) rotate(-90)" text-anchor="start" ' + text.format("c")
        + '<text transform="translate(85.2,56) rotate(-90)" text-anchor="start" ' + text.format("d")
        + "</svg><figcaption>head 3</figcaption></figure></div>")
    assert repr(heat) == "x: -1 to 2\nhead 3\n       a< \u2592\u2591\n        b \u2588 "
    above = Heatmap("y", [np.array([[2.0, 3, 4]])], ["a"], None, [""])
    assert re.findall(r"rgb\(([\d,]+)\)\"><title>(.*?)</title>", above._repr_html_()) == [
        ("246,244,251", "a \u2192 0: 2"), ("154,127,227", "a \u2192 1: 3"), ("53,24,127", "a \u2192 2: 4")]
    assert repr(above) == "y: 2 to 4\n        a  \u2592\u2588"


def test_large_heatmaps_have_means():
    """Squares of cells have the mean of what is finite in them; the last rows are there, the last columns are not."""
    values = np.arange(65 * 300).reshape(65, 300) % 300 / 1.0
    values[0, 0] = values[2:4, 2:4] = -np.inf
    heat = Heatmap("x", [values], [f"r{i}" for i in range(65)], [f"c{i}" for i in range(300)], [""])
    assert re.findall("<text[^>]*>(.*?)</text>", heat._repr_html_()) == [f"r{i}" for i in range(0, 65, 2)] + [f"c{i}" for i in range(0, 248, 2)]
    titles = re.findall("<title>(.*?)</title>", heat._repr_html_())
    assert len(titles) == 33 * 124 - 1 and titles[:2] == ["r0 \u2192 c0: 0.6667", "r0 \u2192 c2: 2.5"]
    assert titles[124:126] == ["r2 \u2192 c0: 0.5", "r2 \u2192 c4: 4.5"] and titles[-1] == "r64 \u2192 c246: 246.5"
    lines = repr(heat).splitlines()
    assert len(lines) == 14 and {len(line) for line in lines[1:]} == {10 + 60} and lines[13].startswith("      r60")
    wide = Heatmap("x", [np.ones((1, 5000))], ["a"], None, [""])
    assert wide._repr_html_().count("<rect") == 4096
