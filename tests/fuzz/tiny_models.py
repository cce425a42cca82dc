"""Tiny models as bytes, for seeds.py: small enough (2 to 6 kB) that a fuzzer changes what matters in them.

GGUF models are made from the tables in the source, src/model/arch.c (architectures) and src/model/slots.c (tensors): a row that
is added there has a seed at once. Hugging Face models are those of tests/golden and PyTorch's those of
tests/fixtures/torch with smaller sizes. Standard library only.
"""
import glob
import io
import json
import math
import os
import pickle
import re
import struct
import zipfile
from collections import OrderedDict

from formats import get, safetensors

# ---- GGUF ----

U32, F32, BOOL, STRING, ARRAY, I32 = 4, 6, 7, 8, 9, 5
# GGUF's number, values and bytes of a block
TYPES = {"f32": (0, 1, 4), "f16": (1, 1, 2), "bf16": (30, 1, 2), "q4_0": (2, 32, 18), "q4_1": (3, 32, 20),
         "q5_0": (6, 32, 22), "q5_1": (7, 32, 24), "q8_0": (8, 32, 34), "q4_k": (12, 256, 144),
         "q5_k": (13, 256, 176), "q6_k": (14, 256, 210), "q2_k": (10, 256, 84), "q3_k": (11, 256, 110),
         "iq4_nl": (20, 32, 18), "iq4_xs": (23, 256, 136), "mxfp4": (39, 32, 17), "tq1_0": (34, 256, 54),
         "tq2_0": (35, 256, 66), "iq2_xxs": (16, 256, 66), "iq2_xs": (17, 256, 74), "iq2_s": (22, 256, 82),
         "iq3_xxs": (18, 256, 98), "iq3_s": (21, 256, 110), "iq1_s": (19, 256, 50), "iq1_m": (29, 256, 56),
         "nvfp4": (40, 64, 36), "q1_0": (41, 128, 18), "q2_0": (42, 64, 18)}
LAYERS, CONTEXT = 2, 8
# Parts that some architectures of a bit have: a field of their rows in arch.c; bits after those of architectures.
PARTS = {"SINKS": ("sinks", 1 << 40), "HEAD_GATES": ("gates", 1 << 41), "SANDWICH": ("sandwich", 1 << 42),
         "DENSE_HEAD": ("dense_head", 1 << 43)}


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


LFM = ("lfm2", "lfm2moe", "lfm3")


def read_slots(root):
    """Names of architectures, and the rows of slots.c: (name, of a layer, in, out, required, optional)."""
    def source(name):
        with open(os.path.join(root, "src/model", name)) as f:
            return f.read()
    names = {name: bit for name, bit in re.findall(r'\.name = "([\w-]+)",\s*\.bit = (ARCH_\w+)', source("arch.c"))}
    has = {name: sum(bit for field, bit in PARTS.values() if ".%s = " % field in row)
           for name, row in re.findall(r'\.name = "([\w-]+)"([^}]*)\}', source("arch.c"))}
    sets = {bit: 1 << int(n) for bit, n in re.findall(r"(ARCH_\w+) = 1 << (\d+)", source("arch.h"))}
    code = re.sub(r"/\*.*?\*/", "", source("slots.c"), flags=re.S)
    for name, value in re.findall(r"(\w+)\s*=\s*([^,{}=;]+?)(?=,\s*[A-Z]\w+\s*=|\s*\};)",
                                  re.search(r"enum \{(.*?\};)", code, re.S).group(1)):
        sets[name] = eval(" ".join(value.split()), {"INT_MAX": 2**31 - 1}, sets)
    tables = re.split(r"const struct tensor_slot (\w+)\[\] = ", code)
    rows = []
    for table, body in zip(tables[1::2], tables[2::2]):
        for name, d_in, d_out, required, optional, where in re.findall(
                r'\{"([\w.]+)",\s*\w+,\s*MGPT_\w+,\s*D_(\w+),\s*D_(\w+),\s*([^,]+),\s*([^,]+),\s*([^}]+)\}',
                body.split("};")[0]):
            if where.startswith(("MIXTURE", "INPUTS")):
                continue
            needed = PARTS[where][1] if where in PARTS else eval(required, {}, sets)
            may = eval(optional, {}, sets)
            if where in PARTS and not eval(required, {}, sets): # of the part, if at all
                needed, may = 0, needed
            rows.append((name, table == "bind_layer_slots", d_in, d_out, needed, may))
    return {name: sets[bit] | has[name] for name, bit in names.items()}, rows, sets["ARCH_SHORTCONV"]


def gguf_model(root, arch, optional=lambda name: True, kind="f32", width=4, layers=LAYERS, more=()):
    """A model of `arch` with its required tensors and those that `optional` chooses."""
    archs, rows, convolution = read_slots(root)
    heads, vocab, inner = (2, 8, 3) if width < 256 else (1, 2, 1)
    sizes = {"E": width, "V": vocab, "T": CONTEXT, "Q": 2 * heads, "KV": 2, "VALUES": 2, "QKV": 2 * heads + 4, "F": inner, "2F": 2 * inner, "HEAD": 2, "H": heads, "G": 1,
             "ROT2": 1, "L": layers, "NONE": None, "3E": 3 * width, "CONV": 3, "COLUMNS": 2, "ONE": 1, "P": None, "LP": None,
             "R": 3, "KEPT": 5, "QR": 2, "NOPE": 1, "VALUE": 2, "KV_UP": 3 * heads, "Z": 2 * heads,
             "GATE": heads if arch in ("lfm3", "laguna") else 2 * heads}
    entries = {"general.architecture": arch, arch + ".block_count": layers, arch + ".embedding_length": width,
               arch + ".context_length": CONTEXT, arch + ".feed_forward_length": inner,
               arch + ".attention.head_count": heads,
               arch + ".attention.head_count_kv": 1, arch + ".attention.key_length": 2,
               arch + ".attention.layer_norm_epsilon": 1e-5, arch + ".attention.layer_norm_rms_epsilon": 1e-5}
    if arch in ("gemma2", "gemma3", "cohere2", "cohere_compass", "cohere2moe", "flint", "vaultgemma", "gpt-oss", "afmoe"):
        entries[arch + ".attention.sliding_window"] = 3
    if arch in ("minicpm", "minicpm3"):
        entries.update({arch + key: 1.5 for key in (".embedding_scale", ".residual_scale", ".logit_scale")})
    if arch in ("deepseek2", "minicpm3"):
        entries.update({arch + key: n for key, n in (
            (".attention.kv_lora_rank", 3), (".attention.key_length", 3), (".attention.value_length", 2), (".rope.dimension_count", 2))})
        sizes.update({"Q": 3 * heads, "HEAD": 3})
    if arch == "mimo2":
        entries.update({arch + ".attention.value_length": 1, arch + ".attention.sliding_window": 3})
        sizes.update({"VALUES": 1, "Z": heads})
    if arch in LFM:
        entries.update({arch + ".attention.head_count_kv": (0, 1)[:layers], arch + ".shortconv.l_cache": 3})
    if arch == "nanochat" and optional("attn_value_embd.weight"):
        entries[arch + ".attention.value_gate_scale"] = 3.0
    if arch == "apertus":
        entries.update({"xielu." + key: v for key, v in (
            ("alpha_p", (0.5, 1.0)[:layers]), ("alpha_n", 0.3), ("beta", 0.5), ("eps", -1e-6))})
    entries.update(more)
    tensors = []
    for name, of_layer, d_in, d_out, required, may in rows:
        kinds = [convolution | archs[arch] & PARTS["SANDWICH"][1] if arch in LFM and of_layer and i == 0 else archs[arch]
                 for i in (range(layers) if of_layer else (0,))]
        dims = [sizes[d] for d in (d_in, d_out) if sizes[d]]
        whole = len(dims) == 2 and dims[0] % TYPES[kind][1] == 0
        typed = kind if whole else "f16" if width > 8 else "f32"
        tensors += [("blk.%d.%s" % (i, name) if of_layer else name, dims, typed)
                    for i, bit in enumerate(kinds) if not (bit & PARTS["DENSE_HEAD"][1] and i == 0 and name.startswith("attn_norm"))
                    and (required & bit or may & bit and (optional(name) or arch == "gemma4" and name.startswith("attn_k")))]
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
         "rope.scale_linear": 4.0, "use_parallel_residual": False},
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 4,
         "rope.scaling.attn_factor": 0.9, "rope.scaling.yarn_beta_fast": 16.0})


def gguf_models(root):
    """(name, bytes) of models that open."""
    archs, _, _ = read_slots(root)
    apart = re.compile(r"attn_[qkv]\.")

    for arch in sorted(archs):
        no_rope = arch == "mpt" # it shares the tensors of an architecture with rope

        def apart_all(name, no_rope=no_rope):
            return not re.search(r"qkv|attn_(q_[ab]|[kv]_b)", name) and not (no_rope and name.startswith("rope_"))

        def together(name, no_rope=no_rope):
            return not apart.match(name) and not (no_rope and name.startswith("rope_"))

        split = [apart_all]
        if arch in ("gpt2", "gptneox", "phi2", "phi3", "starcoder2", "starcoder", "bloom", "mpt", "gptj", "falcon", "arcee",
                    "nemotron", "jais2", "chatglm", "glm4", "biogpt", "gpt1", "persimmon", "bailingmoe2", "dbrx"):
            split.append(together)
        for i, optional in enumerate(split):
            yield "%s-all-%d" % (arch, i), gguf_model(root, arch, optional)
        needs = re.compile(r"output_norm|position|attn_qkv.weight|attn_kv_b" + (r"|attn_q\.weight" if arch in ("deepseek2", "minicpm3") else "")
                           + ("|ffn_norm.weight" if arch in ("stablelm", "phimoe", "modernbert-decoder") else "")
                           if arch != "microgpt" else "position")
        yield arch + "-least", gguf_model(root, arch, needs.match, layers=1)
        for i, says in enumerate(SAYS):
            if arch in ("phi2", "gptj", "stablelm", "command-r", "cohere2", "cohere_compass", "cohere2moe", "falcon"):
                says = {k: v for k, v in says.items() if k != "use_parallel_residual"} # it has one norm
            if arch in ("deepseek2", "minicpm3"):
                says = {k: v for k, v in says.items() if k != "attention.clamp_kqv"}
            if arch == "mimo2":
                says = {k: v for k, v in says.items() if k != "attention.sliding_window_pattern"} # sinks are in all layers
            yield "%s-says-%d" % (arch, i), gguf_model(root, arch, needs.match, more={
                arch + "." + k: v for k, v in says.items()})
        yield arch + "-ours", gguf_model(root, arch, needs.match, more={
            "mgpt.activation": "gelu_erf", "mgpt.embedding_norm": arch != "microgpt",
            "mgpt.attention.windows": (2, 3 if arch == "mimo2" else 0), arch + ".attention.sliding_window": 3})
    for kind, (_, n, _) in sorted(TYPES.items()):
        width = max(n, 4)
        yield "llama-" + kind, gguf_model(root, "llama", needs.match, kind, width, layers=1)
    yield "llama-flags", gguf_model(root, "llama", needs.match, more={
        "llama.attention.sliding_window": 2, "llama.attention.sliding_window_pattern": (True, False)})
    yield "gpt2-byte-pairs", gguf_model(root, "gpt2", needs.match, layers=1, more=BYTE_PAIRS)
    yield "llama-pieces", gguf_model(root, "llama", needs.match, layers=1, more=PIECES)


# ---- Hugging Face ----

EXPERTS = 2  # of mixtures


def sizes_of(config, layers):
    """The sizes in a configuration, and small ones that are equal where these are."""
    get = config.get
    heads = get("num_attention_heads") or get("attention_heads") or get("n_head") or get("num_heads") or get("n_heads")
    key_heads = get("num_key_value_heads") or get("num_kv_heads") or heads
    key_heads = 1 if get("multi_query") and not get("new_decoder_architecture") else key_heads
    width = get("hidden_size") or get("n_embd") or get("d_model")
    head = get("head_dim") or width // heads
    inner = get("intermediate_size") or get("ffn_dim") or get("ffn_hidden_size") or get("dff") or 4 * width
    context = get("max_position_embeddings") or get("n_positions") or 0
    small_head = 4 if head % 4 == 0 or head > 4 else 2
    small_heads, small_keys = (1, 1) if key_heads == heads else (2, 1)
    if get("model_type") == "codegen":
        small_heads, small_keys, small_head = 4, 4, 2
    small = small_heads * small_head
    if width != heads * head:
        small += 2
    small_inner = {width: small, 4 * width: 4 * small}.get(inner, small + 2)
    vocab = small_inner if inner == get("vocab_size") and not get("conv_L_cache") else 8  # sizes are told apart by their number
    projected = get("word_embed_proj_dim") or width
    small_projected = small if projected == width else 1
    sizes = {heads: small_heads, key_heads: small_keys, projected: small_projected, 2 * inner: 2 * small_inner, (heads + 2 * key_heads) * head: (small_heads + 2 * small_keys) * small_head,
             get("vocab_size"): vocab, width: small, 3 * width: 3 * small, inner: small_inner, head: small_head,
             context: 6, context + 2: 8, heads * head: small_heads * small_head, key_heads * head: small_keys * small_head}
    if get("v_head_dim") and not get("kv_lora_rank"):  # MiMo: layers with a window have twice the KV heads
        value = get("v_head_dim")
        sizes.update({value: 3, heads * value: 3 * small_heads, key_heads * value: 3 * small_keys})
    if get("cross_attention_layers"):  # mllama: rows of images
        sizes[get("vocab_size") + 8] = vocab + 8
    experts = get("num_experts") or get("num_local_experts") or get("n_routed_experts") or get("moe_num_experts")
    if get("conv_L_cache"):
        # The width of the MLP is 24: two thirds of intermediate_size, 33, which is the vocabulary's size, too, in whole sixes.
        sizes.update({1: 1, get("conv_L_cache"): get("conv_L_cache"), 24: 6, get("vocab_size"): 8})
    shared = get("shared_expert_intermediate_size") or get("shared_intermediate_size")
    if experts:
        wide = get("moe_intermediate_size")
        sizes.update({experts: EXPERTS, 1: 1, wide: 3, shared: 5, 2 * (shared or 0): 10})
        together = get("n_shared_experts") or get("moe_num_shared_experts") or get("num_shared_experts") or 0
        if together:
            sizes[together * (wide or inner)] = 3 if wide else small_inner
    elif shared:
        sizes[2 * shared] = 2 * sizes[shared]
    new = {"n_routed_experts": EXPERTS, "moe_num_experts": EXPERTS, "moe_k": 1, "moe_topk": 1, "n_group": 1, "topk_group": 1,
           "n_shared_experts": 1, "moe_num_shared_experts": 1, "num_shared_experts": 1,
           "num_experts": EXPERTS, "num_local_experts": EXPERTS, "num_experts_per_tok": 2 if get("model_type") == "phimoe" else 1, "moe_intermediate_size": 3,
           "shared_expert_intermediate_size": 5, "shared_intermediate_size": sizes.get(shared, 5), "vocab_size": vocab, "num_attention_heads": small_heads, "attention_heads": small_heads, "n_head": small_heads, "num_heads": small_heads,
           "num_key_value_heads": small_keys, "hidden_size": small, "n_embd": small, "head_dim": small_head,
           "intermediate_size": small_inner, "prefix_dense_intermediate_size": small_inner, "max_position_embeddings": 6, "n_positions": 6,
           "rotary_dim": 2, "num_hidden_layers": layers, "n_layers": layers, "n_heads": small_heads, "d_model": small,
           "ffn_dim": small_inner, "dff": small_inner, "ffn_hidden_size": small_inner, "word_embed_proj_dim": small_projected, "max_seq_len": 6, "seq_length": 6,
           "num_kv_heads": small_keys, "n_layer": layers, "num_layers": layers}
    return sizes, {key: value for key, value in new.items() if get(key) != 0}  # Granite 4: no experts


def smaller_config(config, new, layers):
    out = {}
    skip = ("architectures", "transformers_version", "initializer_range", "dtype", "use_cache")
    for key, value in config.items():
        if key in new:
            value = new[key] if value is not None else None
        if key in ("layer_types", "attention_layers", "no_rope_layers", "mlp_layer_types", "layer_rope_theta"):
            value = value[:layers]
        if key == "num_attention_heads_per_layer":
            value = [new["num_attention_heads"]] * layers
        if key == "v_head_dim" and not config.get("kv_lora_rank"):
            value = 3
        if key == "rope_parameters" and "sliding_attention" in value:
            value = {kind: dict(rope, partial_rotary_factor=0.5) if rope and rope.get("partial_rotary_factor", 1) not in (0.5, 1.0) else rope for kind, rope in value.items()}
        if key == "attention_types":
            value = [[["global"], layers]]
        if key == "rope_parameters" and "partial_rotary_factor" in value:
            value = {k: v[:1] if isinstance(v, list) else v for k, v in dict(value, partial_rotary_factor=0.5).items()}
        if key not in skip and not key.endswith(("dropout", "pdrop")) and not key.startswith("summary"):
            out[key] = value
    return out


def hf_model(config, heads, layers=1):
    """(config.json, header and data of safetensors) of a model with the tensors in `heads`, smaller."""
    sizes, new = sizes_of(config, layers)
    header, at = {}, 0
    for name in sorted(heads):
        layer = re.search(r"\.(?:layers|h|blocks)\.(\d+)\.", name)
        expert = re.search(r"\.experts\.(\d+)\.", name)
        head = re.search(r"\.norms\.(\d+)\.", name)
        if head and int(head.group(1)) >= new["num_attention_heads"]:
            continue
        if name == "__metadata__" or layer and int(layer.group(1)) >= layers or expert and int(expert.group(1)) >= EXPERTS:
            continue
        shape = [sizes[n] for n in heads[name]["shape"]]
        end = at + 2
        for n in shape:
            end += 2 * (n - 1) if len(shape) == 1 else 0
        if len(shape) > 1:
            end = at + 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}
        at = end
    data = bytearray(b"\x80\x3e" * (at // 2))
    for name, tensor in header.items():
        if name.endswith("act_fn.eps"):  # of xIELU: negative
            data[tensor["data_offsets"][0] + 1] |= 0x80
    return smaller_config(config, new, layers), header, bytes(data)


# ---- PyTorch ----

class Tensor:
    """In place of a tensor: what torch.save wrote of it."""

    def __init__(self, storage, offset, shape, strides, *more):
        self.kind, self.shape = storage[1], shape
        self.transposed = len(shape) == 2 and strides[0] == 1 < shape[0]

    def strides(self):
        if self.transposed:
            return 1, self.shape[0]
        return tuple(math.prod(self.shape[i + 1:]) for i in range(len(self.shape)))


class Reader(pickle.Unpickler):
    """Reads without torch: a class that is not there is one without methods."""
    made = {}

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if name in ("_rebuild_tensor_v2", "_rebuild_parameter"):
            return Tensor if name == "_rebuild_tensor_v2" else lambda t, *more: t
        if module.startswith("_codecs") or module == "builtins":
            return super().find_class(module, name)
        return self.made.setdefault((module, name), type(name, (), {"__module__": module}))

    def persistent_load(self, saved):
        return saved


class Pickler(pickle._Pickler):
    """Writes tensors as torch.save does: _rebuild_tensor_v2 of a storage that is an entry of the archive."""
    dispatch = dict(pickle._Pickler.dispatch)

    def save_global(self, obj, name=None):
        module = "torch._utils" if obj is Tensor else obj.__module__
        name = "_rebuild_tensor_v2" if obj is Tensor else obj.__qualname__
        self.write(pickle.GLOBAL + ("%s\n%s\n" % (module, name)).encode())
        self.memoize(obj)

    def persistent_id(self, obj):
        if isinstance(obj, tuple) and len(obj) == 5 and obj[0] == "storage":
            return obj
        return None

    def save_pers(self, saved):
        self.write(pickle.MARK)
        for part in saved:
            self.save(part)
        self.write(pickle.TUPLE + pickle.BINPERSID)

    def save_tensor(self, t):
        n = math.prod(t.shape)
        self.storages.append((t.kind.__name__, n))
        storage = ("storage", t.kind, str(len(self.storages) - 1), "cpu", n)
        self.save_reduce(Tensor, (storage, 0, t.shape, t.strides(), False, OrderedDict()), obj=t)


Pickler.dispatch[type] = Pickler.save_global
Pickler.dispatch[Tensor] = Pickler.save_tensor
SIZES = re.compile(r"(\b(?:n_embd|dim|hidden_dim|block_size|(?:padded_)?vocab_size|intermediate_size|sequence_len|"
                   r"max_seq_len|head_size|rope_n_elem)\b\W+)(\d+)")


def smaller(value, by):
    """Divides the sizes of each tensor, and what a configuration says is a size."""
    for key, v in list(value.items()):
        if key in ("optimizer", "optimizer_states"):
            value[key] = {}
        elif isinstance(v, Tensor) and "lambdas" not in key:
            v.shape = tuple(-(-n // by) for n in v.shape)
        elif isinstance(v, int) and SIZES.match("%s: 1" % key):
            value[key] = -(-v // by)
        elif isinstance(v, dict):
            smaller(v, by)
        elif hasattr(v, "__dict__") and not isinstance(v, (type, Tensor)):
            smaller(v.__dict__, by)
    if isinstance(value, OrderedDict):
        value.__dict__.clear()  # state_dict's _metadata


def smaller_text(data, by):
    return SIZES.sub(lambda m: m.group(1) + str(-(-int(m.group(2)) // by)), data.decode()).encode()


def torch_model(data, by):
    """A checkpoint in zip form with smaller sizes, without optimizers, without the padding that torch.save puts before
    each entry, and with checksums of zero, as after set_crc32_options(False)."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    name = [n for n in archive.namelist() if n.endswith("/data.pkl")][0]
    obj = Reader(io.BytesIO(archive.read(name))).load()
    if isinstance(obj, dict):
        smaller(obj, by)
    text = io.BytesIO()
    pickler = Pickler(text, 2)
    pickler.storages = []
    pickler.dump(obj)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, body in [("a/data.pkl", text.getvalue())] + [
                ("a/data/%d" % i, {"Float": b"\x00\x00\x80\x3e", "BFloa": b"\x80\x3e"}.get(kind[:5], bytes(8)) * n)
                for i, (kind, n) in enumerate(pickler.storages)]:
            z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), body)
    out = bytearray(out.getvalue())
    for mark in re.finditer(b"PK\1\2", bytes(out)):
        out[mark.start() + 16:mark.start() + 20] = bytes(4)
    return bytes(out)


def hf_files(directory):
    """config.json and the tensors of a model of tests/golden, made smaller; those of a quantised one, of latents, with sizes in objects, or whose layers differ, as they are."""
    config, tensors = json.loads(get(directory + "config.json")), {}
    if {"quantization", "quantization_config", "kv_lora_rank", "per_layer_config", "ffn_config"} & set(config):
        return get(directory + "config.json"), get(directory + "model.safetensors")
    for path in glob.glob(directory + "*.safetensors"):
        data = get(path)
        tensors.update(json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]]))
    config, header, data = hf_model(config, tensors, 2 if "conv_L_cache" in config else 1)
    return json.dumps(config, separators=(",", ":")).encode(), safetensors(header, data)
