"""backend.py and old_glibc.py by themselves: tags, libraries that go in, what a build leaves, symbols of other versions."""
import base64
import hashlib
import importlib
import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest


@pytest.fixture
def backend(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "tools/python"))
    return importlib.import_module("backend")


def test_record_of_the_wheel():
    """RECORD has the sum and the size of every file but its own; nothing in the wheel tells when it was made."""
    path = Path(os.environ["MGPT_WHEEL"])
    with zipfile.ZipFile(path) as wheel:
        info = next(name for name in wheel.namelist() if name.endswith("RECORD")).removesuffix("RECORD")
        for name, row in (rows := dict(line.split(",", 1) for line in wheel.read(info + "RECORD").decode().splitlines())).items():
            data = wheel.read(name)
            sums = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            assert row == ("," if name.endswith("RECORD") else f"sha256={sums},{len(data)}"), name
        assert list(rows) == wheel.namelist() and {entry.date_time for entry in wheel.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        modes = {entry.filename: entry.external_attr >> 16 for entry in wheel.infolist()}
        told = wheel.read(info + "WHEEL").decode()
    assert modes == {name: 0o100755 if name.startswith("mgpt/") and not name.endswith((".py", ".typed")) else 0o100644 for name in modes}
    assert "\nRoot-Is-Purelib: false\n" in told and path.name == f"{info.partition('.dist')[0]}-{re.search('Tag: (.*)', told)[1]}.whl"


def test_tags(backend, tmp_path):
    """The machine of the first file, and the newest version among all."""
    files = {"arm": b"\x7fELF" + bytes(14) + b"\xb7\0 GLIBC_2.4 GLIBC_2.28 GLIBC_2.9", "intel": b"\x7fELF" + bytes(14) + b"\x3e\0 GLIBC_2.31",
             "none": b"\x7fELF" + bytes(14) + b"\x3e\0", "exe": b"MZ GLIBC_2.3"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    for names, tag in (("arm", "manylinux_2_28_aarch64"), ("intel arm", "manylinux_2_31_x86_64"), ("none arm", "manylinux_2_28_x86_64"),
                       ("none", "linux_x86_64"), ("exe arm", "win_amd64")):
        assert backend.tag([tmp_path / name for name in names.split()]) == "py3-none-" + tag
    assert backend.bundled(tmp_path / "exe") == {} and backend.without_unwinding(tmp_path / "exe") == files["exe"]


def test_bundled(backend, tmp_path):
    """Libraries that are not glibc's, with their paths."""
    def built(name, *options):
        words = [*os.environ.get("CC", "cc").split(), "-x", "c", "-", "-x", "none", "-o", tmp_path / name, f"-L{tmp_path}", "-Wl,--no-as-needed", *options]
        subprocess.run(words, input=b"int main(void) { return 0; }", check=True)
        return tmp_path / name

    own, ours = built("libown.so.3", "-shared", "-Wl,-soname,libown.so.3"), built("libmgpt.so", "-shared", "-Wl,-soname,libmgpt.so")
    plain, other = built("plain", "-lm", ours), built("other", "-lm", own, ours, f"-Wl,-rpath,{tmp_path}")
    assert backend.bundled(plain) == {} and backend.bundled(other) == {"libown.so.3": str(own)}


def test_builds(backend, tmp_path, monkeypatch):
    """The wheel that pip gets is the one that was built now; Meson and Ninja are asked for where there are none."""
    ran, folder = [], tmp_path / "build/tools/python"
    folder.mkdir(parents=True)
    (folder / "mgpt-0.1.0-old.whl").touch()

    def run(words, check):
        ran.append([str(word) for word in words])
        if words[0] == "ninja":
            (folder / "mgpt-0.2.0-new.whl").write_text("new")

    monkeypatch.setattr(backend.subprocess, "run", run)
    build = str(tmp_path / "build")
    for before in [["meson", "setup", build, str(backend.ROOT)]], []:
        ran.clear()
        assert backend.build_wheel(tmp_path, {"builddir": build}) == "mgpt-0.2.0-new.whl" and (tmp_path / "mgpt-0.2.0-new.whl").read_text() == "new"
        assert ran == [*before, ["ninja", "-C", build, "wheel"]]
        (tmp_path / "build/build.ninja").touch()
    monkeypatch.setattr(backend.shutil, "which", lambda name: "/usr/bin/ninja" if name == "ninja" else None)
    assert backend.get_requires_for_build_wheel() == ["meson"]
    with pytest.raises(RuntimeError, match="no sdist"):
        backend.build_sdist(tmp_path)


def test_old_symbols(backend):
    """Of each symbol the newest version that 2.28 has, in the library that had it."""
    old_glibc, of = importlib.import_module("old_glibc"), {}
    for name, versions in {"memcpy": "2.2.5 2.14", "pow": "2.2.5 2.29", "gettid": "2.30", "pthread_create": "2.2.5 2.34", "sem_post": "2.2.5 2.34", "dlsym": "2.2.5 2.34",
                           "shm_open": "2.2.5 2.34", "pthread_self": "2.2.5", "__libc_start_main": "2.2.5 2.34", "x": "2.28", "y": "2.9 2.10"}.items():
        of[name] = [(old_glibc.version_of(v), v, "FUNC", 1) for v in versions.split()]
    found = old_glibc.parts(of, "libc.so.6")
    assert {file: {name: row[0] for name, row in names.items()} for file, names in found.items()} == {
        "libc.so.6": {"memcpy": "2.14", "pow": "2.2.5", "pthread_self": "2.2.5", "__libc_start_main": "2.2.5", "x": "2.28", "y": "2.10"},
        "libpthread.so.0": {"pthread_create": "2.2.5", "sem_post": "2.2.5"}, "libdl.so.2": {"dlsym": "2.2.5"}}
