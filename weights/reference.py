"""The forward pass in float64 numpy, as plain as the formulas: the reference the engine is held to.

It shares no code with the engine: it reads the GGUF itself (gguf.py), widens every weight to
float64, and computes all positions at once with a full [T, T] causal mask and no KV cache.
Architectures: microgpt, llama, gpt2. A tensor that no formula used is an error, because a model
computed without one of its tensors is a wrong model. It does not train, sample or run fast.

    reference.py MODEL.gguf --text TEXT | --ids 1,2,3  [--text … | --ids …]  -o OUT.json|OUT.npz

JSON: a list of {"text", "input", "logits"}, or a single such object with one sequence. NPZ
(stored): arrays tokens int32 [T] and logits float64 [T, V] of the one sequence; with --all, every
inner tensor by its TransformerLens name. The logits at position t are those after tokens 0..t.

Shapes are written beside the code: T tokens, E width, H heads, G key/value heads, d head width,
F hidden width of the MLP, V vocabulary.
"""

import argparse
import json
import math
import sys

import numpy as np

import gguf


def byte_alphabet():
    """The character that stands for each byte in byte-level vocabularies (FORMATS.md 5.1)."""
    literal = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in literal]
    return {**{b: chr(b) for b in literal}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def encode(meta, text):
    """Token ids of a text for a vocabulary of characters; BOS first if the file says so."""
    if meta["tokenizer.ggml.model"] != "gpt2" or meta.get("tokenizer.ggml.merges"):
        raise SystemExit("--text needs a vocabulary of single-byte characters: use --ids")
    tokens, kinds = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
    id_of = {piece: i for i, piece in enumerate(tokens) if kinds[i] == 1}
    alphabet = byte_alphabet()
    bos = meta.get("tokenizer.ggml.add_bos_token", False)
    ids = [meta["tokenizer.ggml.bos_token_id"]] if bos else []
    for char in text:
        if not char.isascii() or alphabet[ord(char)] not in id_of:
            raise SystemExit(f"character {char!r} is not in the vocabulary")
    return ids + [id_of[alphabet[ord(char)]] for char in text]


def relu(x):
    return np.maximum(x, 0.0)


def silu(x):
    return x / (1.0 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


ACTIVATIONS = {"relu": relu, "relu2": lambda x: relu(x) ** 2, "silu": silu,
               "gelu_tanh": gelu_tanh, "gelu_erf": gelu_erf}

# What the files of an architecture do not say. A file may override the last three (mgpt.* keys).
ROWS = {
    "microgpt": dict(rms=True, activation="relu", embedding_norm=True, final_norm=False),
    "llama": dict(rms=True, activation="silu", embedding_norm=False, final_norm=True),
    "gpt2": dict(rms=False, activation="gelu_tanh", embedding_norm=False, final_norm=True),
}


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def rope(x, n_rot, base):
    """Turns the adjacent pairs (2i, 2i+1) of x [T, heads, d] by the angle t · base^(-2i/n_rot)."""
    angle = np.arange(len(x))[:, None] * base ** (-np.arange(0, n_rot, 2) / n_rot)
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    a, b = x[..., 0:n_rot:2], x[..., 1:n_rot:2]
    out = x.copy()
    out[..., 0:n_rot:2] = a * cos - b * sin
    out[..., 1:n_rot:2] = a * sin + b * cos
    return out


class Model:
    def __init__(self, path):
        self.meta, tensors = gguf.read(path)
        self.weights = {name: array.astype(np.float64) for name, array in tensors.items()}
        self.used = set()
        self.arch = self.meta["general.architecture"]
        row = ROWS[self.arch]
        self.rms = row["rms"]
        self.activation = ACTIVATIONS[self.meta.get("mgpt.activation", row["activation"])]
        self.embedding_norm = self.meta.get("mgpt.embedding_norm", row["embedding_norm"])
        self.final_norm = self.meta.get("mgpt.final_norm", row["final_norm"])
        self.n_layer = self.key("block_count")
        self.n_head = self.key("attention.head_count")
        self.n_kv = self.key("attention.head_count_kv", self.n_head)
        width = self.key("embedding_length") // self.n_head
        self.head_dim = self.key("attention.key_length", width)
        self.n_rot = self.key("rope.dimension_count", self.head_dim)
        self.rope_base = self.key("rope.freq_base", 10000.0)
        norm = "attention.layer_norm_rms_epsilon" if self.rms else "attention.layer_norm_epsilon"
        # A file's value is a float32, 9.99999975e-06 for 1e-5; so is the default.
        self.eps = self.key(norm, float(np.float32(1e-5)))

    def key(self, name, default=None):
        value = self.meta.get(f"{self.arch}.{name}", default)
        if value is None:
            raise SystemExit(f"key {self.arch}.{name} is missing")
        return value

    def weight(self, name):
        """A tensor, or None when the model does not have it."""
        self.used.add(name)
        return self.weights.get(name)

    def linear(self, name, x):
        y = x @ self.weight(f"{name}.weight").T
        bias = self.weight(f"{name}.bias")
        return y if bias is None else y + bias

    def norm(self, name, x):
        """RMSNorm or LayerNorm; gain and bias are applied where the file has them."""
        if not self.rms:
            x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.eps)
        gain, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        x = x if gain is None else x * gain
        return x if bias is None else x + bias

    def embed(self, ids, tap):
        x = tap("hook_embed", self.weight("token_embd.weight")[ids])  # [T, E]
        positions = self.weight("position_embd.weight")
        if positions is not None:
            x = x + tap("hook_pos_embed", positions[:len(ids)])
        if self.embedding_norm:
            x = tap("ln_embed.hook_normalized", self.norm("token_embd_norm", x))
        return x

    def qkv(self, block, h):
        """q [T, H, d], k and v [T, G, d]; gpt2 stores the three matrices as one."""
        n_q, n_kv = self.n_head * self.head_dim, self.n_kv * self.head_dim
        if f"{block}.attn_qkv.weight" in self.weights:
            q, k, v = np.split(self.linear(f"{block}.attn_qkv", h), [n_q, n_q + n_kv], axis=-1)
        else:
            q, k, v = (self.linear(f"{block}.attn_{part}", h) for part in "qkv")
        shape = (len(h), -1, self.head_dim)
        return q.reshape(shape), k.reshape(shape), v.reshape(shape)

    def attention(self, n, h, tap):
        block, at = f"blk.{n}", f"blocks.{n}.attn.hook_"
        q, k, v = self.qkv(block, h)
        q, k, v = tap(at + "q", q), tap(at + "k", k), tap(at + "v", v)
        if self.arch == "llama":
            q = tap(at + "rot_q", rope(q, self.n_rot, self.rope_base))
            k = tap(at + "rot_k", rope(k, self.n_rot, self.rope_base))
        group = self.n_head // self.n_kv  # query heads that share one key/value head
        k, v = k.repeat(group, axis=1), v.repeat(group, axis=1)  # [T, H, d]
        scores = np.einsum("qhd,khd->hqk", q, k) / math.sqrt(self.head_dim)  # [H, T, T]
        scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
        pattern = tap(at + "pattern", softmax(tap(at + "attn_scores", scores)))
        z = tap(at + "z", np.einsum("hqk,khd->qhd", pattern, v))
        return self.linear(f"{block}.attn_output", z.reshape(len(h), -1))

    def mlp(self, n, h, tap):
        block, at = f"blk.{n}", f"blocks.{n}.mlp.hook_"
        if f"{block}.ffn_gate.weight" in self.weights:
            pre = tap(at + "pre", self.linear(f"{block}.ffn_gate", h))  # [T, F]
            up = tap(at + "pre_linear", self.linear(f"{block}.ffn_up", h))
            post = self.activation(pre) * up
        else:
            post = self.activation(tap(at + "pre", self.linear(f"{block}.ffn_up", h)))
        return self.linear(f"{block}.ffn_down", tap(at + "post", post))

    def forward(self, ids):
        """Every tensor by its TransformerLens name, "logits" [T, V] last. The names of the norms'
        outputs (hook_normalized) hold the value after gain and bias."""
        seen = {}

        def tap(name, value):
            seen[name] = value
            return value

        x = self.embed(ids, tap)
        for n in range(self.n_layer):
            at = f"blocks.{n}."
            tap(at + "hook_resid_pre", x)
            h = tap(at + "ln1.hook_normalized", self.norm(f"blk.{n}.attn_norm", x))
            x = x + tap(at + "hook_attn_out", self.attention(n, h, tap))
            tap(at + "hook_resid_mid", x)
            h = tap(at + "ln2.hook_normalized", self.norm(f"blk.{n}.ffn_norm", x))
            x = tap(at + "hook_resid_post", x + tap(at + "hook_mlp_out", self.mlp(n, h, tap)))
        if self.final_norm:
            x = tap("ln_final.hook_normalized", self.norm("output_norm", x))
        head = "output" if "output.weight" in self.weights else "token_embd"  # absent: tied
        tap("logits", self.linear(head, x))
        unknown = set(self.weights) - self.used
        if unknown:
            raise SystemExit(f"tensors without a formula: {sorted(unknown)}")
        return seen


def sequences(args, meta, n_ctx):
    """The asked-for (text or None, ids), in the order of the command line."""
    for kind, value in args.sequence:
        text = value if kind == "text" else None
        ids = encode(meta, value) if kind == "text" else [int(i) for i in value.split(",")]
        if not 0 < len(ids) <= n_ctx:
            raise SystemExit(f"{len(ids)} tokens, expected 1 to {n_ctx}")
        yield text, ids


def save_json(path, results):
    rows = []
    for text, ids, seen in results:
        row = {} if text is None else {"text": text}
        rows.append({**row, "input": ids, "logits": seen["logits"].tolist()})
    with open(path, "w", encoding="utf-8") as out:
        json.dump(rows if len(rows) > 1 else rows[0], out, allow_nan=False)
        out.write("\n")


def save_npz(path, results, everything):
    if len(results) != 1:
        raise SystemExit("an .npz holds one sequence")
    _, ids, seen = results[0]
    arrays = seen if everything else {"logits": seen["logits"]}
    with open(path, "wb") as out:
        np.savez(out, tokens=np.array(ids, np.int32), **arrays)


def main():
    parser = argparse.ArgumentParser(description="float64 reference logits of a GGUF model")
    parser.add_argument("model")
    tag = lambda kind: lambda value: (kind, value)
    parser.add_argument("--text", dest="sequence", action="append", type=tag("text"))
    parser.add_argument("--ids", dest="sequence", action="append", type=tag("ids"))
    parser.add_argument("--all", action="store_true", help="inner tensors too (.npz only)")
    parser.add_argument("-o", "--output", required=True, help="OUT.json or OUT.npz")
    args = parser.parse_args()
    if not args.sequence:
        parser.error("give --text or --ids")
    if not args.output.endswith((".json", ".npz")):
        parser.error("-o must end in .json or .npz")
    model = Model(args.model)
    results = [(text, ids, model.forward(ids)) for text, ids in
               sequences(args, model.meta, model.key("context_length"))]
    if args.output.endswith(".npz"):
        save_npz(args.output, results, args.all)
    else:
        save_json(args.output, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
