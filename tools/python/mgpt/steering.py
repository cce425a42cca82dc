"""Steering vectors: rows that are added to the residual stream after layers, at every position."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._lib import EFILE, POINT, CValue, Error, TapFn
from ._ranges import shown
from .hooks import view

if TYPE_CHECKING:
    from .model import Model

Vectors = str | os.PathLike[str] | npt.ArrayLike | Mapping[int, npt.ArrayLike]
Row = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Steering:
    """What `steer=` takes: vectors and a scale, as `--steer FILE:SCALE:LAYER` of the commands.

    `vectors` is a file (a GGUF control vector as llama.cpp writes it, or .npy), an array [n_layer, n_embd], an array
    [n_embd] with a `layer`, or a mapping of layers to rows [n_embd]. `steer=` takes these without Steering, too.
    """

    vectors: Vectors
    scale: float = 1.0
    layer: int | None = None

    def rows(self, model: Model) -> dict[int, Row]:
        """The scaled rows by layer; ValueError, TypeError or Error if they do not fit the model."""
        vectors, n_layer, n_embd = self.vectors, model.info.n_layer, model.info.n_embd
        if isinstance(vectors, str | os.PathLike):
            vectors = _read(os.fspath(vectors), n_layer)
        if isinstance(vectors, Mapping):
            found = {layer: np.asarray(row) for layer, row in vectors.items()}
            if self.layer is not None:
                raise ValueError("steer: a layer goes with one row")
        else:
            array = np.asarray(vectors)
            one = self.layer is not None
            if array.shape != ((n_embd,) if one else (n_layer, n_embd)):
                raise ValueError(f"steer: expected the shape ({n_layer}, {n_embd}), or ({n_embd},) with a layer, found "
                                 f"{array.shape} {'with' if one else 'without'} a layer")
            found = {self.layer: array} if self.layer is not None else dict(enumerate(array))
        return {layer: _scaled(layer, row, self.scale, (n_layer, n_embd)) for layer, row in found.items()}


def _scaled(layer: int, row: npt.NDArray[Any], scale: float, shape: tuple[int, int]) -> Row:
    n_layer, n_embd = shape
    if not isinstance(layer, int | np.integer):
        raise TypeError(f"steer: expected layers as numbers, found {shown(layer)}")
    if not 0 <= layer < n_layer:
        raise ValueError(f"steer: layer {layer}: expected 0 to {n_layer - 1}")
    if row.dtype.kind not in "fiu":
        raise TypeError(f"steer: layer {layer}: expected real numbers, found {row.dtype}")
    if row.shape != (n_embd,):
        raise ValueError(f"steer: layer {layer}: expected the shape ({n_embd},), found {row.shape}")
    with np.errstate(all="ignore"):
        scaled = row.astype(np.float32) * np.float32(scale)
    if not np.isfinite(scaled).all():
        raise ValueError(f"steer: layer {layer}: expected finite numbers, found {scaled[~np.isfinite(scaled)][0]}")
    return scaled


# ---- files ----


def _read(path: str, n_layer: int) -> npt.NDArray[Any] | dict[int, Row]:
    from .model import Model, is_gguf

    if not is_gguf(path):
        try:
            with open(path, "rb") as npy:
                array: npt.NDArray[Any] = np.lib.format.read_array(npy, allow_pickle=False)
        except (OSError, ValueError) as failed:
            raise Error(f"{path}: {failed}", EFILE) from None
        return array
    with Model(path, vocab_only=True) as file:
        return {_direction(path, name, n_layer): file.tensor(name) for name in file.tensors}


def _direction(path: str, name: str, n_layer: int) -> int:
    """The layer of a tensor; llama.cpp has none for layer 0."""
    number = re.fullmatch(r"direction\.(\d+)", name)
    if number is None or not 1 <= int(number[1]) < n_layer:
        raise Error(f"{path}: tensor {name}: expected direction.1 to direction.{n_layer - 1} of a control vector", EFILE)
    return int(number[1])


# ---- the tap ----


class Added:
    """Rows that a session's own tap adds after their layers."""

    def __init__(self, rows: Mapping[int, Row]) -> None:
        """rows: what to add, by layer. Without rows `points` is 0, and the session runs without a tap."""
        self._rows = rows
        self.points = 1 << POINT["RESID_POST"] if rows else 0
        self.callback = TapFn(lambda value, user: self.add(value[0]))

    def add(self, value: CValue) -> int:
        """Adds a layer's row to all rows of a value; nothing at other points. 0: the pass goes on."""
        row = self._rows.get(value.layer)
        if row is not None and value.point == POINT["RESID_POST"]:
            view(value)[:] += row
        return 0


NOTHING = Added({})
