"""The page of `mgpt lab` in a notebook."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ._tool import run


MARK = "<h1>mgpt <span>lab</span></h1>"  # in every page (files.c)


class Page:
    """One HTML page in which the model runs. A notebook shows it in a frame."""

    def __init__(self, html: str) -> None:
        """Keeps the page's text."""
        self.html = html

    @classmethod
    def make(cls, model: str, text: str, options: Sequence[str]) -> Page:
        """Runs `mgpt lab`. A path that begins with - would be an option."""
        with tempfile.TemporaryDirectory(prefix="mgpt-") as folder:
            out = os.path.join(folder, "lab.html")
            told = any(o.split("=")[0] in ("--ids", "-f", "--file") for o in options)
            run("lab", "-m", model, *([] if told and not text else ["-p", text]), "-o", out, *options)
            return cls(Path(out).read_text(encoding="utf-8"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file, which needs no network and no other file; replaces only another such page."""
        file = Path(path)
        if file.is_file() and file.stat().st_size and MARK not in file.read_text(encoding="utf-8", errors="replace"):
            raise FileExistsError(f"{file} exists and is not a page of mgpt lab: give another name, or remove it first")
        file.write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html)}" width="100%" height="800" style="border:0"></iframe>'
