"""The values of one run by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from .show import Heatmap

Floats = npt.NDArray[np.float32]


class Cache(Mapping[str, Floats]):
    """Arrays by TransformerLens' names, in the order of the pass.

    cache["blocks.0.attn.hook_pattern"] and cache["pattern", 0] are the same; a negative layer counts from the last;
    cache["normalized", 0, "ln1"] says which of several. numpy.savez(path, **cache) writes a file for `mgpt check`.
    """

    def __init__(self, values: dict[str, Floats], labels: list[str], n_layers: int) -> None:
        """`labels` are the tokens as text."""
        self._values, self.labels, self.n_layers = values, labels, n_layers

    def __getitem__(self, name: str | tuple[str | int, ...]) -> Floats:
        return self._values[name if isinstance(name, str) else self.full_name(*name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def full_name(self, *name: str | int) -> str:
        """The name of ("pattern", 0) or ("normalized", 0, "ln1") or ("embed",). KeyError if the cache lacks it."""
        word, layer, part = (*name, None, None)[:3]
        if isinstance(layer, int) and layer < 0:
            layer += self.n_layers
        place = "" if layer is None else rf"blocks\.{layer}\."
        pattern = rf"{place}({part or '[a-z0-9_]+'}\.)?(hook_)?{re.escape(str(word))}"
        found = [n for n in self._values if re.fullmatch(pattern, n)]
        if len(found) != 1:
            raise KeyError(f"{name}: {'several are' if found else 'no value is'} called so: {', '.join(found) or word}")
        return found[0]

    def show(self, name: str, layer: int | None = None, head: int | None = None) -> Heatmap:
        """Heatmaps of a value for a notebook: of every head of a pattern, or of positions by columns."""
        from .show import Heatmap

        full = name if name in self._values else self.full_name(*[x for x in (name, layer) if x is not None])
        return Heatmap.of_value(full, self._values[full], self.labels, head)

    def __repr__(self) -> str:
        return "Cache(" + ", ".join(f"{n}: {list(v.shape)}" for n, v in self._values.items()) + ")"
