"""Model.circuits: weights multiplied out over all tokens, each alone, by tools/engine/circuit.c (circuit.h has the formulas)."""

from __future__ import annotations

import ctypes as c
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ._interrupt import elsewhere
from ._lib import call, lib
from ._ranges import number, shown

if TYPE_CHECKING:
    from .hooks import Floats
    from .model import Model
    from .show import Heatmap

KINDS = ("qk", "places", "ov", "direct", "fires", "promotes")  # enum circuit_kind, in order
PICTURED = 200  # most rows of a heatmap
_floats, _asked = c.POINTER(c.c_float), c.CFUNCTYPE(c.c_int)


class CCircuit(c.Structure):
    """struct circuit"""

    _fields_ = [("stopped", _asked), ("ids", c.c_void_p), ("n_ids", c.c_size_t), ("n_rows", c.c_size_t), ("n_cols", c.c_size_t), ("width", c.c_size_t), ("stride", c.c_size_t),
                ("rows", _floats), ("cols", _floats)]


lib.circuit_read.restype, lib.circuit_read.argtypes = c.c_int, [c.POINTER(CCircuit), c.c_void_p, c.c_int, c.c_int32, c.c_int32, c.c_void_p]
lib.circuit_free.restype, lib.circuit_free.argtypes = None, [c.POINTER(CCircuit)]
lib.circuit_order.restype, lib.circuit_order.argtypes = c.c_int, [c.POINTER(CCircuit), c.c_int, c.c_char_p, c.c_void_p]


@dataclass(frozen=True)
class Circuit:
    """The table rows @ cols.T: a row and a column for each token (places: position; of a neuron one of the two is it)."""

    kind: str
    rows: Floats  # [rows, width]
    cols: Floats  # [columns, width]
    labels: list[str]  # of the tokens, or positions
    along: npt.NDArray[np.float64]  # where they are along the table's first singular vector; control tokens: 0
    what: str

    @property
    def table(self) -> npt.NDArray[np.float64]:
        """All cells: rows times columns numbers."""
        product: npt.NDArray[np.float64] = self.rows.astype(np.float64) @ self.cols.T.astype(np.float64)
        return product

    def order(self) -> list[int]:
        """Ids in the table's own order: from the keys of qk and places (rows measured from their mean), else from the rows."""
        return [int(i) for i in np.argsort(-self.along, kind="stable")]

    def strongest(self, n: int = 10) -> list[tuple[str, str, float]]:
        """(row, column, value) of the cells that are largest in size, a block of rows at a time."""
        n = int(number("n", n, 1, 10**6))
        best: list[tuple[float, int, int]] = []
        for first in range(0, len(self.rows), 256):
            cells = self.rows[first:first + 256] @ self.cols.T
            top = np.argsort(-np.abs(cells), axis=None, kind="stable")[:n]
            best += [(float(cells.flat[i]), first + int(i) // cells.shape[1], int(i) % cells.shape[1]) for i in top]
            best = sorted(best, key=lambda b: -abs(b[0]))[:n]
        return [(self._label(row, len(self.rows)), self._label(col, len(self.cols)), value) for value, row, col in best]

    def _label(self, i: int, n: int) -> str:
        return self.labels[i] if n > 1 else ""

    def show(self) -> Heatmap:
        """A heatmap for a notebook, in the table's own order; of large vocabularies the beginning of it."""
        from .show import Heatmap

        order = self.order()[:PICTURED] if self.kind != "places" else list(range(len(self.labels)))[:PICTURED]
        names = [self.labels[i] for i in order]
        rows = self.rows[order] if len(self.rows) > 1 else self.rows
        cols = self.cols[order] if len(self.cols) > 1 else self.cols
        return Heatmap(self.what, [rows @ cols.T], names if len(rows) > 1 else [""], names if len(cols) > 1 else [""], [""])

    def _repr_html_(self) -> str:
        return self.show()._repr_html_()


def circuits(model: Model, kind: str, layer: int, index: int) -> Circuit:
    """See Model.circuits."""
    if kind not in KINDS:
        raise ValueError(f"kind: expected {', '.join(KINDS)}, found {shown(kind)}")
    layer, index = int(number("layer", layer, 0, 2**31 - 1)), int(number("index", index, 0, 2**31 - 1))
    handle, stop = model._open(), threading.Event()
    made = CCircuit(stopped=_asked(lambda: stop.is_set()))
    try:
        elsewhere(lambda: call("circuit_read", c.byref(made), handle.pointer, KINDS.index(kind), layer, index), stop.set)
        texts = [model.decode([i]) for i in range(model.info.n_tokens)] if kind != "places" else []
        skip = bytes(not text for text in texts) or None
        along = np.zeros(max(made.n_rows, made.n_cols), np.float64)
        if made.n_rows == made.n_cols and not lib.circuit_order(c.byref(made), kind in ("qk", "places"), skip, along.ctypes.data):
            raise MemoryError("a circuit's order")
        rows, cols = (np.ctypeslib.as_array(factor, (n, made.stride))[:, :made.width].copy()
                      for factor, n in ((made.rows, made.n_rows), (made.cols, made.n_cols)))
    finally:
        lib.circuit_free(c.byref(made))
    labels = [text or model.token_text(i) for i, text in enumerate(texts)] or [str(i) for i in range(len(along))]
    where = "" if kind == "direct" else f" of layer {layer}, {'neuron' if kind in KINDS[4:] else 'head'} {index}"
    return Circuit(kind, rows, cols, labels, along, kind + where)
