#!/usr/bin/env python3
"""mgpt's front ends over the conformance suite, in every format: all cases are right, near only where activations are
integers. test_mgpt.py MGPT SPEC_PASS [all]: all includes what takes long, and the module of lab
pages in Node."""
import json
import os
import pathlib
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
SOME = ["architectures", "types", "shapes", "precision"]
MOST = [*SOME, "positions", "behaviours", "hooks"]
# (engine, what it must give, formats, groups)
ENGINES = [(CLI, "command_line", "gguf", MOST), (CLI, "command_line", "hf", SOME), (CLI, "command_line", "hf4,pt,bin,llmc", MOST),
           (SPEC, "specification", "gguf", ["architectures", "types"])]
SLOW = [(CLI, "command_line", "gguf", ["tokenizers"]), (SPEC, "specification", "gguf", SOME), (LAB, "lab_page", "gguf", SOME)]


def status(cases, engine, name, formats, groups):
    """0 if every verdict is that of NAME.expect."""
    return suite.main(["run", str(cases), *engine, "--format", formats, "--name", name, "--jobs", "2", "--mgpt", "/nonexistent",
                       "--expect", f"{ROOT}/tests/suite/{name}.expect", *(word for group in groups for word in ("--group", group))])


def toy(cases):
    """An engine that is no adapter here: what it runs is right, what it refuses refused; what it forgot gets its cause."""
    engine, file = f"'{sys.executable}' '{ROOT}/tests/suite/toy_llama.py' {{model}} {{ids}} {{out}}", cases.parent / "toy.json"
    suite.main(["run", str(cases), "--engine", engine, "--format", "hf", "--case", "^(llama|llama3_rope|qwen3|smollm2_bf16)$", "--json", str(file)])
    found = json.loads(file.read_text())["cases"]
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
        for engine, name, formats, groups in ENGINES + SLOW * ("all" in rest):
            if engine is LAB and not shutil.which("node"):
                continue
            wrong = status(cases, engine, name, formats, groups)
            number, failed = number + 1, failed + bool(wrong)
            print(f"{'not ok' if wrong else 'ok'} {number} {name}, {formats}", flush=True)
        lines = toy(cases)
        print(f"{'not ok' if lines else 'ok'} {number + 1} a toy of a hundred lines", *lines, f"1..{number + 1}", sep="\n")
    return 1 if failed or lines else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
