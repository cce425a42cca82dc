"""The Debian packages mgpt, libmgpt0 and libmgpt-dev, out of what `meson install` installs.

One build serves Debian 12 and 13: it is made on the older one, and links utf8proc, whose ABI differs, statically (work.py).
tests/release/try_release.py and tests/fresh/roots.sh install them.
"""
import email.utils
import gzip
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from work import ROOT, multiarch, run

REVISION = "1"
ABOUT = """\
 mgpt runs small GPTs in C, one token at a time, and shows every number on the
 way. Models are GGUF files and checkpoints of PyTorch, llama2.c, nanoGPT and
 Hugging Face. Logits have the same bits on every machine.
"""


@dataclass(frozen=True)
class Package:
    name: str
    section: str
    about: str  # its own line, and
    more: str  # the last paragraph of its description
    files: str  # what of the installed tree is in it: a pattern of the path without /usr/
    depends: str = ""  # {version}: the same build
    multiarch: str = ""


# The first pattern that fits takes the file.
PACKAGES = (
    Package("mgpt", "science", "small GPT engine with everything inside visible", "This package has the program, man pages and completions.",
            r"bin/|share/"),
    Package("libmgpt0", "libs", "small GPT engine (library)", "This package has the shared library.", r"lib/[^/]*/libmgpt\.so\.", multiarch="same"),
    Package("libmgpt-dev", "libdevel", "small GPT engine (development files)",
            "This package has the header, the static library and files for pkg-config and\n CMake.", r"include/|lib/",
            depends="libmgpt0 (= {version}), libpcre2-dev", multiarch="same"),
)
COPYRIGHT = """\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: mgpt
Comment: Other authors have written parts of what is inside.
{inside}
Files: *
Copyright: 2026 the mgpt authors
License: Expat

License: Expat
{text}"""
# What lintian says of every package that is outside of Debian, or that is one build for two releases.
OVERRIDES = {
    "initial-upload-closes-no-bugs": "the package is not in Debian",
    "embedded-library": "utf8proc: its ABI differs between Debian 12 and 13",
}


def zipped(text):
    return gzip.compress(text, 9, mtime=0)


def maintainer():
    """.invalid is the domain that exists nowhere (RFC 2606)."""
    return os.environ.get("MGPT_MAINTAINER", "mgpt authors <maintainers@mgpt.invalid>")


def deb_version(work):
    return f"{work.version}-{REVISION}"


def changelog(work):
    date = email.utils.formatdate(work.epoch)
    return (f"mgpt ({deb_version(work)}) unstable; urgency=medium\n\n  * {work.version}: see changelog.gz.\n\n"
            f" -- {maintainer()}  {date}\n").encode()


def indented(path, first=0):
    """The lines of a file as they are in a field."""
    lines = path.read_text(encoding="utf-8").rstrip("\n").split("\n")[first:]
    return "".join(f" {line}\n" if line.strip() else " .\n" for line in lines)


def copyright_file():
    """mgpt's, and the texts of what is inside (as in the folder of licences)."""
    inside = "".join(f" .\n {name}:\n .\n" + indented(path) for name, path in (
        ("utf8proc", Path("/usr/share/doc/libutf8proc-dev/copyright")), ("stb", Path("/usr/share/doc/libstb-dev/copyright")),
        ("pages of mgpt lab", ROOT / "tools/lab/page/licences.txt")))
    return COPYRIGHT.format(inside=inside, text=indented(ROOT / "LICENSE", 4)).encode()


def install(work, folder):
    """The tree of all packages: programs without symbols, man pages compressed."""
    run("meson", "install", "-C", work.build, "--no-rebuild", "--destdir", folder, env=work.env)
    sections = ("--remove-section=.comment", "--remove-section=.note")
    run("strip", *sections, folder / "usr/bin/mgpt", env=work.env)
    lib = folder / "usr/lib" / multiarch()
    run("strip", "--strip-unneeded", *sections, *(p for p in lib.glob("libmgpt.so.*") if not p.is_symlink()), env=work.env)
    run("strip", "--strip-debug", *sections, "--enable-deterministic-archives", lib / "libmgpt.a", env=work.env)
    for page in (folder / "usr/share/man").rglob("*.1"):
        page.with_suffix(".1.gz").write_bytes(zipped(page.read_bytes()))
        page.unlink()


def sort_files(tree, folder):
    """Moves each file of the tree into the folder of its package."""
    paths = sorted(p for p in (tree / "usr").rglob("*") if p.is_symlink() or not p.is_dir())
    for path in paths:
        name = str(path.relative_to(tree / "usr"))
        package = next(p for p in PACKAGES if re.match(p.files, name))
        to = folder / package.name / "usr" / name
        to.parent.mkdir(parents=True, exist_ok=True)
        path.rename(to)


def add_documents(work, package, root):
    doc = root / "usr/share/doc" / package.name
    doc.mkdir(parents=True)
    (doc / "copyright").write_bytes(copyright_file())
    (doc / "changelog.Debian.gz").write_bytes(zipped(changelog(work)))
    (doc / "changelog.gz").write_bytes(zipped((ROOT / "tools/CHANGELOG.md").read_bytes()))
    if package.name == "mgpt":
        (doc / "examples").mkdir()
        shutil.copy(ROOT / "weights/names.gguf", doc / "examples")
    overrides = root / "usr/share/lintian/overrides" / package.name
    overrides.parent.mkdir(parents=True)
    overrides.write_text("".join(f"# {why}\n{package.name}: {tag}\n" for tag, why in OVERRIDES.items()), encoding="utf-8")


def shared_depends(root):
    """What the programs and libraries of a package need, with versions: libc6 (>= 2.34)"""
    binaries = [p for p in root.rglob("*") if not p.is_symlink() and p.is_file() and p.read_bytes()[:4] == b"\x7fELF"]
    if not binaries:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "debian").mkdir()
        (Path(folder) / "debian/control").write_text("Source: mgpt\n\nPackage: mgpt\nArchitecture: any\n", encoding="utf-8")
        text = run("dpkg-shlibdeps", "-O", *(f"-e{p}" for p in binaries), cwd=folder)
    return re.search(r"^shlibs:Depends=(.*)", text, re.M).group(1)


def control(work, package, root):
    size = sum((p.stat().st_size + 1023) // 1024 if p.is_file() and not p.is_symlink() else 1 for p in root.rglob("*"))
    depends = ", ".join(filter(None, [package.depends.format(version=deb_version(work)), shared_depends(root)]))
    rows = {"Package": package.name, "Source": "mgpt" if package.name != "mgpt" else "", "Version": deb_version(work),
            "Architecture": architecture(), "Maintainer": maintainer(), "Installed-Size": size, "Depends": depends,
            "Section": package.section, "Priority": "optional", "Multi-Arch": package.multiarch, "Homepage": work.address,
            "Description": f"{package.about}\n{ABOUT} .\n {package.more}"}
    return "".join(f"{name}: {value}\n" for name, value in rows.items() if value)


def architecture():
    return run("dpkg-architecture", "-qDEB_HOST_ARCH").strip()


def md5sums(root):
    return run("sh", "-c", "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum", cwd=root)


def build_package(work, package, root):
    """root: the folder of what is installed; gets DEBIAN/ and becomes a file of work.out."""
    add_documents(work, package, root)
    info = root / "DEBIAN"
    files = {"control": control(work, package, root), "md5sums": md5sums(root)}
    if package.section == "libs":
        files |= {"shlibs": f"libmgpt 0 libmgpt0 (>= {work.version})\n", "triggers": "activate-noawait ldconfig\n"}
    info.mkdir()
    for name, text in files.items():
        (info / name).write_text(text, encoding="utf-8")
    for path in (root, *root.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or "usr/bin" in str(path) else 0o644)
        os.utime(path, (work.epoch, work.epoch), follow_symlinks=False)
    deb = work.out / f"{package.name}_{deb_version(work)}_{architecture()}.deb"
    run("dpkg-deb", "--root-owner-group", "-Zxz", "--threads-max=1", "--build", root, deb, env=work.env)
    return deb


def write_packages(work):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        install(work, folder / "all")
        sort_files(folder / "all", folder)
        return [build_package(work, package, folder / package.name) for package in PACKAGES]
