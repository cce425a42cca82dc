"""What each head of a layer adds before the bias: hook_result, z W_O of one head, which the engine only has as a sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .norms import norm_before

if TYPE_CHECKING:
    from .model import Model

Floats = npt.NDArray[np.float32]


class HeadResults:
    """What each head of one layer adds to the residual stream (hook_result)."""

    def __init__(self, model: Model, layer: int) -> None:
        """Reads W_O and b_O."""
        self._weight = model._heads("W_O", layer)
        has_bias = model.has("W_O", layer, bias=True)
        self._bias = model.tensor_of("W_O", layer, bias=True) if has_bias else np.float32(0)
        self._norm, self._scale = norm_before(model, "ln1_post", layer), np.float32(model.info.residual_scale)

    def split(self, z: Floats) -> Floats:
        """[1, T, heads, d_head] to [1, T, heads, d_model]."""
        return np.ascontiguousarray(np.moveaxis(np.matmul(np.moveaxis(z, -2, 0), self._weight[:, None]), 0, -2))

    def join(self, result: Floats) -> Floats:
        """hook_attn_out of them, [T, d_model]: the sum with the bias, its norm if there is one, the residual's scale."""
        out = result[0].sum(-2) + self._bias
        if self._norm is not None:
            centre = self._norm.centre(out)
            out = centre / self._norm.scale(centre) * self._norm.gain + self._norm.bias
        return np.asarray(out * self._scale, np.float32)
