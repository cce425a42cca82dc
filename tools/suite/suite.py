#!/usr/bin/env python3
"""A conformance suite for GPT engines. Python 3.9, nothing else. README.md in this folder is its manual.

  suite.py write DIR [...]              writes the directory of cases (write.py says how)
  suite.py run DIR --engine CMD [...]   runs an engine over the cases
  suite.py table RESULT... --html FILE  one page of several results, which run --json wrote
  suite.py protocol                     what CMD must do, in ten lines
"""
import argparse
import concurrent.futures
import datetime
import hashlib
import os
import pathlib
import re
import shlex
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import causes  # noqa: E402
import engine  # noqa: E402
import results  # noqa: E402
from cases import FORMATS, SuiteError, read_suite  # noqa: E402
from judge import judge  # noqa: E402
from page import write_page  # noqa: E402

OK, DIFFERENT, USAGE, REFUSED, IO = 0, 1, 2, 3, 5


class Run:
    """One engine over the cases of a suite."""

    def __init__(self, args, formats, folder):
        self.args, self.formats, self.folder = args, formats, folder
        self.mgpt = causes.find_mgpt(args.mgpt)
        self.local, self.opened, self.bits, self.causes = threading.local(), [], {}, {}

    def engine(self):
        """The engine of this thread."""
        if not hasattr(self.local, "engine"):
            kind, words = (engine.Server, self.args.serve) if self.args.serve else (engine.Command, self.args.engine)
            self.local.engine = kind(shlex.split(words), self.args.timeout)
            self.opened.append(self.local.engine)
        return self.local.engine

    def case(self, case):
        """The result of a case."""
        started = time.monotonic()
        found = {"id": case["id"], "group": case["group"], "what": case["what"]}
        found.update(self.answer(case))
        found["seconds"] = round(time.monotonic() - started, 3)
        return found

    def answer(self, case):
        name = next((f for f in self.formats if f in case["files"]), None)
        hooks = "--hooks " + ",".join(case.get("names", ()))
        how = {"behaviour": case.get("how"), "tokenizer": "--tokenize", "hooks": hooks}.get(case["kind"], "")
        if name is None:
            return {"verdict": "absent", "reason": "no file in " + " or ".join(self.formats)}
        asked = self.engine()
        if how and not asked.has_how:
            return {"verdict": "absent", "format": name, "reason": "the command has no {how}"}
        out = engine.out_file(self.folder, case)
        kind, reason = asked.ask(case["files"][name], case["input"], out, how)
        for path in (out, case["files"][name], case["input"]):
            reason = reason.replace(str(path), path.name)
        if kind == "refused" and case["kind"] == "hooks":
            kind = "absent"  # nobody must show inner values
        found = {"verdict": kind, "reason": reason} if kind != "ok" else judge(case, out)
        if "D" in found and case["kind"] != "hooks":
            bits = self.bits[case["id"]] = hashlib.sha256(out.read_bytes()).digest()
            if found["verdict"] == "wrong" and self.mgpt:
                same = case.get("like", case["id"]), bits
                if same not in self.causes:  # behaviours often have the plain answer
                    self.causes[same] = causes.cause_of(self.mgpt, case, out, found, self.args.timeout)
                found["cause"] = self.causes[same]
        if not self.args.keep:
            out.unlink(missing_ok=True)
        return {"format": name, **found}

    def compare_bits(self, cases, found):
        """Says of each behaviour whether its bits are those of the plain case."""
        for case, result in zip(cases, found):
            if case["kind"] == "behaviour" and case["id"] in self.bits and case.get("like") in self.bits:
                result["bits"] = "equal" if self.bits[case["id"]] == self.bits[case["like"]] else "differ"

    def all(self, cases):
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as threads:
            try:
                found = list(threads.map(self.case, cases))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                raise
            finally:
                for opened in self.opened:
                    opened.close()
        self.compare_bits(cases, found)
        return found


def chosen(cases, args):
    return [c for c in cases if (not args.case or re.search(args.case, c["id"]))
            and (not args.group or c["group"] in args.group)]


def usage(text):
    print(f"suite: {text}", file=sys.stderr)
    return USAGE


def command_run(args):
    if bool(args.engine) == bool(args.serve):
        return usage("one of --engine 'CMD {model} {ids} {out}' and --serve 'CMD' is needed")
    words, formats = shlex.split(args.engine or args.serve), args.format.split(",")
    wrong = engine.find_program(words)
    if wrong:
        return usage(wrong)
    missing = [x for x in ("{model}", "{ids}", "{out}") if args.engine and x not in args.engine]
    if missing:
        return usage(f"--engine: {' '.join(missing)} is missing: suite.py protocol prints what they are")
    if set(formats) - set(FORMATS):
        return usage(f"--format {args.format}: expected some of {','.join(FORMATS)}")
    if args.jobs < 1 or not args.timeout > 0:
        return usage("--jobs and --timeout: expected a number above 0")
    about, cases = read_suite(args.dir)
    cases = chosen(cases, args)
    if not cases:
        return usage("no case has this name and group")
    expected = results.read_expected(args.expect) if args.expect else None
    date, started = datetime.datetime.now(datetime.timezone.utc), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="suite-") as work:
        if args.keep:
            os.makedirs(args.keep, exist_ok=True)
        run = Run(args, formats, pathlib.Path(args.keep or work).resolve())
        found = run.all(cases)
    name = args.name or pathlib.Path(words[0]).name
    result = {"suite": about["version"], "engine": name, "version": args.engine_version, "format": formats,
              "date": date.strftime("%Y-%m-%d %H:%M:%S UTC"), "seconds": round(time.monotonic() - started, 1),
              "counts": results.count(found), "cases": found}
    results.print_result(result, args.verbose)
    if not run.mgpt and result["counts"]["wrong"]:
        print("no cause is told: mgpt is not there (--mgpt PATH)")
    return finish(args, result, expected)


def finish(args, result, expected):
    """Writes files, compares with what is expected. The exit status."""
    if args.json:
        results.write_json(args.json, result)
    if args.html:
        write_page(args.html, [result])
    if args.write_expect:
        results.write_expected(args.write_expect, result)
    if expected is None:
        return DIFFERENT if result["counts"]["wrong"] + result["counts"]["crash"] else OK
    changes = results.changes(expected, result, whole=not (args.case or args.group))
    for line in changes:
        print("changed: " + line)
    print(f"{args.expect}: {'as expected' if not changes else f'{len(changes)} verdicts are not as expected'}")
    return DIFFERENT if changes else OK


def command_table(args):
    found = [results.read_json(path) for path in args.results]
    write_page(args.html, found)
    print(f"{args.html}: {len(found)} engines")
    return OK


def parser():
    top = argparse.ArgumentParser(prog="suite.py", description=__doc__,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run an engine over the cases")
    run.add_argument("dir", help="the suite's directory")
    run.add_argument("--engine", metavar="CMD", help="run once for each case: 'CMD {model} {ids} {out}'")
    run.add_argument("--serve", metavar="CMD", help="instead: one process, a line for each case")
    run.add_argument("--format", required=True, help="what the engine reads, best first: " + ",".join(FORMATS))
    run.add_argument("--name", help="the engine's name (default: the first word of CMD)")
    run.add_argument("--engine-version", default="", metavar="TEXT", help="its version, for the table")
    run.add_argument("--case", metavar="REGEX", help="only cases with such ids")
    run.add_argument("--group", action="append", help="only this group; may be repeated")
    run.add_argument("--expect", metavar="FILE", help="exit 1 if any verdict is not the one in this file")
    run.add_argument("--write-expect", metavar="FILE", help="write the verdicts to a file for --expect")
    run.add_argument("--json", metavar="FILE", help="write the result; suite.py table reads it")
    run.add_argument("--html", metavar="FILE", help="write a page")
    run.add_argument("--mgpt", metavar="PATH", help="mgpt, which names causes of wrong answers")
    run.add_argument("--jobs", type=int, default=1, metavar="N", help="cases at a time (default 1)")
    run.add_argument("--timeout", type=float, default=60, metavar="S", help="seconds for a case (default 60)")
    run.add_argument("--keep", metavar="DIR", help="keep the engine's answers there, as ID.out")
    run.add_argument("--verbose", action="store_true", help="print a line for every case")
    table = commands.add_parser("table", help="one page of several results")
    table.add_argument("results", nargs="+", metavar="RESULT", help="files that run --json wrote")
    table.add_argument("--html", required=True, metavar="FILE")
    commands.add_parser("protocol", help="what CMD must do")
    return top


def main(words):
    if words[:1] == ["write"]:
        import write
        return write.main(words[1:])
    args = parser().parse_args(words)
    try:
        if args.command == "protocol":
            print(engine.PROTOCOL, end="")
            return OK
        if args.command == "run" and args.case:
            re.compile(args.case)
        return command_run(args) if args.command == "run" else command_table(args)
    except SuiteError as failed:
        print(f"suite: {failed}", file=sys.stderr)
        return REFUSED
    except re.error as failed:
        return usage(f"--case {args.case}: {failed}")
    except OSError as failed:
        print(f"suite: {failed.filename or 'output'}: {failed.strerror}", file=sys.stderr)
        return IO
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
