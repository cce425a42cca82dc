"""The wheel, and what runs the program: check, lab, heatmaps."""
import html
import os
import re
import shutil
import subprocess
import sys
import zipfile

import mgpt
import numpy as np
import pytest


def test_wheel():
    path = os.environ["MGPT_WHEEL"]
    assert os.path.getsize(path) <= 3_200_000  # 3.05 MB made on Debian 12, 0.1 more on 13
    with zipfile.ZipFile(path) as wheel:
        files = wheel.namelist()
        needed = {n for f in files if f.startswith("mgpt/") and not f.endswith((".py", ".typed"))
                  for n in re.findall(rb"GLIBC_2\.(\d+)", wheel.read(f))}
        metadata = wheel.read(next(f for f in files if f.endswith("METADATA"))).decode()
        pages = [f for f in files if "data/share/man/man1/mgpt" in f]
        licences = [f for f in files if "/licenses/" in f]
        commands = subprocess.run([os.environ["MGPT"], "--help"], capture_output=True, text=True, check=True).stdout
    assert {"mgpt/libmgpt.so", "mgpt/mgpt", "mgpt/py.typed"} <= set(files)
    assert len(pages) == 1 + len(re.findall("^  [a-z]+  ", commands, re.M))
    inside = ["pcre2", "jansson", "edit", "utf8proc", "zlib", "bsd", "md", "ncurses", "stb"] if shutil.which("dpkg-query") else []
    assert all(any(name in f for f in licences) for name in [*inside, "pages"]), licences
    classifiers = re.findall("^Classifier: (.*)", metadata, re.M)
    assert len(classifiers) >= 10 and "Typing :: Typed" in classifiers
    assert metadata.partition("\n\n")[2].startswith("# mgpt in Python")
    assert max(map(int, needed)) == int(re.search(r"manylinux_2_(\d+)_", path)[1])
    assert re.findall("Requires-Dist: (.*)", metadata) == ["numpy"]


def test_metadata_comes_first(root, tmp_path, monkeypatch):
    """pip knows Requires-Python before it compiles: metadata without a build is that of the wheel."""
    monkeypatch.syspath_prepend(str(root / "tools/python"))
    import backend
    folder = backend.prepare_metadata_for_build_wheel(tmp_path)
    with zipfile.ZipFile(os.environ["MGPT_WHEEL"]) as wheel:
        for name in ("METADATA", "entry_points.txt"):
            assert (tmp_path / folder / name).read_bytes() == wheel.read(f"{folder}/{name}")
    assert b"Requires-Python: >=3.10" in (tmp_path / folder / "METADATA").read_bytes()
    monkeypatch.setenv("MGPT_ADDRESS", "https://example.org/mgpt")
    backend.prepare_metadata_for_build_wheel(str(tmp_path / "again"))
    assert b"\nProject-URL: Homepage, https://example.org/mgpt\nClassifier: " in (tmp_path / "again" / folder / "METADATA").read_bytes()


def test_only_glibc_is_asked_for():
    """libmgpt.so loads into a process with any other libpcre2; the program finds its libraries next to it."""
    folder = os.path.dirname(mgpt.__file__)
    for name in ("libmgpt.so", "mgpt"):
        done = subprocess.run(["ldd", "-r", f"{folder}/{name}"], capture_output=True, text=True, check=True)
        assert "undefined symbol" not in done.stdout + done.stderr, done.stderr
        lines = done.stdout
        outside = [line for line in lines.splitlines() if folder not in line]
        assert all(re.search(r"linux-vdso|ld-linux|lib(c|m|pthread|dl|rt)\.so", line) for line in outside), outside


def test_import_is_light():
    code = "import sys, numpy; before = set(sys.modules); import mgpt; print(*set(sys.modules) - before)"
    new = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"subprocess", "tempfile", "difflib", "html", "pathlib", "json"} & set(new), new


def test_command():
    done = subprocess.run([sys.executable, "-c", "from mgpt._tool import main; main()", "--version"],
                          capture_output=True, text=True, check=True)
    assert done.stdout == f"mgpt {mgpt.__version__}\n"


def test_check(names, root):
    result = mgpt.check(names, root / "weights/names.ref.json", "--tol", "1e-5")
    assert mgpt.check(root / "weights/names.gguf", root / "weights/names.ref.json", "--tol", "1e-5").text == result.text
    assert result and result.ok and "verdict     same" in str(result)
    logits, cache = names.run_with_cache("anna", remove_batch_dim=True)
    arrays = {"tokens": names.encode("anna"), "logits": logits[0], **cache}
    assert mgpt.check(names, arrays)
    arrays["logits"] = logits[0] + 1
    assert not mgpt.check(names, arrays)
    with pytest.raises(mgpt.Error, match="logits"):
        mgpt.check(names, {"tokens": [1]})
    with pytest.raises(mgpt.Error, match="No such file"):
        mgpt.check(names, "/nope")


def test_lab(names, tmp_path):
    page = names.lab("anna")
    page.save(tmp_path / "lab.html")
    page.save(tmp_path / "lab.html")
    (tmp_path / "mine.html").write_text("<html>")
    with pytest.raises(FileExistsError):
        page.save(tmp_path / "mine.html")
    (tmp_path / "empty.html").touch()
    page.save(tmp_path / "empty.html")
    assert (tmp_path / "empty.html").read_text() == (tmp_path / "lab.html").read_text() == page.html
    assert "<html" in page.html and html.unescape(re.search('srcdoc="([^"]*)"', page._repr_html_())[1]) == page.html
    with pytest.raises(mgpt.Error, match="'!'|character"):
        names.lab("anna!")


def test_heatmaps(names, shakespeare):
    _, cache = names.run_with_cache("anna")
    for heads, shown in ((4, cache.show("pattern", layer=0)), (1, cache.show("pattern", 0, head=2)),
                         (1, cache.show("blocks.0.hook_resid_pre")), (4, cache.show("q", 0)),
                         (4, cache.show("attn_scores", 0))):
        page = shown._repr_html_()
        assert page.count("<svg") == page.count("</svg>") == heads and "n → a" in page or "&lt;BOS&gt;" in page
    assert page.count("<rect") == 4 * 15  # -inf is not drawn
    long = shakespeare.run_with_cache("To be, or not to be. " * 12, names="blocks.0.attn.hook_pattern")[1]
    assert 0 < long.show("pattern", 0, head=0)._repr_html_().count("<rect") <= 4096
    with pytest.raises(KeyError):
        cache.show("nope", 0)
    with pytest.raises(IndexError):
        cache.show("pattern", 0, head=4)
    cache2 = names.run_with_cache("anna", remove_batch_dim=True)[1]
    assert cache2.show("pattern", 0)._repr_html_() == cache.show("pattern", 0)._repr_html_()
    assert cache2.show("embed")._repr_html_() == cache.show("embed")._repr_html_()
    assert np.isfinite(cache["embed",]).all()
    batch = names.run_with_cache(["anna", "bobo"])[1]  # the first text, whose tokens the labels are
    for value in (("pattern", 0), ("z", 0), ("embed",)):
        assert batch.show(*value)._repr_html_() == cache.show(*value)._repr_html_(), value
    assert cache.show("pattern", 0, head=-1).captions == ["head 3"]
