"""The C library: its structs and functions as include/mgpt.h declares them, its errors as exceptions.

tests/python/test_header.py compares every struct, constant and function here with the header.
ctypes.CDLL releases the GIL during each call.
"""

from __future__ import annotations

import ctypes as c
import os
import sys
from itertools import count
from typing import Any

from ._info import CInfo
from ._sampling import CSampler

NO_OFFSET = 2**64 - 1
OK, EARG, EFILE, EMEM, EIO, EFULL, ETEXT, ESTOP = 0, -1, -2, -3, -4, -5, -6, -7
NO_SPECIAL_TOKENS, PARSE_SPECIAL = 1, 2
KV_TYPES = {"auto": 0, "f32": 1, "f16": 2, "q8_0": 3}

# Points of the forward pass (mgpt_point) by name; the names of TransformerLens come from the library.
POINTS = ("EMBD POS_EMBD EMBD_NORM RESID_PRE ATTN_IN Q K V ROT_Q ROT_K SCORES WEIGHTS GATES HEADS ATTN_OUT RESID_MID "
          "MLP_IN MLP_PRE MLP_PRE_LINEAR MLP_POST ROUTER_SCORES EXPERT_WEIGHTS MLP_OUT RESID_POST FINAL HEAD_IN LOGITS").split()
POINT = {name: number for number, name in enumerate(POINTS)}


class CError(c.Structure):
    """mgpt_error"""

    _fields_ = [("status", c.c_int), ("offset", c.c_uint64), ("text", c.c_char * 192)]


class CModelParams(c.Structure):
    """mgpt_model_params"""

    _fields_ = [("isa", c.c_char_p), ("vocab_only", c.c_int), ("n_threads", c.c_int32), ("no_fused", c.c_int),
                ("top_k", c.c_int32), ("pack_later", c.c_int)]


class CLayer(c.Structure):
    """mgpt_layer"""

    _fields_ = [(n, c.c_int32) for n in ("window n_rot n_conv ln1 q_norm k_norm ln1_post ln_mid ln2 ln2_post "
                                         "ln_post n_head n_head_kv head_dim value_dim n_ff kv_from").split()]


class CTensor(c.Structure):
    """mgpt_tensor"""

    _fields_ = [("name", c.c_char_p), ("type", c.c_char_p), ("dims", c.c_uint64 * 4), ("n_dims", c.c_uint32),
                ("offset", c.c_uint64), ("n_bytes", c.c_uint64), ("first", c.c_uint64)]


class CStream(c.Structure):
    """mgpt_stream"""

    _fields_ = [("held", c.c_ubyte * 4), ("n_held", c.c_uint8), ("started", c.c_uint8)]


class CSessionParams(c.Structure):
    """mgpt_session_params"""

    _fields_ = [(n, c.c_int32) for n in ("n_ctx", "n_threads", "n_chunk", "kv_type")]


class CRun(c.Structure):
    """mgpt_run"""

    _fields_ = [("session", c.c_void_p), ("tokens", c.c_void_p), ("n", c.c_size_t), ("resid", c.c_void_p),
                ("clean", c.c_void_p), ("layer", c.c_int32), ("untapped", c.c_int)]


class CCandidate(c.Structure):
    """mgpt_candidate"""

    _fields_ = [("token", c.c_int32), ("logit", c.c_float), ("logprob", c.c_double)]


class CValue(c.Structure):
    """mgpt_value: what a tap sees"""

    _fields_ = [("point", c.c_int), *((n, c.c_int32) for n in ("layer", "pos", "rows", "cols", "copied")),
                ("stride", c.c_size_t), ("data", c.c_void_p)]


TapFn = c.CFUNCTYPE(c.c_int, c.POINTER(CValue), c.c_void_p)

_p, _i32, _size, _err = c.c_void_p, c.c_int32, c.c_size_t, c.POINTER(CError)
# Arrays are passed as addresses, so that NumPy's need no cast.
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "mgpt_version": (c.c_char_p, []),
    "mgpt_open": (_p, [c.c_char_p, c.POINTER(CModelParams), _err]),
    "mgpt_close": (None, [_p]),
    "mgpt_get_info": (c.c_int, [_p, c.POINTER(CInfo), _err]),
    "mgpt_get_layer": (c.c_int, [_p, _size, c.POINTER(CLayer), _err]),
    "mgpt_get_tensor": (c.c_int, [_p, _size, c.POINTER(CTensor), _err]),
    "mgpt_find_tensor": (c.c_int, [_p, c.c_char_p, c.POINTER(CTensor), _err]),
    "mgpt_n_tensors": (_size, [_p]),
    "mgpt_find_role": (c.c_int, [_p, c.c_int, _i32, c.c_int, c.POINTER(CTensor), _err]),
    "mgpt_role_name": (c.c_char_p, [c.c_int]),
    "mgpt_read_tensor": (c.c_int, [_p, c.c_char_p, c.c_uint64, _size, _p, _err]),
    "mgpt_encode": (c.c_int64, [_p, c.c_char_p, _size, c.c_uint, _p, _size, _err]),
    "mgpt_piece": (_p, [_p, _i32, c.POINTER(_size)]),
    "mgpt_token_text": (_p, [_p, _i32, c.POINTER(_size)]),
    "mgpt_is_end": (c.c_int, [_p, _i32]),
    "mgpt_stream_put": (_size, [c.POINTER(CStream), _p, _i32, c.c_char_p, _size]),
    "mgpt_stream_end": (_size, [c.POINTER(CStream), c.c_char_p, _size]),
    "mgpt_session_new": (_p, [_p, c.POINTER(CSessionParams), _err]),
    "mgpt_fork": (_p, [_p, _err]),
    "mgpt_session_free": (None, [_p]),
    "mgpt_step": (_p, [_p, _i32, _err]),
    "mgpt_feed": (c.c_int, [_p, _p, _size, _err]),
    "mgpt_feed_many": (c.c_int, [c.POINTER(CRun), _size, _err]),
    "mgpt_step_many": (c.c_int, [c.POINTER(_p), _p, _size, _err]),
    "mgpt_sync": (c.c_int, [_p, _p, _size, _err]),
    "mgpt_rewind": (c.c_int, [_p, _size, _err]),
    "mgpt_stop": (None, [_p]),
    "mgpt_save_session": (c.c_int, [_p, c.c_char_p, _err]),
    "mgpt_load_session": (c.c_int, [_p, c.c_char_p, _err]),
    "mgpt_pos": (_size, [_p]),
    "mgpt_tokens": (_p, [_p]),
    "mgpt_logits": (_p, [_p]),
    "mgpt_n_ctx": (_size, [_p]),
    "mgpt_sample": (_i32, [c.POINTER(CSampler), _p, _size]),
    "mgpt_top": (_size, [_p, _size, c.POINTER(CCandidate), _size]),
    "mgpt_logprob": (c.c_double, [_p, _size, _i32]),
    "mgpt_draw_prob": (c.c_double, [c.POINTER(CSampler), _p, _size, _i32]),
    "mgpt_tap": (c.c_int, [_p, c.c_uint64, TapFn, _p, _err]),
    "mgpt_point_name": (_size, [c.c_int, _i32, c.c_char_p, _size]),
    "mgpt_read_kv": (c.c_int, [_p, _i32, _i32, _size, _size, _p, _p, _err]),
    "mgpt_unembed": (c.c_int, [_p, _p, _p, _err]),
}


class Error(Exception):
    """What the library refuses, with its text. `status` is an mgpt_status (mgpt.EFULL, ...); `offset` the byte in
    the file or text where it happened, or None."""

    def __init__(self, text: str, status: int = EARG, offset: int | None = None) -> None:
        super().__init__(text)
        self.status, self.offset = status, offset


def beside(linux: str, windows: str) -> str:
    """The path of a file of the package, which has a name per system."""
    return os.path.join(os.path.dirname(__file__), windows if sys.platform == "win32" else linux)


def _load() -> c.CDLL:
    try:
        library = c.CDLL(beside("libmgpt.so", "mgpt.dll"))
    except OSError as failed:
        raise ImportError(f"{failed}: expected the library next to the package; pip install ./tools/python "
                          "builds it") from None
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


lib = _load()
# Roles of tensors (mgpt_role) by name, "W_Q"; the names come from the library.
ROLES = {name.decode(): number for number, name in enumerate(iter(map(lib.mgpt_role_name, count()).__next__, None))}


def fail(err: CError, what: str = "") -> Error:
    """The exception for a failed call; `what` (a path) comes first in its text."""
    text = err.text.decode("utf-8", "replace")
    return Error(f"{what}: {text}" if what else text, err.status, None if err.offset == NO_OFFSET else err.offset)


def call(name: str, *arguments: Any, what: str = "") -> Any:
    """Calls a function that takes a trailing mgpt_error; raises Error when it returns NULL or a negative status."""
    err = CError()
    result = getattr(lib, name)(*arguments, c.byref(err))
    if result is None or result < 0:
        raise fail(err, what)
    return result
