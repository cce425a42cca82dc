"""What is inside the artefacts besides mgpt, for the folder of licences and the SBOM."""
import functools
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Library:
    name: str
    licence: str  # an SPDX expression; it is checked against the words of the text below
    home: str
    package: str  # of Debian: its version and its copyright file are those of the library
    lines: str = ""  # a file of this repository with lines PACKAGE VERSION, where the package is not that of this machine
    text: str = ""  # a file of this repository in place of the copyright file


def debian(name, package, licence, home):
    return Library(name, licence, home, package)


LAB, MODULE = "tools/lab/page/licences.txt", "tools/lab/wasm/inside.txt"
LIBRARIES = {library.name: library for library in (
    debian("pcre2", "libpcre2-dev", "BSD-3-Clause", "https://www.pcre.org/"),
    debian("jansson", "libjansson-dev", "MIT", "https://github.com/akheron/jansson"),
    debian("libedit", "libedit-dev", "BSD-3-Clause", "https://www.thrysoee.dk/editline/"),
    debian("utf8proc", "libutf8proc-dev", "MIT AND Unicode-DFS-2015", "https://juliastrings.github.io/utf8proc/"),
    debian("zlib", "zlib1g-dev", "Zlib", "https://zlib.net/"),
    debian("libbsd", "libbsd-dev", "BSD-3-Clause AND BSD-2-Clause AND ISC AND MIT AND Beerware", "https://libbsd.freedesktop.org/"),
    debian("libmd", "libmd-dev", "BSD-3-Clause AND BSD-2-Clause AND ISC AND Beerware", "https://www.hadrons.org/software/libmd/"),
    debian("ncurses", "libncurses-dev", "X11-distribute-modifications-variant", "https://invisible-island.net/ncurses/"),
    debian("glibc", "libc6-dev", "LGPL-2.1-or-later", "https://www.gnu.org/software/libc/"),
    # Its start files and winpthreads, which are linked statically.
    debian("mingw-w64", "mingw-w64-x86-64-dev", "ZPL-2.1 AND MIT AND BSD-3-Clause", "https://www.mingw-w64.org/"),
    debian("stb", "libstb-dev", "MIT OR Unlicense", "https://github.com/nothings/stb"),
    # Inside module.wasm, which is committed.
    Library("wasi-libc", "MIT AND BSD-2-Clause AND CC0-1.0", "https://github.com/WebAssembly/wasi-libc", "wasi-libc", lines=MODULE, text=LAB),
    Library("compiler-rt", "Apache-2.0 WITH LLVM-exception", "https://compiler-rt.llvm.org/", "libclang-rt-14-dev-wasm32", lines=MODULE, text=LAB),
)}
ENGINE = ("stb",)
PAGE = ("wasi-libc", "compiler-rt")  # what mgpt lab writes into pages, and so what any program with it has inside
TERMINAL = ("libedit", "libbsd", "libmd", "ncurses")
WHEEL = ENGINE + PAGE + TERMINAL + ("pcre2", "jansson", "utf8proc", "zlib")
STATIC = WHEEL + ("glibc",)
WINDOWS = ENGINE + ("pcre2", "mingw-w64")


@functools.lru_cache(maxsize=None)
def debian_version(library):
    """The version of the Debian package that is inside."""
    if library.lines:
        return dict(line.split() for line in (ROOT / library.lines).read_text().splitlines())[library.package]
    return subprocess.run(["dpkg-query", "-W", "-f", "${Version}", library.package], capture_output=True, text=True, check=True).stdout


def version(library):
    """The upstream version: without epoch and revision."""
    return re.fullmatch(r"(?:\d+:)?(.*)-[^-]*", debian_version(library)).group(1)


def licence_text(library):
    """Bytes of what the library's authors want to be said."""
    return (ROOT / library.text if library.text else Path("/usr/share/doc") / library.package / "copyright").read_bytes()
