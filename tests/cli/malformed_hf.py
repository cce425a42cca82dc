"""Hugging Face models as MLX saves them, and adapters, for malformed.py: wrong in one way. Standard library
only."""
import json
import os
import sys
import zipfile

sys.path.insert(0, os.path.join(os.environ["MGPT_SOURCE_ROOT"], "tests/fuzz"))
import tiny_models  # noqa: E402
from formats import (ADAPTER_CONFIG, TINY_CONFIG, adapter_tensors, npy, npz, safetensors,  # noqa: E402
                     tiny_tensors)
from malformed_gguf import ODD, Gguf, bad, changed, good  # noqa: E402


def mlx():
    head, data = tiny_tensors()
    entries = {k: [e["shape"], "<V2", data[e["data_offsets"][0]:e["data_offsets"][1]]] for k, e in head.items()}

    def one(name, field, how=zipfile.ZIP_STORED, **values):
        own = {**entries, **values}
        archive = npz([(k + ".npy", v if isinstance(v, bytes) else npy(v[1], v[0], v[2])) for k, v in own.items()], how)
        files = {"weights.npz": archive, "config.json": json.dumps(TINY_CONFIG).encode()}
        (bad if field else good)(*(("mlx-" + name, files, "ckpt") + ((field,) if field else ())))
    one("control", None)
    one("deflated", None, zipfile.ZIP_DEFLATED)
    norm = "model.norm.weight"
    for i, value in enumerate((b"", b"x" * 100, [[4], "<V2", bytes(7)], [[4], "<V2", bytes(9)], [[2**62, 4], "<V2", bytes(8)],
                               [[5], "<V2", bytes(10)], [[4], "<i4", bytes(16)], [[4], "<V3", bytes(12)], [[2, 2], "<V2", bytes(8)],
                               [[], "<V2", bytes(2)], [[0], "<V2", b""], [[4], "|O", bytes(8)], [[4], ">f4", bytes(16)])):
        one(f"value-{i}", "norm|npy|element|header", **{norm: value})
    one("more", "tensor|not part", **{"model.extra.weight": [[4], "<V2", bytes(8)]})


def adapters():
    model = {"config.json": json.dumps(TINY_CONFIG).encode(), "model.safetensors": safetensors(*tiny_tensors())}

    def peft(name, field, head=None, data=None, **says):
        own = adapter_tensors()
        files = {"adapter_model.safetensors": head if isinstance(head, bytes) else
                 safetensors(head or own[0], own[1] if data is None else data),
                 "adapter_config.json": json.dumps(dict(ADAPTER_CONFIG, **says)).encode(), **model}
        (bad if field else good)(*(("lora-" + name, files, "lora") + ((field,) if field else ())))
    peft("control", None)
    peft("control-dora", None, safetensors(*adapter_tensors(True)), use_dora=True)
    head, data = adapter_tensors()
    whole = safetensors(head, data)
    for n in (0, 1, 8, len(whole) // 2, len(whole) - 1):
        peft(f"cut-{n}", "adapter", whole[:n])
    for name in head:
        for i, entry in enumerate(({"dtype": "I8"}, {"shape": [2**62, 8]}, {"shape": [8]}, {"shape": [1, 8]},
                                   {"shape": [8, 1]}, {"shape": [0, 4]}, {"data_offsets": [0, 2**62]})):
            peft(f"{name}-{i}", "tensor|adapter", {**head, name: {**head[name], **entry}})
        for i, other in enumerate(("x", name + ".default", name.replace("lora_A", "lora_B"), "base_model.model.",
                                   name.replace("layers.0", "layers.1"), "base_model.model..", name.replace("proj", "norm"),
                                   name.replace("base_model.model.", "base_model.model.default."), "\x1b[31m", "a" * 300)):
            if other != name and i not in (1, 7):
                peft(f"{name}-name-{i}", "tensor|adapter", {other if k == name else k: v for k, v in head.items()})
    for key, value in ADAPTER_CONFIG.items():
        for i, other in enumerate(("x", -1, 2**40, [], {"q_proj": "\x1b[2J"}, {"q_proj": 10**300}, 1e308, True, None)):
            if key == "bias" or other is value or (key == "lora_alpha" and i == 8) or \
                    (other in (None, [], True) and key not in ("peft_type", "r", "lora_alpha", "use_dora")) or \
                    (key == "use_dora" and i == 8) or (key == "init_lora_weights" and other in (None, [])):
                continue
            peft(f"config-{key}-{i}", "adapter_config|" + key, **{key: other})
    for i, junk in enumerate((b"", b"{", b"[]", b"\xff\xfe", b"[" * 9000, b'{"r":1,"r":1}')):
        bad(f"lora-json-{i}", {"adapter_model.safetensors": whole, "adapter_config.json": junk, **model}, "lora", "adapter")
    entries = {"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora", "adapter.lora.alpha": 3.0}
    tensors = [("blk.0.attn_q.weight.lora_a", [4, 2], "f32"), ("blk.0.attn_q.weight.lora_b", [2, 4], "f32"),
               ("blk.0.ffn_up.weight.lora_a", [4, 2], "f16"), ("blk.0.ffn_up.weight.lora_b", [2, 4], "f32")]
    file = tiny_models.gguf(entries, tensors)
    good("lora-gguf-control", {"a.gguf": file, **model}, "lora")
    for at, width, what in Gguf(file).fields:
        old = int.from_bytes(file[at:at + width], "little")
        for v in sorted({v % 2**(8 * width) for v in ODD} | {old + 1}):
            if v == old or what == "GGUF version" and v == 2 or width == 4 and v <= 8:
                continue
            bad(f"lora-gguf-{at}-{v:x}", {"a.gguf": changed(file, at, width, v), **model}, "lora", "adapter")
