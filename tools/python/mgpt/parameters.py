"""Weights by TransformerLens' names of parameters: model.blocks[0].attn.W_Q, "blocks.0.attn.W_Q"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ._ranges import near

if TYPE_CHECKING:
    from .model import Model

Names = dict[str, tuple[str, bool]]  # of a part's weights: role, whether it is the bias
NORM: dict[str, Names] = {norm: {"w": (norm, False), "b": (norm, True)} for norm in ("ln1", "ln2", "ln_final")}
EMBED: dict[str, Names] = {"embed": {"W_E": ("W_E", False)}, "pos_embed": {"W_pos": ("W_pos", False)}}
OF_LAYER: dict[str, Names] = {
    "ln1": NORM["ln1"],
    "attn": {f"{kind}_{letter}": (f"W_{letter}", kind == "b") for kind in "Wb" for letter in "QKVO"},
    "ln2": NORM["ln2"],
    "mlp": {f"{kind}_{name}": (role, kind == "b") for kind in "Wb" for name, role in
            (("in", "W_up"), ("gate", "W_gate"), ("out", "W_down"))}}
UNEMBED: dict[str, Names] = {"ln_final": NORM["ln_final"], "unembed": {"W_U": ("W_U", False), "b_U": ("W_U", True)}}


class Part:
    """Weights of one part of a model as attributes, read when they are asked for; a bias that it lacks is 0."""

    def __init__(self, model: Model, name: str, layer: int = -1) -> None:
        """`name` is one of the tables above."""
        self._model, self._name, self._layer = model, name, layer
        self._weights = (OF_LAYER if layer >= 0 else EMBED | UNEMBED)[name]

    def __dir__(self) -> list[str]:
        return list(self._weights)

    def _has(self, name: str) -> bool:
        role, bias = self._weights[name]
        return self._model.has(role, self._layer, bias=bias and name in ("b", "b_gate"))  # other biases are 0 at least

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._weights or not self._has(name):
            raise AttributeError(f"{self._name} has no {name}{near(name, [n for n in self._weights if self._has(n)])}")
        return self._model._give(self._read(*self._weights[name]))

    def _read(self, role: str, bias: bool) -> Any:
        model, layer = self._model, self._layer
        if role in ("W_Q", "W_K", "W_V", "W_O") and not (role == "W_O" and bias):
            return model._heads(role, layer, bias=bias)
        if bias and not model.has(role, layer, bias=True):
            return np.zeros(model._find(role, layer, False).dims[1], np.float32)
        weight = model.tensor_of(role, layer, bias=bias)
        return weight if role in ("W_E", "W_pos") or weight.ndim < 2 else np.ascontiguousarray(weight.T)


class Block:
    """A layer: attn, mlp, ln1, ln2."""

    def __init__(self, model: Model, layer: int) -> None:
        """Nothing is read yet."""
        self.attn, self.mlp = Part(model, "attn", layer), Part(model, "mlp", layer)
        self.ln1, self.ln2 = Part(model, "ln1", layer), Part(model, "ln2", layer)


def parameters(model: Model) -> Iterator[tuple[str, Any]]:
    """(name, weight) of all that the model has, in the order of the pass."""
    parts = [(part, -1) for part in EMBED] + [(part, i) for i in range(model.info.n_layer) for part in OF_LAYER]
    for name, layer in [*parts, *[(part, -1) for part in UNEMBED]]:
        part = Part(model, name, layer)
        for weight in dir(part):
            if part._has(weight):
                yield (f"blocks.{layer}." if layer >= 0 else "") + f"{name}.{weight}", getattr(part, weight)
