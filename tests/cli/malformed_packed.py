"""Quantised Hugging Face directories for malformed.py that are wrong in one way. Standard library only."""
import copy
import json
import math
import os
import re
import struct

from malformed_files import ROOT, get, hf  # noqa: E402


# Parts that say nothing which changes a value: they may be missing and of any type.
UNREAD = {"nvfp4": {"input_scale"}, "hqq": {"nbits", "group_size", "packing", "quant_zero", "quant_scale", "stores_quant_config"}}


def is_vector(shape):
    """Whether its numbers have the same order in any shape; some parts may be written so."""
    return math.prod(shape) == max(shape, default=1)


def packed_files():
    """Quantised directories: parts missing, of other types and shapes, and settings that do not fit."""
    for name in ("gptq_order", "awq", "mlx", "fp8", "compressed", "bitsandbytes", "nvfp4", "hqq"):
        folder = os.path.join(ROOT, "tests/golden", name)
        config, file = json.loads(get(folder + "/config.json")), get(folder + "/model.safetensors")
        n, = struct.unpack("<Q", file[:8])
        head, data = json.loads(file[8:8 + n]), file[8 + n:]
        hf(f"{name}", None, head, data, config)
        base = "model.layers.0.self_attn.v_proj."
        for key in [k for k in head if k.startswith(base) and k != base + "bias" and k.removeprefix(base) not in UNREAD.get(name, ())]:
            plain = re.escape("v_proj." + key.removeprefix(base))
            for what, change in (("type", {"dtype": {"F16": "F64", "F32": "I32"}.get(head[key]["dtype"], "F32")}),
                                 ("turned", {"shape": head[key]["shape"][::-1] + [1]})):
                if what == "turned" and name in UNREAD and is_vector(head[key]["shape"]):
                    continue
                h = copy.deepcopy(head)
                h[key].update(change)
                if what == "type" and head[key]["dtype"] == "F16": # as many bytes
                    h[key]["shape"] = [v // 4 if not i else v for i, v in enumerate(h[key]["shape"])] or [0]
                hf(f"{name}-{what}-{key}", plain + "|JSON|bytes|tensor", h, data, config)
            h = copy.deepcopy(head)
            h["x" + key] = h.pop(key)
            if not key.endswith("g_idx"):
                hf(f"{name}-without-{key}", "v_proj|missing", h, data, config)
        if name in ("fp8", "compressed", "bitsandbytes", "nvfp4", "hqq"):
            continue
        where = "quantization" if name == "mlx" else "quantization_config"
        for key in ("bits", "group_size"):
            for value in (0, 1, 3, 5, 7, 8, 31, 64, 2**31, 2**63, "x", None, -2):
                c = copy.deepcopy(config)
                c[where][key] = value
                for own in [k for k in c[where] if "." in k]:
                    del c[where][own]
                hf(f"{name}-{key}-{value}", "quantization_config|tensor|config", head, data, c)
