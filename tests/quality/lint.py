#!/usr/bin/env python3
"""clang-tidy (bugprone and cert groups, see .clang-tidy) and cppcheck over the C files of src/ and tools/: a minute on two cores.

    tests/quality/lint.py                          all files
    tests/quality/lint.py FILE...                  these

Prints each finding that accepted.txt does not have, as file:line, and ends with 1 if there is one. In accepted.txt a line
`FILE | CHECK | LINE OF CODE` is an accepted finding and the indented lines below say why, as in mutants.txt; `*` stands for
every line of code. What is accepted and no longer found is printed too, when the file was looked at. BUILD names a build
directory with a compile_commands.json (default: build, which is made if it is not there). Debian: clang-tidy cppcheck.
"""
import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
ACCEPTED = "tests/quality/accepted.txt"
FINDING = re.compile(r"^(/?[^:\n]+):(\d+):(\d+): (?:warning|error|style|portability|performance|information): (.*) \[([\w.,-]+)\]$", re.M)


def chosen_files(args):
    files = subprocess.run(["git", "ls-files", "src/*.c", "tools/*.c"], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                           check=True).stdout.split()
    return [os.path.relpath(os.path.realpath(f), ROOT) for f in args.file] or files


def commands(files, build):
    """Of each file the first command of the build, for both programs. Files that the build leaves out have none."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        rows = json.load(f)
    first = {}
    for row in rows:
        path = os.path.realpath(os.path.join(row["directory"], row["file"]))
        first.setdefault(os.path.relpath(path, ROOT), dict(row, file=path))
    return [first[f] for f in files if f in first and "neon" not in f]  # NEON's are for another machine


def tidy(folder, path):
    run = subprocess.run(["clang-tidy", "-p", folder, "--quiet", "--extra-arg=-Wno-unknown-warning-option", path], cwd=ROOT,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if "[clang-diagnostic-error]" in run.stdout or (run.returncode != 0 and not FINDING.search(run.stdout)):
        return "%s:1:1: error: clang-tidy cannot read it: %s [error]\n" % (path, (run.stdout + run.stderr).split("\n")[0])
    return run.stdout


def cppcheck(folder):
    # It does not know _Noreturn.
    run = subprocess.run(["cppcheck", "--project=" + folder + "/compile_commands.json", "--enable=warning,portability,performance",
                          "-D_Noreturn=__attribute__((noreturn))", "--std=c11", "--quiet", "-j", str(os.cpu_count() or 1), "--inline-suppr",
                          "--template={file}:{line}:{column}: {severity}: {message} [{id}]", "--template-location="], cwd=ROOT,
                         stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return run.stderr


def named(path, build):
    """The file's name in the repository; clang-tidy prints some names as the compiler's command has them."""
    at = next((p for p in (os.path.join(ROOT, path), os.path.join(build, path)) if os.path.exists(p)), path)
    return os.path.relpath(os.path.realpath(at), ROOT)


def findings(rows, only, build):
    """{(file, check, code): (line, message)}"""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/compile_commands.json", "w", encoding="utf-8") as f:
            json.dump(rows, f)
        texts = []
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            if only != "cppcheck":
                texts += pool.map(lambda row: tidy(folder, row["file"]), rows)
        if only != "clang-tidy":
            texts.append(cppcheck(folder))
    lines = {}
    for text in texts:
        for path, line, _, message, checks in FINDING.findall(text):
            name = named(path, build)
            if name.startswith(".."):
                continue  # a header of the system
            if name not in lines:
                with open(os.path.join(ROOT, name), encoding="utf-8") as f:
                    lines[name] = f.read().split("\n")
            code = lines[name][int(line) - 1].strip()
            found[name, checks.split(",")[0], code] = (int(line), message)
    return found


def accepted():
    rows = []
    with open(os.path.join(ROOT, ACCEPTED), encoding="utf-8") as f:
        for line in f:
            if line.strip() and line[0] not in "# ":
                rows.append(tuple(line.rstrip("\n").split(" | ", 2)))
    return rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", nargs="*")
    p.add_argument("--only", choices=("clang-tidy", "cppcheck"))
    args = p.parse_args()
    build = os.path.join(ROOT, os.environ.get("BUILD", "build"))
    if not os.path.exists(os.path.join(build, "compile_commands.json")):
        subprocess.run(["meson", "setup", build], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    files = chosen_files(args)
    rows = commands(files, build)
    found = findings(rows, args.only, build)
    known, used, bad = accepted(), set(), 0
    for (name, check, code), (line, message) in sorted(found.items(), key=lambda item: (item[0][0], item[1][0])):
        row = next((r for r in known if r[0] == name and r[1] == check and r[2] in ("*", code)), None)
        if row:
            used.add(row)
            continue
        print("%s:%d: %s [%s]\n    %s | %s | %s" % (name, line, message, check, name, check, code))
        bad += 1
    for row in known:
        if row not in used and row[0] in files and not args.only:
            print("%s: %s | %s: accepted, but no longer found" % row)
            bad += 1
    print("%d files, %d findings, %d accepted" % (len(rows), bad, len(used)))
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
