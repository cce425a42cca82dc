"""The settings of drawing tokens, for ctypes, arguments and their ranges.

_rows.py has a row for each; tests/python compares the ranges with what `mgpt generate` does, and CSampler with
include/mgpt.h.
"""

from __future__ import annotations

import ctypes as c

from . import _rows
from ._rows import Setting

# By argument of Sampler and Model.generate. Rows have the repl's temperature, 0; here it is that of `mgpt generate`.
SETTINGS = _rows.SETTINGS | {"temperature": _rows.SETTINGS["temperature"]._replace(default=0.8)}
SEED = Setting("--seed", -1, 2**64 - 1, True, 0)


class CSampler(c.Structure):
    """mgpt_sampler; `uniform` stays NULL"""

    _fields_ = [*((name, c.c_int32 if row.whole else c.c_float) for name, row in SETTINGS.items()),
                ("rng", c.c_uint64), ("uniform", c.c_void_p), ("uniform_user", c.c_void_p), ("edit", c.c_void_p),
                ("edit_user", c.c_void_p), ("copy", c.c_void_p), ("tokens", c.c_void_p), ("n_tokens", c.c_size_t)]
