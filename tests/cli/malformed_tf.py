"""OpenAI's GPT-2 in TensorFlow, for malformed.py: wrong in one way, with sums that are right. Standard library only."""
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.environ["MGPT_SOURCE_ROOT"], "tests/fuzz"))
import tf_files as tf  # noqa: E402
from malformed_gguf import ODD, bad, changed, good  # noqa: E402

NORM = "model/h0/ln_1/g"


def one(name, field, index=None, data=None, config=None, **more):
    index = tf.table(tf.entries()[0]) if index is None else index
    files = {"m.index": index, "m.data-00000-of-00001": tf.entries()[1] if data is None else data,
             "hparams.json": tf.hparams() if config is None else config, **more}
    (bad if field else good)(*(("tf-" + name, files, "ckpt") + ((field,) if field else ())))


def with_entries(name, field, changes=None, **more):
    own, data = tf.entries(changes, **more)
    one(name, field, tf.table(own), data)


def tables():
    own = tf.entries()[0]
    whole = tf.table(own)
    for n in sorted({0, 1, 47, 48, len(whole) // 2, len(whole) - 1}):
        one(f"cut-{n}", "first bytes|empty", whole[:n])
    for n in (1, 48, len(whole) - 48):
        one(f"first-cut-{n}", "table of tensors", whole[n:])
    for at in range(0, len(whole) - 48, 13):
        one(f"byte-{at}", "table of tensors|tensor|header", changed(whole, at, 1, whole[at] ^ 0x41))
    one("snappy", "snappy", tf.table(own, make=lambda e: tf.block(e, compression=1)))
    one("compression", "unknown compression", tf.table(own, make=lambda e: tf.block(e, compression=2)))
    for n in ODD:
        if n > 2 and n < 2**32:
            one(f"restarts-{n:x}", "list of places", tf.table(own, make=lambda e, n=n: tf.block(e, restarts=n)))
        one(f"handle-{n:x}", "table of tensors", tf.ended(tf.block(own), [(b"x", tf.varint(n % 2**64) + b"\x05")]))
        one(f"size-{n:x}", "table of tensors", tf.ended(tf.block(own), [(b"x", b"\0" + tf.varint(n % 2**64))]))
    first = tf.block(own)
    handle = b"\0" + tf.varint(len(first) - 5)
    one("twice", "blocks overlap", tf.ended(first, [(b"x", handle)] * 5000))
    one("no-blocks", "missing|header|tensor", tf.ended(first, []))
    places = struct.pack("<II", 0, 1)
    for label, entry in (("shared", b"\x05\x01\x01ab"), ("own", b"\0\x7f\x01ab"), ("value", b"\0\x01\x7fab"),
                         ("own-64", b"\0" + tf.varint(2**64 - 1) + b"\x01ab"), ("varint", b"\xff" * 12)):
        data = tf.trailed(entry + places)
        one(f"entry-{label}", "an entry is damaged", tf.ended(data, [(b"x", b"\0" + tf.varint(len(data) - 5))]))
    one("long-key", "more than 255 bytes", tf.table(own[:1] + [(b"m" * 256, b"")]))
    one("small-block", "table of tensors", tf.ended(tf.trailed(b"abc"), [(b"x", b"\0\x03")]))


def headers():
    for label, header, field in (("shards", tf.field(1, 2), "2 data files"), ("none", b"", "damaged"), ("torn", b"\x08", "damaged"),
                                 ("order", tf.HEADER + tf.field(2, 1), "most significant")):
        with_entries(f"header-{label}", field, header=header)
    one("no-header", "no header", tf.table(tf.entries()[0][1:]))
    one("empty-data", "data file of 0 bytes", data=b"")
    files = {"x.index": tf.table(tf.entries()[0]), "hparams.json": tf.hparams()}
    bad("tf-no-data", files, "ckpt", "side file x.data-00000-of-00001")
    bad("tf-no-hparams", {"x.index": files["x.index"]}, "ckpt", "side file hparams.json")


def tensors():
    def norm(name, field, **lie):
        with_entries(f"norm-{name}", field, {NORM: lambda shape, at, data: tf.entry(shape, at, data, **lie)})
    dims = tf.field(2, tf.field(1, 4))
    norm("crc", "h0/ln_1/g: its checksum", crc=5)
    norm("size", "h0/ln_1/g: 15 bytes", size=15)
    norm("shard", "data file 1 of 1", shard=1)
    for n in (0, 3, 7, 9, 23, 2**31, 2**64 - 1):
        norm(f"dtype-{n}", "element type", dtype=n)
    norm("dtype-double", "16 bytes, its shape needs 32", dtype=2)
    norm("slices", "slices", more=tf.field(7, b"\x0a\x02\x08\x04"))
    norm("torn", "is damaged", more=b"\x08")
    for label, own, field in (("rank", dims * 9, "8 dimensions|damaged|shape"), ("unknown", tf.field(3, 1), "its shape is unknown"),
                              ("torn", tf.field(2, b"\x08"), "its shape is damaged"), ("two", dims * 2, "bytes|shape")):
        with_entries(f"shape-{label}", field, {NORM: lambda s, at, data, own=own: tf.entry(s, at, data, more=tf.field(2, own))})
    for n in ODD:
        n %= 2**64
        with_entries(f"dim-{n:x}", "h0/ln_1/g", {NORM: lambda s, at, data, n=n: tf.entry([n], at, data)})
        with_entries(f"dims-{n:x}", "h0/ln_1/g", {NORM: lambda s, at, data, n=n: tf.entry([n, n], at, data)})
        if n:
            with_entries(f"offset-{n:x}", "data file|checksum|overlap",
                         {NORM: lambda s, at, data, n=n: tf.entry(s, n * 4, data + b"x", size=16)})
            with_entries(f"size-{n:x}", "bytes, its shape", {NORM: lambda s, at, data, n=n: tf.entry(s, at, data, size=n + 16)})
    with_entries("shape", "ln_1", {NORM: lambda s, at, data: tf.entry([2, 2], at, data)})
    with_entries("missing", "ln_1.weight: missing", {NORM: None})
    for i, name in enumerate(("x", "model/", "model/x", "model/h1/ln_1/g", "model/h0/ln_1/x", "model/h0/ln_1/g/b", "model/wte.weight",
                              "wte.weight", "model/wte/w", "model/h0x/ln_1/g", "model/h99999999999/ln_1/g", "model/\x1b[2J/b", "model/\0/b",
                              "save_counter/.ATTRIBUTES/VARIABLE_VALUE", "_CHECKPOINTABLE_OBJECT_GRAPH", "model/" + "h" * 240 + "/b")):
        with_entries(f"name-{i}", "not a name|not part|tensor", {name: tf.entry})
    own, data = tf.entries()
    one("overlap", "overlaps", tf.table([(k, tf.entry((8, 4), 0, data[:128]) if k else v) for k, v in own]))
    one("data-cut", "checksum|data file", data=data[:-1])
    one("data-byte", "checksum", data=changed(data, 100, 1, 7))


def settings():
    for key in tf.HPARAMS:
        for i, v in enumerate((None, 0, -1, 2**31, 2**62, 2.5, "4", [4], True)):
            one(f"{key}-{i}", f"hparams.json: {key}", config=tf.hparams(**{key: v}))
        one(f"{key}-other", "hparams|tensor", config=tf.hparams(**{key: 3}))
    for i, text in enumerate((b"", b"[]", b"{", b"null", b'{"n_vocab": 8, "n_vocab": 8}')):
        one(f"json-{i}", "hparams.json", config=text)


def tensorflow():
    slots = {name + slot: tf.entry for name in tf.tensors() for slot in ("/Adam", "/Adam_1")}
    one("control", None)
    with_entries("control-slots", None, {**slots, "beta1_power": b"x", "global_step": b""})
    vocab = json.dumps({**{c: i for i, c in enumerate("abcdef")}, "ab": 6, "<|endoftext|>": 7}).encode()
    one("control-tokens", None, **{"encoder.json": vocab, "vocab.bpe": b"#version: 0.2\na b\n"})
    tables()
    headers()
    tensors()
    settings()
