"""What the package's public names give, whole: each expression of said.txt with what follows it. Every public function, method
and property of the package is called by one of them. After a wanted change MGPT_WRITE=1 writes said.txt again.
"""
import ast
import dataclasses
import importlib
import inspect
import os
import pathlib
import re
import sys
import threading
import traceback
from collections.abc import Mapping

import mgpt
import numpy as np

SAID = pathlib.Path(os.environ["MGPT_SOURCE_ROOT"]) / "tests/python/said.txt"
# Of other packages (torch_models.py, torch_lm_eval.py and test_lm_eval.py test them), the program's entry, signals.
OTHERS = ("lm_eval", "transformer_lens", "_tool.main", "_interrupt", "__main__",
          "_handle.freed_by", "_lib.beside")  # called when the package is imported
raised = set()
NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)(?!\w)")


def shown(value, indent=""):
    """Lines for a value; of many numbers some, and sums that all of them change."""
    deeper = indent + "  "
    if isinstance(value, np.ndarray):
        flat = value.ravel()
        line = f"{value.dtype}{list(value.shape)} " + " ".join([number(x) for x in flat[:: max(1, flat.size // 24)][:25]])
        if flat.size > 24 and value.dtype.kind in "fiub":
            wide, at = np.where(np.isfinite(flat), flat, 0).astype(float), np.arange(flat.size)
            line += f" | {number((wide * np.cos(at)).sum())} {number((wide * np.sin(at * at)).sum())}"
        return [indent + line]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [indent + type(value).__name__] + [line for field in dataclasses.fields(value) for line in
                                                  labelled(field.name, getattr(value, field.name), deeper)]
    if isinstance(value, Mapping):
        return [indent + type(value).__name__] + [line for name, one in value.items() for line in labelled(str(name), one, deeper)]
    if isinstance(value, list | tuple) and any(not isinstance(one, int | float | str | np.generic) for one in value):
        return [indent + type(value).__name__] + [line for one in value for line in shown(one, deeper)]
    if isinstance(value, list | tuple):
        return [indent + "[" + ", ".join([shown(one)[0] for one in value]) + "]"]
    if isinstance(value, float | complex | np.inexact):
        return [indent + number(value)]
    return [indent + line for line in (repr(value) if isinstance(value, str) else str(value)).split("\n")]


def number(x):
    return f"{x:.6g}"


def labelled(name, value, indent):
    first, *rest = shown(value, indent)
    return [f"{indent}{name}: {first.strip()}", *rest]


def near(a, b):
    """The same words, and numbers that are as near as other orders of sums leave them."""
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    pairs = [(float(x), float(y)) for x, y in zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)]
    most = max([abs(x) for x, _ in pairs if np.isfinite(x)], default=0.0)
    return all(x == y or (np.isnan(x) and np.isnan(y)) or abs(x - y) <= 2e-5 * most + 1e-6 for x, y in pairs)


def halve(value, hook):
    value *= 0.5


def colours(heatmap):
    """What a notebook shows of it: colours and titles of all cells, captions, words."""
    page = heatmap._repr_html_()
    return re.findall(r'fill="(rgb[^"]*)"', page) + re.findall(r"<(?:title|figcaption|text[^>]*)>([^<]*)", page) + re.findall(r"<div>([^<]*)", page)


def steps(session, *tokens):
    return [session.step(t) for t in tokens][-1]


def then(value, *calls):
    """Calls functions with a value, and returns what the last one gives."""
    for call in calls:
        last = call(value)
    return last


def refusal(call):
    """What an exception says; raised has the line of the package where it began."""
    try:
        call()
    except Exception as failed:  # all of them
        for frame, line in traceback.walk_tb(failed.__traceback__):
            raised.add((pathlib.Path(frame.f_code.co_filename).stem, line))
        return f"{type(failed).__name__}: {failed}"
    return "no exception"


def refusals():
    """{(file, lines)} of the package's statements that raise an exception with a message."""
    found = set()
    for path in sorted(pathlib.Path(mgpt.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())) if path.stem not in (*OTHERS, "_lib") else ():  # _lib: a package without its library
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and any(isinstance(x, ast.JoinedStr) for x in ast.walk(node.exc)):
                found.add((path.stem, range(node.lineno, node.end_lineno + 1)))
    return found


def public_code():
    """{name: code} of the package's public functions, methods and properties."""
    found = {}
    for path in sorted(pathlib.Path(mgpt.__file__).parent.glob("*.py")):
        name = "mgpt" if path.stem == "__init__" else f"mgpt.{path.stem}"
        if path.stem in OTHERS:
            continue
        module = importlib.import_module(name)
        for thing, value in vars(module).items():
            if getattr(value, "__module__", None) != name or thing.startswith("_"):
                continue
            members = {f"{thing}.{k}": v for k, v in vars(value).items()} if inspect.isclass(value) else {thing: value}
            for member, one in members.items():
                one = getattr(one, "__func__", one.fget if isinstance(one, property) else one)
                if not member.split(".")[-1].startswith("_") and inspect.isfunction(one) and one.__code__.co_filename == str(path):
                    found[f"{path.stem}.{member}"] = one.__code__
    return {name: code for name, code in found.items() if name not in OTHERS}


def test_said(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sys.path.insert(0, str(root / "tests/cli"))
    from small_vocabularies import pairs_model

    called = set()

    def see(frame, event, _):
        if event == "call":
            called.add(frame.f_code)

    (tmp_path / "one").write_text("an")
    (tmp_path / "lines").write_text("anna\nabcdefghijklmnopqrstuvwxyz\n\nzq\n")
    known = {"mgpt": mgpt, "np": np, "halve": halve, "colours": colours, "steps": steps, "then": then, "re": re, "refusal": refusal, "ROOT": str(root),
             "names": mgpt.Model(root / "weights/names.gguf"),
             **{name: mgpt.Model(root / "tests/golden" / name) for name in ("gpt2", "llama", "gemma2", "gpt_bigcode")},
             "pairs": mgpt.Model(pairs_model(str(pathlib.Path(mgpt.__file__).with_name("mgpt")), str(root), str(tmp_path)))}
    made, wrong, old = [], [], re.split(r"(?m)^(?=>>> )", SAID.read_text())
    threading.setprofile(see)
    sys.setprofile(see)
    try:
        for block in old[1:]:
            first, *want = block.rstrip("\n").split("\n")
            if assigned := re.match(r">>> (\w+) = (.*)", first):
                known[assigned[1]] = eval(assigned[2], known)
                made.append(first)
                continue
            got = [line.replace(str(root), "ROOT") for line in shown(eval(first[4:], known))]
            made += [first, *got]
            same = len(got) == len(want) and all(near(a, b) for a, b in zip(want, got, strict=True))
            wrong += [] if same else [first, *[f"- {a}" for a in want], *[f"+ {b}" for b in got]]
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if os.environ.get("MGPT_WRITE"):
        SAID.write_text(old[0] + "\n".join(made) + "\n")
    missing = [name for name, code in public_code().items() if code not in called]
    assert not missing, f"no expression of said.txt calls {', '.join(missing)}"
    unsaid = sorted(f"{file}.py:{lines.start}" for file, lines in refusals() if not any((file, line) in raised for line in lines))
    assert not unsaid, f"no expression of said.txt has the exceptions of {', '.join(unsaid)}"
    assert not wrong or os.environ.get("MGPT_WRITE"), "\n".join(wrong)
