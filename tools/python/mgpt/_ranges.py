"""What arguments may be: the ranges of the commands' options, which tests/python/test_ranges.py compares."""

from __future__ import annotations

import numbers
import os
import reprlib
from collections.abc import Iterable
from typing import Any

from ._sampling import SEED, SETTINGS

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60
_short.maxlong = 30

# Argument: option of `mgpt generate`, least, most, whole.
RANGES: dict[str, tuple[str, float, float, bool]] = {
    "n": ("-n", -1, 2**31 - 1, True),
    **{name: row[:4] for name, row in (SETTINGS | {"seed": SEED}).items()},
    "logprobs": ("--top", 0, 1000, True),
    "n_ctx": ("-c", 0, 2**31 - 1, True),
    "threads": ("-t", 0, 256, True),
}


def shown(value: object) -> str:
    """A value in a message: its beginning and its end. A number of NumPy as Python has it, -5 for np.int32(-5)."""
    item = getattr(value, "item", None)
    return _short.repr(item() if isinstance(value, numbers.Number) and item else value)


def near(word: object, known: Iterable[str]) -> str:
    """", did you mean 'hook_z'?" if one of the known names is near or begins so, else nothing."""
    from difflib import get_close_matches

    names = {name.lower(): name for name in known}
    begun = [name for name in names if len(str(word)) > 1 and name.startswith(str(word).lower())]
    found = begun or get_close_matches(str(word).lower(), names, 1, 0.75)
    return f", did you mean {names[found[0]]!r}?" if found else ""


def one_of(name: str, value: Any, other: str, other_value: Any) -> Any:
    """The value of an argument that has two names."""
    if value is not None and other_value is not None:
        raise TypeError(f"{other}: another name of {name}, which is given as well")
    return other_value if value is None else value


def number(name: str, value: Any, least: float, most: float, whole: bool = True) -> Any:
    """An argument between two bounds; TypeError or ValueError."""
    if not isinstance(value, numbers.Integral if whole else numbers.Real) or isinstance(value, bool):
        raise TypeError(f"{name}: expected {'a whole number' if whole else 'a number'}, found {shown(value)}")
    checked: Any = value
    if not least <= checked <= most:  # nan is refused, too
        raise ValueError(f"{name}: expected a number from {least} to {most}, found {shown(value)}")
    return int(checked) if whole else float(checked)


def option(name: str, value: Any) -> Any:
    """An argument that is an option of the commands, in its range."""
    _, least, most, whole = RANGES[name]
    return number(name, value, least, most, whole)


def c_string(name: str, value: str) -> bytes:
    """A string for C, which ends at a NUL."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected str, found {shown(value)}")
    if "\0" in value:
        raise ValueError(f"{name}: expected a string without NUL, found {shown(value)}")
    return value.encode()


def c_path(path: str | os.PathLike[str]) -> bytes:
    """A path for C."""
    if b"\0" in (name := os.fsencode(path)):
        raise ValueError(f"path: expected one without NUL, found {shown(path)}")
    return name
