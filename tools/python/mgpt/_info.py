"""Facts of a model: mgpt_info of include/mgpt.h, for people and, by the same fields, for ctypes."""

from __future__ import annotations

import ctypes as c
from dataclasses import fields
from typing import Any

from ._rows import Info

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
