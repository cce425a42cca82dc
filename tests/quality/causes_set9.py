"""A ninth set of planted bugs, made without a look at the suspects or at the other sets.

REPLICAS: bugs that people reported (project and number of the report), in small models. PLANTED: more of
their kind, one or two at once, and models in which nothing may be named.
"""

import torch
import transformers as hf

from causes_fresh import padded
from causes_planted import (FAMILIES, VOCAB, attention, axes, code, config, everything_in, freq, gemma_ropes,
                            head_norm, heads, in_turn, kv_heads, layers_exchanged, llama, make_hf, mlp_act, norms,
                            plain_rotation, positions, roll, ropes, rotate_adjacent, rotation, rows, shape, skip,
                            swap, whole_rotary, zero)

SLIDING, FULL = "sliding_attention", "full_attention"

# ---- models that the first set lacks ----


def granite(**more):
    return hf.GraniteConfig(**{**shape(32, 4, 2, 40), "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
                               "embedding_multiplier": 3.0, "residual_multiplier": 0.4, "attention_multiplier": 0.3,
                               "logits_scaling": 0.7, "rope_parameters": make_hf.rope(10000.0), **more})


def cohere(**more):
    return hf.CohereConfig(**shape(32, 4, 2, 40), layer_norm_eps=1e-5, logit_scale=0.6,
                           rope_parameters=make_hf.rope(10000.0), **more)


FAMILIES.update({
    "mistral-9": lambda: hf.MistralConfig(**shape(32, 4, 2, 40), rms_norm_eps=1e-5, tie_word_embeddings=False,
                                          sliding_window=12, rope_parameters=make_hf.rope(10000.0)),
    "yarn-9": lambda: llama(rope={"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0,
                                  "original_max_position_embeddings": 16}),
    "gemma-9": lambda: hf.GemmaConfig(**shape(24, 4, 2, 32), head_dim=8, rms_norm_eps=1e-6,
                                      rope_parameters=make_hf.rope(10000.0)),
    "gemma2-9": lambda: hf.Gemma2Config(
        **shape(24, 4, 2, 32, layers=4), head_dim=8, rms_norm_eps=1e-6, sliding_window=12, query_pre_attn_scalar=8,
        attn_logit_softcapping=3.0, final_logit_softcapping=4.0, rope_parameters=make_hf.rope(10000.0)),
    "granite-9": granite,
    "granite-small-9": lambda: granite(embedding_multiplier=0.01),
    "cohere-9": cohere,
    "cohere-norms-9": lambda: cohere(use_qk_norm=True),
    "olmo-clip-9": lambda: hf.OlmoConfig(**shape(32, 4, 4, 40), clip_qkv=1.0, tie_word_embeddings=True,
                                         rope_parameters=make_hf.rope(10000.0)),
    "mixtral-9": lambda: hf.MixtralConfig(
        **shape(32, 4, 2, 24), num_local_experts=4, num_experts_per_tok=2, rms_norm_eps=1e-5,
        tie_word_embeddings=False, rope_parameters=make_hf.rope(1e6)),
    "qwen2moe-9": lambda: hf.Qwen2MoeConfig(
        **shape(32, 4, 2, 40), num_experts=4, num_experts_per_tok=2, moe_intermediate_size=12,
        shared_expert_intermediate_size=20, norm_topk_prob=False, rms_norm_eps=1e-6, tie_word_embeddings=False,
        rope_parameters=make_hf.rope(1e6)),
    "qwen3moe-9": lambda: hf.Qwen3MoeConfig(
        **shape(32, 4, 2, 40), num_experts=6, num_experts_per_tok=2, moe_intermediate_size=14, head_dim=8,
        norm_topk_prob=True, rms_norm_eps=1e-6, tie_word_embeddings=False, rope_parameters=make_hf.rope(1e6)),
    "bloom-9": lambda: hf.BloomConfig(hidden_size=36, n_head=6, n_layer=3, vocab_size=VOCAB, seq_length=256,
                                      bos_token_id=0, eos_token_id=0),
    "bloom-4-9": lambda: hf.BloomConfig(hidden_size=32, n_head=4, n_layer=3, vocab_size=VOCAB, seq_length=256,
                                        bos_token_id=0, eos_token_id=0),
    "stablelm-9": lambda: hf.StableLmConfig(
        **shape(32, 4, 2, 40), layer_norm_eps=1e-5, tie_word_embeddings=False, use_qkv_bias=True,
        rope_parameters=make_hf.rope(10000.0, partial_rotary_factor=0.5)),
    "starcoder2-9": lambda: hf.Starcoder2Config(
        **shape(32, 4, 2, 48), norm_epsilon=1e-5, tie_word_embeddings=True, sliding_window=None,
        rope_parameters=make_hf.rope(10000.0)),
    "smollm3-9": lambda: hf.SmolLM3Config(
        **shape(32, 4, 2, 40, layers=4), rms_norm_eps=1e-6, tie_word_embeddings=True, no_rope_layer_interval=4,
        rope_parameters=make_hf.rope(5e6)),
})

# ---- what a case does ----


def attend(how):
    """Attention replaced by how(old, module, q, k, v, mask, ...)."""
    def make(old, e):
        return lambda m, q, k, v, mask, *rest, **more: how(old, m, q, k, v, mask, *rest, **more)
    return code("eager_attention_forward", make)


def values_times(by):
    return attend(lambda old, m, q, k, v, mask, *rest, **more: old(m, q, k, v * by, mask, *rest, **more))


def cache_in(dtype):
    def how(old, m, q, k, v, mask, *rest, **more):
        return old(m, q, k.to(dtype).to(k.dtype), v.to(dtype).to(v.dtype), mask, *rest, **more)
    return attend(how)


def masked(visible):
    """visible(i, j): whether position i reads position j."""
    def how(old, m, q, k, v, mask, *rest, **more):
        i = torch.arange(q.shape[2])
        hidden = torch.where(visible(i[:, None], i[None]), 0.0, -1e30).to(q.dtype)
        return old(m, q, k, v, hidden[None, None], *rest, **more)
    return attend(how)


def key_not_rotated(old, e):
    return lambda q, k, cos, sin, **more: (old(q, k, cos, sin, **more)[0], k)


def tables_in_bf16(old, e):
    return lambda q, k, cos, sin, **more: old(
        q, k, cos.bfloat16().to(cos.dtype), sin.bfloat16().to(sin.dtype), **more)


def in_halves(x, cos, sin):
    """Rotation of halves, from tables for adjacent pairs."""
    cos, sin = (torch.cat((t[..., ::2], t[..., ::2]), -1) for t in (cos, sin))
    return plain_rotation(x, cos, sin)


def sample_deviation(m):
    def forward(x):
        return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + m.eps).sqrt() * m.weight + m.bias
    return forward


def mean_kept(m):
    def forward(x):
        return x / (x.pow(2).mean(-1, keepdim=True) + m.eps).sqrt() * m.weight + m.bias
    return forward


def without_one(m):
    return lambda x: x / (x.pow(2).mean(-1, keepdim=True) + m.eps).sqrt() * m.weight


def raw_routing(e):
    for layer in e.layers:
        gate = layer.mlp.gate

        def forward(x, gate=gate):
            scores = torch.nn.functional.linear(x.reshape(-1, x.shape[-1]), gate.weight)
            return scores, *torch.topk(scores, gate.top_k, dim=-1)
        gate.forward = forward


def shared_without_gate(e):
    for layer in e.layers:
        layer.mlp.shared_expert_gate.forward = lambda x: torch.full_like(x[..., :1], 50.0)


def plain_slopes(old, e):
    return lambda n, device: 2.0 ** (-8.0 * torch.arange(1, n + 1, device=device) / n)


def slopes_from_one(old, e):
    return lambda n, device: 2.0 ** (-8.0 * torch.arange(n, device=device) / n)


def left_out(n):
    def change(e):
        e.layers[n].forward = lambda hidden_states, *rest, **more: hidden_states
    return change


def lost(name):
    """One parameter of the whole model at 0."""
    return lambda e: e.weight(name).data.zero_()


def copied(one, two):
    def change(e):
        for a, b in zip(list(e.each(one)), list(e.each(two))):
            a.data = b.data.clone()
    return change


def next_token(e):
    w = e.model.get_input_embeddings().weight
    w.data = w.data.roll(-1, 0)


def embedding_not_normed(e):
    e.model.transformer.word_embeddings_layernorm.forward = lambda x: x


def final_norm_twice(e):
    norm = make_hf.parts(e.model)[1]
    norm.forward = lambda x, old=norm.forward: old(old(x))


def random_matrices(part):
    """Nothing to be told: every matrix whose name has `part` is another."""
    def change(e):
        torch.manual_seed(1)
        for name, p in e.model.named_parameters():
            if part in name and p.dim() > 1:
                p.data += 0.5 * p.data.std() * torch.randn_like(p)
    return change


def transposed(e, w):
    return w.T


def rolled(by, dim=0):
    return lambda e, w: w.roll(by, dim)


def gate_up_halves(e, w):
    return w.roll(w.shape[1] // 2, 1)


def exact_gelu(x):
    return torch.nn.functional.gelu(x)


def quick_gelu(x):
    return x * torch.sigmoid(1.702 * x)


def two(one, other):
    """A pattern for two causes named together, in any order."""
    return f"(?i)(?=.*({one}))(?=.*({other}))"


# ---- what the answer has to say ----

PAIRS = "adjacent|interleav|permut|pairs|halves|neox|norm.type"
WINDOW = "(?i)window|sliding|local|global"
CAP = "(?i)cap"
SCALE = "(?i)scale|scalar|sqrt|score|temperature|mscale"
SCALING = "(?i)scaling|factor|linear|yarn|llama3|unscaled|default"
ROUTER = "(?i)rout|expert|top.?k|moe|gate"
THETA = "theta|base|rope_freq"
BIAS = "(?i)bias"
SIXTEEN = "(?i)bf16|bfloat16|16.?bit"

REPLICAS = [
    ("llama2.c 286: adjacent pairs turned, rows of halves", "llama-mha", "ref", rotation(rotate_adjacent),
     f"(?i){PAIRS}"),
    ("TransformerLens 910: llama3 factor 8 for 32", "llama3", "ref", ropes(factor=8.0), SCALING),
    ("mlx-lm 1545: positions times 2", "llama", "ref", freq(lambda t: 2 * t),
     "(?i)doubl|twice|scal|factor|linear|times 2|x ?2|by 2|frequenc"),
    ("mlx-vlm 1710: declared rope scaling ignored", "yarn-9", "ref",
     lambda e: e.again(rope_parameters=make_hf.rope(500.0)), SCALING),
    ("imp 880: YaRN's magnitude of cos and sin", "yarn-9", "ref", ropes(attention_factor=1.139 * 1.261),
     "(?i)mscale|factor|scale|magnitude|temperature|score"),
    ("transformers 39408: window one too wide", "mistral-9", "ref", config(sliding_window=13), WINDOW),
    ("vllm 52158: logits_scaling not applied", "granite-9", "ref", config(logits_scaling=1.0), "(?i)logit"),
    ("vllm 36565: scores with and without 1/sqrt(d)", "gpt2", "ref", config(scale_attn_weights=False), SCALE),
    ("Megatron-Bridge 4645: final softcap dropped", "gemma2-9", "ref", config(final_logit_softcapping=None), CAP),
    ("torchtitan 1448: top-k weights not normalised", "qwen3moe-9", "ref", config(norm_topk_prob=False), ROUTER),
    ("transformers 31891: query_pre_attn_scalar E/H", "gemma2-9", "ref", config(query_pre_attn_scalar=6), SCALE),
    ("mlx 343: ALiBi slopes of 6 heads", "bloom-9", "ref", code("_get_alibi_slopes", plain_slopes),
     "(?i)alibi|slope"),
    ("llama.cpp 2373: eps of RMS norms fixed in code", "granite-small-9", "ref", config(rms_norm_eps=1e-5),
     "(?i)eps"),
    ("penzai 102: rope theta 10000 for 500000", "olmo2", "ref", ropes(rope_theta=10000.0), f"(?i){THETA}|10000"),
    ("aprender 2143: ALiBi slopes from 1, not from the ratio", "bloom-4-9", "ref",
     code("_get_alibi_slopes", slopes_from_one), "(?i)alibi|slope"),
    ("slapo 46: fused qkv in thirds, not by head", "neox", "file",
     rows(axes((1, 0, 2)), "query_key_value.weight", "query_key_value.bias"),
     "(?i)fused|qkv|third|interleav|by head|per head"),
    ("llama.cpp 6033: Command-R turned in halves", "cohere-9", "ref", rotation(in_halves), f"(?i){PAIRS}"),
    ("transformers 38002: window though switched off", "qwen2", "ref",
     config(use_sliding_window=True, sliding_window=12, max_window_layers=0, layer_types=[SLIDING] * 3), WINDOW),
    ("nntile 358: RMS norm for LayerNorm", "gpt2", "ref", norms(mean_kept), "(?i)rms|mean"),
    ("CTranslate2 832: bias of the logits missing", "phi", "file", lost("lm_head.bias"),
     "(?i)(head|logit|output).*bias|bias.*(head|logit|output)"),
    ("Megatron-Bridge 4155: scale of the values", "llama", "ref", values_times(0.707),
     "(?i)\\bv\\b|value|v_proj|attn_v|o_proj|attn_output|attention.*(scal|factor|times|multipl)|0\\.707"),
    ("AutoGPTQ 139: Conv1D not transposed", "gpt2", "file", rows(transposed, "attn.c_proj.weight"), "(?i)transpos"),
]

ONE = [
    ("raw router logits as weights (sglang 35160)", "qwen2moe-9", "ref", raw_routing, ROUTER),
    ("shared expert without its gate", "qwen2moe-9", "ref", shared_without_gate, "(?i)shared"),
    ("rows of the router rolled", "qwen3moe-9", "file", rows(rolled(1), "mlp.gate.weight"), ROUTER),
    ("gate and up halves of experts swapped", "mixtral-9", "file", rows(gate_up_halves, "experts.gate_up_proj"),
     "(?i)gate|up\\b|w1|w3"),
    ("sliding and full layers exchanged (transformers 31775)", "gemma2-9", "ref",
     config(layer_types=[FULL, SLIDING] * 2), WINDOW),
    ("attention softcap left out", "gemma2-9", "ref", config(attn_logit_softcapping=None), CAP),
    ("residual multiplier 1 (nnterp 54)", "granite-9", "ref", config(residual_multiplier=1.0), "(?i)residual|multipl"),
    ("LayerNorm over n - 1 (omniverse 72)", "gpt2", "ref", norms(sample_deviation),
     "(?i)n ?- ?1|unbias|sample|bessel|varianc|deviation|std"),
    ("positions from 1", "gpt2", "ref", positions(1), "(?i)position|offset"),
    ("bias of the final norm lost", "gpt2", "file", lost("ln_f.bias"), BIAS),
    ("ln_2 is a copy of ln_1", "gpt2", "file", copied("ln_2.weight", "ln_1.weight"),
     "(?i)ln_|(ffn|mlp|second).*norm|norm.*(ffn|mlp|second|copy|same|shared|attention)"),
    ("biases of K lost", "qwen2", "file", zero("k_proj.bias"), BIAS),
    ("GELU by a sigmoid", "starcoder2-9", "ref", mlp_act(quick_gelu), "(?i)gelu|activ|sigmoid|quick"),
    ("biases of k and v swapped", "llama-bias", "file", swap("k_proj.bias", "v_proj.bias"), BIAS),
    ("heads of W_o exchanged in pairs", "llama", "file",
     rows(heads(lambda n: [i ^ 1 for i in range(n)], cols=True), "o_proj.weight"), "(?i)head|o_proj|attn_output"),
    ("gains of q and k norms swapped", "qwen3", "file", swap("q_norm.weight", "k_norm.weight"),
     "(?i)[qk]_?(and k_?)?.?norm|norms? of q and k"),
    ("norm of k skipped", "qwen3", "ref", norms(skip, "k_norm"), "(?i)k.{0,4}norm|norms? of k"),
    ("q and k normed by head, not whole", "olmo2", "ref", norms(head_norm(8), "q_norm", "k_norm"),
     "(?i)head.*norm|norm.*head|[qk].{0,4}norm"),
    ("gains of the q norm lost", "cohere-norms-9", "file", rows(lambda e, w: torch.ones_like(w), "q_norm.weight"),
     "(?i)q.{0,4}norm|gain"),
    ("two norms around attention swapped", "gemma3", "file",
     swap("post_attention_layernorm.weight", "pre_feedforward_layernorm.weight"),
     "(?i)(swap|exchang|order|each other|place).*norm|norm.*(swap|exchang|order|each other|place)|post|ffn|feed"),
    ("norms without the 1 +", "gemma-9", "ref", norms(without_one),
     "(?i)gain|1 ?\\+|\\+ ?1|plus 1|plus one|\\bone\\b"),
    ("theta of full layers on sliding ones", "gemma3", "ref", gemma_ropes(sliding=make_hf.rope(1e6)),
     f"(?i){THETA}|sliding|local"),
    ("layers 2 and 3 exchanged", "llama-7", "file", layers_exchanged(2, 3),
     "(?i)layers?.*(\\b[23]\\b|order|swap|exchang)"),
    ("layer 4 left out", "llama-7", "ref", left_out(4),
     "(?i)layer ?4|layers?.*(left out|skip|missing|not run)|(left out|skip).*layer"),
    ("whole heads turned", "stablelm-9", "ref", whole_rotary,
     "(?i)partial|rotar|rotates 8 of 8|n_rot|whole|turn|dimension"),
    ("frequencies of the head's width, not of the turned part's", "neox", "ref", freq(lambda t: t**0.5),
     f"(?i){THETA}|frequenc|width|rotar|partial|dimension"),
    ("turned the other way", "llama", "ref", freq(lambda t: -t),
     "(?i)sign|negat|direction|backward|other way|invers|revers|conjug"),
    ("keys not turned", "mistral-9", "ref", code("apply_rotary_pos_emb", key_not_rotated),
     "(?i)(k|key).*(rotat|rope|turn)|(rotat|rope|turn).*(k\\b|key)|no rope|not rotated"),
    ("tables of cos and sin in bf16", "llama-mha", "ref", code("apply_rotary_pos_emb", tables_in_bf16), SIXTEEN),
    ("all layers turned, NoPE ignored", "smollm3-9", "ref", config(no_rope_layers=[1] * 4), "(?i)rope|rotat|turn|nope"),
    ("clip_qkv ignored", "olmo-clip-9", "ref", config(clip_qkv=None), "(?i)clip|clamp"),
    ("parallel residual run in series", "neox", "ref", config(use_parallel_residual=False),
     "(?i)parallel|serial|sequen"),
    ("the future is seen", "llama", "ref", masked(lambda i, j: i >= 0 * j), "(?i)causal|mask|future|bidirect"),
    ("a position does not read itself", "llama-mha", "ref", masked(lambda i, j: (j < i) | (i == 0) & (j == 0)),
     "(?i)mask|itself|\\bown\\b|diagonal|strict"),
    ("KV heads in turn, not in blocks", "llama", "ref", kv_heads(lambda g, n: [i % g for i in range(g * n)]),
     "(?i)kv|tile|group|repeat|interleav|in turn"),
    ("everything in bf16", "qwen2", "ref", everything_in(torch.bfloat16), SIXTEEN),
    ("K and V kept in 8-bit floats", "llama", "ref", cache_in(torch.float8_e4m3fn),
     "(?i)cache|fp8|8.?bit|e4m3|float8|f8"),
    ("BOS put in front", "llama", "ref", padded(1, 0), "(?i)bos|token|prepend|in front"),
    ("rows of the embedding one off", "llama", "file", next_token, "(?i)embed|token|row|shift"),
    ("norm of the embedding skipped", "bloom-9", "ref", embedding_not_normed, "(?i)embed.*norm|norm.*embed"),
]

TWO = [
    ("theta; GELU for SiLU", "llama", "ref", in_turn(ropes(rope_theta=500000.0), mlp_act(exact_gelu)),
     two(THETA, "gelu|activ")),
    ("biases of K lost; heads of W_o rolled", "qwen2", "file",
     in_turn(zero("k_proj.bias"), rows(heads(roll(1), cols=True), "o_proj.weight")),
     two("bias", "head|o_proj|attn_output")),
    ("both softcaps left out", "gemma2-9", "ref",
     config(attn_logit_softcapping=None, final_logit_softcapping=None), CAP),
    ("embedding and residual multipliers 1", "granite-9", "ref",
     config(embedding_multiplier=1.0, residual_multiplier=1.0),  # branches times 3 do just the same
     two("embed", "residual") + "|branches times (3|2.99)"),
    ("bias of the final norm lost; c_proj transposed", "gpt2", "file",
     in_turn(lost("ln_f.bias"), rows(transposed, "attn.c_proj.weight")), two("bias", "transpos")),
    ("in series; whole heads turned", "neox", "ref", in_turn(whole_rotary, config(use_parallel_residual=False)),
     two("parallel|serial|sequen", "partial|rotar|rotates 8 of 8|n_rot|whole|turn|dimension")),
    ("norm of k skipped; theta", "qwen3", "ref", in_turn(ropes(rope_theta=10000.0), norms(skip, "k_norm")),
     two("k.{0,4}norm|norms? of k", THETA)),
    ("no window; adjacent pairs", "mistral-9", "ref", in_turn(config(sliding_window=None), rotation(rotate_adjacent)),
     two("window|sliding", PAIRS)),
    ("logit scale 1; halves", "cohere-9", "ref", in_turn(config(logit_scale=1.0), rotation(in_halves)),
     two("logit", PAIRS)),
    ("scale of scores; final norm twice", "llama", "ref",
     in_turn(attention(scaling=1.0), final_norm_twice), two("scale|sqrt|score|attention factor", "norm")),
]

NOTHING = [
    ("healthy", "llama-mha", "ref file", lambda e: None, None),
    ("healthy, experts", "qwen2moe-9", "ref", lambda e: None, None),
    ("all matrices of attention are others", "llama", "file", random_matrices("self_attn"), None),
    ("all matrices are others", "gpt2", "file", random_matrices("h."), None),
    ("a wrong window and other matrices", "gemma3", "ref",
     in_turn(config(sliding_window=9), random_matrices("")), None),
]

SET9 = REPLICAS + ONE + TWO + NOTHING
