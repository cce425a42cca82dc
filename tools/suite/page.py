"""One page of results, in one file: light and dark, groups and cases by engine, causes below."""
import html

from judge import NEAR, RIGHT_D, VERDICTS
from results import count, groups_of, why

MARKS = {"right": "right", "near": "near", "wrong": "WRONG", "crash": "CRASH", "refused": "refused", "absent": "–"}
LEGEND = {
    "right": f"every logit within {RIGHT_D:g} of float64, as a share of its row's root mean square: float32 throughout",
    "near": f"within {NEAR['float'][0]:g} and NMSE {NEAR['float'][1]:g}: half precision somewhere "
            f"({NEAR['bfloat16'][0]:g} and {NEAR['bfloat16'][1]:g} where weights are BF16, {NEAR['integer'][0]:g} and "
            f"{NEAR['integer'][1]:g} where they are quantised: engines round activations then)",
    "wrong": "another model than the file's, without an error",
    "crash": "ended by a signal, without an answer in time, or not by the protocol",
    "refused": "said that it does not run this: honourable",
    "absent": "no file of a format that it reads, or no such way of computing: not counted",
}
STYLE = """
:root{color-scheme:light dark;--text:#222;--faint:#6a6a6a;--line:#d8d8d8;--page:#fff;
--right:#bfe5c0;--near:#e6eeb0;--wrong:#f2a9a0;--crash:#d98c8c;--refused:#e4e4e4;--absent:transparent}
@media(prefers-color-scheme:dark){:root{--text:#e4e4e4;--faint:#a0a0a0;--line:#444;--page:#16181a;
--right:#24572a;--near:#555c1c;--wrong:#8c2f26;--crash:#6e1f3a;--refused:#3a3c3f}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--text);background:var(--page);margin:2em auto;max-width:90em;padding:0 1em}
table{border-collapse:collapse;margin:.6em 0}
th,td{border:1px solid var(--line);padding:2px 8px;text-align:center;font-variant-numeric:tabular-nums}
th:first-child,td:first-child{text-align:left}th small,.faint{font-weight:normal;color:var(--faint)}
.wide{overflow-x:auto}.wide td:first-child,.wide th:first-child{position:sticky;left:0;background:var(--page);background-clip:padding-box}
li{overflow-wrap:anywhere}summary{cursor:pointer;margin:.4em 0}h2{margin:1.4em 0 .3em}
td a{color:inherit;text-decoration:none;display:block}td a:hover{text-decoration:underline}
.bar{display:flex;height:6px;min-width:6em;margin-top:2px}.bar i{display:block}
""" + "".join(f".{v}{{background:var(--{v})}}" for v in VERDICTS)


def text(value):
    return html.escape(str(value), quote=True)


def bar(counts):
    """Counts of a cell: of right and near in all that was tried, and a bar of all verdicts."""
    tried = sum(n for verdict, n in counts.items() if verdict != "absent")
    if not tried:
        return "<td class=absent>–"
    parts = "".join(f'<i class="{v}" style="flex:{n}"></i>' for v, n in counts.items() if n and v != "absent")
    said = ", ".join(f"{n} {v}" for v, n in counts.items() if n)
    return f'<td title="{said}">{counts["right"] + counts["near"]} of {tried}<div class=bar>{parts}</div>'


def head(found, first):
    cells = "".join(f"<th>{text(r['engine'])}<br><small>{text(r['version'])}<br>{text(','.join(r['format']))}</small>"
                    for r in found)
    return f"<tr><th>{first}{cells}</tr>"


def cell(case, number):
    """A case's cell of an engine. What is wrong is linked with its line below."""
    if case is None:
        return "<td class=absent>"
    size = f" <small>{case['D']:.0e}</small>" if "D" in case else ""
    size += " <small title='not the bits of the plain answer'>≠</small>" if case.get("bits") == "differ" else ""
    said = MARKS[case["verdict"]] + size
    if case["verdict"] in ("wrong", "crash"):
        said = f'<a href="#{number}-{text(case["id"])}">{said}</a>'
    return f'<td class="{case["verdict"]}" title="{text(why(case))}">{said}'


def table_of_groups(found, groups):
    rows = [head(found, "group")]
    for group in list(groups) + ["all"]:
        cells = [bar(count([c for c in r["cases"] if group in ("all", c["group"])])) for r in found]
        rows.append(f"<tr><td>{text(group)}{''.join(cells)}</tr>")
    seconds = "".join(f"<td class=faint>{r.get('seconds', 0):.0f} s<br>{text(r['date'][:10])}" for r in found)
    return f"<div class=wide><table>{''.join(rows)}<tr><td class=faint>time, date{seconds}</tr></table></div>"


def table_of_cases(found, group, ids):
    by_id = [{c["id"]: c for c in r["cases"]} for r in found]
    rows = [head(found, "case")]
    for name in ids:
        what = next(c[name].get("what", "") for c in by_id if name in c)
        cells = "".join(cell(cases.get(name), n) for n, cases in enumerate(by_id))
        rows.append(f'<tr><td title="{text(what)}">{text(name)}{cells}</tr>')
    return (f"<details open><summary>{text(group)}: {len(ids)} cases</summary>"
            f"<div class=wide><table>{''.join(rows)}</table></div></details>")


def list_of_wrong(found):
    parts = []
    for n, r in enumerate(found):
        wrong = [c for c in r["cases"] if c["verdict"] in ("wrong", "crash")]
        lines = "".join(f'<li id="{n}-{text(c["id"])}"><b>{text(c["id"])}</b> {c["verdict"]}'
                        + (f", D {c['D']:.1e}, from row {c['row']} on" if "D" in c else "")
                        + (f": {text(why(c))}" if why(c) else "") for c in wrong)
        parts.append(f"<h3>{text(r['engine'])} {text(r['version'])}</h3><ul>{lines}</ul>" if wrong else "")
    return "".join(parts) or "<p>Nothing is wrong."


def list_of_refusals(found):
    parts = []
    for r in found:
        reasons = {}
        for c in r["cases"]:
            if c["verdict"] == "refused":
                reasons.setdefault(why(c), []).append(c["id"])
        lines = "".join(f"<li>{text(', '.join(ids))}: {text(reason)}" for reason, ids in reasons.items())
        parts.append(f"<h3>{text(r['engine'])}</h3><ul>{lines}</ul>" if lines else "")
    return "".join(parts) or "<p>Nothing is refused."


def write_page(path, found):
    groups, suites = {}, sorted({r["suite"] for r in found})
    for r in found:
        for group, cases in groups_of(r["cases"]).items():
            ids = groups.setdefault(group, [])
            ids += [c["id"] for c in cases if c["id"] not in ids]
    legend = "".join(f'<tr><td class="{v}">{MARKS[v]}<td style="text-align:left">{text(LEGEND[v])}</tr>' for v in VERDICTS)
    body = [
        f"<h1>GPT conformance suite {text(', '.join(suites))}</h1>",
        "<p>Small models with random weights, and the logits that their definition gives in float64. Each engine read the "
        "same files and computed the logits of the same tokens (hooks: inner values). Hover over a cell for the reason; a link leads to the cause, "
        "which <code>mgpt check --explain</code> found by trying it.",
        f"<table>{legend}</table><h2>Groups: right or near, of those tried</h2>", table_of_groups(found, groups),
        "<h2>Cases</h2>", *[table_of_cases(found, group, ids) for group, ids in groups.items()],
        "<h2>What is wrong, and why</h2>", list_of_wrong(found), "<h2>What is refused</h2>", list_of_refusals(found)]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
                   f"<title>GPT conformance suite</title><style>{STYLE}</style>{''.join(body)}</html>\n")
