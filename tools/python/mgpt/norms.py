"""The norms of a model in TransformerLens' terms.

The engine has one value for a norm, its output, called hook_out here. TransformerLens also has what comes before the
gain and the bias: hook_scale [1, T, 1], and hook_normalized [1, T, n_embd].
"""

from __future__ import annotations

import ctypes as c
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ._lib import POINT, CLayer, call

if TYPE_CHECKING:
    from .model import Model

Floats = npt.NDArray[np.float32]

ROLES = {POINT["ATTN_IN"]: "ln1", POINT["MLP_IN"]: "ln2", POINT["FINAL"]: "ln_final"}  # of the norm before each point
INPUTS = {POINT[name] for name in ("RESID_PRE", "RESID_MID", "RESID_POST")}  # a norm reads the last one before it


@dataclass(frozen=True)
class Norm:
    """hook_normalized * gain + bias is the engine's value."""

    centred: bool
    eps: float
    gain: Floats
    bias: Floats

    def centre(self, x: Floats) -> Floats:
        """Rows without their mean, if this is a LayerNorm."""
        return x - x.mean(-1, keepdims=True) if self.centred else x

    def scale(self, centre: Floats) -> Floats:
        """What the rows are divided by, [T, 1]."""
        square = np.square(centre, dtype=np.float64).mean(-1, keepdims=True)
        scale: Floats = np.sqrt(square + self.eps).astype(np.float32)
        return scale


def norm_role(model: Model, point: int, layer: int) -> str | None:
    """The role of the norm before a point; None for a norm without gain, or no norm."""
    role = ROLES.get(point)
    return role if role and model.info.n_layer and model.has(role, layer) else None


def load_norm(model: Model, role: str, layer: int) -> Norm:
    """Reads gain and bias."""
    gain = model.tensor_of(role, layer)
    bias = model.tensor_of(role, layer, bias=True) if model.has(role, layer, bias=True) else np.zeros_like(gain)
    return Norm(model.info.norm == "layernorm", model.info.norm_eps, gain, bias)


def layer_facts(model: Model, layer: int) -> CLayer:
    """mgpt_layer; zeros outside the layers."""
    facts = CLayer()
    if layer >= 0:
        call("mgpt_get_layer", model._open().pointer, layer, c.byref(facts))
    return facts


def norm_before(model: Model, role: str, layer: int) -> Norm | None:
    """The norm "ln1" or "ln2" of a layer, or "ln_final"; one without gain has 1. None: the model has no such norm."""
    facts = layer_facts(model, layer)
    if not (model.info.ln_final if layer < 0 else getattr(facts, role)):
        return None
    if model.has(role, layer):
        return load_norm(model, role, layer)
    return Norm(model.info.norm == "layernorm", model.info.norm_eps, np.ones(1, np.float32), np.zeros(1, np.float32))
