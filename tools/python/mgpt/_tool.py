"""The mgpt program inside the package: it converts checkpoints, checks references, writes lab pages."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ._interrupt import elsewhere
from ._lib import EFILE, Error, beside

if TYPE_CHECKING:
    from .model import Lora

PROGRAM = beside("mgpt", "mgpt.exe")


def run(*words: str | os.PathLike[str], ok: Sequence[int] = (0,), typed: str = "") -> subprocess.CompletedProcess[str]:
    """Runs `mgpt WORDS` with `typed` as its input; raises Error with what it printed unless its exit code is in `ok`."""
    program = subprocess.Popen([PROGRAM, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, encoding="utf-8", errors="replace")
    try:
        is_main = threading.current_thread() is threading.main_thread()
        output = elsewhere(lambda: program.communicate(typed), program.kill) if is_main else program.communicate(typed)
    except BaseException:
        program.kill()
        raise
    done = subprocess.CompletedProcess(words, program.returncode, *output)
    if done.returncode not in ok:
        text = done.stderr.strip().removeprefix("mgpt: ")
        raise Error(text or f"mgpt {words[0]!s} ended with {done.returncode}", EFILE)
    return done


def converted(path: str, options: Sequence[str], notes: list[str]) -> tempfile.TemporaryDirectory[str]:
    """A folder with a checkpoint as model.gguf, until it is dropped; what the conversion says goes to notes."""
    folder = tempfile.TemporaryDirectory(prefix="mgpt-")
    lines = run("convert", *options, "--", path, os.path.join(folder.name, "model.gguf")).stderr.splitlines()
    notes += [line.removeprefix("mgpt: ") for line in lines if folder.name not in line]
    return folder


def lora_options(lora: Lora) -> list[str]:
    """The options of mgpt convert for adapters."""
    words: list[str] = []
    for adapter in [lora] if isinstance(lora, (str, os.PathLike)) or _is_scaled(lora) else lora:
        path, scale = adapter if isinstance(adapter, tuple) else (adapter, 1.0)
        words += ["--lora", f"{os.fspath(path)}:{float(scale)!r}" if scale != 1 else os.fspath(path)]
    return words


def _is_scaled(lora: object) -> bool:
    return isinstance(lora, tuple) and len(lora) == 2 and hasattr(lora[1], "__float__")  # of NumPy, too


def main() -> None:
    """The command `mgpt`."""
    if sys.platform == "win32":  # execv ends at once there, with the program still running
        sys.exit(subprocess.call([PROGRAM, *sys.argv[1:]]))
    os.execv(PROGRAM, ["mgpt", *sys.argv[1:]])
