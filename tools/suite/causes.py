"""Why logits are wrong: what `mgpt check --explain` says of them."""
import json
import os
import pathlib
import shutil
import subprocess

from cases import read_ids

ROWS_AFTER = 16  # rows given to mgpt after the first wrong one
READS = ("gguf", "hf", "hf4", "pt", "bin")


def find_mgpt(told):
    """The program: as told, or in MGPT, in the build folder of this source, or in PATH. None if there is none."""
    if told:
        return shutil.which(told)
    built = pathlib.Path(__file__).resolve().parents[2] / "build/tools/mgpt"
    for path in (os.environ.get("MGPT"), built, "mgpt"):
        if path and shutil.which(path):
            return shutil.which(path)
    return None


def cause_of(mgpt, case, numbers, found, seconds):
    """One line that says why numbers are wrong. mgpt gets the rows up to the first wrong one and a few more."""
    ids = read_ids(case["input"])
    rows = min(len(ids), (found["row"] or 0) + ROWS_AFTER)
    columns = numbers.stat().st_size // 4 // len(ids)
    part = numbers.with_suffix(".part")
    with open(numbers, "rb") as file:
        part.write_bytes(file.read(4 * rows * columns))
    model = next(str(case["files"][name]) for name in READS if name in case["files"])
    words = [mgpt, "check", model, str(part), "--shape", f"{rows},{columns}", "--ids", ",".join(map(str, ids[:rows])),
             "--explain", "--tol", "f16", "--json"]
    try:
        said = subprocess.run(words, capture_output=True, text=True, timeout=seconds).stdout.splitlines()
    except subprocess.TimeoutExpired:
        return f"no cause found in {seconds:g} s"
    finally:
        part.unlink()
    lines = [json.loads(line) for line in said if line.startswith('{"cause"')]
    same = any(line.startswith('{"verdict":"same"') for line in said)
    return told_by(lines[0]) if lines else "mgpt computes the same" if same else "mgpt check compares nothing"


def told_by(line):
    if line["cause"]:
        return ", with ".join(line[name] for name in ("cause", "with", "third") if line.get(name))
    tried = f"none of {line['tried']} suspects"
    if line["hint"]:
        return f"{tried}; a hint: {line['hint']}"
    nearest = line["trials"][:1]
    return tried + "".join(f"; the nearest: {t['cause']}, NMSE {t['nmse']:.1e}" for t in nearest)
