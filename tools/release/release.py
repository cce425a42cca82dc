"""Makes the folder of a release: what ARTEFACTS below lists, licences, an SBOM, SHA256SUMS.

usage: release.py BUILD VERSION -- CC...     (ninja -C build release)

The folder is BUILD/release. It is written anew in BUILD/release-work, and takes the place of the old one when all is made.
Everything is compiled in BUILD-release, for other machines in BUILD-release-..., with the options of a package, whatever the
options of BUILD. What is compiled with for those is downloaded from Debian once. Equal sources and packages give equal
bytes: no time but that of the commit (SOURCE_DATE_EPOCH) is in them.

Environment:
  SOURCE_DATE_EPOCH  seconds; default: the commit's
  MGPT_ADDRESS       where the project is, https://...: homepage of the packages; default: left out
  MGPT_LAB_ADDRESS   where index.html and its picture will be, ending in /: sites that show a link need it
"""
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import debian
import libraries
import sbom
from work import ROOT, Work, run

LAB_ABOUT = ("A GPT of 4,192 numbers learns to spell: watch its training, and how it sorts the alphabet by vowels. It runs in this page: "
             "step through it, ask why it says a letter, change it.")


# ---- the artefacts ----


def wheel_of(work, build):
    for old in (build / "tools/python").glob("*.whl"):
        old.unlink()
    run("ninja", "-C", build, "wheel", env=work.env)
    return [shutil.copy(path, work.out) for path in (build / "tools/python").glob("*.whl")]


def static_of(work, build, machine):
    run("ninja", "-C", build, "tools/static/static-mgpt", env=work.env)
    return [shutil.copy(build / "tools/static/static-mgpt", work.out / f"mgpt-linux-{machine}")]


def make_wheel(work):
    return wheel_of(work, work.build)


def make_static(work):
    return static_of(work, work.build, platform.machine())


def make_wheel_aarch64(work):
    return wheel_of(work, work.for_aarch64())


def make_static_aarch64(work):
    return static_of(work, work.for_aarch64(), "aarch64")


def make_windows(work):
    build = work.for_windows()
    run("ninja", "-C", build, "tools/mgpt.exe", env=work.env)
    return [shutil.copy(build / "tools/mgpt.exe", work.out / "mgpt-windows-x86_64.exe")]


def make_wheel_windows(work):
    return wheel_of(work, work.for_windows())


def write_zip(work, what, files):
    """A zip with one folder of the files {name: bytes}."""
    folder = f"mgpt-{work.version}-{what}"
    path = work.out / f"{folder}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(f"{folder}/{name}", work.date_time())
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)
    return path


def make_amalgamation(work):
    run("ninja", "-C", work.build, "amalgamation", env=work.env)
    files = {name: (work.build / "tools/amalgamation" / name).read_bytes() for name in ("mgpt.c", "mgpt.h")}
    files["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files["LICENSE.stb"] = libraries.licence_text(libraries.LIBRARIES["stb"])
    return [write_zip(work, "amalgamation", files)]


def make_javascript(work):
    run("ninja", "-C", work.build, "js", env=work.env)
    folder = work.build / "tools/lab/js"
    files = {name: (folder / name).read_bytes() for name in ("package.json", "mgpt.js", "mgpt.wasm", "mgpt.d.ts", "mgpt.file.js")}
    files["LICENSE"] = (ROOT / "tools/lab/page/licences.txt").read_bytes()
    return [write_zip(work, "js", files)]


def make_debian(work):
    run("ninja", "-C", work.build, env=work.env)
    return debian.write_packages(work)


def make_lab(work):
    run("ninja", "-C", work.build, "tools/mgpt", env=work.env)
    picture = shutil.copy(ROOT / "tests/browser/lab.png", work.out / "lab.png")
    page = work.out / "index.html"
    steps = ROOT / "weights/names-steps"
    run(work.build / "tools/mgpt", "lab", *sorted(steps.glob("*.gguf")), "--held", steps / "held.txt", "--texts", steps / "texts.txt", "-p", "anna",
        "-o", page, "--title", "mgpt lab: a GPT learns to spell", "--about", LAB_ABOUT, "--picture", f"{work.lab_address}{Path(picture).name}", "--quiet", env=work.env)
    return [page, picture]


def make_models(work):
    return [shutil.copy(ROOT / f"weights/{name}.gguf", work.out) for name in ("names", "shakespeare")]


@dataclass(frozen=True)
class Artefact:
    name: str
    make: object  # function of a Work: makes files in work.out and returns their paths
    inside: tuple = ()  # keys of libraries.LIBRARIES: what the files contain besides mgpt
    needs: dict = field(default_factory=dict)  # {program or file: the Debian package that has it}


AARCH64 = {"aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu", "qemu-aarch64": "qemu-user"}
WINDOWS = {"x86_64-w64-mingw32-gcc-posix": "gcc-mingw-w64-x86-64", "make": "make"}
# How each is tried: tests/release/try_release.py, which has a row for each name.
ARTEFACTS = (
    Artefact("wheel", make_wheel, libraries.WHEEL, {"objcopy": "binutils"}),
    Artefact("static", make_static, libraries.STATIC),
    Artefact("wheel_aarch64", make_wheel_aarch64, libraries.WHEEL, AARCH64),
    Artefact("static_aarch64", make_static_aarch64, libraries.STATIC, AARCH64),
    Artefact("wheel_windows", make_wheel_windows, libraries.WINDOWS, WINDOWS),
    Artefact("windows", make_windows, libraries.WINDOWS, WINDOWS),
    Artefact("amalgamation", make_amalgamation, libraries.ENGINE),
    Artefact("debian", make_debian, libraries.ENGINE + libraries.PAGE + ("utf8proc",),
             {"dpkg-deb": "dpkg", "dpkg-shlibdeps": "dpkg-dev", "strip": "binutils"}),
    Artefact("lab", make_lab, libraries.ENGINE + libraries.PAGE),
    Artefact("javascript", make_javascript, libraries.ENGINE + libraries.PAGE),
    Artefact("models", make_models),
)


# ---- the folder ----


def check_needs():
    """Ends with one line that names what this machine lacks and the packages to install."""
    needs = {"ninja": "ninja-build", "meson": "meson", "git": "git", "dpkg-query": "dpkg"}
    needs |= {f"/usr/share/doc/{lib.package}/copyright": lib.package for lib in libraries.LIBRARIES.values() if not lib.lines}
    for artefact in ARTEFACTS:
        needs |= artefact.needs
    missing = {what: package for what, package in needs.items() if not (shutil.which(what) or (what[0] == "/" and Path(what).exists()))}
    if missing:
        sys.exit(f"release: {', '.join(missing)}: missing; as root: apt-get install {' '.join(sorted(set(missing.values())))}")


def write_licences(work):
    folder = work.out / "licences"
    folder.mkdir()
    (folder / "mgpt.txt").write_bytes((ROOT / "LICENSE").read_bytes())
    for name in sorted({name for artefact in ARTEFACTS for name in artefact.inside}):
        (folder / f"{name}.txt").write_bytes(libraries.licence_text(libraries.LIBRARIES[name]))


def write_sums(work):
    files = sorted(p for p in work.out.rglob("*") if p.is_file())
    lines = [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.relative_to(work.out)}\n" for p in files]
    (work.out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


def set_times(work):
    """Files have the commit's time, whoever packs the folder."""
    for path in [*work.out.rglob("*"), work.out]:
        os.utime(path, (work.epoch, work.epoch))


def make_release(work):
    work.prepare()
    inside = {}
    for artefact in ARTEFACTS:
        print(f"release: {artefact.name}", file=sys.stderr)
        paths = artefact.make(work) or sys.exit(f"release: {artefact.name}: no file was made")
        inside |= {Path(path): artefact.inside for path in paths}
    write_licences(work)
    sbom.write_sbom(work, inside)
    write_sums(work)
    set_times(work)
    shutil.rmtree(work.folder, ignore_errors=True)
    work.out.rename(work.folder)
    for path in sorted(p for p in work.folder.iterdir() if p.is_file()):
        print(f"{path.stat().st_size:10,}  {path}")


def main():
    build, version, dashes, *compiler = sys.argv[1:]
    if dashes != "--" or not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(__doc__.split("\n\n")[1])
    check_needs()
    make_release(Work(Path(build).resolve(), version, compiler))


if __name__ == "__main__":
    main()
