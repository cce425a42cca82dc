"""What tools/release does before and after it compiles: refusals in one line, the SBOM, versions of libraries, the changelog
of Debian; marks of the page's template. usage: test_parts.py"""
import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import types
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tools/lab"), str(ROOT / "tools/release")]
debian, libraries, release, sbom, embed = (importlib.import_module(name) for name in ("debian", "libraries", "release", "sbom", "embed"))


def refused(environment):
    """The one line that release.py ends with."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, ROOT / "tools/release/release.py", folder, "1.2.3", "--", "cc"]
        done = subprocess.run(words, capture_output=True, text=True, env=environment)
        assert done.returncode == 1 and not done.stdout, done
        assert not os.listdir(folder), "it began to make something"
    (line,) = done.stderr.splitlines()
    return line


def what_is_missing():
    """Without programs: one line that names them and the packages."""
    with tempfile.TemporaryDirectory() as empty:
        line = refused({"PATH": empty})
    assert re.match(r"release: ninja, .*: missing; as root: apt-get install .*\bdpkg-dev\b.*\bninja-build\b", line), line


def version_of(package, said):
    """The version that libraries.version makes of what dpkg-query prints."""
    libraries.debian_version.cache_clear()
    before, libraries.subprocess = libraries.subprocess, types.SimpleNamespace(run=lambda *_, **__: types.SimpleNamespace(stdout=said))
    try:
        return libraries.version(libraries.debian("x", package, "MIT", ""))
    finally:
        libraries.subprocess = before
        libraries.debian_version.cache_clear()


def versions_without_debian():
    for said, want in (("1:1.2.13.dfsg-1", "1.2.13.dfsg"), ("10.42-1+deb12u2", "10.42"), ("3.1-20221030-2", "3.1-20221030"), ("2.8.0-1", "2.8.0")):
        assert version_of("any", said) == want, said


def fake_work(folder):
    return types.SimpleNamespace(out=Path(folder), version="1.2.3", commit="c0ffee", changed="", address="https://example.org/mgpt", epoch=86400)


def sbom_has_what_is_inside():
    with tempfile.TemporaryDirectory() as folder:
        work, file = fake_work(folder), Path(folder) / "one.whl"
        file.write_bytes(b"bytes")
        sbom.write_sbom(work, {file: ("wasi-libc", "compiler-rt")})
        (path,) = Path(folder).glob("*.spdx.json")
        document = json.loads(path.read_text(encoding="utf-8"))
        first = path.read_bytes()
        sbom.write_sbom(work, {file: ("wasi-libc", "compiler-rt")})
        assert path.read_bytes() == first
    assert document["creationInfo"]["created"] == "1970-01-02T00:00:00Z"
    source, artefact, *inside = document["packages"]
    assert source["sourceInfo"] == "commit c0ffee" and source["homepage"] == "https://example.org/mgpt"
    assert artefact["licenseConcluded"] == "MIT AND (MIT AND BSD-2-Clause AND CC0-1.0) AND (Apache-2.0 WITH LLVM-exception)"
    assert {"algorithm": "SHA1", "checksumValue": hashlib.sha1(b"bytes").hexdigest()} in artefact["checksums"]
    assert [p["name"] for p in inside] == ["compiler-rt", "wasi-libc"]
    module = (ROOT / "tools/lab/wasm/inside.txt").read_text()
    urls = [p["externalRefs"][0]["referenceLocator"] for p in inside]
    assert sorted(url.removeprefix("pkg:deb/debian/").replace("@", " ") for url in urls) == sorted(urllib.parse.quote(module, safe=": \n").splitlines())
    assert all(p["versionInfo"] and f"{p['versionInfo']}-" in url for p, url in zip(inside, urls))
    kinds = [r["relationshipType"] for r in document["relationships"]]
    assert kinds == ["DESCRIBES", "GENERATED_FROM", "CONTAINS", "CONTAINS"]


def debian_documents():
    work = fake_work("/")
    assert debian.changelog(work).decode().endswith(">  Fri, 02 Jan 1970 00:00:00 -0000\n")
    text = debian.copyright_file().decode()
    assert "License: Expat\n Permission is hereby granted" in text and "Felker" in text
    assert [paragraph.partition(":")[0] for paragraph in text.split("\n\n")] == ["Format", "Files", "License"]


def names_are_known():
    """What an artefact has inside is a row of libraries, and a package of Debian that is installed has a licence."""
    for artefact in release.ARTEFACTS:
        for name in artefact.inside:
            library = libraries.LIBRARIES[name]
            assert library.package and bool(library.text) == bool(library.lines)
            if library.text:
                assert libraries.licence_text(library)


def marks_are_there_once():
    assert embed.fill(b"a{{x}}c", b"{{x}}", b"b") == b"abc"
    for page in (b"", b"{{x}}{{x}}"):
        try:
            raise AssertionError(embed.fill(page, b"{{x}}", b"b"))
        except SystemExit as error:
            assert "%d marks {{x}}, expected 1" % page.count(b"x") in str(error), error


def main():
    for function in (what_is_missing, versions_without_debian, sbom_has_what_is_inside, debian_documents, names_are_known, marks_are_there_once):
        function()
        print("ok", function.__name__.replace("_", " "))


if __name__ == "__main__":
    main()
