"""Heatmaps for a notebook: HTML and SVG, no dependencies."""

from __future__ import annotations

import math
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt

from ._rows import SHARES, SIGNS

MOST_CELLS = 4096  # of one map; a larger one is averaged over squares of cells
CELL, MARGIN = 14, 60


class Heatmap:
    """One map for each caption: blue below 0, white at 0, rust above; of sizes, which are not below 0, white to violet.
    The colours are those of the lab, of the terminal and of `mgpt patch --html`.

    Hovering a cell shows its row, column and number.
    """

    def __init__(self, name: str, maps: list[npt.NDArray[Any]], rows: list[str], columns: list[str] | None,
                 captions: list[str]) -> None:
        """Makes a heatmap of arrays [rows, columns]; columns without labels are numbered."""
        self.name, self.maps, self.labels, self.keys, self.captions = name, maps, rows, columns, captions

    @classmethod
    def of_value(cls, name: str, value: npt.NDArray[np.float32], labels: list[str], head: int | None) -> Heatmap:
        """Makes a heatmap of a value of a run: a map for each head, positions by keys or by components."""
        is_attention = name.endswith(("hook_pattern", "hook_attn_scores"))
        by_head = is_attention or name.rpartition("hook_")[2] in ("q", "k", "v", "z", "rot_q", "rot_k", "result")
        array = value[0] if value.ndim > 2 + by_head else value  # of a batch the first row, whose tokens the labels are
        if not is_attention:
            array = np.moveaxis(array, 1, 0) if by_head else array[None]
        heads = list(range(len(array))) if head is None else [range(len(array))[head]]
        return cls(name, [array[h] for h in heads], labels, labels if is_attention else None,
                   [f"head {h}" if by_head else "" for h in heads])

    def __repr__(self) -> str:
        """Blocks of five shades in a plain terminal; rows and columns above 64 are averaged."""
        low, high = self._bounds()
        parts = [f"{self.name}: {low:.4g} to {high:.4g}"]
        for caption, values in zip(self.captions, self.maps, strict=True):
            parts += [caption] * bool(caption) + _blocks(values, self.labels, low, high)
        return "\n".join(parts)

    def _bounds(self) -> tuple[float, float]:
        shown = np.concatenate([m[np.isfinite(m)] for m in self.maps])
        return (float(shown.min()), float(shown.max())) if shown.size else (0.0, 0.0)

    def _repr_html_(self) -> str:
        low, high = self._bounds()
        title = f"<div>{escape(self.name)}: {low:.4g} {_legend(low, high)} {high:.4g}</div>"
        maps = "".join([self._figure(c, m, low, high) for c, m in zip(self.captions, self.maps, strict=True)])
        return f'<div style="font:12px sans-serif">{title}{maps}</div>'

    def _figure(self, caption: str, values: npt.NDArray[Any], low: float, high: float) -> str:
        return (f'<figure style="display:inline-block;margin:4px">{self._svg(values, low, high)}'
                f"<figcaption>{caption}</figcaption></figure>")

    def _svg(self, values: npt.NDArray[Any], low: float, high: float) -> str:
        values, step = _smaller(values)
        rows, cols = values.shape
        cells = [self._cell(i, j, float(values[i, j]), step, low, high)
                 for i in range(rows) for j in range(cols) if np.isfinite(values[i, j])]
        names = [_text(MARGIN - 4, MARGIN + (i + 0.8) * CELL, self.labels[i * step], "end") for i in range(rows)]
        if self.keys:
            names += [_text(0, 0, self.keys[j * step], "start", f"translate({MARGIN + (j + 0.8) * CELL},{MARGIN - 4})"
                            " rotate(-90)") for j in range(cols)]
        size = f'width="{MARGIN + cols * CELL}" height="{MARGIN + rows * CELL}"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(cells + names)}</svg>'

    def _cell(self, i: int, j: int, value: float, step: int, low: float, high: float) -> str:
        column = self.keys[j * step] if self.keys else str(j * step)
        title = escape(f"{self.labels[i * step]} \u2192 {column}: {value:.4g}")
        return (f'<rect x="{MARGIN + j * CELL}" y="{MARGIN + i * CELL}" width="{CELL}" height="{CELL}" '
                f'fill="{_colour(value, low, high)}"><title>{title}</title></rect>')


def _smaller(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
    """Means of step x step cells, so that at most MOST_CELLS are left; columns are cut off instead of rows."""
    step = -(-len(values) // math.isqrt(MOST_CELLS))
    most = MOST_CELLS // -(-len(values) // step)
    return (_means(values[:, : most * step], step), step) if step > 1 else (values[:, :most], 1)


def _means(values: npt.NDArray[Any], step: int) -> npt.NDArray[np.float64]:
    """Means of the finite numbers of step x step cells, fewer at the edges; NaN where there are none."""
    finite = np.isfinite(values)
    sums, counts = (np.add.reduceat(np.add.reduceat(cells, range(0, len(cells), step), 0), range(0, cells.shape[1], step), 1)
                    for cells in (np.where(finite, values, 0).astype(np.float64), finite.astype(np.float64)))
    with np.errstate(invalid="ignore"):
        return np.asarray(sums / counts)


def _blocks(values: npt.NDArray[Any], labels: list[str], low: float, high: float) -> list[str]:
    """A line for each row, darker for numbers farther from 0 (or from the smallest, if that is above 0)."""
    step = -(-max(values.shape) // 64)
    base = max(low, 0.0)
    reach = max(high - base, base - low, 1e-30)
    lines = []
    for i, row in enumerate(_means(values, step)):
        label = labels[i * step].encode("unicode_escape").decode()[:9]
        lines.append(f"{label:>9} " + "".join([" " if np.isnan(v) else " \u2591\u2592\u2593\u2588"[
            min(int(abs(v - base) / reach * 5), 4)] for v in row]))
    return lines


def _text(x: float, y: float, text: str, anchor: str, transform: str = "") -> str:
    moved = f' transform="{transform}"' if transform else f' x="{x}" y="{y}"'
    return f'<text{moved} text-anchor="{anchor}" font-size="10" fill="currentColor">{escape(text[:9])}</text>'


def _legend(low: float, high: float) -> str:
    """A bar of the colours from the smallest to the largest number."""
    colours = ",".join([_colour(low + (high - low) * i / 8, low, high) for i in range(9)])
    return f'<span style="display:inline-block;width:120px;height:9px;background:linear-gradient(to right,{colours})"></span>'


def _colour(value: float, low: float, high: float) -> str:
    """Blue to rust if there are values below 0, else white to violet from the smallest on."""
    points = SIGNS if low < 0 else SHARES
    most = max(-low, high)
    share = 0.5 + value / most / 2 if low < 0 else (value - low) / (high - low) if high > low else 0.0
    i = min(int(share * (len(points) - 1)), len(points) - 2)
    part, mixed = share * (len(points) - 1) - i, []
    for shift in (16, 8, 0):
        a, b = (point >> shift & 255 for point in points[i : i + 2])
        mixed.append(round(a + part * (b - a)))
    return f"rgb({mixed[0]},{mixed[1]},{mixed[2]})"
