#!/usr/bin/env python3
"""mgpt's front ends over the conformance suite, in every format: all cases are right, near only where activations are
integers. test_mgpt.py MGPT SPEC_PASS [all]: all includes what takes long, and the module of lab
pages in Node."""
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/suite"))
import suite  # noqa: E402

ADAPTERS = ROOT / "tools/suite/adapters"
CLI = ["--serve", f"'{sys.executable}' '{ADAPTERS}/mgpt_cli.py'"]
SPEC = ["--engine", f"sh '{ADAPTERS}/mgpt_spec.sh' {{model}} {{ids}} {{out}} {{how}}"]
LAB = ["--serve", f"node '{ADAPTERS}/mgpt_lab.js'"]
FEW, SOME = ["architectures", "types"], ["architectures", "types", "shapes", "precision"]
MOST = [*SOME, "positions", "behaviours", "hooks"]
# (name, engine, formats, groups or all, what a refusal may say (a pattern), the least number of answers)
ENGINES = [("command line", CLI, "gguf", MOST, "no such way", 336), ("command line", CLI, "hf", SOME, "", 155),
           ("command line", CLI, "hf4,pt,bin,llmc", MOST, "", 60), ("specification", SPEC, "gguf", FEW, "are not specified", 85)]
SLOW = [("command line", CLI, "gguf", ["tokenizers"], "", 9), ("specification", SPEC, "gguf", SOME, "are not specified", 170), ("lab page", LAB, "gguf", SOME, "the lab cannot draw|pages cannot read", 130)]


def result(cases, engine, formats, name, *more):
    """The cases of a run's result."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "result")
        suite.main(["run", str(cases), *engine, "--format", formats, "--name", name, "--jobs", "2", "--json", str(file), *more])
        return json.loads(file.read_text())["cases"]


def unlike(name, formats, cases, engine, groups, told, least):
    """Lines on the cases that are not as they must be."""
    lines, answered = [], 0
    found = result(cases, engine, formats, name, *(word for group in groups for word in ("--group", group)))
    wide = {c["id"] for c in suite.read_suite(cases)[1] if c.get("integer")}
    for c in found:
        answered += c["verdict"] in ("right", "near")
        near = c["verdict"] == "near" and c["id"] in wide
        refused = c["verdict"] == "refused" and re.search(told, c["reason"])
        if not (c["verdict"] in ("right", "absent") or near or refused):
            lines.append(suite.results.line_of(c))
    return lines if answered >= least else lines + [f"only {answered} cases were answered"]


def toy(cases):
    """An engine that is no adapter here: what it runs is right, what it refuses refused; what it forgot gets its cause."""
    found = result(cases, ["--engine", f"'{sys.executable}' '{ROOT}/tests/suite/toy_llama.py' {{model}} {{ids}} {{out}}"], "hf", "toy",
                   "--case", "^(llama|llama3_rope|qwen3|smollm2_bf16)$")
    said = {c["id"]: (c["verdict"], c.get("cause", c.get("reason"))) for c in found}
    want = {"llama": ("right", None), "llama3_rope": ("wrong", "rope frequencies without scaling or divisors"),
            "qwen3": ("refused", "model_type qwen3: this is an engine for llama"),
            "smollm2_bf16": ("refused", "model.embed_tokens.weight: BF16, expected F32")}
    return [] if said == want else [str(said)]


def main(mgpt, spec, *rest):
    os.environ.update(MGPT=os.path.abspath(mgpt), SPEC_PASS=os.path.abspath(spec))
    number = failed = 0
    with tempfile.TemporaryDirectory() as work:
        cases = pathlib.Path(work, "suite")
        if suite.main(["write", str(cases), "--mgpt", os.environ["MGPT"]]):
            return 1
        for name, engine, formats, *more in ENGINES + SLOW * ("all" in rest):
            if engine is LAB and not shutil.which("node"):
                continue
            lines = unlike(name, formats, cases, engine, *more)
            number, failed = number + 1, failed + bool(lines)
            print(f"{'not ok' if lines else 'ok'} {number} {name}, {formats}", *lines, sep="\n#   ", flush=True)
        lines = toy(cases)
        number, failed = number + 1, failed + bool(lines)
        print(f"{'not ok' if lines else 'ok'} {number} a toy of a hundred lines", *lines, sep="\n#   ")
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
