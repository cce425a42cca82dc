"""Makes the wheel: pip's way in (PEP 517), and what `ninja wheel` runs.

The wheel holds the package with the tables that rows.c prints, the library with PCRE2 inside, the program mgpt, and the shared libraries that the program
needs from outside glibc. Its tag is the machine that they are for and the newest glibc version that one of these asks for.
"""

import base64
import hashlib
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
STB = "/usr/share/doc/libstb-dev/copyright"  # headers, so no file of it is linked
MACHINES = {62: "x86_64", 183: "aarch64"}  # e_machine
GLIBC = re.compile(r"(linux-vdso|ld-linux.*|lib(c|m|dl|rt|pthread))\.so\b")
METADATA = """Metadata-Version: 2.1
Name: mgpt
Version: {version}
Summary: A small GPT engine with everything inside visible
License: MIT
Requires-Python: >=3.10
Requires-Dist: numpy
Keywords: gpt,transformer,inference,interpretability
{address}Classifier: Development Status :: 4 - Beta
Classifier: Environment :: Console
Classifier: Intended Audience :: Developers
Classifier: Intended Audience :: Education
Classifier: Intended Audience :: Science/Research
Classifier: License :: OSI Approved :: MIT License
Classifier: Operating System :: POSIX :: Linux
Classifier: Operating System :: Microsoft :: Windows
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3
Classifier: Programming Language :: Python :: 3 :: Only
Classifier: Programming Language :: Python :: Implementation :: CPython
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

"""
WHEEL = "Wheel-Version: 1.0\nGenerator: mgpt backend.py\nRoot-Is-Purelib: false\nTag: {tag}\n"
ENTRY_POINTS = "[console_scripts]\nmgpt = mgpt._tool:main\n"


# ---- the wheel ----


def is_windows(path):
    """Whether a file is a program or library for Windows. Those are linked statically."""
    return Path(path).read_bytes()[:2] == b"MZ"


def machine(path):
    """The name of the machine that an ELF file is for."""
    return MACHINES.get(int.from_bytes(Path(path).read_bytes()[18:20], "little"), platform.machine())


def bundled(program):
    """{name: path} of the shared libraries of a program that glibc does not bring."""
    asked = "" if is_windows(program) else subprocess.run(["readelf", "-dW", program], capture_output=True, text=True, check=True).stdout
    if all(GLIBC.match(name) or name == "libmgpt.so" for name in re.findall(r"\(NEEDED\).*\[(.*)\]", asked)):
        return {}  # ldd cannot tell of another machine's program
    lines = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"^\s*(\S+) => (\S+)", lines, re.M))
    return {name: path for name, path in found.items() if not GLIBC.match(name) and name != "libmgpt.so"}


def tag(files):
    """The platform of the wheel: the machine, and the newest GLIBC_2.x symbol version among its files."""
    first, *more = files
    if is_windows(first):
        return "py3-none-win_amd64"
    versions = [int(v) for path in (first, *more) for v in re.findall(rb"GLIBC_2\.(\d+)", Path(path).read_bytes())]
    return f"py3-none-manylinux_2_{max(versions)}_{machine(first)}" if versions else f"py3-none-linux_{machine(first)}"


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def without_unwinding(program):
    """The bytes of a C program or library without its tables for exceptions, which nothing throws: 120 kB of the wheel.
    Those of Windows have another form, and stay."""
    if is_windows(program):
        return Path(program).read_bytes()
    objcopy = "objcopy" if machine(program) == platform.machine() else f"{machine(program)}-linux-gnu-objcopy"
    with tempfile.TemporaryDirectory() as folder:
        less = Path(folder) / "program"
        sections = ["--remove-section=.eh_frame", "--remove-section=.eh_frame_hdr"]
        subprocess.run([objcopy, *sections, program, less], check=True)
        return less.read_bytes()


def licences(names):
    """{file of licenses/: bytes} for the libraries that are inside: what Debian's packages say, which elsewhere are none; and for
    the engine in pages of mgpt lab."""
    files = {"pages.txt": (ROOT / "tools/lab/page/licences.txt").read_bytes()}
    if Path(STB).exists():
        files["libstb-dev.txt"] = Path(STB).read_bytes()
    for name in names if shutil.which("dpkg-query") else ():
        owner = subprocess.run(["dpkg-query", "-S", f"*/lib{name}.a"], capture_output=True, text=True)
        package = owner.stdout.partition(":")[0]
        if package:
            files[f"{package}.txt"] = (Path("/usr/share/doc") / package / "copyright").read_bytes()
    return files


def described(version):
    """What does not depend on the build: {file of the folder .dist-info: bytes}."""
    address = os.environ.get("MGPT_ADDRESS")  # where the project is, https://...
    lines = f"Project-URL: Homepage, {address}\n" if address else ""
    return {"METADATA": METADATA.format(version=version, address=lines).encode() + (HERE / "README.md").read_bytes(),
            "entry_points.txt": ENTRY_POINTS.encode()}


def write_wheel(folder, version, library, program, rows, pages, *names):
    """Writes the wheel and returns its path. Equal content gives equal bytes. rows: _rows.py; pages: the folder man1, or "";
    names: libraries inside, "z" for libz.a."""
    own = {Path(path).name: path for path in (library, program)}
    binaries = own | bundled(program)
    files = {f"mgpt/{name}": without_unwinding(path) if name in own else Path(path).read_bytes() for name, path in binaries.items()}
    package = sorted([*(HERE / "mgpt").iterdir(), Path(rows)], key=lambda p: p.name)
    files |= {f"mgpt/{p.name}": p.read_bytes() for p in package if p.suffix in (".py", ".typed")}
    platform_tag, info = tag(binaries.values()), f"mgpt-{version}.dist-info"
    files |= {f"{info}/{name}": data for name, data in described(version).items()}
    files[f"{info}/WHEEL"] = WHEEL.format(tag=platform_tag).encode()
    files[f"{info}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files |= {f"{info}/licenses/{name}": data for name, data in licences(names).items()}
    files |= {f"mgpt-{version}.data/data/share/man/man1/{p.name}": p.read_bytes() for p in (sorted(Path(pages).iterdir()) if pages else ())}
    record = "".join(record_line(*file) for file in files.items()) + f"{info}/RECORD,,\n"
    files[f"{info}/RECORD"] = record.encode()
    path = Path(folder) / f"mgpt-{version}-{platform_tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100755 if name.removeprefix("mgpt/") in binaries else 0o100644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)
    return path


# ---- PEP 517 ----


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """What pip asks for before it compiles: a Python that is too old is refused at once, by Requires-Python."""
    version = re.search(r"^  version: '(.*)'", (ROOT / "meson.build").read_text(), re.M).group(1)
    folder = Path(metadata_directory) / f"mgpt-{version}.dist-info"
    folder.mkdir(parents=True)
    for name, data in described(version).items():
        (folder / name).write_bytes(data)
    return folder.name


def get_requires_for_build_wheel(config_settings=None):
    """Meson and Ninja, where the system has none."""
    return [name for name in ("meson", "ninja") if not shutil.which(name)]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Compiles in build-wheel/ of the repository, or in -C builddir=FOLDER."""
    build = Path((config_settings or {}).get("builddir") or ROOT / "build-wheel").resolve()
    if not (build / "build.ninja").exists():
        subprocess.run(["meson", "setup", build, ROOT], check=True)
    for old in (build / "tools/python").glob("*.whl"):
        old.unlink()
    subprocess.run(["ninja", "-C", build, "wheel"], check=True)
    (wheel,) = (build / "tools/python").glob("*.whl")
    return os.path.basename(shutil.copy(wheel, wheel_directory))


def build_sdist(sdist_directory, config_settings=None):
    """There is none: the package is a folder of the repository and builds in its clone."""
    raise RuntimeError("mgpt has no sdist: pip install ./tools/python in a clone of the repository")


if __name__ == "__main__":
    print(write_wheel(*sys.argv[1:]))
