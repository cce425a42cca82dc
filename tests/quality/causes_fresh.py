"""A second set of bugs for causes.py, from threads of 2025 and 2026 of people who port engines. See causes_list.py."""

import torch

from causes_planted import *  # noqa: F403

f = torch.nn.functional

LLAMA = "llama"
QKV = ("q_proj.bias", "k_proj.bias", "v_proj.bias")
NEOX = ("query_key_value.weight", "query_key_value.bias")

# ---- models ----

FAMILIES.update({
    "llama-8": lambda: llama(num_attention_heads=8, num_key_value_heads=4),
    "llama-yarn": lambda: llama(rope={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                      "original_max_position_embeddings": 64}),
    "gemma2": lambda: hf.Gemma2Config(**{**shape(24, 4, 2, 32, layers=4), "head_dim": 8, "query_pre_attn_scalar": 8,
                                         "rms_norm_eps": 1e-6, "sliding_window": 16, "tie_word_embeddings": True,
                                         "attn_logit_softcapping": 5.0, "final_logit_softcapping": 10.0,
                                         "rope_parameters": make_hf.rope(10000.0)}),
    "granite": lambda: hf.GraniteConfig(**shape(32, 4, 2, 40), rms_norm_eps=1e-5, tie_word_embeddings=False,
                                        rope_parameters=make_hf.rope(10000.0), embedding_multiplier=6.0,
                                        attention_multiplier=0.2, residual_multiplier=0.4, logits_scaling=3.0),
    "smollm3": lambda: hf.SmolLM3Config(**shape(32, 4, 2, 40, layers=4), rms_norm_eps=1e-6, tie_word_embeddings=False,
                                        rope_parameters=make_hf.rope(10000.0), no_rope_layer_interval=4),
    "bloom": lambda: hf.BloomConfig(hidden_size=32, n_head=4, n_layer=3, vocab_size=VOCAB, layer_norm_epsilon=1e-5,
                                    bos_token_id=0, eos_token_id=0, pad_token_id=0),
    "qwen3-moe": lambda: hf.Qwen3MoeConfig(**shape(32, 4, 2, 40), head_dim=8, rms_norm_eps=1e-6, num_experts=4,
                                           num_experts_per_tok=2, moe_intermediate_size=24, norm_topk_prob=True,
                                           tie_word_embeddings=False, rope_parameters=make_hf.rope(10000.0)),
    "olmoe": lambda: hf.OlmoeConfig(**shape(32, 4, 4, 24), rms_norm_eps=1e-5, num_experts=4, num_experts_per_tok=2,
                                    norm_topk_prob=False, tie_word_embeddings=False,
                                    rope_parameters=make_hf.rope(10000.0)),
})

# ---- what a case does ----


def attend(how):
    """Attention replaced: how(old, module, q, k, v, mask, scaling, more) gives its output and weights."""
    def make(old, e):
        return lambda module, q, k, v, mask, scaling=None, **more: how(old, module, q, k, v, mask, scaling, more)
    return code("eager_attention_forward", make)


def cached(to):
    """Keys and values pass through to(module, x)."""
    return attend(lambda old, m, q, k, v, mask, scaling, more: old(m, q, to(m, k), to(m, v), mask, scaling, **more))


def late(layer):
    """Keys and values of one layer are stored one position late."""
    return cached(lambda m, x: torch.cat((x[:, :, :1], x[:, :, :-1]), 2) if m.layer_idx == layer else x)


def masked(allowed):
    """allowed(query, key), both as positions."""
    def how(old, m, q, k, v, mask, scaling, more):
        i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])[None]
        own = torch.where(allowed(i, j), 0.0, torch.finfo(q.dtype).min).to(q.dtype)[None, None]
        return old(m, q, k, v, own, scaling, **more)
    return attend(how)


def joined_untransposed(old, m, q, k, v, mask, scaling, more):
    out, weights = old(m, q, k, v, mask, scaling, **more)
    return out.transpose(1, 2).contiguous().view(out.shape), weights


def softmax_as(how):
    """torch's softmax replaced."""
    def change(e):
        plain = f.softmax
        e.patch("softmax", lambda x, dim=-1, dtype=None, **k: how(plain, x, dim), where=f)
    return change


def one_more(plain, x, dim):
    """The sum begins with 1."""
    powers = (x - x.amax(dim, keepdim=True)).exp()
    return powers / (1 + powers.sum(dim, keepdim=True))


def ids(to, cut=0):
    """The reference runs other tokens, and leaves out the first `cut` rows."""
    def change(e):
        old = e.model.forward
        e.cut = cut

        def forward(tokens, **k):
            out = old(to(tokens), **k)
            out.logits = out.logits[:, cut:]
            if cut:
                out.attentions = None
            return out
        e.model.forward = forward
    return change


def padded(n, token):
    return ids(lambda t: torch.cat((torch.full((1, n), token), t), 1), n)


def first_is(token):
    return ids(lambda t: torch.cat((torch.full((1, 1), token), t[:, 1:]), 1))


def twice(name):
    """A module's function applied twice."""
    def change(e):
        m = e.model.get_submodule(name)
        m.forward = lambda x, old=m.forward: old(old(x))
    return change


def members(name, value):
    """A member of every module that has it."""
    def change(e):
        for m in e.model.modules():
            if hasattr(m, name):
                setattr(m, name, value(getattr(m, name)))
    return change


def layer_types(to):
    return lambda e: e.again(layer_types=to(list(e.config.layer_types)))


def exchanged(types):
    return [{"sliding_attention": "full_attention", "full_attention": "sliding_attention"}[t] for t in types]


def without_residual(e):
    """Attention's output replaces the residual."""
    for layer in e.layers:
        layer.register_forward_pre_hook(lambda m, a, k: setattr(m, "read", (a or [k["hidden_states"]])[0]),
                                        with_kwargs=True)
        layer.self_attn.register_forward_hook(lambda m, a, out, layer=layer: (out[0] - layer.read, *out[1:]))


def rotated_twice(which):
    def make(old, e):
        def rotate(q, k, cos, sin, **more):
            again = old(*old(q, k, cos, sin, **more), cos, sin, **more)
            once = old(q, k, cos, sin, **more)
            return (again[0] if "q" in which else once[0]), (again[1] if "k" in which else once[1])
        return rotate
    return code("apply_rotary_pos_emb", make)


def dropout(e):
    for layer in e.layers:
        layer.register_forward_hook(lambda m, a, out: f.dropout(out if torch.is_tensor(out) else out[0], 0.1))


def without_one(*names):
    """The gains of these norms lack their + 1."""
    return norms(lambda m: lambda x: rms(m, x, whole=True) * m.weight, *names)


GROUPS = lambda n: [h % 2 * (n // 2) + h // 2 for h in range(n)]  # noqa: E731

# Label, model, kinds, change, what the cause says (a pattern).
FRESH = [
    # ---- reports ----
    ("lattice 96: adjacent pairs of a partial rotation", "phi", "ref", rotation(rotate_adjacent), r"pairs"),
    ("shainet 111: halves and no Llama 3 scaling", "llama3", "ref",
     in_turn(ropes(**make_hf.rope(500000.0)), rotation(rotate_adjacent)), r"(pairs|halves).*scaling|scaling.*(pairs|halves)"),
    ("imp 1289: the final norm lacks + 1", "gemma3", "ref", without_one("model.norm"), r"output_norm|final norm"),
    ("imp 459: + 1 twice", "gemma3", "ref",
     norms(lambda m: lambda x: rms(m, x, whole=True) * (2 + m.weight)), r"gains of norms \+ 1"),
    ("executorch 19901: norms of q and k lack + 1", "gemma3", "ref", without_one("q_norm", "k_norm"),
     r"gains of .*q and k|q_norm"),
    ("ONNXim 33: all heads read KV head 0", "llama-mha", "ref", kv_heads(lambda G, n: [0] * (G * n)), r"KV head 0"),
    ("ONNXim 33: head h reads KV head h / G", "llama-8", "ref",
     kv_heads(lambda G, n: [h // G for h in range(G * n)]), r"KV head h / G"),
    ("nntile 347: columns of W_o by group", LLAMA, "file ref", rows(heads(GROUPS, cols=True), "o_proj.weight"),
     r"heads .*(output|group|exchanged)"),
    ("larql 276: multiplier times 1/sqrt(d)", "granite", "ref", members("scaling", lambda x: x / 8**0.5), r"attention"),
    ("larql 276: residual multiplier ignored", "granite", "ref", members("residual_multiplier", lambda x: 1.0),
     r"residual|branches"),
    ("vllm 52158: logits scaling ignored", "granite", "ref", logits_as(lambda x: 3 * x), r"3\b|logits"),
    ("vllm 48010: embedding multiplier ignored", "granite", "ref", members("embedding_multiplier", lambda x: 1.0),
     r"embeddings"),
    ("mlx-lm 1507: attention factor of YaRN ignored", "llama-yarn", "ref", members("attention_scaling", lambda x: 1.0),
     r"RoPE|rope|attention scores"),
    ("sglang 33558: attention factor of YaRN squared", "llama-yarn", "ref", members("attention_scaling", lambda x: x * x),
     r"RoPE|rope|attention scores"),
    ("YaRN ignored", "llama-yarn", "file ref", ropes(**make_hf.rope(10000.0), factor=1.0), r"scaling|YaRN"),
    ("linear scaling, not YaRN", "llama-yarn", "ref", ropes(rope_type="linear"), r"linear|divided"),
    ("TransformerLens 1610: positions count the padding", "gpt2", "ref", positions(5), r"positions"),
    ("nnsight 673: padding in front is attended", LLAMA, "ref", padded(3, 0), r"in front"),
    ("padding in front is attended, and its positions", "gpt2", "ref", padded(4, 2), r"in front"),
    ("FlagTree 1250: the sum of softmax begins with 1", LLAMA, "ref", softmax_as(one_more), r"softmax"),
    ("Megatron-Bridge 4645: no soft cap", "gemma2", "ref", config(final_logit_softcapping=None),
     r"no soft cap on the logits"),
    ("sglang 33915: no soft cap on attention", "gemma2", "ref", config(attn_logit_softcapping=None),
     r"no soft cap on attention"),
    ("ferrox 40: 1/sqrt(n_embd / n_head)", "gemma3", "ref", config(query_pre_attn_scalar=6), r"attention"),
    ("DL4Proteins 12: 1/sqrt(n_embd)", "gpt2", "ref",
     attend(lambda old, m, q, k, v, mask, s, more: old(m, q, k, v, mask, 32**-0.5, **more)), r"attention"),
    ("speculators 313: final norm twice", LLAMA, "ref", twice("model.norm"), r"final norm twice"),
    ("jax-js 180: KV heads tiled, 8 of 4", "llama-8", "ref", kv_heads(lambda G, n: [i % G for i in range(G * n)]),
     r"KV head h % G"),
    ("transformers 39408: window of one more", "gemma2", "ref", config(sliding_window=17), r"window of one more"),
    ("pocket-tts 278: erf, not tanh", "gpt2", "ref", config(activation_function="gelu"), r"activation gelu_erf"),
    ("tinygrad 17132: frequencies in bfloat16", LLAMA, "ref", freq(lambda t: t.bfloat16().to(t.dtype)),
     r"frequencies.*bf"),
    # ---- planted ----
    ("the wrong layers have a window", "gemma2", "ref", layer_types(exchanged), r"window"),
    ("the pattern of windows begins one later", "gemma3", "ref", layer_types(lambda t: t[-1:] + t[:-1]), r"window"),
    ("all layers rotate", "smollm3", "ref", members("use_rope", lambda x: 1), r"RoPE in all layers"),
    ("another layer does not rotate", "smollm3", "ref",
     lambda e: [setattr(l.self_attn, "use_rope", int(i != 0)) for i, l in enumerate(e.layers)], r"RoPE"),
    ("norms after attention and before the MLP exchanged", "gemma3", "file ref",
     swap("post_attention_layernorm.weight", "pre_feedforward_layernorm.weight"), r"norms?.*exchanged"),
    ("keys and values in float16", "qwen3", "ref", cached(lambda m, x: x.half().to(x.dtype)), r"keys and values.*float16"),
    ("keys and values in bfloat16", LLAMA, "ref", cached(lambda m, x: x.bfloat16().to(x.dtype)),
     r"keys and values.*bfloat16"),
    ("softmax in bfloat16", LLAMA, "ref", softmax_as(lambda old, x, dim: old(x, dim).bfloat16().to(x.dtype)),
     r"weights of attention.*bfloat16|softmax.*bfloat16"),
    ("heads joined without transposing", "gpt2", "ref", attend(joined_untransposed), r"transpos"),
    ("a query sees the next key", LLAMA, "ref", masked(lambda i, j: j <= i + 1), r"next key|key too many|one key"),
    ("a query does not see its own key", "qwen3", "ref", masked(lambda i, j: (j < i) | (i + j == 0)), r"own key"),
    ("no causal mask", "gpt2", "ref", masked(lambda i, j: j < 99), r"mask"),
    ("cache of layer 1 one position late", LLAMA, "ref", late(1), r"layer 1"),
    ("keys rotated twice", LLAMA, "ref", rotated_twice("k"), r"k .*twice"),
    ("sigmoid, not silu", LLAMA, "ref", mlp_act(torch.sigmoid), r"activation sigmoid"),
    ("no activation", "gpt2", "ref", mlp_act(lambda x: x), r"activation|no activation"),
    ("attention replaces the residual", LLAMA, "ref", without_residual, r"residual"),
    ("the first token is another one", "qwen2", "ref", first_is(13), r"first token"),
    ("no ALiBi", "bloom", "ref", code("_get_alibi_slopes", lambda old, e: lambda *a, **k: 0 * old(*a, **k)), r"ALiBi"),
    ("bloom: qkv in thirds", "bloom", "file ref", rows(
        lambda e, w: w.reshape(4, 3, 8, -1).transpose(0, 1).reshape(w.shape), *NEOX), r"qkv"),
    ("weights of experts not normalised", "qwen3-moe", "ref", members("norm_topk_prob", lambda x: False), r"expert"),
    ("weights of experts normalised", "olmoe", "ref", members("norm_topk_prob", lambda x: True), r"expert"),
    ("one expert of two", "qwen3-moe", "ref", members("top_k", lambda x: 1), r"expert"),
    ("all experts", "olmoe", "ref", members("top_k", lambda x: 4), r"expert"),
    ("biases of q, k and v lost, from the file", "qwen2", "file", zero(*QKV), (r"bias", r"bias")),
    ("biases of o lost, from the file", "llama-bias", "file", zero("o_proj.bias"), r"attn_output.bias differ"),
    ("head bias lost", "phi", "file ref", lambda e: e.weight("lm_head.bias").data.zero_(), r"output.bias"),
    ("two: rope base, gate and up", LLAMA, "ref",
     in_turn(ropes(rope_theta=500000.0), swap("gate_proj.weight", "up_proj.weight")), r"rope base.*; gate|gate.*; rope base"),
    ("two: KV heads tiled, epsilon", LLAMA, "ref",
     in_turn(config(rms_norm_eps=1e-3), kv_heads(lambda G, n: [i % G for i in range(G * n)])), r"KV head.*;|;.*KV head"),
    ("two: biases lost, k permuted", "qwen2", "ref",
     in_turn(zero(*QKV), rows(pairs(head_width), "k_proj.weight")), r"biases.*;|;.*biases"),
    ("two: no embedding scale, + 1 missing", "gemma3", "ref",
     in_turn(embedded(lambda x: x / 24**0.5), norms(lambda m: lambda x: rms(m, x, whole=True) * m.weight)),
     r"embeddings.*;|;.*embeddings"),
    # ---- nothing may be named ----
    ("dropout left on", LLAMA, "ref", dropout, None),
    ("healthy", "gemma2", "ref", lambda e: None, None),
    ("healthy", "granite", "ref", lambda e: None, None),
    ("healthy", "llama-yarn", "ref", lambda e: None, None),
    ("healthy", "qwen3-moe", "ref", lambda e: None, None),
    ("two: another activation, gate noisy", "qwen3", "ref",
     in_turn(mlp_act(torch.cos), noise("gate_proj.weight", only=(1,))), None),
]
