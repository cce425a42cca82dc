"""A Llama of random F16 weights for compare_release.sh: release_model.py OUT. Standard library only; the same bytes each time."""
import random
import struct
import sys

WIDTH, LAYERS, HEADS, KV, FF, VOCAB, CONTEXT = 768, 6, 12, 4, 2048, 8192, 512
F32, F16 = 0, 1


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def metadata():
    yield text("general.architecture") + struct.pack("<I", 8) + text("llama")
    for key, value in {"context_length": CONTEXT, "embedding_length": WIDTH, "block_count": LAYERS, "feed_forward_length": FF,
                       "attention.head_count": HEADS, "attention.head_count_kv": KV, "vocab_size": VOCAB,
                       "rope.dimension_count": WIDTH // HEADS}.items():
        yield text("llama." + key) + struct.pack("<II", 4, value)
    for key, value in {"attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": 10000.0}.items():
        yield text("llama." + key) + struct.pack("<If", 6, value)


def tensors():
    """(name, dims as in the file)"""
    yield "token_embd.weight", (WIDTH, VOCAB)
    yield "output_norm.weight", (WIDTH,)
    for i in range(LAYERS):
        for name, dims in {"attn_norm": (WIDTH,), "attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH * KV // HEADS),
                           "attn_v": (WIDTH, WIDTH * KV // HEADS), "attn_output": (WIDTH, WIDTH), "ffn_norm": (WIDTH,),
                           "ffn_gate": (WIDTH, FF), "ffn_up": (WIDTH, FF), "ffn_down": (FF, WIDTH)}.items():
            yield "blk.%d.%s.weight" % (i, name), dims


def main():
    draw = random.Random(1)
    pool = struct.pack("<65536e", *(draw.gauss(0, 0.03) for _ in range(65536)))
    rows, pairs, at = list(tensors()), list(metadata()), 0
    head = b"GGUF" + struct.pack("<IQQ", 3, len(rows), len(pairs)) + b"".join(pairs)
    for name, dims in rows:
        head += text(name) + struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, F16 if len(dims) == 2 else F32, at)
        at += 2 * dims[0] * dims[1] if len(dims) == 2 else 4 * dims[0]  # multiples of 32, the alignment
    with open(sys.argv[1], "wb") as f:
        f.write(head + bytes(-len(head) % 32))
        for _, dims in rows:
            if len(dims) == 1:
                f.write(struct.pack("<f", 1) * dims[0])
            for _ in range(dims[1] if len(dims) == 2 else 0):
                start = 2 * draw.randrange(65536 - dims[0])
                f.write(pool[start:start + 2 * dims[0]])


main()
