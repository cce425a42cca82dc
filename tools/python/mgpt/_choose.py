"""Edits of logits before a draw, by the C functions of tools/python/choose.c. _rows.EDITS has a row for each."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._handle import freed_by
from ._lib import CError, Error, fail, lib
from ._ranges import c_string, shown
from ._rows import AUTHOR_MOST, AUTHOR_TEXT, EDITS, HEAL_BYTES
from ._sampling import SETTINGS, CSampler

if TYPE_CHECKING:
    from .model import Model

_p, _size, _err, _sampler = c.c_void_p, c.c_size_t, c.POINTER(CError), c.POINTER(CSampler)


class CAuthorSetting(c.Structure):
    """author_setting of tools/choose/author.h."""

    _fields_ = [("name", c.c_char_p), ("text", c.c_char * AUTHOR_TEXT)]


FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "author_read": (c.c_int, [_p, c.POINTER(CAuthorSetting), _err]),
    "choose_new": (_p, [_p, _err]),
    "choose_free": (None, [_p]),
    "choose_set": (c.c_int, [_p, c.c_char_p, c.c_char_p, _err]),
    "choose_begin": (None, [_p, _size]),
    "choose_prepare": (c.c_int, [_p, _sampler, _p, _size, _err]),
    "choose_draw": (c.c_int32, [_p, _sampler, _p, _size, _err]),
    "choose_back": (c.c_int64, [_p, _p, _size]),
    "choose_complete": (c.c_int, [_p, _p, _size]),
    "choose_final": (_size, [_p, _p, _size]),
    "choose_heal": (c.c_int64, [_p, _p, _size, _err]),
    "choose_heal_next": (c.c_int32, [_p, _p]),
    "choose_heal_learn": (c.c_int, [_p, _p, _size, _err]),
    "choose_heal_repeats": (_size, [_p, _p, _size]),
    "choose_schema": (c.c_int64, [c.c_char_p, _size, c.c_char_p, _size, _err]),
}
for _name, (_result, _arguments) in FUNCTIONS.items():
    getattr(lib, _name).restype, getattr(lib, _name).argtypes = _result, _arguments


def _number(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name}: expected a number, found {shown(value)}")
    return repr(value.item() if isinstance(value, np.generic) else value)


def _bias(name: str, token: Any, add: Any) -> str:
    if isinstance(token, str):
        text = token.replace("\\", "\\\\").replace("\n", "\\n")
        return f'"{text}"{float(_number(name, add)):+.12f}'
    if not isinstance(token, (int, np.integer)):
        raise TypeError(f"{name}: expected a token's id or text, found {shown(token)}")
    return f"{int(token)}{float(_number(name, add)):+.12f}"


def texts_of(name: str, value: Any) -> list[str]:
    """A setting's value as the command line has it: numbers with colons, or several texts."""
    if EDITS[name].texts and isinstance(value, Mapping):
        return [_bias(name, token, add) for token, add in value.items()]
    if EDITS[name].texts and not isinstance(value, str):
        return [text for item in value for text in texts_of(name, item)]
    if isinstance(value, tuple):
        return [":".join(_number(name, item) for item in value)]
    return [value if isinstance(value, str) and (EDITS[name].texts or ":" in value) else _number(name, value)]


def author_settings(model: Model) -> dict[str, Any]:
    """Settings by argument."""
    handle, found, err = model._open(), (CAuthorSetting * AUTHOR_MOST)(), CError()
    n = lib.author_read(handle.pointer, found, c.byref(err))
    if n < 0:
        raise fail(err, model.path)
    named = {row.option.encode(): name for name, row in (EDITS | SETTINGS).items()}
    rows = [(named[b"--" + s.name], s.text.decode().split(":")) for s in found[:n]]
    return {name: tuple(float(x) for x in texts) if len(texts) > 1 else int(texts[0]) if texts[0].isdigit() else float(texts[0])
            for name, texts in rows}


class ChooserPointer(int):
    """The address of a chooser."""

    __slots__ = ()
    __del__ = freed_by(lib.choose_free)


class Edits:
    """A chooser for the tokens of a model, with the settings in `given`."""

    def __init__(self, model: Model, given: Mapping[str, Any]) -> None:
        handle, err = model._open(), CError()
        pointer = lib.choose_new(handle.pointer, c.byref(err))
        if not pointer:
            raise fail(err)
        self._pointer = ChooserPointer(pointer)
        self._model = handle  # it lives longer: attributes are dropped in this order
        self._held = np.empty(0, np.int32)
        for name, value in given.items():
            for text in texts_of(name, value):
                if lib.choose_set(self._pointer, name.encode(), c_string(name, text), c.byref(err)) < 0:
                    raise ValueError(f"{name}: {fail(err)}")

    def heal(self, tokens: npt.NDArray[np.int32]) -> int:
        """How many tokens of a prompt are kept; heal_with then learns what may follow them."""
        err = CError()
        kept = int(lib.choose_heal(self._pointer, tokens.ctypes.data, tokens.size, c.byref(err)))
        if kept < 0:
            raise fail(err)
        return kept

    def heal_with(self, logits_after: Callable[[npt.NDArray[np.int32]], npt.NDArray[np.float32]]) -> None:
        """Runs what is asked for after the kept tokens."""
        path, err = np.empty(HEAL_BYTES, np.int32), CError()
        while (n := lib.choose_heal_next(self._pointer, path.ctypes.data)) >= 0:
            row = np.ascontiguousarray(logits_after(path[:n]))
            if lib.choose_heal_learn(self._pointer, row.ctypes.data, row.size, c.byref(err)) < 0:
                raise fail(err)

    def repeats(self, drawn: npt.NDArray[np.int32]) -> int:
        """How many of these tokens only repeat a part of the healed prompt."""
        return int(lib.choose_heal_repeats(self._pointer, drawn.ctypes.data, drawn.size))

    def begin(self, n: int) -> None:
        """A text of which n tokens are not drawn."""
        lib.choose_begin(self._pointer, n)

    def prepare(self, sampler: CSampler, tokens: npt.NDArray[np.int32]) -> None:
        """The sampler's next draw is after these tokens."""
        self._held, err = np.ascontiguousarray(tokens, np.int32), CError()
        if lib.choose_prepare(self._pointer, c.byref(sampler), self._held.ctypes.data, self._held.size, c.byref(err)) < 0:
            raise fail(err)

    def draw(self, sampler: CSampler, row: npt.NDArray[np.float32]) -> int:
        """A token, after prepare."""
        err = CError()
        token = lib.choose_draw(self._pointer, c.byref(sampler), row.ctypes.data, row.size, c.byref(err))
        if token < 0:
            raise fail(err)
        return int(token)

    def back(self, tokens: npt.NDArray[np.int32]) -> int:
        """How many tokens stay, after the last of them was drawn: fewer if a banned text is complete."""
        kept = lib.choose_back(self._pointer, tokens.ctypes.data, tokens.size)
        if kept < 0:
            raise Error("out of memory: the edits", int(kept))
        return int(kept)

    def complete(self, tokens: npt.NDArray[np.int32]) -> bool:
        """Whether the text matches the regular expression and cannot go on."""
        return bool(lib.choose_complete(self._pointer, tokens.ctypes.data, tokens.size))

    def final(self, tokens: npt.NDArray[np.int32]) -> int:
        """How many tokens no banned text can take back."""
        return int(lib.choose_final(self._pointer, tokens.ctypes.data, tokens.size))


def schema_regex(schema: Mapping[str, Any] | str) -> str:
    """The regular expression of a JSON schema (a dictionary or its text): generate(regex=...) draws documents of it.

    Properties are in the order of the schema; what cannot be translated raises a ValueError that names it.
    """
    import json

    text = (schema if isinstance(schema, str) else json.dumps(schema)).encode()
    err, n = CError(), 0
    for _ in range(2):
        to = c.create_string_buffer(n + 1)
        n = lib.choose_schema(text, len(text), to, n + 1, c.byref(err))
        if n < 0:
            raise ValueError(f"schema: {fail(err)}")
    return to.value.decode()
