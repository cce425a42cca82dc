"""The settings of drawing tokens: one row each, for ctypes, arguments and their ranges.

tests/python compares the ranges with the options of `mgpt generate`, and CSampler with include/mgpt.h.
"""

from __future__ import annotations

import ctypes as c
from typing import NamedTuple, TypedDict


class Setting(NamedTuple):
    """A number: its option of `mgpt generate`, its range, whether it is whole, its default."""

    option: str
    least: float
    most: float
    whole: bool
    default: float


# In the order of mgpt_sampler; an argument of Sampler and Model.generate each.
SETTINGS = {
    "temperature": Setting("--temp", 0, 1e30, False, 0.8),
    "top_k": Setting("--top-k", 0, 2**31 - 1, True, 0),
    "top_p": Setting("--top-p", 0, 1, False, 1.0),
    "min_p": Setting("--min-p", 0, 1, False, 0.0),
}
SEED = Setting("--seed", 0, 2**64 - 1, True, 0)


class Sampling(TypedDict, total=False):
    """The arguments, for type checkers."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int


class CSampler(c.Structure):
    """mgpt_sampler; `uniform` stays NULL"""

    _fields_ = [*((name, c.c_int32 if row.whole else c.c_float) for name, row in SETTINGS.items()),
                ("rng", c.c_uint64), ("uniform", c.c_void_p), ("uniform_user", c.c_void_p)]
