"""mgpt patch against transformers: every value of vectors/patch.json, which patch.py there makes."""
import json
import os
import subprocess
import sys

ROOT, MGPT = os.environ["MGPT_SOURCE_ROOT"], os.environ["MGPT"]
TOLERANCE = 2e-5  # float32 here, float64 there; metrics are a few units


def flat(values):
    return [x for v in values for x in flat(v)] if isinstance(values, list) else [values]


def worst(case, clean, corrupt):
    p = subprocess.run(
        [MGPT, "patch", ROOT + "/tests/golden/" + case["model"], "--clean", clean, "--corrupt", corrupt,
         "--json", *("--%s=%s" % (k, case[k]) for k in ("metric", "over", "mode", "into"))],
        capture_output=True, check=False)
    if p.returncode != 0:
        return float("inf")
    got, want = flat(json.loads(p.stdout)["grids"][0]["values"]), flat(case["values"])
    return max(abs(a - b) for a, b in zip(got, want)) if len(got) == len(want) else float("inf")


def main():
    with open(ROOT + "/tests/vectors/patch.json", encoding="ascii") as f:
        vectors = json.load(f)
    texts = [",".join(map(str, vectors[run])) for run in ("clean", "corrupt")]
    bad = 0
    for i, case in enumerate(vectors["cases"], 1):
        far = worst(case, *texts)
        bad += not far <= TOLERANCE
        print("%s %d %s, off by %.1e" % ("ok" if far <= TOLERANCE else "not ok", i, " ".join(
            case[k] for k in ("model", "over", "mode", "into", "metric")), far))
    print("1..%d" % len(vectors["cases"]))
    sys.exit(bad > 0)


main()
