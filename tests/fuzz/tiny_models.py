"""Tiny models as bytes, for seeds.py: small enough (2 to 6 kB) that a fuzzer changes what matters in them.

GGUF models are made from the tables in the source, src/arch.c (architectures) and src/bind.c (tensors): a row that
is added there has a seed at once. Hugging Face models are those of tests/golden with smaller sizes. PyTorch's are
written out here. Standard library only.
"""
import io
import json
import os
import pickle
import re
import struct
import zipfile
from collections import OrderedDict

# ---- GGUF ----

U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
# GGUF's number, values and bytes of a block
TYPES = {"f32": (0, 1, 4), "f16": (1, 1, 2), "bf16": (30, 1, 2), "q4_0": (2, 32, 18), "q4_1": (3, 32, 20),
         "q5_0": (6, 32, 22), "q5_1": (7, 32, 24), "q8_0": (8, 32, 34), "q4_k": (12, 256, 144),
         "q5_k": (13, 256, 176), "q6_k": (14, 256, 210)}
LAYERS, CONTEXT = 2, 8


def text(s):
    s = s.encode() if isinstance(s, str) else s
    return struct.pack("<Q", len(s)) + s


def entry(key, value):
    """A metadata entry. A tuple is an array of strings, floats or integers."""
    def scalar(v):
        if isinstance(v, bool):
            return BOOL, struct.pack("<?", v)
        if isinstance(v, int):
            return U32, struct.pack("<I", v)
        if isinstance(v, float):
            return F32, struct.pack("<f", v)
        return STRING, text(v)
    if not isinstance(value, tuple):
        kind, data = scalar(value)
        return text(key) + struct.pack("<I", kind) + data
    kinds = [scalar(v) for v in value]
    kind = I32 if kinds[0][0] == U32 else kinds[0][0]
    return text(key) + struct.pack("<IIQ", ARRAY, kind, len(value)) + b"".join(d for _, d in kinds)


def gguf(entries, tensors, alignment=8):
    """tensors: (name, dims with the fastest first, type)."""
    entries = dict(entries, **{"general.alignment": alignment})
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    head += b"".join(entry(k, v) for k, v in entries.items())
    data = b""
    for name, dims, kind in tensors:
        number, n, size = TYPES[kind]
        head += text(name) + struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, number, len(data))
        total = size // n if n == 1 else size
        for d in dims:
            total *= d
        total //= n
        value = {"f32": b"\x00\x00\x80\x3e", "bf16": b"\x80\x3e", "f16": b"\x00\x34"}.get(kind, b"\x1c")
        data += (value * total)[:total] + bytes(-total % alignment)
    return head + bytes(-len(head) % alignment) + data


def read_slots(root):
    """Names of architectures, and the rows of bind.c: (name, of a layer, in, out, required, optional)."""
    def source(name):
        with open(os.path.join(root, "src", name)) as f:
            return f.read()
    names = {bit: name for name, bit in re.findall(r'\.name = "(\w+)",\s*\.bit = (ARCH_\w+)', source("arch.c"))}
    sets = {bit: 1 << int(n) for bit, n in re.findall(r"(ARCH_\w+) = 1 << (\d+)", source("arch.h"))}
    code = re.sub(r"/\*.*?\*/", "", source("bind.c"), flags=re.S)
    for name, value in re.findall(r"(\w+)\s*=\s*([^,{}=;]+?)(?=,\s*[A-Z]\w+\s*=|\s*\};)",
                                  re.search(r"enum \{(.*?\};)", code, re.S).group(1)):
        sets[name] = eval(value, {}, sets)
    tables = re.split(r"static const struct slot (\w+)\[\] = ", code)
    rows = []
    for table, body in zip(tables[1::2], tables[2::2]):
        for name, d_in, d_out, required, optional in re.findall(
                r'\{"([\w.]+)",\s*\w+,\s*(?:[ML]\([^)]*\)|0),\s*D_(\w+),\s*D_(\w+),\s*([^,]+),\s*([^}]+)\}',
                body.split("};")[0]):
            rows.append((name, table == "layer_slots", d_in, d_out,
                         eval(required, {}, sets), eval(optional, {}, sets)))
    return {name: sets[bit] for bit, name in names.items()}, rows


def gguf_model(root, arch, optional=lambda name: True, kind="f32", width=4, layers=LAYERS, more=()):
    """A model of `arch` with its required tensors and those that `optional` chooses."""
    archs, rows = read_slots(root)
    heads, vocab, inner = (2, 8, 3) if width < 256 else (1, 2, 1)
    sizes = {"E": width, "V": vocab, "T": CONTEXT, "Q": 2 * heads, "KV": 2, "QKV": 2 * heads + 4, "F": inner, "HEAD": 2,
             "ROT2": 1, "L": layers, "NONE": None}
    entries = {"general.architecture": arch, arch + ".block_count": layers, arch + ".embedding_length": width,
               arch + ".context_length": CONTEXT, arch + ".feed_forward_length": inner, arch + ".attention.head_count": heads,
               arch + ".attention.head_count_kv": 1, arch + ".attention.key_length": 2,
               arch + ".attention.layer_norm_epsilon": 1e-5, arch + ".attention.layer_norm_rms_epsilon": 1e-5}
    if arch == "gemma3":
        entries[arch + ".attention.sliding_window"] = 3
    entries.update(more)
    tensors = []
    for name, of_layer, d_in, d_out, required, may in rows:
        if not required & archs[arch] and not (may & archs[arch] and optional(name)):
            continue
        dims = [sizes[d] for d in (d_in, d_out) if sizes[d]]
        whole = len(dims) == 2 and dims[0] % TYPES[kind][1] == 0
        tensors += [("blk.%d.%s" % (i, name) if of_layer else name, dims, kind if whole else "f16" if width > 8 else "f32")
                    for i in (range(layers) if of_layer else (0,))]
    return gguf(entries, tensors)


BYTE_PAIRS = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
              "tokenizer.ggml.tokens": ("a", "b", "ab", "c", "\u0120", "<|x|>", "d", "e"),
              "tokenizer.ggml.token_type": (1, 1, 1, 1, 1, 3, 1, 1), "tokenizer.ggml.merges": ("a b",),
              "tokenizer.ggml.bos_token_id": 5, "tokenizer.ggml.eos_token_id": 5, "tokenizer.ggml.add_bos_token": True,
              "tokenizer.chat_template": "{{ x }}"}
PIECES = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": ("<unk>", "<s>", "</s>", "<0x0A>", "\u2581", "a",
                                                                     "\u2581a", "b"),
          "tokenizer.ggml.scores": (0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -4.0),
          "tokenizer.ggml.token_type": (2, 3, 3, 6, 1, 1, 1, 1), "tokenizer.ggml.bos_token_id": 1,
          "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0, "tokenizer.ggml.add_bos_token": True,
          "tokenizer.ggml.add_space_prefix": True, "tokenizer.ggml.add_eos_token": False}
# What a model may say of positions, attention and logits, in two files so that each is small.
SAYS = ({"rope.freq_base": 500.0, "rope.dimension_count": 2, "rope.scaling.type": "linear", "rope.scaling.factor": 2.5,
         "attention.scale": 0.35, "attention.clamp_kqv": 0.9, "final_logit_softcapping": 15.0},
        {"attention.sliding_window": 3, "attention.sliding_window_pattern": 2, "rope.freq_base_swa": 700.0,
         "rope.scale_linear": 4.0, "use_parallel_residual": False})


def gguf_models(root):
    """(name, bytes) of models that open."""
    archs, _ = read_slots(root)
    apart = re.compile(r"attn_[qkv]\.")

    def together(name):
        return not apart.match(name)

    for arch in sorted(archs):
        split = [lambda name: "qkv" not in name]
        if arch in ("gpt2", "gptneox", "phi2"):
            split.append(together)
        for i, optional in enumerate(split):
            yield "%s-all-%d" % (arch, i), gguf_model(root, arch, optional)
        needs = re.compile(r"output_norm|position|attn_qkv.weight" if arch != "microgpt" else "position")
        yield arch + "-least", gguf_model(root, arch, needs.match, layers=1)
        for i, says in enumerate(SAYS):
            if arch == "phi2":
                says = {k: v for k, v in says.items() if k != "use_parallel_residual"} # it has one norm
            yield "%s-says-%d" % (arch, i), gguf_model(root, arch, needs.match, more={
                arch + "." + k: v for k, v in says.items()})
        yield arch + "-ours", gguf_model(root, arch, needs.match, more={
            "mgpt.activation": "gelu_erf", "mgpt.embedding_norm": arch != "microgpt",
            "mgpt.attention.windows": (2, 0), arch + ".attention.sliding_window": 3})
    for kind, (_, n, _) in sorted(TYPES.items()):
        width = max(n, 4)
        yield "llama-" + kind, gguf_model(root, "llama", needs.match, kind, width, layers=1)
    yield "llama-flags", gguf_model(root, "llama", needs.match, more={
        "llama.attention.sliding_window": 2, "llama.attention.sliding_window_pattern": (True, False)})
    yield "gpt2-byte-pairs", gguf_model(root, "gpt2", needs.match, layers=1, more=BYTE_PAIRS)
    yield "llama-pieces", gguf_model(root, "llama", needs.match, layers=1, more=PIECES)


# ---- Hugging Face ----

def sizes_of(config, layers):
    """The sizes in a configuration, and small ones that are equal where these are."""
    get = config.get
    heads = get("num_attention_heads") or get("n_head") or get("num_heads")
    key_heads = get("num_key_value_heads") or heads
    width = get("hidden_size") or get("n_embd")
    head = get("head_dim") or width // heads
    inner = get("intermediate_size") or 4 * width
    context = get("max_position_embeddings") or get("n_positions")
    small_head = 4 if head % 4 == 0 or head > 4 else 2
    small_heads, small_keys = (1, 1) if key_heads == heads else (2, 1)
    small = small_heads * small_head
    if width != heads * head:
        small += 2
    small_inner = {width: small, 4 * width: 4 * small}.get(inner, small + 2)
    sizes = {get("vocab_size"): 8, width: small, 3 * width: 3 * small, inner: small_inner, head: small_head,
             context: 6, heads * head: small_heads * small_head, key_heads * head: small_keys * small_head}
    new = {"vocab_size": 8, "num_attention_heads": small_heads, "n_head": small_heads, "num_heads": small_heads,
           "num_key_value_heads": small_keys, "hidden_size": small, "n_embd": small, "head_dim": small_head,
           "intermediate_size": small_inner, "max_position_embeddings": 6, "n_positions": 6, "num_hidden_layers": layers,
           "n_layer": layers, "num_layers": layers}
    return sizes, new


def smaller_config(config, new, layers):
    out = {}
    skip = ("architectures", "transformers_version", "initializer_range", "dtype", "use_cache")
    for key, value in config.items():
        if key in new:
            value = new[key] if value is not None else None
        if key in ("layer_types", "attention_layers", "no_rope_layers"):
            value = value[:layers]
        if key == "attention_types":
            value = [[["global"], layers]]
        if key == "rope_parameters" and "partial_rotary_factor" in value:
            value = dict(value, partial_rotary_factor=0.5)
        if key not in skip and not key.endswith(("dropout", "pdrop")) and not key.startswith("summary"):
            out[key] = value
    return out


def hf_model(config, heads, layers=1):
    """(config.json, header and data of safetensors) of a model with the tensors in `heads`, smaller."""
    sizes, new = sizes_of(config, layers)
    header, at = {}, 0
    for name in sorted(heads):
        layer = re.search(r"\.(?:layers|h)\.(\d+)\.", name)
        if name == "__metadata__" or layer and int(layer.group(1)) >= layers:
            continue
        shape = [sizes[n] for n in heads[name]["shape"]]
        end = at + 2
        for n in shape:
            end += 2 * (n - 1) if len(shape) == 1 else 0
        if len(shape) == 2:
            end = at + 2 * shape[0] * shape[1]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}
        at = end
    return smaller_config(config, new, layers), header, b"\x80\x3e" * (at // 2)


# ---- PyTorch ----

class Tensor:
    """Stands for a tensor of float32 in what is pickled."""

    def __init__(self, *shape):
        self.shape = shape


class Global:
    def __init__(self, module, name):
        self.module, self.name = module, name

    def __call__(self):  # so that pickle takes it for a function
        pass


class Pickler(pickle._Pickler):
    """Writes tensors as torch.save does: _rebuild_tensor_v2 of a storage that is an entry of the archive."""
    dispatch = dict(pickle._Pickler.dispatch)
    kind = "FloatStorage"

    def save_name(self, obj):
        self.write(pickle.GLOBAL + obj.module.encode() + b"\n" + obj.name.encode() + b"\n")

    def persistent_id(self, obj):
        if isinstance(obj, tuple) and obj and obj[0] == "storage":
            return ("storage", Global("torch", self.kind), obj[1], "cpu", obj[2])
        return None

    def save_tensor(self, t):
        n = 1
        for d in t.shape:
            n *= d
        strides, step = [], 1
        for d in reversed(t.shape):
            strides.insert(0, step)
            step *= d
        self.storages.append(n)
        self.save_reduce(Global("torch._utils", "_rebuild_tensor_v2"), (
            ("storage", str(len(self.storages) - 1), n), 0, t.shape, tuple(strides), False, OrderedDict()))


Pickler.dispatch[Global] = Pickler.save_name
Pickler.dispatch[Tensor] = Pickler.save_tensor


def pickled(obj, kind="FloatStorage"):
    out = io.BytesIO()
    p = Pickler(out, 2)
    p.storages, p.kind = [], kind
    p.dump(obj)
    return out.getvalue(), p.storages


def torch_file(obj, kind="FloatStorage"):
    """What torch.save writes, without the padding that it puts before each entry and with checksums of zero, as
    after set_crc32_options(False)."""
    data, storages = pickled(obj, kind)
    width = 2 if kind == "BFloat16Storage" else 4
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as z:
        for name, body in [("a/data.pkl", data)] + [
                ("a/data/%d" % i, b"\x80\x3e\x80\x3e"[:width] * n) for i, n in enumerate(storages)]:
            z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), body)
    out = bytearray(buffer.getvalue())
    for mark in re.finditer(b"PK\1\2", bytes(out)):
        out[mark.start() + 16:mark.start() + 20] = bytes(4)
    return bytes(out)


def layer_tensors(prefix, shapes, layers=1):
    return {"%s%d.%s" % (prefix, i, name): Tensor(*shape) for i in range(layers) for name, shape in shapes.items()}


def nanogpt(bias=True, layers=1, untied=False):
    E, V, T = 4, 5, 4
    linear = {"attn.c_attn": (3 * E, E), "attn.c_proj": (E, E), "mlp.c_fc": (4 * E, E), "mlp.c_proj": (E, 4 * E)}
    shapes = {}
    for name in ("ln_1", "ln_2"):
        shapes[name + ".weight"] = (E,)
        if bias:
            shapes[name + ".bias"] = (E,)
    for name, shape in linear.items():
        shapes[name + ".weight"] = shape
        if bias:
            shapes[name + ".bias"] = shape[:1]
    state = {"transformer.wte.weight": Tensor(V, E), "transformer.wpe.weight": Tensor(T, E)}
    state.update(layer_tensors("transformer.h.", shapes, layers))
    state["transformer.ln_f.weight"] = Tensor(E)
    if bias:
        state["transformer.ln_f.bias"] = Tensor(E)
    state["lm_head.weight"] = Tensor(V, E) if untied else state["transformer.wte.weight"]
    args = {"n_layer": layers, "n_head": 2, "n_embd": E, "block_size": T, "bias": bias, "vocab_size": V, "dropout": 0.0}
    return OrderedDict(state), args


def llama():
    E, KV, F, V = 4, 2, 6, 5
    shapes = {"attention.wq.weight": (E, E), "attention.wk.weight": (KV, E), "attention.wv.weight": (KV, E),
              "attention.wo.weight": (E, E), "feed_forward.w1.weight": (F, E), "feed_forward.w2.weight": (E, F),
              "feed_forward.w3.weight": (F, E), "attention_norm.weight": (E,), "ffn_norm.weight": (E,)}
    state = dict({"tok_embeddings.weight": Tensor(V, E)}, **layer_tensors("layers.", shapes))
    state.update({"norm.weight": Tensor(E), "output.weight": Tensor(V, E)})
    return OrderedDict(state), {"dim": E, "n_layers": 1, "n_heads": 2, "n_kv_heads": 1, "vocab_size": V, "multiple_of": 2,
                                "max_seq_len": 4, "dropout": 0.0}


def scratch(bias):
    E, V, T = 4, 5, 4
    shapes = {"norm1.scale": (E,), "norm1.shift": (E,), "norm2.scale": (E,), "norm2.shift": (E,),
              "att.out_proj.weight": (E, E), "att.out_proj.bias": (E,), "ff.layers.0.weight": (4 * E, E),
              "ff.layers.0.bias": (4 * E,), "ff.layers.2.weight": (E, 4 * E), "ff.layers.2.bias": (E,),
              "att.mask": (T, T)}
    for name in ("W_query", "W_key", "W_value"):
        shapes["att.%s.weight" % name] = (E, E)
        if bias:
            shapes["att.%s.bias" % name] = (E,)
    state = {"tok_emb.weight": Tensor(V, E), "pos_emb.weight": Tensor(T, E)}
    state.update(layer_tensors("trf_blocks.", shapes))
    state.update({"final_norm.scale": Tensor(E), "final_norm.shift": Tensor(E), "out_head.weight": Tensor(V, E)})
    return OrderedDict(state)


def nanochat(lambdas):
    E, V = 4, 8
    shapes = {"attn.c_q.weight": (E, E), "attn.c_k.weight": (2, E), "attn.c_v.weight": (2, E),
              "attn.c_proj.weight": (E, E), "mlp.c_fc.weight": (4 * E, E), "mlp.c_proj.weight": (E, 4 * E)}
    state = dict({"transformer.wte.weight": Tensor(V, E)}, **layer_tensors("transformer.h.", shapes))
    state["lm_head.weight"] = Tensor(V, E)
    if lambdas:
        state.update({"resid_lambdas": Tensor(1), "x0_lambdas": Tensor(1)})
    config = {"sequence_len": 6, "vocab_size": V, "n_layer": 1, "n_head": 2, "n_kv_head": 1, "n_embd": E}
    if lambdas:
        config["window_pattern"] = "SL"
    return OrderedDict(state), json.dumps({"step": 1, "model_config": config}).encode()


def torch_models():
    """(name, [(file name, bytes)]): the first is the checkpoint."""
    for bias in (True, False):
        state, args = nanogpt(bias)
        wrapped = OrderedDict(("_orig_mod." + k, v) for k, v in state.items())
        yield "nanogpt-%d" % bias, [("ckpt.pt", torch_file({"model": wrapped, "model_args": args, "iter_num": 7}))]
        yield "scratch-%d" % bias, [("model.pth", torch_file({"model_state_dict": scratch(bias)}))]
    state, args = nanogpt(True, untied=True)
    config = {"model": {"model_type": None, "n_layer": 1, "n_head": 2, "n_embd": 4}}
    yield "mingpt", [("model.pt", torch_file(state)), ("config.json", json.dumps(config).encode())]
    yield "lightning", [("model.ckpt", torch_file({
        "state_dict": OrderedDict(("model." + k, v) for k, v in state.items()), "hyper_parameters": args,
        "pytorch-lightning_version": "2.0"}))]
    state, args = llama()
    yield "llama2c", [("ckpt.pt", torch_file({"model": state, "model_args": args}))]
    params = {"dim": 4, "multiple_of": 2, "n_heads": 2, "n_layers": 1, "norm_eps": 1e-5, "vocab_size": -1}
    yield "meta-llama", [("consolidated.00.pth", torch_file(state, "BFloat16Storage")),
                         ("params.json", json.dumps(params).encode())]
    for lambdas in (0, 1):
        state, meta = nanochat(lambdas)
        yield "nanochat-%d" % lambdas, [("model_000010.pt", torch_file(state)), ("meta_000010.json", meta)]
