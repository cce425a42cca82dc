"""The tenth set of planted bugs for causes.py, written without a look at the suspects or at another set.

First replicas of bug reports of other projects (label: project and number), then bugs of the same kind,
then two bugs at once, and last models where nothing may be named.
"""

import math

import torch
import torch.nn.functional as F
import transformers as hf

from causes_fresh import padded
from causes_planted import (FAMILIES, attention, axes, build, code, config, embedded, everything_in, freq,
                            gemma_ropes, head_norm, heads, in_turn, kv_heads, layers_exchanged, logits_as, make_hf,
                            mlp_act, noise, norms, positions, residual_normed, roll, ropes, rotate_adjacent, rotation,
                            rows, shape, skip, swap, weights_in, whole_rotary, zero)

# ---- four more families ----

FAMILIES["moe-10"] = lambda: hf.Qwen2MoeConfig(
    **shape(32, 4, 2, 40), num_experts=6, num_experts_per_tok=2, moe_intermediate_size=20,
    shared_expert_intermediate_size=24, norm_topk_prob=False, rms_norm_eps=1e-6, tie_word_embeddings=False,
    rope_parameters=make_hf.rope(1e6))
FAMILIES["gemma2-10"] = lambda: hf.Gemma2Config(
    **shape(24, 4, 2, 32, layers=4), head_dim=8, rms_norm_eps=1e-6, sliding_window=16, query_pre_attn_scalar=8,
    attn_logit_softcapping=4.0, final_logit_softcapping=6.0, rope_parameters=make_hf.rope(10000.0))
FAMILIES["granite-10"] = lambda: hf.GraniteConfig(
    **shape(32, 4, 2, 40), rms_norm_eps=1e-5, tie_word_embeddings=True, embedding_multiplier=3.5,
    residual_multiplier=0.4, attention_multiplier=0.25, logits_scaling=2.0, rope_parameters=make_hf.rope(10000.0))
FAMILIES["cohere-10"] = lambda: hf.CohereConfig(
    **shape(32, 4, 2, 40), layer_norm_eps=1e-5, logit_scale=0.25, use_qk_norm=False,
    rope_parameters=make_hf.rope(10000.0))

# ---- what the cases do ----


def final_norm(e):
    make_hf.parts(e.model)[1].forward = lambda x: x


def head_is_embedding(e):
    e.weight("lm_head.weight").data = e.model.get_input_embeddings().weight.data.clone()


def zeroed(name):
    return lambda e: e.weight(name).data.zero_()


def raw_router(e):
    """Weights of the chosen experts: the router's logits, no softmax."""
    for layer in e.layers:
        def route(x, gate=layer.mlp.gate):
            logits = F.linear(x.reshape(-1, gate.hidden_dim), gate.weight)
            best, index = torch.topk(logits, gate.top_k, dim=-1)
            return logits, best, index
        layer.mlp.gate.forward = route


def shared_gate_open(e):
    for layer in e.layers:
        layer.mlp.shared_expert_gate.forward = lambda x: torch.full_like(x[..., :1], 1e9)


def plain_gains(e):
    """Norms of Gemma that multiply by w, not by 1 + w."""
    for name, p in e.model.named_parameters():
        if "norm" in name:
            p.data -= 1


def first_norm_twice(e):
    for layer in e.layers:
        layer.post_attention_layernorm.weight.data = layer.input_layernorm.weight.data.clone()


def tables(for_q, for_k):
    """Tables (cos, sin) of the rotation changed: for_q(cos, sin) and for_k(cos, sin)."""
    def make(old, e):
        def rotate(q, k, cos, sin, **more):
            return old(q, q, *for_q(cos, sin), **more)[0], old(k, k, *for_k(cos, sin), **more)[1]
        return rotate
    return code("apply_rotary_pos_emb", make)


def kept(cos, sin):
    return cos, sin


def one_later(cos, sin):
    c, s = cos[:, 1:2], sin[:, 1:2]
    return cos * c - sin * s, sin * c + cos * s


def backwards(cos, sin):
    return cos, -sin


def stretched(by):
    return lambda cos, sin: (by * cos, by * sin)


def rotate_halves(x, cos, sin):
    """The tables are in the order for adjacent pairs."""
    c, s = (torch.cat((t[..., ::2], t[..., ::2]), -1) for t in (cos, sin))
    a, b = x.chunk(2, -1)
    return x * c + torch.cat((-b, a), -1) * s


def no_rotation(*layers):
    def change(e):
        def hook(module, args, named):
            cos, sin = named["position_embeddings"]
            return args, {**named, "position_embeddings": (torch.ones_like(cos), torch.zeros_like(sin))}
        for i in layers:
            e.attn(e.layers[i]).register_forward_pre_hook(hook, with_kwargs=True)
    return change


def no_smooth_band(table):
    """Llama 3's scaling of rope, but frequencies between the two limits are divided by the whole factor, as the low ones are."""
    plain = 500000.0 ** -(torch.arange(len(table)) / len(table))
    length = 2 * math.pi / plain
    return torch.where((length > 64 / 4.0) & (length < 64 / 1.0), plain / 32, table)


def mean_kept(m):
    return lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + m.eps) * m.weight + m.bias


def variance_of_sample(m):
    return lambda x: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(
        x.var(-1, unbiased=True, keepdim=True) + m.eps) * m.weight + m.bias


def norms_before(e):
    """Olmo 2 with its norms before attention and MLP, not after."""
    for layer in e.layers:
        for part, name in ((layer.self_attn, "post_attention_layernorm"), (layer.mlp, "post_feedforward_layernorm")):
            norm = getattr(layer, name)

            def hook(module, args, named, norm=norm.forward):
                if args:
                    return (norm(args[0]), *args[1:]), named
                return args, {**named, "hidden_states": norm(named["hidden_states"])}
            part.register_forward_pre_hook(hook, with_kwargs=True)
            norm.forward = skip(norm)


def by_dimension(e, w):
    """Columns of W_o for heads that are interleaved, [d, H] in place of [H, d]."""
    h = e.config.num_attention_heads
    return w.reshape(len(w), h, -1).transpose(1, 2).reshape(w.shape)


def masked(how):
    """how(mask) on the mask [1, 1, T, T] that is added to the scores."""
    def make(old, e):
        return lambda m, q, k, v, mask, *a, **named: old(m, q, k, v, how(mask), *a, **named)
    return code("eager_attention_forward", make)


def without_self(mask):
    now = mask.clone()
    at = torch.arange(1, mask.shape[-1])
    now[..., at, at] = torch.finfo(mask.dtype).min
    return now


def without_first(mask):
    now = mask.clone()
    now[..., 1:, 0] = torch.finfo(mask.dtype).min
    return now


def cache_in(dtype):
    def make(old, e):
        return lambda m, q, k, v, *a, **named: old(m, q, k.to(dtype).to(k.dtype), v.to(dtype).to(v.dtype), *a, **named)
    return code("eager_attention_forward", make)


def int8_rows(e, w):
    scale = w.abs().amax(-1, keepdim=True) / 127
    return (w / scale).round() * scale


def mlp_out(by):
    def change(e):
        for layer in e.layers:
            layer.mlp.register_forward_hook(lambda m, a, out: out * by)
    return change


def ids(to):
    def change(e):
        old = e.model.forward
        e.model.forward = lambda tokens, **named: old(to(tokens), **named)
    return change


def quick_gelu(x):
    return x * torch.sigmoid(1.702 * x)


def tiled(n_kv, groups):
    return [i % n_kv for i in range(n_kv * groups)]


def other_weights(e):
    e.model = build(e.config, seed=99)


def nothing(e):
    pass


def both_of(one, two):
    return f"(?is)(?=.*({one}))(?=.*({two}))"


no_softcap = config(final_logit_softcapping=None)
gate_up = swap("gate_proj.weight", "up_proj.weight")

# ---- 22 replicas ----

REPLICAS = [
    ("keras-hub 728: epsilon 1e-3, the default of Keras", "gpt2", "ref", config(layer_norm_epsilon=1e-3),
     r"(?i)eps"),
    ("llama.cpp 2772: linear scaling not read by the converter", "llama-linear", "file",
     config(rope_parameters=make_hf.rope(10000.0)), r"(?i)scal|linear|factor"),
    ("x-transformers 352: gains of the q and k norms not applied", "gemma3", "ref",
     zero("q_norm.weight", "k_norm.weight"),
     r"(?i)gain|q_norm|k_norm|q/k|qk.?norm|(query|q\b|k\b|key).*norm|norm.*(query|q\b|k\b|key)"),
    ("sglang 35160: raw router logits as expert weights", "moe-10", "ref", raw_router,
     r"(?i)softmax|router|routing|logits as|expert weight"),
    ("lmdeploy 3491: gate of the shared expert lost", "moe-10", "ref", shared_gate_open, r"(?i)shared"),
    ("Qwen3 687: softmax after the top k", "moe-10", "ref", config(norm_topk_prob=True),
     r"(?i)norm_?topk|top.?k|renormal|normali[sz]|(sum|add up) to (1|one)|softmax (after|over)"),
    ("vllm-metal 665: softcap of attention is 0", "gemma2-10", "ref", config(attn_logit_softcapping=None),
     r"(?i)cap"),
    ("unsloth-zoo 593: logits * tanh(logits / cap)", "gemma2-10", "ref",
     in_turn(no_softcap, logits_as(lambda x: x * torch.tanh(x / 6.0))), r"(?i)cap"),
    ("llama.cpp 8444: query_pre_attn_scalar from width / heads", "gemma2-10", "file", config(query_pre_attn_scalar=6),
     r"(?i)pre_attn|1/sqrt|scale|scaling|temperature|scores"),
    ("transformers 39408: window one too long", "gemma3", "ref", config(sliding_window=17), r"(?i)window|sliding"),
    ("unsloth 1218: logits times logits_scaling, not divided", "granite-10", "ref", logits_as(lambda x: 4.0 * x),
     r"(?i)logits?.?scal|logits? (times|multipl|divid)|scale of (the )?logits|logits.*(x|by|factor)|factor.*logits|"
     r"head.*times 4"),
    ("onnx 7274: KV heads tiled, not repeated", "llama", "ref", kv_heads(tiled),
     r"(?i)kv head|tile|key.value head|group|heads"),
    ("candle 3005: frequencies of rope in bf16", "qwen3", "ref", freq(lambda t: t.bfloat16().to(t.dtype)),
     r"(?i)freq|rope|rotary|angle|cos"),
    ("DeepSpeed 2446: use_parallel_residual not read", "neox", "ref", config(use_parallel_residual=False),
     r"(?i)parallel|sequential|serial"),
    ("TensorRT-LLM 3324: head silently tied", "qwen2", "ref", head_is_embedding,
     r"(?i)tied|tie|embedding.*(head|output)|(head|output).*embedding|lm_head"),
    ("llama2.c 286: weights of HF under the rotation of Meta", "llama-mha", "ref", rotation(rotate_adjacent),
     r"(?i)adjacent|interleav|pairs|permut|half|halves|norm.style|gpt-j"),
    ("nntrainer 4194: gate and up in the other order", "olmo2", "file", gate_up, r"(?i)gate.*up|up.*gate"),
    ("mlx-lm 93: no position embedding for single tokens", "gpt2", "ref", zeroed("wpe.weight"),
     r"(?i)position|wpe"),
    ("shainet 176: gain w in place of 1 + w", "gemma3", "ref", plain_gains,
     r"(?i)1 ?\+|plus (1|one)|offset|gain|norm weight|weights? of (the |all )?norms?"),
    ("speculators 313: final norm not applied before the head", "qwen3", "ref", final_norm,
     r"(?i)(final|last|output) ?norm|norm.*(final|last|head)"),
    ("mlx 1636: first norm used in place of the second", "llama", "ref", first_norm_twice,
     r"(?i)(input_layer|attn_|ffn_|post_attention|attention|mlp|second|same).*norm|norm.*(mlp|ffn|attention)"),
    ("maxtext 3138: scores scaled twice", "phi", "ref", attention(scaling=lambda a: a.scaling ** 2),
     r"(?i)scal|twice|temperature|1 ?/ ?d"),
]

# ---- 42 bugs, one at a time ----

SINGLE = [
    ("rope: halves in place of adjacent pairs", "cohere-10", "ref", rotation(rotate_halves),
     r"(?i)half|halves|adjacent|interleav|pairs|neox|permut"),
    ("rope: theta is the default 10000", "qwen2", "ref", ropes(rope_theta=10000.0), r"(?i)theta|base|10000|freq"),
    ("rope: one layer without", "llama-7", "ref", no_rotation(3),
     r"(?i)(no|without|skip|lost|off).*(rope|rotat)|(rope|rotat|nope).*(layer|skip|lost|not|off)"),
    ("rope: Llama 3's smooth band lost", "llama3", "ref", freq(no_smooth_band),
     r"(?i)scal|smooth|freq|factor|llama.?3|wave"),
    ("rope: turned the other way", "qwen3", "ref", tables(backwards, backwards),
     r"(?i)sign|revers|negativ|backward|direction|opposite|other way|inverse|-sin"),
    ("rope: query one position later than its key", "neox", "ref", tables(one_later, kept),
     r"(?i)position|offset|shift|later|off by one"),
    ("rope: exponent over the head's width, not the part that turns", "phi", "ref", freq(lambda t: t ** 0.5),
     r"(?i)freq|rotary|rope|theta|base|width|partial"),
    ("rope: YaRN's factor of attention on a model without", "llama3", "ref",
     tables(stretched(1.1386), stretched(1.1386)), r"(?i)yarn|attention.?factor|mscale|scal|temperature|scores"),
    ("norm: LayerNorm keeps the mean", "neox", "ref", norms(mean_kept),
     r"(?i)rms|mean|cent(er|re)"),
    ("norm: variance over n - 1", "phi", "ref", norms(variance_of_sample),
     r"(?i)n ?- ?1|unbiased|bessel|ddof|sample variance|variance"),
    ("norm: gains of q and k exchanged", "qwen3", "file", swap("q_norm.weight", "k_norm.weight"),
     r"(?i)(q_norm|q.norm|query).*(k_norm|k.norm|key|exchang|swap)|q.*k.*norm|norms of q and k exch"),
    ("norm: before attention and MLP, not after", "olmo2", "ref", norms_before,
     r"(?i)pre.?norm|before|post.?norm|norm.*(input|output|after|place)"),
    ("norm: q and k by head, not whole", "olmo2", "ref", norms(head_norm(8), "q_norm", "k_norm"),
     r"(?i)(per|by|each|every|in) head|head.*norm|norm.*head"),
    ("bias: v lost", "qwen2", "file", zero("v_proj.bias"),
     r"(?i)(\bv\b|value|v_proj|attn_v).*bias|bias.*(\bv\b|value|v_proj|attn_v)"),
    ("bias: gate and up exchanged", "llama-bias", "file", swap("gate_proj.bias", "up_proj.bias"),
     r"(?i)bias.*(gate|up)|(gate|up).*bias"),
    ("bias: the MLP's lost, gated", "llama-bias", "file", zero("gate_proj.bias", "up_proj.bias", "down_proj.bias"),
     r"ffn_gate.bias, ffn_up.bias, ffn_down.bias"),
    ("bias: attention's output in one layer lost", "neox", "file", zero("attention.dense.bias", only=[1]),
     r"(?i)bias"),
    ("heads: of v rolled", "qwen3", "file", rows(heads(roll(1), "num_key_value_heads"), "v_proj.weight"),
     r"(?i)head.*(\bv\b|value|v_proj|attn_v|kv)|(\bv\b|value|v_proj|attn_v|kv).*head"),
    ("heads: interleaved in the columns of W_o", "llama-mha", "file", rows(by_dimension, "o_proj.weight"),
     r"(?i)w_?o\b|o_proj|attn_output|output.*(head|column|interleav|order)|(head|column|interleav).*output"),
    ("mask: not causal", "gpt2", "ref", masked(torch.zeros_like),
     r"(?i)causal|mask|bidirection|future|later (key|position|token)"),
    ("mask: a token does not see itself", "llama", "ref", masked(without_self),
     r"(?i)itself|diagonal|strict|own (key|position)|self|mask|off by one|window"),
    ("mask: the first token hidden as padding", "llama3", "ref", masked(without_first),
     r"(?i)first (token|key|position)|position 0|key 0|token 0|pad|sink|bos|mask"),
    ("mask: window in every layer", "gemma2-10", "ref", config(layer_types=["sliding_attention"] * 4),
     r"(?i)window|sliding"),
    ("rope: global layers with the theta of the local ones", "gemma3", "ref", gemma_ropes(full=make_hf.rope(10000.0)),
     r"(?i)theta|base|global|local|rope|freq"),
    ("scale: by 1 / (layer + 1), TransformerLens 27", "gpt2", "ref", config(scale_attn_by_inverse_layer_idx=True),
     r"(?i)layer.*(scal|index|idx|divid|1 ?/)|scal.*layer|inverse"),
    ("scale: embedding not multiplied", "gemma2-10", "ref", embedded(lambda x: x / 24 ** 0.5),
     r"(?i)embed"),
    ("scale: residual multiplier on attention only", "granite-10", "ref", mlp_out(1 / 0.4),
     r"(?i)residual|multiplier|mlp.*(scal|x|factor|times)|branch"),
    ("scale: logit scale lost", "cohere-10", "ref", config(logit_scale=1.0), r"(?i)logit"),
    ("MLP: quick GELU", "gpt2", "ref", mlp_act(quick_gelu), r"(?i)quick|1\.702|gelu|activation"),
    ("MLP: gate without activation", "qwen2", "ref", mlp_act(lambda x: x),
     r"(?i)activation|linear|identity|silu|no act"),
    ("residual: the normed value is added", "llama", "ref", residual_normed,
     r"(?i)residual|post.?ln|normed|their norm gives|after the norm|skip connection"),
    ("MoE: one expert for each token", "moe-10", "ref", config(num_experts_per_tok=1),
     r"(?i)top.?k|experts? (used|less|per|for|chosen|a )|(1|one|fewer) expert|expert.*(count|number)|n_expert"),
    ("MoE: experts one further", "moe-10", "file",
     rows(lambda e, w: w.roll(1, 0), "experts.gate_up_proj", "experts.down_proj"), r"(?i)expert|router"),
    ("tokens: ids one too high", "olmo2", "ref", ids(lambda t: (t + 1) % 67),
     r"(?i)\bids?\b|token|embedding row|rows? of (the )?embed|vocab|shift"),
    ("tokens: a BOS in front", "llama3", "ref", padded(1, 0),
     r"(?i)bos|in front|prepend|extra|first token|begin|one more token"),
    ("positions: from 2, as OPT's", "gpt2", "ref", positions(2), r"(?i)position|wpe|offset"),
    ("layers: two exchanged", "llama-7", "file", layers_exchanged(1, 2),
     r"(?i)(layer|block)s?.*(order|exchang|swap|1.*2|2.*1)|(order|exchang|swap).*(layer|block)"),
    ("tensor: W_o of Conv1D not transposed", "gpt2", "file", rows(lambda e, w: w.T, "attn.c_proj.weight"),
     r"(?i)transpos"),
    ("tensor: qkv by head read in thirds", "neox", "file",
     rows(axes((1, 0, 2)), "query_key_value.weight", "query_key_value.bias"),
     r"(?i)qkv|fused|thirds|interleav|query_key_value|q, k"),
    ("precision: everything in bf16", "llama-mha", "ref", everything_in(torch.bfloat16), r"(?i)bf16|bfloat16"),
    ("precision: the file's weights in bf16", "llama-mha", "file", weights_in(torch.bfloat16), r"(?i)bf16|bfloat16"),
    ("precision: logits alone in bf16", "llama-tied", "ref", logits_as(lambda x: x.bfloat16().to(x.dtype)),
     r"(?i)bf16|bfloat16"),
    ("precision: KV cache in fp8", "llama3", "ref", cache_in(torch.float8_e4m3fn),
     r"(?i)fp8|f8|float8|e4m3|8.?bit|cache"),
    ("precision: int8 weights by row", "llama", "ref", rows(int8_rows, "proj.weight"),
     r"(?i)int8|q8|8.?bit|quanti"),
]

# ---- 8 times two at once ----

DOUBLE = [
    ("two: q bias lost, default theta", "qwen2", "ref", in_turn(zero("q_proj.bias"), ropes(rope_theta=10000.0)),
     both_of(r"bias", r"theta|base|10000|freq")),
    ("two: gate and up exchanged, head tied", "llama", "file", in_turn(gate_up, head_is_embedding),
     both_of(r"gate|\bup\b", r"tie|embed|head|output")),
    ("two: ReLU, positions from 1", "gpt2", "ref", in_turn(mlp_act(F.relu), positions(1)),
     both_of(r"relu|activation", r"position|wpe|offset")),
    ("two: no scaling of rope, adjacent pairs", "llama3", "ref",
     in_turn(config(rope_parameters=make_hf.rope(500000.0)), rotation(rotate_adjacent)),
     both_of(r"scal|factor|llama.?3", r"adjacent|interleav|pairs|permut|half|halves|norm.style|gpt-j")),
    ("two: no last softcap, embedding not multiplied", "gemma2-10", "ref",
     in_turn(no_softcap, embedded(lambda x: x / 24 ** 0.5)), both_of(r"cap", r"embed")),
    ("two: no parallel residual, the whole head turns", "neox", "ref",
     in_turn(config(use_parallel_residual=False), whole_rotary),
     both_of(r"parallel|sequential|serial", r"rotary|rope|partial|whole|rotat")),
    ("two: q and k norms skipped, KV heads tiled", "qwen3", "ref",
     in_turn(norms(skip, "q_norm", "k_norm"), kv_heads(tiled)), both_of(r"norm", r"kv|tile|group|heads")),
    ("two: logits not divided, scores by sqrt(d)", "granite-10", "file",
     config(logits_scaling=1.0, attention_multiplier=8 ** -0.5),
     both_of(r"logit|head.*times 0.5", r"attention|scores|sqrt|1 ?/|multiplier")),
]

# ---- nothing to name ----

SILENT = [
    ("healthy: Qwen 3", "qwen3", "ref", nothing, None),
    ("healthy: Cohere, converted again", "cohere-10", "file", nothing, None),
    ("random: other weights", "olmo2", "ref", other_weights, None),
    ("random: noise on every matrix", "llama3", "ref", noise("weight"), None),
    ("random: noise on the experts and the attention", "moe-10", "ref",
     in_turn(noise("experts.down_proj"), noise("q_proj.weight", "v_proj.weight", by=0.2)), None),
]

SET10 = REPLICAS + SINGLE + DOUBLE + SILENT
