"""Verdicts: how far the logits of an engine are from the reference.

D is the largest difference of a logit, as a share of the root mean square of its row. NMSE is the sum of squared
differences divided by the sum of squares. The bounds were measured in November 2026 over 96 cases and ten engines:
- float32 throughout: transformers at most 6.1e-6, mgpt at most 7.7e-6 (1,500 positions among them).
- half precision somewhere (F16 keys and values, a table of GELU in F16): D 4e-4 to 3e-3.
- activations rounded to BF16, where weights are BF16 (llama.cpp): D up to 0.037, NMSE up to 6e-5.
- activations rounded to 8-bit integers: D up to 0.11, NMSE up to 5.5e-4.
- faults: D 0.06 to 8. Only a wrong epsilon was below, D 4e-4; cases with weights that amplify it are for that.
"""
import array
import math
import sys

from cases import SuiteError, read_ids, read_lines, read_npy, read_npz

RIGHT_D = 3e-5
NEAR = {"float": (0.03, 1e-4), "bfloat16": (0.1, 1e-3), "integer": (0.3, 1e-2)}  # the largest D and NMSE
VERDICTS = ("right", "near", "wrong", "crash", "refused", "absent")


def band_of(case):
    """The largest D and NMSE that are near."""
    return NEAR["integer" if case.get("integer") else "bfloat16" if case.get("bfloat16") else "float"]


def distance(values, reference, columns, most_d, positions):
    """{"D", "nmse", "row"}: row is the first one whose D is above most_d, or None. positions: the row of values for each
    row of the reference. Returns a text instead where a value is not finite."""
    squares = errors = worst = 0.0
    first = None
    for n in range(len(reference) // columns):
        row = positions[n]
        want = reference[n * columns:(n + 1) * columns]
        differences = [a - b for a, b in zip(values[row * columns:(row + 1) * columns], want)]
        error, square = math.fsum(d * d for d in differences), math.fsum(w * w for w in want)
        if not math.isfinite(error):
            return f"NaN or infinity in row {row}"
        largest = max(map(abs, differences)) / (math.sqrt(square / columns) or sys.float_info.min)
        first = row if first is None and largest > most_d else first
        worst, squares, errors = max(worst, largest), squares + square, errors + error
    return {"D": worst, "nmse": errors / (squares or sys.float_info.min), "row": first}


def verdict_of(found, most_d, most_nmse):
    """The verdict of a distance."""
    if found["D"] <= RIGHT_D:
        return "right"
    return "near" if found["D"] <= most_d and found["nmse"] <= most_nmse else "wrong"


def looks_like_text(data):
    return len(data) > 0 and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in data[:4096])


def read_floats(path, expected):
    """(array, None) of a file of float32, or (None, why)."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            data = file.read(4 * expected)
    except OSError:
        return None, "no numbers: the file was not written"
    if size != 4 * expected:
        if looks_like_text(data):
            return None, f"text, not float32: {data[:60].decode().splitlines()[0]!r}"
        many = "few" if size < 4 * expected else "many"
        return None, f"too {many} numbers: {size / 4:g}, expected {expected}"
    values = array.array("f")
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values, None


def judge_logits(case, path):
    """A verdict, D, NMSE and reason of the numbers in a file."""
    n_tokens, best, most = len(read_ids(case["input"])), None, band_of(case)
    for ref, why in case["refs"]:
        reference, rows, columns = read_npy(ref)
        positions = case.get("rows", range(n_tokens))
        if rows != len(positions) or max(positions, default=0) >= n_tokens:
            raise SuiteError(f"{ref}: {rows} rows, expected {len(positions)} of the {n_tokens} positions")
        values, broken = read_floats(path, n_tokens * columns)
        found = broken or distance(values, reference, columns, most[0], positions)
        if isinstance(found, str):
            return {"verdict": "wrong", "reason": found}
        found["verdict"] = verdict_of(found, *most)
        if why:
            found["reason"] = "the other accepted answer: " + why
        if best is None or found["D"] < best["D"]:
            best = found
    if best["verdict"] == "wrong" and case["also"]:
        best["reason"] = "no accepted answer"
    return best


def judge_hooks(case, path):
    """Inner values, one name after another in the order of the pass: the first wrong one, or else the worst one."""
    wanted, most, found = read_npz(case["refs"][0][0], case["names"]), band_of(case), []
    values, broken = read_floats(path, sum(len(reference) for reference, _, _ in wanted))
    for name, (reference, rows, columns) in zip(case["names"], wanted):
        one = broken or distance(values[:len(reference)], reference, columns, most[0], range(rows))
        if isinstance(one, str):
            return {"verdict": "wrong", "reason": broken or f"{name}: {one}"}
        values = values[len(reference):]
        found.append({**one, "verdict": verdict_of(one, *most), "reason": name})
    return max(found, key=lambda one: (VERDICTS.index(one["verdict"]), one["verdict"] != "wrong" and one["D"]))


def judge_tokens(case, path):
    """Ids of texts: one line of ids for each text. All must be equal."""
    want, texts = read_lines(case["refs"][0][0], list), read_lines(case["input"], str)
    if len(want) != len(texts):
        raise SuiteError(f"{case['refs'][0][0]}: {len(want)} lines, expected one for each of {len(texts)} texts")
    try:
        with open(path, encoding="utf-8") as file:
            got = [[int(word) for word in line.replace(",", " ").strip("[] \n").split()] for line in file]
    except FileNotFoundError:
        return {"verdict": "wrong", "reason": "no ids: the file was not written"}
    except ValueError as failed:
        return {"verdict": "wrong", "reason": f"text, not ids: {failed}"}
    if len(got) != len(want):
        few = "few" if len(got) < len(want) else "many"
        return {"verdict": "wrong", "reason": f"too {few} lines: {len(got)}, expected {len(want)}"}
    differ = [n for n, (a, b) in enumerate(zip(got, want)) if a != b]
    if not differ:
        return {"verdict": "right"}
    return {"verdict": "wrong", "reason": f"{len(differ)} of {len(want)} texts differ, the first is text "
            f"{differ[0] + 1}: {texts[differ[0]][:40]!a}"}


def judge(case, path):
    return {"tokenizer": judge_tokens, "hooks": judge_hooks}.get(case["kind"], judge_logits)(case, path)
