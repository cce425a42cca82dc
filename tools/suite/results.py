"""Results: what is printed, kept as JSON, and compared with what is expected."""
import fnmatch
import json

from cases import SuiteError
from judge import VERDICTS

SHOWN = 6  # reasons for refusals that are printed


def count(found):
    return {verdict: sum(r["verdict"] == verdict for r in found) for verdict in VERDICTS}


def groups_of(found):
    """{group: results} in the order of the cases."""
    groups = {}
    for result in found:
        groups.setdefault(result["group"], []).append(result)
    return groups


def why(result):
    """Reason and cause of a verdict, in one text."""
    return "; ".join(result[key] for key in ("reason", "cause") if result.get(key))


def line_of(result):
    size = f"D {result['D']:.1e}  row {result['row']}" if result.get("row") is not None else ""
    size = size or (f"D {result['D']:.1e}" if "D" in result else "")
    bits = f"bits {result['bits']}" if "bits" in result else ""
    return "  ".join(x for x in (f"{result['verdict']:8}{result['id']:28}", size, bits, why(result)) if x).rstrip()


def print_result(result, verbose):
    """Lines of what is wrong or crashed (all lines if verbose), refusals by reason, and a table of groups."""
    for r in result["cases"]:
        if verbose or r["verdict"] in ("wrong", "crash"):
            print(line_of(r))
    refused = {}
    for r in result["cases"]:
        if r["verdict"] == "refused" and not verbose:
            refused.setdefault(r["reason"], []).append(r["id"])
    for reason, ids in sorted(refused.items(), key=lambda item: -len(item[1]))[:SHOWN]:
        print(f"refused {', '.join(ids[:4])}{f' and {len(ids) - 4} more' if len(ids) > 4 else ''}: {reason}")
    if len(refused) > SHOWN:
        print(f"refused for {len(refused) - SHOWN} more reasons: --verbose prints them, --json and --html write them")
    print(f"\n{'':22}" + "".join(f"{v:>9}" for v in VERDICTS))
    for group, found in list(groups_of(result["cases"]).items()) + [("all", result["cases"])]:
        print(f"{group:22}" + "".join(f"{n or '-':>9}" for n in count(found).values()))
    bits = [r["bits"] for r in result["cases"] if "bits" in r]
    if bits:
        print(f"bits of the plain answer: {bits.count('equal')} of {len(bits)} behaviours")
    print(f"suite {result['suite']}, {result['engine']} {result['version']}".rstrip()
          + f", {','.join(result['format'])}: {len(result['cases'])} cases in {result['seconds']:.1f} s")


def write_json(path, result):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1, ensure_ascii=False)
        file.write("\n")


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
        result["suite"], result["engine"], result["version"], result["date"], result["format"]
        [(r["id"], r["group"], r["verdict"]) for r in result["cases"]]
    except (ValueError, KeyError, TypeError) as failed:
        raise SuiteError(f"{path}: not a result of suite.py run --json: {failed}") from None
    return result


def write_expected(path, result):
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"# suite {result['suite']}, {result['engine']} {result['version']}".rstrip()
                   + f", {','.join(result['format'])}. A line is: case, verdict, # why.\n")
        for r in result["cases"]:
            note = why(r) if r["verdict"] in ("wrong", "crash", "refused") else ""
            file.write(f"{r['id']} {r['verdict']}" + (f" # {note}" if note else "") + "\n")


def read_expected(path):
    """{id: verdict} of a file that write_expected wrote and people edit."""
    expected = {}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.split("#")[0].split()
            if words and (len(words) != 2 or words[1] not in VERDICTS or words[0] in expected):
                raise SuiteError(f"{path}:{number}: expected a case or a pattern, once, and one of {' '.join(VERDICTS)}")
            if words:
                expected[words[0]] = words[1]
    return expected


def expected_of(expected, name):
    """The verdict of the case's line, or of the last pattern that it matches."""
    matching = [verdict for pattern, verdict in expected.items() if fnmatch.fnmatchcase(name, pattern)]
    return expected.get(name) or (matching or ["not in the file"])[-1]


def changes(expected, result, whole):
    """Lines on the verdicts that are not as expected; whole: also on cases that are in one of both only."""
    lines, seen = [], set()
    for r in result["cases"]:
        seen.add(r["id"])
        was, asked = expected_of(expected, r["id"]), "format" in r or r["id"] in expected  # or there is no file for it
        if was != r["verdict"] and asked:
            lines.append(f"{r['id']}: {was} -> {r['verdict']}" + (f" ({why(r)})" if why(r) else ""))
    return lines + [f"{i}: {v} -> not in the suite" for i, v in expected.items()
                    if whole and i not in seen and not set("*?[") & set(i)]
