"""An eighth set of bugs for causes.py, written without a look at the suspects or the other sets, by the text of
issue 21: 22 replicas of reports (the label says where), 47 planted bugs, 8 of two bugs at once; see causes_list.py."""

from causes_planted import *  # noqa: F403

f = torch.nn.functional
GATE_UP = ("mlp.gate_proj.weight", "mlp.up_proj.weight")
FULL, SLIDING = "full_attention", "sliding_attention"

# ---- what these bugs do ----


def two(one, other):
    """A pattern of an answer that has both, in any order."""
    return f"(?is)(?=.*(?:{one}))(?=.*(?:{other}))"


def parameters(to, *parts):
    """Parameters of the whole model, also outside of layers, whose names contain all parts."""
    def change(e):
        for name, p in e.model.named_parameters():
            if all(part in name for part in parts):
                p.data = to(p.data)
    return change


def layers_run(make):
    """The forward of layers replaced: make(layer) gives it."""
    def change(e):
        for layer in e.layers:
            layer.forward = make(layer)
    return change


def mlps_run(make):
    def change(e):
        for layer in e.layers:
            layer.mlp.forward = make(layer.mlp)
    return change


def one_after_other(layer):
    """Phi's block with its only norm used twice, one part after the other."""
    def forward(x, **more):
        x = x + layer.self_attn(layer.input_layernorm(x), **more)[0]
        return x + layer.mlp(layer.input_layernorm(x))
    return forward


def normed_before(layer):
    """Olmo 3's norms before its parts, as in Llama."""
    def forward(x, **more):
        x = x + layer.self_attn(layer.post_attention_layernorm(x), **more)[0]
        return x + layer.mlp(layer.post_feedforward_layernorm(x))
    return forward


def gate_on_sum(m):
    """Qwen2-MoE's shared gate applied to routed and shared experts."""
    def forward(x):
        flat = x.view(-1, x.shape[-1])
        _, weights, chosen = m.gate(flat)
        y = m.experts(flat, chosen, weights) + m.shared_expert(flat)
        return (torch.sigmoid(m.shared_expert_gate(flat)) * y).view(x.shape)
    return forward


def shared_open(m):
    """Qwen2-MoE's shared expert added without its gate."""
    def forward(x):
        flat = x.view(-1, x.shape[-1])
        _, weights, chosen = m.gate(flat)
        return (m.experts(flat, chosen, weights) + m.shared_expert(flat)).view(x.shape)
    return forward


def sigmoid_router(e):
    for layer in e.layers:
        def forward(x, gate=layer.mlp.gate):
            logits = f.linear(x.reshape(-1, x.shape[-1]), gate.weight)
            return logits, *torch.topk(logits.sigmoid(), gate.top_k, dim=-1)
        layer.mlp.gate.forward = forward


def unbiased(m):
    """LayerNorm whose variance is divided by n - 1, as torch.var does."""
    return lambda x: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(
        x.var(-1, keepdim=True) + m.eps) * m.weight + m.bias


def bare_gain(m):
    return lambda x: rms(m, x, whole=True) * m.weight


def sees_next(e):
    """A causal mask one place too wide: position i attends to i + 1."""
    old = e.code.eager_attention_forward

    def attend(module, q, k, v, mask, *args, **more):
        n = q.shape[2]
        mask = torch.full((n, n), torch.finfo(q.dtype).min, dtype=q.dtype).triu(2)[None, None]
        return old(module, q, k, v, mask, *args, **more)
    e.patch("eager_attention_forward", attend)


def k_still(old, e):
    return lambda q, k, cos, sin, **more: (old(q, k, cos, sin, **more)[0], k)


def gptj_halves(old, e):
    def rotate(x, sin, cos):
        s, c = (torch.cat((t, t), -1)[:, :, None] for t in (sin, cos))
        return x * c + half(x) * s
    return rotate


def cohere_halves(x, cos, sin):
    c, s = (torch.cat((t[..., ::2], t[..., ::2]), -1) for t in (cos, sin))
    return x * c + half(x) * s


def scaled_twice(e):
    table = e.model.get_input_embeddings()
    table.register_forward_hook(lambda m, a, out: out * m.embed_scale.to(out.dtype))


def tied(e):
    e.model.get_output_embeddings().weight.data = e.model.get_input_embeddings().weight.data.clone()


def last_layer_lost(e):
    e.model.model.layers = torch.nn.ModuleList(list(e.layers)[:-1])


def layers_swapped(one, other):
    def change(e):
        layers = list(e.layers)
        layers[one], layers[other] = layers[other], layers[one]
        e.model.model.layers = torch.nn.ModuleList(layers)
    return change


def alibi_before_scale(e):
    for layer in e.layers:
        layer.self_attention.beta = layer.self_attention.inv_norm_factor


def cap_of_itself(e):
    e.again(final_logit_softcapping=None)
    e.model.get_output_embeddings().register_forward_hook(lambda m, a, out: out * torch.tanh(out / 10.0))


def quick_gelu(x):
    return x * torch.sigmoid(1.702 * x)


def tanh_gelu(x):
    return f.gelu(x, approximate="tanh")


def linear(theta, factor):
    return {"rope_type": "linear", "rope_theta": theta, "factor": factor}


def blocks(*sizes, order):
    """Blocks of rows of a fused matrix in another order."""
    def to(e, w):
        parts = w.split(sizes)
        return torch.cat([parts[i] for i in order])
    return to


SET8 = [
    # ---- replicas of reports ----
    ("airllm 368: theta of 10000 instead of the file's", "llama3", "ref", ropes(rope_theta=10000.0),
     r"(?i)theta|base|10000"),
    ("TransformerLens 910: factor 8 of Llama 3.1 in 3.2", "llama3", "ref", ropes(factor=8.0), r"(?i)factor"),
    ("mobius 233: no_rope_layers inverted", "smollm3", "ref", config(no_rope_layers=[0, 0, 0, 1]),
     r"(?i)(rope|rotat|nope).*layer|layer.*(rope|rotat|nope)"),
    ("executorch 22043: RoPE on NoPE layers too", "smollm3", "ref", attention(use_rope=1),
     r"(?i)(rope|rotat|nope).*(layer|all|every)|(layer|all|every).*(rope|rotat|nope)"),
    ("vllm-metal 665: softcap of scores is 0", "gemma2", "ref", attention(attn_logit_softcapping=None),
     r"(?i)(attention|scores?).*cap|cap.*(attention|score)"),
    ("unsloth-zoo 593: x * tanh(x / cap)", "gemma2", "ref", cap_of_itself, r"(?i)cap"),
    ("mlxcel 391: softmax of the chosen experts only", "olmoe", "ref", config(norm_topk_prob=True),
     r"(?i)(router|expert|top).*(norm|sum|softmax|after|chosen|selected)|(norm|softmax).*(router|expert|top)|"
     r"weights.*experts.*1"),
    ("ik_llama 1368: shared gate on the sum", "qwen2-moe", "ref", mlps_run(gate_on_sum), r"(?i)shared"),
    ("vllm 52158: logits_scaling lost", "granite", "ref", config(logits_scaling=1.0), r"(?i)logits?"),
    ("mlx-lm 586: parallel residual not as configured", "neox", "ref", config(use_parallel_residual=False),
     r"(?i)parallel|sequential|after attention|one after"),
    ("aprender 2143: slopes 2^(-8h/n) from h = 0", "bloom", "ref",
     code("_get_alibi_slopes", lambda old, e: lambda *a: old(*a) * 4.0), r"(?i)slope|alibi"),
    ("Rapid-MLX 3368: 1 added to gains that have it", "qwen3", "file", parameters(lambda w: w + 1, "norm"),
     r"(?i)norm.*(1|one)|gain.*(1|one)|(1|one).*(gain|norm)"),
    ("omniverse 72: unbiased variance in LayerNorm", "gpt2", "ref", norms(unbiased),
     r"(?i)n ?- ?1|unbiased|bessel"),
    ("transformers 35625: bias of Phi's lm_head lost", "phi", "ref",
     parameters(torch.zeros_like, "lm_head.bias"), r"(?i)(head|output|logit).*bias|bias.*(head|output|logit)"),
    ("tiny-vllm 4: adjacent pairs rotated", "llama3", "ref", rotation(rotate_adjacent),
     r"(?i)adjacent|pair|interleav|2i|gpt-?j|q and k permuted"),
    ("exllamav3 259: YaRN's attention factor is 1", "llama-yarn", "ref", ropes(attention_factor=1.0),
     r"(?i)attention.?factor|mscale|magnitude|yarn.*(scal|factor)"),
    ("zml 763: window one too long", "mistral", "ref", config(sliding_window=13), r"(?i)window"),
    ("llama.cpp 8197: scale by n_embd / n_head", "gemma2", "ref", config(query_pre_attn_scalar=6),
     r"(?i)scale|sqrt|query_pre|scores times 0.408"),
    ("OpenTau 179: embeddings scaled twice", "gemma3", "ref", scaled_twice, r"(?i)embed"),
    ("nntrainer 4194: gate and up read in the other order", "qwen2", "file", swap(*GATE_UP),
     r"(?i)gate.*up|up.*gate"),
    ("llama.cpp 12957: GLM-4's norms after parts lost", "glm4", "ref",
     norms(skip, "post_self_attn_layernorm", "post_mlp_layernorm"),
     r"(?i)(post|after|output).*norm|norm.*(post|after)"),
    ("levanter 978: Gemma's embedding scale lost", "gemma1", "ref", embedded(lambda x: x / 24**0.5), r"(?i)embed"),

    # ---- planted: rotation and positions ----
    ("K and V heads rolled", "llama-7", "file",
     rows(heads(roll(1), "num_key_value_heads"), "k_proj.weight", "v_proj.weight"), r"(?i)heads?|group"),
    ("only Q permuted", "llama-mha", "file", rows(pairs(head_width), "q_proj.weight"),
     r"(?i)(\bq\b|wq|quer).*permut|permut.*(\bq\b|wq|quer)|(\bq\b|wq|quer).*(pair|adjacent|interleav)"),
    ("V permuted like K", "qwen2", "file", rows(pairs(as_n_kv), "v_proj.weight", "v_proj.bias"),
     r"(?i)(\bv\b|wv|value).*(permut|order|pair)|permut.*(\bv\b|wv|value)"),
    ("frequencies of the whole head in a part", "phi", "ref", freq(lambda t: t**0.5),
     r"(?i)freq|theta|base|head.?(dim|width|size)"),
    ("GPT-J rotated in halves", "gptj", "ref", code("apply_rotary_pos_emb", gptj_halves),
     r"(?i)hal[fv]|neox|pair|adjacent"),
    ("Command-R rotated in halves", "cohere", "ref", rotation(cohere_halves), r"(?i)hal[fv]|neox|pair|adjacent"),
    ("the last part of a head is rotated", "neox", "ref", rotation(rotate_last),
     r"(?i)last|end of|other part|second|upper"),
    ("rotation in the other direction", "olmo2", "ref", rotation(lambda x, c, s: x * c - half(x) * s),
     r"(?i)sign|negat|direction|minus|revers|opposite|backward|-sin"),
    ("K is not rotated", "qwen3", "ref", code("apply_rotary_pos_emb", k_still),
     r"(?i)(\bk\b|keys?).*(not|no|without|un)|only (q|the quer)|(not|no|without).*(\bk\b|keys?)"),
    ("learned positions from 1", "gpt2", "ref", positions(1), r"(?i)position"),
    ("linear scaling multiplies positions", "llama-linear", "ref", freq(lambda t: t * 16), r"(?i)factor|scal"),
    ("YaRN's range not rounded", "llama-yarn", "ref", ropes(truncate=False),
     r"(?i)trunc|round|floor|ramp|correction|beta|range"),
    ("global layers with the local theta", "gemma3", "ref", gemma_ropes(full=linear(10000.0, 8.0)),
     r"(?i)theta|base|10000"),
    ("scaling on sliding layers too", "gemma3", "ref", gemma_ropes(sliding=linear(10000.0, 8.0)),
     r"(?i)(sliding|local|window|all|every).*(scal|factor|rope)|(scal|factor|rope).*(sliding|local|window|all|every)"),
    ("the first layer is global, not the last", "olmo3", "ref",
     config(layer_types=[FULL, SLIDING, SLIDING, SLIDING]), r"(?i)window|sliding|global|pattern"),
    ("high_freq_factor of 2", "llama3", "ref", ropes(high_freq_factor=2.0), r"(?i)high"),
    ("table of frequencies in bfloat16", "mistral", "ref", freq(lambda t: t.bfloat16().float()),
     r"(?i)bf16|bfloat16"),

    # ---- planted: norms ----
    ("epsilon of 1e-5", "qwen3", "ref", config(rms_norm_eps=1e-5), r"(?i)eps"),
    ("Gemma's gains without 1", "gemma1", "ref", norms(bare_gain), r"(?i)(1|one).*(gain|norm|w)|(gain|norm).*(1|one)"),
    ("q and k norms of each head", "olmo2", "ref", norms(head_norm(8), "q_norm", "k_norm"),
     r"(?i)norm.*head|head.*norm"),
    ("RMSNorm instead of LayerNorm", "cohere", "ref",
     norms(lambda m: lambda x: rms(m, x)), r"(?i)rms|mean"),
    ("biases of norms lost", "stablelm", "ref", parameters(torch.zeros_like, "norm", "bias"),
     r"(?i)norm.*bias|bias.*norm"),
    ("the norms after both parts exchanged", "glm4", "file",
     swap("post_self_attn_layernorm.weight", "post_mlp_layernorm.weight"), r"(?i)norm"),
    ("norm after attention and norm before MLP exchanged", "gemma3", "file",
     swap("post_attention_layernorm.weight", "pre_feedforward_layernorm.weight"), r"(?i)norm"),
    ("norms before the parts", "olmo3", "ref", layers_run(normed_before),
     r"(?i)(before|pre|input).*norm|norm.*(before|pre|input)"),

    # ---- planted: blocks and MLPs ----
    ("blocks one after the other", "phi", "ref", layers_run(one_after_other),
     r"(?i)parallel|sequential|after attention|one after"),
    ("parallel blocks", "stablelm", "ref", config(use_parallel_residual=True), r"(?i)parallel"),
    ("residual from after the norm", "bloom", "ref", config(apply_residual_connection_post_layernorm=True),
     r"(?i)resid|add to what their norm"),
    ("quick GELU", "neox", "ref", mlp_act(quick_gelu), r"(?i)quick|1\.702|sigmoid"),
    ("bias of down lost", "llama-bias", "ref", zero("down_proj.bias"),
     r"(?i)down.*bias|bias.*down|mlp.*bias|bias.*mlp"),
    ("gate and up rows interleaved", "phi3", "file",
     rows(lambda e, w: w.reshape(2, -1, w.shape[1]).transpose(0, 1).reshape(w.shape), "gate_up_proj.weight"),
     r"(?i)gate|interleav|alternat"),
    ("q, v, k in the fused matrix", "phi3", "file", rows(blocks(32, 16, 16, order=(0, 2, 1)), "qkv_proj.weight"),
     r"(?i)\bk\b.*\bv\b|\bv\b.*\bk\b|wk|wv|qkv|key"),
    ("gate and up of experts exchanged", "mixtral", "file",
     rows(lambda e, w: torch.cat(w.chunk(2, 1)[::-1], 1), "experts.gate_up_proj"), r"(?i)gate|up|w1|w3"),
    ("one expert instead of two", "mixtral", "ref", config(num_experts_per_tok=1), r"(?i)expert|top"),
    ("experts rolled", "qwen3-moe", "file",
     rows(lambda e, w: w.roll(1, 0), "experts.gate_up_proj", "experts.down_proj"), r"(?i)expert|router"),
    ("shared expert without its gate", "qwen2-moe", "ref", mlps_run(shared_open), r"(?i)shared"),
    ("sigmoid router", "olmoe", "ref", sigmoid_router, r"(?i)sigmoid"),

    # ---- planted: attention, heads, logits, files ----
    ("scores divided by d", "llama-8", "ref", attention(scaling=lambda a: 1.0 / a.head_dim),
     r"(?i)scale|scaling|sqrt|1/d"),
    ("logit_scale lost", "cohere", "ref", config(logit_scale=1.0), r"(?i)logits?"),
    ("a position sees the next one", "llama-mha", "ref", sees_next, r"(?i)causal|mask|next|future|ahead"),
    ("fused QKV in thirds", "bloom", "file",
     rows(axes((1, 0, 2)), "query_key_value.weight", "query_key_value.bias"),
     r"(?i)third|qkv|per head|by head|interleav|fused"),
    ("ALiBi added before the scale", "bloom", "ref", alibi_before_scale, r"(?i)alibi|slope"),
    ("the head is the embedding", "llama", "ref", tied, r"(?i)tied|embedding|output|head"),
    ("the last layer is not run", "llama-7", "ref", last_layer_lost, r"(?i)layer"),
    ("layers 2 and 3 exchanged", "llama-7", "file", layers_swapped(2, 3), r"(?i)layer"),
    ("weights in float16", "llama-tied", "file", weights_in(torch.float16), r"(?i)f16|float16|half"),
    ("W_o transposed", "smollm3", "file", rows(lambda e, w: w.T, "o_proj.weight"), r"(?i)transpos"),

    # ---- two bugs at once ----
    ("bias of K lost; theta of 10000", "qwen2", "ref", in_turn(ropes(rope_theta=10000.0), zero("k_proj.bias")),
     two("theta|base", "bias")),
    ("no rope scaling; epsilon of 1e-6", "llama3", "ref",
     config(rope_parameters=make_hf.rope(500000.0), rms_norm_eps=1e-6), two("scal|factor|llama3", "eps")),
    ("neither softcap", "gemma2", "ref", config(attn_logit_softcapping=None, final_logit_softcapping=None),
     two("(attention|score).*cap|cap.*(attention|score)", "(logits?|final|output).*cap|cap.*(logit|final|output)")),
    ("embedding and residual multipliers lost", "granite", "ref",
     config(embedding_multiplier=1.0, residual_multiplier=1.0), two("embed", "resid")),
    ("tanh GELU; one after the other", "neox", "ref",
     in_turn(config(use_parallel_residual=False), mlp_act(tanh_gelu)), two("gelu|tanh", "parallel|sequential")),
    ("weights of experts not divided by their sum; no q and k norms", "qwen3-moe", "ref",
     in_turn(config(norm_topk_prob=False), norms(skip, "q_norm", "k_norm")),
     two("router|expert|top|sum", "q.*norm|norm.*q|head.*norm|norm.*head")),
    ("gate and up exchanged; K permuted", "llama-bias", "file",
     in_turn(swap(*GATE_UP), swap("gate_proj.bias", "up_proj.bias"),
             rows(pairs(as_n_kv), "k_proj.weight", "k_proj.bias")), two("gate|up", "permut|pair|adjacent")),
    ("bias of o lost; exact GELU", "starcoder2", "ref", in_turn(mlp_act(f.gelu), zero("o_proj.bias")),
     two("bias", "gelu|erf")),
]
