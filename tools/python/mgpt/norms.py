"""The norms of a model in TransformerLens' terms.

The engine has one value for a norm, its output, called hook_out here. TransformerLens also has what comes before the
gain and the bias: hook_scale [1, T, 1], and hook_normalized [1, T, n_embd].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ._lib import POINT

if TYPE_CHECKING:
    from .model import Model

Floats = npt.NDArray[np.float32]

# A norm's tensor by its point. Parallel blocks may have one norm for both branches; LFM2's last one has another name.
TENSORS = {POINT["ATTN_IN"]: ("blk.{}.attn_norm",), POINT["MLP_IN"]: ("blk.{}.ffn_norm", "blk.{}.attn_norm"),
           POINT["FINAL"]: ("output_norm", "token_embd_norm")}
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


def norm_tensor(model: Model, point: int, layer: int) -> str | None:
    """The name of a norm's tensors without .weight; None for a norm without gain, or no norm."""
    names = [name.format(layer) for name in TENSORS.get(point, ())]
    has = model.tensors() if names and model.info.n_layer else {}
    return next((name for name in names if f"{name}.weight" in has), None)


def load_norm(model: Model, tensor: str) -> Norm:
    """Reads gain and bias."""
    bias = f"{tensor}.bias"
    gain = model.tensor(f"{tensor}.weight")
    return Norm(model.info.norm == "layernorm", model.info.norm_eps, gain,
                model.tensor(bias) if bias in model.tensors() else np.zeros_like(gain))
