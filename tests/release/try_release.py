"""Makes a release twice, in build folders of different depth: equal bytes. Then uses each artefact in a clean folder.

usage: try_release.py BUILD VERSION -- CC...      (suite long)
       try_release.py --only FOLDER [NAME...]     (tries artefacts of a folder that is there; default: all)

A clean folder is one without the repository and without variables but PATH. Debian's packages are unpacked here, and
installed by tests/fresh/roots.sh. TRIES has a row for each artefact of tools/release/release.py.
"""
import filecmp
import fnmatch
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tools/release"), str(ROOT / "tests/python"), str(ROOT / "tests/windows")]
import python as wine_python  # noqa: E402
import release  # noqa: E402
import run as python_run  # noqa: E402

HASHES = {"names": "092da0f84bfcf144", "shakespeare": "25b9cfe007c02879"}
CC = os.environ.get("CC", "cc").split()


def said(*words, cwd, **env):
    """What a program prints in a clean folder."""
    done = subprocess.run([str(w) for w in words], cwd=cwd, env={"PATH": os.environ["PATH"], **env}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, f"{words}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def one(folder, pattern):
    (path,) = folder.glob(pattern)
    return path


def check_program(folder, *words, cwd, **env):
    """The hashes of all logits, and a text."""
    for name, want in HASHES.items():
        got = said(*words, "check", "--self", folder / f"{name}.gguf", cwd=cwd, **env).splitlines()[-1][:16]
        assert got == want, f"{words}: {name}: {got}, expected {want}"
    text = said(*words, "generate", folder / "names.gguf", "--samples", "5", "--temp", "0.5", cwd=cwd, **env)
    assert text.split() == ["racolee", "ayaria", "andrie", "aliza", "marken"], text


# ---- one try for each artefact: (the release's folder, an empty folder) ----


def native_python(folder):
    named = os.environ.get("MGPT_PYTHON")
    python, why = (named, "") if named else python_run.environment(folder.parent / "python-venv")
    assert python, why
    return python


def try_wheel(folder, clean):
    python = native_python(folder)
    said(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--disable-pip-version-check", "--target", clean / "site",
         one(folder, f"*_{platform.machine()}.whl"), cwd=clean)
    site = {"PYTHONPATH": str(clean / "site")}
    check_program(folder, python, "-c", "from mgpt._tool import main; main()", cwd=clean, **site)
    code = f"import mgpt; print(mgpt.Model({str(folder / 'names.gguf')!r}).logits('anna').shape)"
    assert said(python, "-c", code, cwd=clean, **site) == "(5, 27)\n"
    assert (clean / "site/share/man/man1/mgpt.1").exists()


def unpacked(wheel, site):
    """The folder, with the programs that may be run."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    for program in site.glob("mgpt/mgpt*"):
        program.chmod(0o755)
    return site


def same_package(folder, clean, wheel, *python, runner=(), **env):
    """What use_package.py prints with a wheel for another machine is what it prints here. runner: what is put before its program."""
    printed = []
    for words, file, more in ((native_python(folder),), one(folder, f"*_{platform.machine()}.whl"), {}), (python, wheel, env):
        site = unpacked(file, clean / file.stem)
        if runner and file == wheel:
            program = (site / "mgpt/mgpt").rename(site / "mgpt/mgpt.real")
            (site / "mgpt/mgpt").write_text(f'#!/bin/sh\nexec {" ".join(map(str, runner))} {program} "$@"\n')
            (site / "mgpt/mgpt").chmod(0o755)
        place = clean / (file.stem + "-files")
        place.mkdir()
        printed.append(said(*words, HERE / "use_package.py", site, folder / "names.gguf", place, cwd=clean, **more))
    assert printed[0] == printed[1], "\n".join(printed)


def try_wheel_aarch64(folder, clean):
    """By Debian's Python for arm64, and its NumPy, under qemu."""
    root = folder.parent / "aarch64-python"
    said(ROOT / "tools/release/aarch64_root.sh", root, "python3-numpy", cwd=clean)
    libraries = ":".join(f"{root}/usr/lib/aarch64-linux-gnu/{name}" for name in ("blas", "lapack"))
    inside = {"LD_LIBRARY_PATH": libraries, "PYTHONHOME": root / "usr", "PYTHONPATH": root / "usr/lib/python3/dist-packages"}
    python = next(p for p in sorted((root / "usr/bin").glob("python3.*")) if not p.is_symlink())
    qemu = ("qemu-aarch64", "-L", root)
    same_package(folder, clean, one(folder, "*_aarch64.whl"), *qemu, *(word for name, value in inside.items() for word in ("-E", f"{name}={value}")),
                 python, runner=qemu)


def try_static(folder, clean):
    program = shutil.copy(one(folder, f"mgpt-linux-{platform.machine()}"), clean / "mgpt")
    assert os.access(program, os.X_OK)
    check_program(folder, program, cwd=clean)


def try_static_aarch64(folder, clean):
    program = shutil.copy(folder / "mgpt-linux-aarch64", clean / "mgpt")
    assert os.access(program, os.X_OK)
    said(sys.executable, HERE / "static.py", program, one(folder, f"mgpt-linux-{platform.machine()}"), cwd=clean,
         MGPT_SOURCE_ROOT=str(ROOT), RUNNER="qemu-aarch64")


def wine(folder, clean):
    """Variables for wine; its folder is kept."""
    assert shutil.which("wine"), "wine is missing: apt-get install wine"
    return {"WINEPREFIX": str(folder.parent / "wine"), "WINEDEBUG": "-all", "HOME": str(clean), "LC_ALL": "C.UTF-8"}


def try_windows(folder, clean):
    check_program(folder, "wine", folder / "mgpt-windows-x86_64.exe", cwd=clean, **wine(folder, clean))


def try_wheel_windows(folder, clean):
    """By CPython for Windows under wine, which is told to be Windows 10: so CPython wants it."""
    env, python = wine(folder, clean), wine_python.windows_python(folder.parent / "windows-python")
    said("wine", "winecfg", "-v", "win10", cwd=clean, **env)
    same_package(folder, clean, one(folder, "*-win_amd64.whl"), "wine", python, **env)


def try_amalgamation(folder, clean):
    shutil.unpack_archive(one(folder, "*-amalgamation.zip"), clean)
    source = one(clean, "mgpt-*-amalgamation")
    assert sorted(p.name for p in source.iterdir()) == ["LICENSE", "LICENSE.stb", "mgpt.c", "mgpt.h"]
    said(*CC, "-O1", "-DQUICK_TO_COMPILE", "-I", source, ROOT / "tests/shape/hashes.c", source / "mgpt.c", "-o", "hashes", "-lm", "-lpthread",
         cwd=clean, HOME=os.environ.get("HOME", "/"))
    assert said("./hashes", folder / "names.gguf", cwd=clean).startswith(HASHES["names"] + " ")


MAIN = """#include <mgpt.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    mgpt_error err;
    mgpt_model *model = mgpt_open(argv[argc - 1], NULL, &err);
    puts(model ? "open" : err.text);
    mgpt_close(model);
}
"""


def try_debian(folder, clean):
    packages = sorted(folder.glob("*.deb"))
    assert [p.name.partition("_")[0] for p in packages] == ["libmgpt-dev", "libmgpt0", "mgpt"]
    for package in packages:
        said("dpkg-deb", "-x", package, clean, cwd=clean)
    said("md5sum", "-c", "--quiet", write_md5sums(packages, clean), cwd=clean)
    check_program(folder, clean / "usr/bin/mgpt", cwd=clean)
    for name in ("man/man1/mgpt.1.gz", "man/man1/mgpt-repl.1.gz", "bash-completion/completions/mgpt", "zsh/site-functions/_mgpt",
                 "fish/vendor_completions.d/mgpt.fish", "doc/libmgpt-dev/copyright", "doc/mgpt/examples/names.gguf"):
        assert (clean / "usr/share" / name).exists(), name
    pc = one(clean, "usr/lib/*/pkgconfig")
    (clean / "main.c").write_text(MAIN)
    where = {"PKG_CONFIG_PATH": str(pc), "PKG_CONFIG_SYSROOT_DIR": str(clean)}
    for static in ([], ["--static"]):
        flags = said("pkg-config", *static, "--cflags", "--libs", "mgpt", cwd=clean, **where).split()
        said(*CC, "main.c", "-o", "main", *flags, *(["-static"] if static else []), cwd=clean, HOME=os.environ.get("HOME", "/"))
        assert said("./main", folder / "names.gguf", cwd=clean, LD_LIBRARY_PATH=str(pc.parent)) == "open\n"
    if shutil.which("lintian"):
        done = subprocess.run(["lintian", "--fail-on", "error,warning", *packages], capture_output=True, text=True)
        assert done.returncode == 0 and not done.stdout, done.stdout + done.stderr


def write_md5sums(packages, clean):
    path = clean / "md5sums"
    path.write_text("".join(said("dpkg-deb", "-I", package, "md5sums", cwd=clean) for package in packages))
    return path


def try_lab(folder, clean):
    page = (folder / "index.html").read_text(encoding="utf-8")
    head = page.partition("</head>")[0]
    assert "<title>mgpt lab: a GPT learns to spell</title>" in head and 'property="og:image" content="' in head
    picture = re.search('og:image" content="(.*?)"', head)[1]
    assert (folder / picture.rpartition("/")[2]).exists(), picture
    if shutil.which("node"):
        shutil.copy(folder / "index.html", clean)
        code = ("const { openFake } = require(process.argv[1]);"
                "openFake('index.html', ['App']).then((p) => { console.log(p.document.documentElement.dataset.ready, p.App.state.view); process.exit(); })")
        assert said("node", "-e", code, ROOT / "tests/lab/fake_page.js", cwd=clean).strip() == "yes story"


def try_javascript(folder, clean):
    shutil.unpack_archive(one(folder, "*-js.zip"), clean)
    module = one(clean, "mgpt-*-js")
    assert json.loads((module / "package.json").read_text())["version"] in module.name
    if shutil.which("node"):
        code = ("import('fs').then(async (fs) => { const { Model } = await import(process.argv[1] + '/mgpt.js');"
                " const m = await Model.open(fs.readFileSync(process.argv[2]));"
                " console.log('a' + [...m.generate('a', { seed: 42, temperature: 0.5 })].join('')); })")
        text = said("node", "-e", code, module, folder / "names.gguf", cwd=clean)
        assert re.fullmatch("a[a-z]+\n", text), text


def try_models(folder, clean):
    for name in HASHES:
        assert filecmp.cmp(folder / f"{name}.gguf", ROOT / f"weights/{name}.gguf", shallow=False)


TRIES = {"wheel": try_wheel, "static": try_static, "wheel_aarch64": try_wheel_aarch64, "static_aarch64": try_static_aarch64,
         "wheel_windows": try_wheel_windows, "windows": try_windows, "amalgamation": try_amalgamation, "debian": try_debian, "lab": try_lab,
         "javascript": try_javascript, "models": try_models}


# ---- the folder ----


def try_sums(folder):
    """SHA256SUMS names every other file."""
    rows = dict(reversed(line.split("  ")) for line in (folder / "SHA256SUMS").read_text().splitlines())
    files = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file() and p.name != "SHA256SUMS"}
    assert rows == {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}


def try_sbom(folder):
    """The fields that SPDX 2.3 requires; each artefact has its sum, and each library inside has its licence's text."""
    document = json.loads(one(folder, "*.spdx.json").read_text(encoding="utf-8"))
    assert {"spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo"} <= set(document)
    assert document["spdxVersion"] == "SPDX-2.3" and document["dataLicense"] == "CC0-1.0"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["creationInfo"]["created"]) and document["creationInfo"]["creators"]
    packages = {p["SPDXID"]: p for p in document["packages"]}
    assert len(packages) == len(document["packages"])
    for name, package in packages.items():
        assert re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) and package["name"] and package["downloadLocation"] and package["versionInfo"]
    for row in document["relationships"]:
        assert {row["spdxElementId"], row["relatedSpdxElement"]} <= {"SPDXRef-DOCUMENT", *packages}, row
    sums = {p["packageFileName"]: {c["algorithm"]: c["checksumValue"] for c in p["checksums"]} for p in packages.values() if "checksums" in p}
    made = {p.name for p in folder.iterdir() if p.is_file() and p.name != "SHA256SUMS" and not p.name.endswith(".spdx.json")}
    assert set(sums) == made, set(sums) ^ made
    for name, by in sums.items():
        assert by["SHA256"] == hashlib.sha256((folder / name).read_bytes()).hexdigest()
    inside = {packages[r["relatedSpdxElement"]]["name"] for r in document["relationships"] if r["relationshipType"] == "CONTAINS"}
    assert {f"{name}.txt" for name in inside} | {"mgpt.txt"} == {p.name for p in (folder / "licences").iterdir()}


def try_readme(folder):
    """README's table names each file once, and the sizes there are true."""
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Install\n")[2].partition("\n## ")[0]
    left = {p.name + "/" * p.is_dir() for p in folder.iterdir()}
    for name, said in re.findall(r"`([^` ]+)`(?:, ([\d.]+) MB)?", "\n".join(re.findall(r"^\| (`.*?) \|", table, re.M))):
        found = fnmatch.filter(left, name.replace("…", "*"))
        assert len(found) == 1, f"README: {name}: {found}"
        left.remove(found[0])
        size = (folder / found[0]).stat().st_size / 1e6
        assert not said or abs(size - float(said)) < 0.1, f"README: {found[0]}: {said} MB, is {size:.2f}"
    assert not left, f"not in README: {left}"


def same_bytes(one, other):
    names = [sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()) for folder in (one, other)]
    assert names[0] == names[1], set(names[0]) ^ set(names[1])
    wrong = [name for name in names[0] if not filecmp.cmp(one / name, other / name, shallow=False)]
    assert not wrong, f"not the same bytes: {wrong}"


def make_twice(folder, version, compiler):
    """The release's folder; the second is made in another place and at another time, as a user with another umask."""
    script = ROOT / "tools/release/release.py"
    subprocess.run([sys.executable, script, folder, version, "--", *compiler], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="mgpt-release-") as other:
        again = Path(other) / "a/b/build"
        subprocess.run([sys.executable, script, again, version, "--", *compiler], check=True, stdout=subprocess.DEVNULL, umask=0o077)
        same_bytes(folder / "release", again / "release")
    return folder / "release"


def attempt(what, function, *arguments):
    try:
        function(*arguments)
    except AssertionError as wrong:
        print(f"not ok {what}: line {wrong.__traceback__.tb_next.tb_lineno}: {wrong}")
        return 1
    print(f"ok {what}")
    return 0


def main(first, second, *rest):
    failed = set(TRIES) != {a.name for a in release.ARTEFACTS}
    print("not ok" if failed else "ok", "each artefact is tried")
    if first == "--only":
        folder = Path(second).resolve()
    else:
        folder = Path(first).resolve() / "release"
        failed += attempt("made twice, the same bytes", make_twice, folder.parent, second, rest[1:])
    failed += attempt("SHA256SUMS", try_sums, folder) + attempt("SBOM", try_sbom, folder) + attempt("README", try_readme, folder)
    for name in rest if first == "--only" and rest else TRIES:
        with tempfile.TemporaryDirectory(prefix="mgpt-clean-") as clean:
            failed += attempt(name, TRIES[name], folder, Path(clean))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
