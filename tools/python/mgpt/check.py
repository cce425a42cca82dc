"""Comparing a model with a reference."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from .model import Model


@dataclass(frozen=True)
class CheckResult:
    """What `mgpt check` answers: whether the bounds hold, and its report."""

    ok: bool
    text: str

    def __repr__(self) -> str:
        return f"<mgpt.CheckResult {'ok' if self.ok else 'differs'}>\n{self.text.rstrip()}"

    def _repr_html_(self) -> str:
        """The columns of each sequence as a table, the other lines as they are."""
        from html import escape

        html, table = [], ""
        for line in self.text.splitlines():
            cells = re.split(r" {2,}|(?<=\d) (?=same|tie|differs)", line.strip())
            is_row = len(cells) > 6
            if is_row != bool(table):
                html.append("<table style='font:12px monospace'>" if is_row else "</table>")
            kind = "th" if is_row and not table else "td"
            table = "open" if is_row else ""
            html.append("<tr>" + "".join([f"<{kind}>{escape(cell)}</{kind}>" for cell in cells]) + "</tr>" if is_row
                        else f"<pre style='margin:2px'>{escape(line)}</pre>")
        return "".join(html) + ("</table>" if table else "")

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return self.text


def check(model: Model | str | os.PathLike[str], reference: str | os.PathLike[str] | Mapping[str, npt.ArrayLike],
          *options: str) -> CheckResult:
    """Compares the logits of a model with a reference: a file, another model, or arrays by name.

    The arrays are those of an .npz reference: tokens [T], logits [T, n_vocab], and hooks by name. `options` are those
    of `mgpt check`: "--tol", "f16". Error if the files are refused.
    """
    import tempfile

    from ._tool import run

    path = model if isinstance(model, str | os.PathLike) else model._run_on()
    with tempfile.TemporaryDirectory(prefix="mgpt-") as folder:
        if isinstance(reference, Mapping):
            file = os.path.join(folder, "reference.npz")
            np.savez(file, allow_pickle=False, **_arrays(reference))
            reference = file
        done = run("check", *options, os.path.abspath(path), os.path.abspath(reference), ok=(0, 1))
    return CheckResult(done.returncode == 0, done.stdout)


def _arrays(reference: Mapping[str, npt.ArrayLike]) -> dict[str, npt.NDArray[np.generic]]:
    """As `mgpt check` names them: a norm's hook_normalized is its output, which is hook_out in a cache."""
    outputs = {name: name.removesuffix("hook_out") + "hook_normalized" for name in reference
               if name.endswith("hook_out") and "ln" in name}
    kept = {name: value for name, value in reference.items() if name not in outputs.values()}
    return {outputs.get(name, name): np.asarray(value) for name, value in kept.items()}
