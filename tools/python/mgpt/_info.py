"""Facts of a model: mgpt_info of include/mgpt.h, for people and, by the same fields, for ctypes."""

from __future__ import annotations

import ctypes as c
from dataclasses import dataclass, fields
from typing import Any

Count = int  # uint64_t


@dataclass(frozen=True)
class Info:
    """Facts of a model: the fields of mgpt_info in include/mgpt.h."""

    arch: str
    name: str
    chat_template: str
    tokenizer: str
    isa: str
    type: str
    norm: str
    activation: str
    position: str
    ignored: str
    n_vocab: int
    n_tokens: int
    n_ctx: int
    n_embd: int
    n_layer: int
    n_head: int
    n_head_kv: int
    head_dim: int
    n_ff: int
    n_expert: int
    n_expert_used: int
    bos: int
    eos: int
    add_bos: bool
    nfc: bool
    steps: bool
    gated: bool
    tied: bool
    ln_embd: int
    ln_final: int
    norm_eps: float
    rope_base: float
    attn_scale: float
    logit_softcap: float
    logit_scale: float
    residual_scale: float
    n_params: Count
    file_bytes: Count
    bytes_per_token: Count
    kv_bytes: Count


C_TYPES: dict[str, type[c._SimpleCData[Any]]] = {"str": c.c_char_p, "int": c.c_int32, "bool": c.c_int32, "float": c.c_float, "Count": c.c_uint64}


class CInfo(c.Structure):
    """mgpt_info"""

    _fields_ = [(field.name, C_TYPES[str(field.type)]) for field in fields(Info)]


def info_of(model: int) -> Info:
    """What mgpt_get_info says about an open model."""
    from ._lib import call

    found = CInfo()
    values: dict[str, Any] = {}
    call("mgpt_get_info", model, c.byref(found))
    for field in fields(Info):
        value = getattr(found, field.name)
        value = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        values[field.name] = bool(value) if field.type == "bool" else value
    return Info(**values)
