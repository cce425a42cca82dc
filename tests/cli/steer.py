"""--steer: logits are those of a checkpoint whose MLP has the vector in its bias, GGUF and .npy agree, and what is
refused."""
import array
import json
import math
import os
import pathlib
import shutil
import struct
import tempfile

from checks import finish, hash_runs, holds, run_text

ROOT, MGPT = pathlib.Path(os.environ["MGPT_SOURCE_ROOT"]), os.environ["MGPT"]
GPT2, LAYERS, WIDTH = ROOT / "tests/golden/gpt2", 2, 18
def npy(path, shape, values):
    head = ("{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % (shape,)).encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + array.array("f", values).tobytes())


def control_vector(path, rows, name="direction.%d"):
    """As llama.cpp's cvector-generator writes it: {layer: row}, float32."""
    def text(s):
        return struct.pack("<Q", len(s)) + s.encode()
    out = b"GGUF" + struct.pack("<IQQ", 3, len(rows), 3)
    out += text("general.architecture") + struct.pack("<I", 8) + text("controlvector")
    out += text("controlvector.model_hint") + struct.pack("<I", 8) + text("gpt2")
    out += text("controlvector.layer_count") + struct.pack("<Ii", 5, len(rows))
    for i, (layer, row) in enumerate(rows.items()):
        offset = i * (-(-4 * WIDTH // 32) * 32)
        out += text(name % layer) + struct.pack("<IQIQ", 1, len(row), 0, offset)
    out += b"\0" * (-len(out) % 32)
    for row in rows.values():
        data = array.array("f", row).tobytes()
        out += data + b"\0" * (-len(data) % 32)
    path.write_bytes(out)


def biased(folder, rows):
    """The golden model with rows added to the biases of its MLPs' outputs: the same function."""
    shutil.copytree(GPT2, folder)
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    n = struct.unpack_from("<Q", data)[0]
    head = json.loads(data[8:8 + n])
    for layer, row in rows.items():
        begin = 8 + n + head["transformer.h.%d.mlp.c_proj.bias" % layer]["data_offsets"][0]
        old = struct.unpack_from("<%df" % WIDTH, data, begin)
        struct.pack_into("<%df" % WIDTH, data, begin, *(a + b for a, b in zip(old, row)))
    path.write_bytes(data)


def mgpt(*args, text=None):
    return run_text(MGPT, *args, text=text)


def logits(model, *options):
    """Of every token after a prompt."""
    p = mgpt("patch", model, "--clean", "3,17,8,29", "--metric", "4 - 9", "--mode", "zero", "--json", *options)
    return p.returncode == 0 and json.loads(p.stdout)["clean"]["value"]


def sweep(model, *options):
    """Of both prompts, all patches of z and keys."""
    p = mgpt("patch", model, "--clean", "3,17,8,29", "--corrupt", "3,12,8,29", "--metric", "4 - 9", "--over", "z,k",
             "--json", *options)
    return [x for g in json.loads(p.stdout)["grids"] for layer in g["values"] for head in layer for x in head]


def refused(what, text, *options, code=3):
    p = mgpt("generate", GPT2, "--ids", "1,2", "-n", "1", *options)
    # the model is converted, it has no vocabulary, and the error
    holds(what, p.returncode == code and text in p.stderr.split("\n")[2] and p.stderr.count("\n") == 3 and not p.stdout)


def main():
    hash_runs("steer")
    tmp = pathlib.Path(tempfile.mkdtemp())
    rows = {i: [((7 * j + 3 * i) % 11 - 5) / 8 for j in range(WIDTH)] for i in range(LAYERS)}
    twice = {1: [2 * x for x in rows[1]]}
    npy(tmp / "all.npy", (LAYERS, WIDTH), rows[0] + rows[1])
    npy(tmp / "one.npy", (WIDTH,), rows[1])
    control_vector(tmp / "c.gguf", {1: rows[1]})
    biased(tmp / "both", rows)
    biased(tmp / "twice", twice)
    plain = logits(GPT2)
    holds("[layers, width] is a bias of the MLP",
          abs(logits(GPT2, "--steer", tmp / "all.npy") - logits(tmp / "both")) < 1e-5)
    want = logits(GPT2, "--steer", "%s:2:1" % (tmp / "one.npy"))
    holds("[width] with scale and layer", abs(want - logits(tmp / "twice")) < 1e-5 and abs(want - plain) > 0.1)
    holds("a control vector is the same to the bit", logits(GPT2, "--steer", "%s:2" % (tmp / "c.gguf")) == want)
    holds("nothing with scale 0", logits(GPT2, "--steer", "%s:0" % (tmp / "c.gguf")) == plain)
    holds("the same without the fused path and with more threads", all(
        logits(GPT2, "--steer", "%s:2" % (tmp / "c.gguf"), *o) == want for o in (["--no-fused"], ["-t", "2"])))

    pairs = zip(sweep(GPT2, "--steer", tmp / "all.npy"), sweep(tmp / "both"))
    holds("a sweep is that of the biased model", all(abs(a - b) < 1e-5 for a, b in pairs))

    draw = ["generate", "--ids", "3,17", "-n", "12", "--temp", "0"]
    steered = ["--steer", "%s:2" % (tmp / "c.gguf")]
    text = mgpt(*draw, GPT2, *steered).stdout
    holds("generate draws what the biased model does",
          text == mgpt(*draw, tmp / "twice").stdout != mgpt(*draw, GPT2).stdout)
    holds("... also side by side", mgpt(*draw, GPT2, *steered, "--samples", "3").stdout == 3 * text)
    holds("... and with --lookup", mgpt(*draw, GPT2, *steered, "--lookup").stdout == text)
    script = "/ids 3 17\n/top 1\n/branch b\n/ids 8\n/top 1\n"
    repl = [mgpt("repl", *a, text=script).stdout for a in ([GPT2, *steered], [tmp / "twice"], [GPT2])]
    holds("the repl, its branches too", repl[0] == repl[1] != repl[2])

    for layer in "-1", str(LAYERS), "x":
        found = mgpt("repl", GPT2, text="/steer %s 1 %s\n" % (tmp / "one.npy", layer))
        holds("/steer: layer " + layer, ("the layer: expected 0 to %d" % (LAYERS - 1)) in found.stderr, found.stderr)
    after = "/top 1\n/ids 8\n/top 1\n"
    made = mgpt("repl", GPT2, *steered, text="/ids 3 17\n/save %s\n%s" % (tmp / "saved", after)).stdout
    for options in (), ("--steer", tmp / "one.npy:5:0"):
        found = mgpt("repl", GPT2, *options, text="/load %s\n%s" % (tmp / "saved", after)).stdout
        holds("a session file has the vectors", found.split("saved 1")[-1].split("\n", 2)[2] == made.split("saved 1")[-1].split("\n", 1)[1], found + made)
    holds("... and what they are", "steering: %s" % steered[1] in found, found)
    (tmp / "plain").write_text("")
    mgpt("repl", GPT2, text="/ids 3 17\n/save %s\n" % (tmp / "plain"))
    plain = mgpt("repl", GPT2, text="/ids 3 17\n" + after).stdout
    holds("one without them takes them away",
          mgpt("repl", GPT2, *steered, text="/load %s\n%s" % (tmp / "plain", after)).stdout.split("\n", 1)[1] == plain.split("\n", 1)[1])
    good = json.loads((tmp / "saved").read_text())
    for name, change, line in (("layer", lambda s: s["layers"][0].update(layer=LAYERS), "layer is 2, expected 0 to 1"),
                               ("row", lambda s: s["layers"][0]["row"].pop(), "row has 17 numbers, expected 18"),
                               ("text", lambda s: s.pop("text"), "steer: expected text and layers")):
        bad = json.loads(json.dumps(good))
        change(bad["steer"])
        (tmp / "bad").write_text(json.dumps(bad))
        p = mgpt("repl", GPT2, "--quiet", text="/load %s\n" % (tmp / "bad"))
        holds("a bad " + name, p.returncode == 3 and p.stderr == "mgpt: %s: %s\n" % (tmp / "bad", line), p.stderr)

    refused("no file", "missing.npy: ", "--steer", tmp / "missing.npy", code=5)
    refused("one row without a layer", "give its layer", "--steer", tmp / "one.npy", code=2)
    refused("a layer that is not there", "layer 2: expected 0 to 1", "--steer", "%s:1:2" % (tmp / "one.npy"), code=2)
    refused("half a layer", "layer 0.5: expected 0 to 1", "--steer", "%s:1:0.5" % (tmp / "one.npy"), code=2)
    refused("a layer of a control vector", "a layer goes with one row", "--steer", "%s:1:1" % (tmp / "c.gguf"), code=2)
    npy(tmp / "wide.npy", (LAYERS, WIDTH + 1), [0] * LAYERS * (WIDTH + 1))
    refused("another width", "expected the shape [2, 18]", "--steer", tmp / "wide.npy")
    for shape in [(LAYERS - 1, WIDTH), (LAYERS + 1, WIDTH), (WIDTH, LAYERS), (WIDTH * LAYERS,), (1, LAYERS, WIDTH), (WIDTH - 1,)]:
        npy(tmp / "shape.npy", shape, [0] * math.prod(shape))
        refused("the shape %s" % (shape,), "expected the shape [2, 18]", "--steer", tmp / "shape.npy")
    (tmp / "short.npy").write_bytes((tmp / "all.npy").read_bytes()[:-4])
    refused("a short file", "the shape needs 144", "--steer", tmp / "short.npy")
    control_vector(tmp / "zero.gguf", {0: rows[0]})
    refused("direction.0", "direction.1 to direction.1", "--steer", tmp / "zero.gguf")
    control_vector(tmp / "wide.gguf", {1: rows[0] + [1]})
    refused("a control vector of another width", "19 values, the model has width 18", "--steer", tmp / "wide.gguf")
    control_vector(tmp / "none.gguf", {})
    refused("a control vector without tensors", "no tensors, expected direction.N", "--steer", tmp / "none.gguf")
    control_vector(tmp / "other.gguf", {1: rows[0]}, "directionX%d")
    refused("a tensor of another name", "tensor directionX1: expected direction.1", "--steer", tmp / "other.gguf")
    refused("all layers and a layer", "expected the shape [2, 18]", "--steer", "%s:1:1" % (tmp / "all.npy"))
    control_vector(tmp / "one.gguf", {1: [1] * 16})
    p = mgpt("generate", ROOT / "weights/names.gguf", "-n", "1", "--steer", tmp / "one.gguf")
    holds("a control vector for a model of one layer", p.returncode == 3 and "tensor direction.1: expected" in p.stderr, p.stderr)
    refused("a model", "expected direction.1", "--steer", ROOT / "weights/names.gguf")
    (tmp / "x").write_bytes(b"x")
    refused("another file", "x: ", "--steer", tmp / "x")
    refused("--session", "only one of them", *steered, "--session", tmp / "s", code=2)
    shutil.rmtree(tmp)
    finish()


main()
