"""Sweeps over the values inside a model: which of them make the difference between two prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._ranges import near

if TYPE_CHECKING:
    from .hooks import Floats
    from .model import Model
    from .session import Tokens
    from .show import Heatmap

Metric = str | Callable[[npt.NDArray[np.float32]], float]
HEADS = ("z", "pattern", "q", "k", "v")


@dataclass(frozen=True)
class Grid:
    """The metric for each site: an array whose axes have names and coordinates.

    numpy functions take it as its values; xarray.DataArray(g.values, g.coords, g.dims) is it in xarray's terms.
    """

    name: str
    values: npt.NDArray[np.float64]
    coords: dict[str, list[int]]
    labels: list[str]  # the tokens at the positions

    @property
    def dims(self) -> tuple[str, ...]:
        """"layer", "head" (of values by head), "position"."""
        return tuple(self.coords)

    def sel(self, **coords: int) -> npt.NDArray[np.float64]:
        """Values at coordinates: g.sel(layer=3, head=0) is an array of positions."""
        for name in set(coords) - set(self.coords):
            raise KeyError(f"{name}: expected some of {', '.join(self.coords)}{near(name, self.coords)}")
        index = tuple(self.coords[n].index(coords[n]) if n in coords else slice(None) for n in self.coords)
        part: npt.NDArray[np.float64] = self.values[index]
        return part

    def show(self) -> Heatmap:
        """Heatmaps for a notebook: layers by positions, one for each head."""
        from .show import Heatmap

        maps = self.values[None] if "head" not in self.coords else np.moveaxis(self.values, 1, 0)
        captions = [f"head {h}" for h in self.coords.get("head", [])] or [""]
        return Heatmap(self.name, list(maps), [f"layer {n}" for n in self.coords["layer"]], self.labels, captions)

    def _repr_html_(self) -> str:
        return self.show()._repr_html_()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self.values, dtype)


@dataclass(frozen=True)
class Patched(Mapping[str, Grid]):
    """The metric of the clean run, of the corrupted one (None without one), and a Grid for each point."""

    clean: float
    corrupt: float | None
    grids: dict[str, Grid]

    def __getitem__(self, over: str) -> Grid:
        if over not in self.grids:
            raise KeyError(f"{over}: expected one of {', '.join(self.grids)}{near(over, self.grids)}")
        return self.grids[over]

    def __iter__(self) -> Iterator[str]:
        return iter(self.grids)

    def __len__(self) -> int:
        return len(self.grids)

    def _repr_html_(self) -> str:
        return "".join([grid._repr_html_() for grid in self.grids.values()])


# ---- by the program ----


def run_program(model: Model, clean: str, corrupt: str | None, options: Mapping[str, str | None]) -> Patched:
    """`mgpt patch --json`; its metrics are text."""
    import json

    from ._tool import run

    words = ["--clean=" + clean] + ([] if corrupt is None else ["--corrupt=" + corrupt])
    words += [f"--{name}={value}" for name, value in options.items() if value is not None]
    answer = json.loads(run("patch", "-m", model._run_on(), "--json", *words).stdout)
    labels = model._labels(np.array(answer["clean"]["tokens"], np.int32))
    return Patched(answer["clean"]["value"], answer.get("corrupt", {}).get("value"),
                   {grid["over"]: _read_grid(grid, labels) for grid in answer["grids"]})


def _read_grid(grid: dict[str, Any], labels: list[str]) -> Grid:
    coords = {name: grid[name + "s"] for name in ("layer", "head", "position") if name + "s" in grid}
    return Grid(grid["over"], np.array(grid["values"], np.float64), coords, [labels[p] for p in coords["position"]])


# ---- by hooks ----


def run_hooks(model: Model, clean: str | Tokens, corrupt: str | Tokens | None, metric: Callable[..., float],
              over: Sequence[str]) -> Patched:
    """A run for each site, with a function of the logits [1, T, n_vocab] as metric. Without `corrupt` the clean run
    is changed: the value is 0."""
    names = [f"blocks.*.{_hook(point)}" for point in over]
    logits, source = model.run_with_cache(clean, names)
    base, changed = float(metric(logits)), clean if corrupt is None else corrupt
    if len(model._tokens(changed)) != logits.shape[1]:
        raise ValueError(f"corrupt: expected {logits.shape[1]} tokens as in clean, found {len(model._tokens(changed))}")

    def value_at(point: str, site: tuple[int, ...]) -> float:
        layer, *place = site
        name, index = f"blocks.{layer}.{_hook(point)}", _index(point, place)
        new = source[name][index] if corrupt is not None else 0.0
        return float(metric(model.run_with_hooks(changed, [(name, lambda v, hook: v.__setitem__(index, new))])))

    grids = {}
    for point in over:
        coords = _coords(model, point, _of_all_layers(model, point, source))
        values = np.array([value_at(point, site) for site in product(*coords.values())])
        grids[point] = Grid(point, values.reshape([len(c) for c in coords.values()]), coords, source.labels)
    return Patched(base, None if corrupt is None else float(metric(model.run_with_cache(corrupt, ())[0])), grids)


def _of_all_layers(model: Model, point: str, source: Mapping[str, Floats]) -> Floats:
    """Layer 0's value, with which those of all layers have the shape in common."""
    names = [f"blocks.{layer}.{_hook(point)}" for layer in range(model.info.n_layer)]
    for name in names:
        if source[name].shape != source[names[0]].shape:
            raise ValueError(f"over: {name} is not as wide as in layer 0")
    return source[names[0]]


def _hook(point: str) -> str:
    return f"attn.hook_{point}" if point in HEADS else f"hook_{point}"


def _index(point: str, place: Sequence[int]) -> tuple[int, ...]:
    """The index in a value of [head, position] or [position]; patterns have heads before queries."""
    return (0, *place) if point == "pattern" else (0, *reversed(place))


def _coords(model: Model, point: str, value: Floats) -> dict[str, list[int]]:
    positions = value.shape[2 if point == "pattern" else 1]
    heads = {"head": list(range(value.shape[1 if point == "pattern" else 2]))} if point in HEADS else {}
    return {"layer": list(range(model.info.n_layer)), **heads, "position": list(range(positions))}
