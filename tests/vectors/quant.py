"""Makes quant.txt, what tests/test_dtype.c compares the quantised element types with.

    pip install gguf==0.19.0; python3 quant.py libggml-base.so >quant.txt

Decoders and the simple encoders come from the Python package gguf (numpy), and must agree with ggml's C
code, of which any build of llama.cpp has a libggml-base.so (made here with ggml d99724f2, the rows of the types
from IQ2_XXS on with ggml 0.13.1, Q2_0 with 0.25.3). The errors of the K-type encoders, and Q1_0 and Q2_0, which only the C code has, are
that code's.

Lines (floats and bytes in hexadecimal, floats as their 32 bits):
  decode TYPE N HASH      N blocks of random bytes (rng below, seeded with the type's id): FNV-1a, 64
                          bits, over the values' bits, least significant byte first; NaN as 7fc00000
  input ID FLOATS         32 values
  encode TYPE ID BYTES    the block of that input
  error TYPE KIND X       sum of squared errors of the reference encoder over the 16384 values of KIND
"""
import ctypes
import os
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

MASK = (1 << 64) - 1
SIMPLE = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
ALL = SIMPLE + ["IQ4_NL", "MXFP4", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS", "TQ1_0", "TQ2_0",
       "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M", "NVFP4", "Q1_0", "Q2_0"]
N_BLOCKS = 64


class Rng:
    """xorshift64*; byte i of a draw is bits 8i."""

    def __init__(self, seed):
        self.x = (seed * 0x9E3779B97F4A7C15 + 1) & MASK

    def draw(self):
        self.x ^= self.x >> 12
        self.x ^= (self.x << 25) & MASK
        self.x ^= self.x >> 27
        return (self.x * 2685821657736338717) & MASK

    def bytes(self, n):
        return b"".join(self.draw().to_bytes(8, "little") for _ in range((n + 7) // 8))[:n]

    def gauss(self):
        """About normal, deviation about 1: the sum of 12 signed 16-bit integers, exact in float32."""
        total = 0
        for _ in range(3):
            word = self.draw()
            for i in range(4):
                total += ((word >> 16 * i) & 0xFFFF) - 0x8000
        return total / 65536


def fnv(values):
    bits = np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))
    h = 0xCBF29CE484222325
    for byte in bits.astype("<u4").tobytes():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return h


def c_function(lib, name):
    f = getattr(lib, name)
    f.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    f.restype = None
    return f


def c_name(t):
    return t[:-1].lower() + "K" if t.endswith("_K") else t.lower()


def decode_c(lib, t, raw):
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[t]]
    out = np.empty(len(raw) // size * block, np.float32)
    raw = np.ascontiguousarray(raw)
    c_function(lib, f"dequantize_row_{c_name(t)}")(raw.ctypes.data, out.ctypes.data, out.size)
    return out


def encode_c(lib, t, x):
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[t]]
    out = np.empty(x.size // block * size, np.uint8)
    c_function(lib, f"quantize_row_{c_name(t)}_ref")(x.ctypes.data, out.ctypes.data, x.size)
    return out


def inputs():
    """32 values each. None of which the reference's conversion to integers would be undefined."""
    i = np.arange(32)
    rng = Rng(1)
    gauss = lambda: np.array([rng.gauss() for _ in range(32)])
    yield 0 * i
    yield 0 * i + 1
    yield 0 * i - 0.3
    yield i
    yield 5 - i / 3
    yield np.where(i == 7, 127, i - 15.5)  # Q8_0: d = 1, every value a tie
    yield np.where(i == 7, -127, 15.5 - i)
    yield np.where(i == 9, -8, (i % 16) - 7.5)  # Q4_0: the same
    yield np.where(i == 9, -16, i - 15.5)  # Q5_0
    yield np.where(i % 2, 3, -3)  # two of the largest magnitude: the first counts
    yield np.where(i % 2, -3, 3)
    yield np.where(i == 31, 1000, gauss())
    yield np.where(i == 0, -1000, gauss())
    yield 100 + gauss() / 8
    yield gauss() * 1e-7  # d is subnormal in half precision
    yield gauss() * 1e-20  # and 0
    yield gauss() * 1e8  # and infinite
    for scale in (1, 0.02, 0.02, 3, 1e-3, 7e4):
        yield gauss() * scale
    yield np.abs(gauss())


def kinds():
    rng = Rng(2)
    n = 16384
    x = np.array([rng.gauss() for _ in range(n)], np.float32)
    yield "normal", x
    # the deviation differs from one group of 32 to the next, by powers of two
    yield "spread", x * np.repeat(2.0 ** -(np.arange(n // 32) * 7 % 5), 32).astype(np.float32)
    yield "shifted", x + np.float32(1)
    yield "sparse", np.where(np.arange(n) % 11 == 3, x, 0).astype(np.float32)


def main():
    np.seterr(all="ignore")
    lib = ctypes.CDLL(sys.argv[1], mode=os.RTLD_LAZY)
    print("# Made by quant.py, which explains the lines.")
    for t in ALL:
        block, size = GGML_QUANT_SIZES[GGMLQuantizationType[t]]
        raw = Rng(GGMLQuantizationType[t].value).bytes(N_BLOCKS * size)
        raw = np.frombuffer(raw, np.uint8)
        values = decode_c(lib, t, raw)
        if t not in ("Q1_0", "Q2_0"):
            assert fnv(values) == fnv(quants.dequantize(raw, GGMLQuantizationType[t]).ravel()), t
        print(f"decode {t} {N_BLOCKS} {fnv(values):016x}")
    for number, x in enumerate(inputs()):
        x = np.asarray(x, np.float32)
        print("input", number, x.astype(">f4").tobytes().hex())
        for t in SIMPLE:
            raw = quants.quantize(x, GGMLQuantizationType[t]).ravel()
            assert (raw == encode_c(lib, t, x)).all(), (t, number)
            print("encode", t, number, raw.tobytes().hex())
    for kind, x in kinds():
        for t in ("Q4_K", "Q6_K", "Q2_K", "Q3_K", "Q5_K"):
            back = decode_c(lib, t, encode_c(lib, t, x)).astype(np.float64)
            print(f"error {t} {kind} {((back - x) ** 2).sum():.9g}")


main()
