#!/usr/bin/env python3
"""Tensors of PyTorch's files may be views: every golden model stored in every order of dimensions, and inside of larger
tensors, converts to the same file, or is refused by name. As an .npz next to its config.json it converts to the same file, too."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

sys.dont_write_bytecode = True
ROOT, MGPT = os.environ["MGPT_SOURCE_ROOT"], os.path.abspath(os.environ["MGPT"])
from checks import finish, holds  # noqa: E402
from make_torch import as_torch  # noqa: E402

# How matrices are stored: (which permutation of the dimensions, values more in each). Those after the second are the first
# again for tensors of two dimensions.
VIEWS = [(0, 1), (5, 2), (1, 0), (2, 0), (3, 0), (4, 0)]
# Models with tensors that are refused unless they are contiguous, and of how many views they are.
REFUSED = {"awq": 2, "bitsandbytes": 2, "gptq_8bit": 2, "gptq_order": 2, "gptq_sym": 2, "gptq_v2": 2, "hqq": 2,
           "gpt_oss_mxfp4": 6, "granite_4_moe": 5, "granitemoe": 5, "granitemoe_swa": 5, "granitemoeshared": 5}


def convert(path, to):
    if os.path.exists(to):
        os.remove(to)
    done = subprocess.run([MGPT, "convert", "--no-tokenizer", path, to], capture_output=True, text=True)
    data = b""
    if done.returncode == 0:
        with open(to, "rb") as f:
            data = f.read()
    return done, data


def most_dims(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    return max(len(t["shape"]) for name, t in header.items() if name != "__metadata__")


# NumPy's names of the types of safetensors that .npz checkpoints may have.
NUMPY = {"F32": "<f4", "F16": "<f2"}


def as_npz(source, target):
    """The same arrays as numpy.savez writes them. Returns 0 for types that it lacks."""
    with open(source, "rb") as f:
        data = f.read()
    start = 8 + struct.unpack_from("<Q", data)[0]
    arrays = {name: t for name, t in json.loads(data[8:start]).items() if name != "__metadata__"}
    if any(t["dtype"] not in NUMPY for t in arrays.values()):
        return 0
    with zipfile.ZipFile(target, "w") as out:
        for name, t in arrays.items():
            head = str({"descr": NUMPY[t["dtype"]], "fortran_order": False, "shape": tuple(t["shape"])}).encode()
            head += b" " * (-(len(head) + 11) % 64) + b"\n"
            out.writestr(name + ".npy", b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head + data[start:][slice(*t["data_offsets"])])
    return 1


def try_npz(name, weights, want):
    os.remove(name + "/pytorch_model.bin")
    if as_npz(weights, name + "/weights.npz"):
        done, data = convert(name, name + ".gguf")
        holds(name + "/weights.npz", data == want, done.stderr or "other bytes")
        os.remove(name + "/weights.npz")


def try_model(name):
    source = os.path.join(ROOT, "tests/golden", name)
    os.mkdir(name)
    shutil.copy(os.path.join(source, "config.json"), name)
    weights = os.path.join(source, "model.safetensors")
    if not as_torch(weights, name + "/pytorch_model.bin"):
        return
    plain, want = convert(name, name + ".gguf")
    holds(name, plain.returncode == 0, plain.stderr)
    try_npz(name, weights, want)
    refused = 0
    for order, gap in VIEWS[:len(VIEWS) if most_dims(weights) > 2 else 2]:
        as_torch(weights, name + "/pytorch_model.bin", order, gap)
        done, data = convert(name, name + ".gguf")
        is_refused = done.returncode == 3 and done.stderr.count("\n") == 1 and "contiguous" in done.stderr
        refused += is_refused
        holds("%s in order %d, gap %d" % (name, order, gap), is_refused or data == want, done.stderr or "other bytes")
    holds(name + ", refused", refused == REFUSED.get(name, 0), "%d views" % refused)


with tempfile.TemporaryDirectory() as directory:
    os.chdir(directory)
    for model in sorted(os.listdir(os.path.join(ROOT, "tests/golden"))):
        if os.path.exists(os.path.join(ROOT, "tests/golden", model, "model.safetensors")):
            try_model(model)
finish()
