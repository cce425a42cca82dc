"""The wheel asks for glibc 2.28: symbols of its files, a program linked in the same way, and a run with Debian 11's glibc 2.31."""
import os
import platform
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

OLDEST = 28
HERE = Path(__file__).resolve().parent
newer = int(platform.libc_ver()[1].split(".")[1]) >= 34  # before, tools/python/old_glibc.py leaves the wheel as it is
only_newer = pytest.mark.skipif(not newer, reason="glibc is older than 2.34: the wheel asks for this one")
WANT = f"{2.718281828459045 + 2:.17g}\n"


def output(*words, **more):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def newest(file):
    """x of the newest GLIBC_2.x that a file asks for."""
    return max(int(x) for x in re.findall(r"\(GLIBC_2\.(\d+)[.\d]*\)", output("objdump", "-T", file)))


@pytest.fixture
def unpacked(tmp_path):
    """The folder of the wheel's package; programs and libraries in it may run."""
    with zipfile.ZipFile(os.environ["MGPT_WHEEL"]) as wheel:
        wheel.extractall(tmp_path)
    for file in binaries(tmp_path / "mgpt"):
        file.chmod(0o755)
    return tmp_path / "mgpt"


def binaries(folder):
    return [file for file in folder.iterdir() if file.read_bytes()[:4] == b"\x7fELF"]


@only_newer
def test_symbols(unpacked):
    files = binaries(unpacked)
    assert {"mgpt", "libmgpt.so"} <= {file.name for file in files}
    assert {file.name: newest(file) for file in files if newest(file) > OLDEST} == {}
    assert f"manylinux_2_{max(map(newest, files))}_{platform.machine()}.whl" in os.environ["MGPT_WHEEL"]
    assert "libpthread.so.0" in output("objdump", "-p", unpacked / "libmgpt.so")  # 2.28 has pthread_create there


def versions(file, is_there):
    """{name: its versions of glibc's} of the functions and objects that a file has (is_there), or asks for."""
    found = {}
    for line in output("objdump", "-T", file).splitlines():
        named = re.search(r"\bGLIBC_([.\d]+)\)? +(\w+)$", line)
        if named and ("*UND*" not in line) == is_there:
            found.setdefault(named[2], set()).add(tuple(map(int, named[1].split("."))))
    return found


@only_newer
def test_versions_of_symbols(unpacked):
    """Of several versions of a function the newest one that 2.28 has: pthread_cond_signal of 2.2.5 takes another structure."""
    cc = os.environ.get("CC", "cc").split()
    libraries = [versions(output(*cc, f"-print-file-name={name}").strip(), True) for name in ("libc.so.6", "libm.so.6")]
    for file in binaries(unpacked):
        for name, asked in versions(file, False).items():
            had = set().union(*[library.get(name, set()) for library in libraries])
            assert asked == {max((v for v in had if v <= (2, OLDEST)), default=None)}, (file.name, name)


def linked(folder):
    """old_glibc.c as a program of that folder."""
    stubs = Path(os.environ["MGPT_BUILD"]).parents[1] / "tools/python/old_glibc"
    program = folder / "program"
    output(*os.environ.get("CC", "cc").split(), "-O2", "-o", program, HERE / "old_glibc.c", f"-L{stubs}", "-pthread", "-lm")
    return program


@only_newer
def test_program(tmp_path):
    program = linked(tmp_path)
    assert newest(program) <= OLDEST
    assert output(program) == WANT


@only_newer
def test_newer_symbol_is_refused(tmp_path):
    """A function that glibc 2.28 lacks (gettid, 2.30) ends the link."""
    source = tmp_path / "new.c"
    source.write_text("int gettid(void); int main(void) { return gettid(); }\n")
    stubs = Path(os.environ["MGPT_BUILD"]).parents[1] / "tools/python/old_glibc"
    done = subprocess.run([*os.environ.get("CC", "cc").split(), "-o", tmp_path / "new", source, f"-L{stubs}"], capture_output=True, text=True)
    assert done.returncode and "undefined reference to `gettid'" in done.stderr


@only_newer
@pytest.mark.skipif(not os.environ.get("MGPT_OLD_GLIBC"), reason="fetches Debian 11's glibc: meson test --suite long")
def test_run_with_2_31(unpacked, tmp_path, root):
    """No system with 2.28 can be had; in 2.31, too, libpthread and libm are what they were then."""
    (tmp_path / "lists/partial").mkdir(parents=True)
    (tmp_path / "sources.list").write_text("deb http://deb.debian.org/debian bullseye main\n")
    apt = ["apt-get", "-qq", "-o", f"Dir::Etc::SourceList={tmp_path}/sources.list", "-o", "Dir::Etc::SourceParts=/dev/null",
           "-o", f"Dir::State::Lists={tmp_path}/lists", "-o", "Dir::State::status=/dev/null", "-o", "APT::Sandbox::User=root"]
    output(*apt, "update")
    output(*apt, "download", "libc6", cwd=tmp_path)
    (package,) = tmp_path.glob("libc6_2.31*.deb")
    output("dpkg-deb", "-x", package, tmp_path / "old")
    (folder,) = (tmp_path / "old/lib").glob("*-linux-gnu")
    (loader,) = folder.glob("ld-2.31.so")

    def run(*words):
        return output(loader, "--library-path", f"{folder}:{unpacked}", *words)
    assert run(linked(tmp_path)) == WANT
    for name, bits in ("names", "092da0f84bfcf144"), ("shakespeare", "25b9cfe007c02879"):
        assert run(unpacked / "mgpt", "check", "--self", root / f"weights/{name}.gguf").splitlines()[-1][:16] == bits
    model = root / "weights/names.gguf"
    assert run(unpacked / "mgpt", "generate", model, "-p", "a", "-n", "5") == output(unpacked / "mgpt", "generate", model, "-p", "a", "-n", "5")
