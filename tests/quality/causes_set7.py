"""A seventh set of bugs for causes.py, written without a look at the suspects or at the other sets, by the text of
issue 21 alone: replicas of reports (where they are is said), planted bugs, and two bugs at once. See causes_list.py."""

import torch

from causes_fresh import attend, cached, ids, masked, softmax_as
from causes_planted import *  # noqa: F403
from causes_set4 import at_positions, layer_does, lost_slots

f = torch.nn.functional
LLAMA = "llama"
QKV = ("q_proj.bias", "k_proj.bias", "v_proj.bias")
GATE_UP = ("mlp.gate_proj.weight", "mlp.up_proj.weight")

LONG = [1.0, 2.0, 4.0, 8.0]

FAMILIES.update({
    "gemma1": lambda: hf.GemmaConfig(**{**shape(24, 4, 1, 32), "head_dim": 8, "rms_norm_eps": 1e-6,
                                        "tie_word_embeddings": True, "rope_parameters": make_hf.rope(10000.0)}),
    "starcoder2": lambda: hf.Starcoder2Config(**shape(32, 4, 2, 40), norm_epsilon=1e-5, use_bias=True,
                                              sliding_window=None, tie_word_embeddings=True,
                                              rope_parameters=make_hf.rope(100000.0)),
    "olmo3": lambda: hf.Olmo3Config(**shape(32, 4, 4, 40, layers=4), rms_norm_eps=1e-6, sliding_window=12,
                                    tie_word_embeddings=False, rope_parameters=make_hf.rope(500000.0)),
    "mixtral": lambda: hf.MixtralConfig(**shape(32, 4, 2, 24), rms_norm_eps=1e-5, num_local_experts=4,
                                        num_experts_per_tok=2, tie_word_embeddings=False,
                                        rope_parameters=make_hf.rope(1e6)),
    "gptj": lambda: hf.GPTJConfig(n_embd=32, n_head=4, n_layer=3, n_positions=256, vocab_size=VOCAB, rotary_dim=4,
                                  bos_token_id=0, eos_token_id=0),
    "phi3-long": lambda: hf.Phi3Config(**shape(32, 4, 2, 40), rms_norm_eps=1e-5, tie_word_embeddings=False,
                                       original_max_position_embeddings=128, rope_parameters={
                                           "rope_type": "longrope", "rope_theta": 10000.0, "long_factor": LONG,
                                           "short_factor": [1.0, 1.1, 1.3, 1.5], "factor": 2.0,
                                           "original_max_position_embeddings": 128}),
    "falcon": lambda: hf.FalconConfig(hidden_size=32, num_attention_heads=4, num_kv_heads=2, num_hidden_layers=3,
                                      vocab_size=VOCAB, new_decoder_architecture=True, bias=False, bos_token_id=0,
                                      eos_token_id=0, rope_parameters=make_hf.rope(10000.0)),
})

# ---- what a case does ----


def all_norms(to):
    """The gains of all norms."""
    def change(e):
        for name, p in e.model.named_parameters():
            if "norm" in name and name.endswith("weight"):
                p.data = to(p.data)
    return change


def plain_gain(m):
    """Gemma's norm without the 1 that its gains lack."""
    return lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps_of(m)) * m.weight


def eps_outside(m):
    return lambda x: x / (x.pow(2).mean(-1, keepdim=True).sqrt() + eps_of(m)) * gain_of(m)


def rolled_types(by):
    def change(e):
        types = list(e.config.layer_types)
        e.again(layer_types=types[by:] + types[:by])
    return change


def halves_of(*parts):
    """Equal parts of rows of a fused matrix in another order."""
    def to(e, w):
        pieces = w.chunk(len(parts), -2 if w.dim() > 2 else 0)
        return torch.cat([pieces[i] for i in parts], -2 if w.dim() > 2 else 0)
    return to


def phi3_kv(e, w):
    d = head_width(e, 0)
    q, kv = e.config.num_attention_heads * d, e.config.num_key_value_heads * d
    return torch.cat((w[:q], w[q + kv:], w[q:q + kv]))


def conv1d(*parts):
    """Thirds of the columns of GPT-2's c_attn in another order."""
    return rows(lambda e, w: torch.cat([w.chunk(3, -1)[i] for i in parts], -1), "c_attn.weight", "c_attn.bias")


def flat_thirds(e, w):
    """Rows [head, 3, d] are taken for [3, head, d]."""
    h, d = e.config.num_attention_heads, head_width(e, 0)
    return w.reshape(3, h, d, -1).permute(1, 0, 2, 3).reshape(w.shape)


def halves_for_pairs(x, cos, sin):
    """Rotation by halves in a model of adjacent pairs, whose table is [0, 0, 1, 1, ...]."""
    return plain_rotation(x, *(torch.cat([t[..., ::2]] * 2, -1) for t in (cos, sin)))


def biases_after_rope(e):
    """The biases of q and k are added to what is rotated already."""
    kept = []
    for layer in e.layers:
        a = layer.self_attn
        pair = [(getattr(a, f"{s}_proj"), getattr(a, f"{s}_proj").bias.data.clone()) for s in "qk"]
        for linear, _ in pair:
            linear.bias.data.zero_()
        a.register_forward_pre_hook(lambda *_, b=[b for _, b in pair]: kept.append(b))
    old = e.code.apply_rotary_pos_emb

    def rotate(q, k, cos, sin, **more):
        return tuple(x + b.to(x.dtype).view(1, -1, 1, x.shape[-1])
                     for x, b in zip(old(q, k, cos, sin, **more), kept[-1]))
    e.patch("apply_rotary_pos_emb", rotate)


def rms_eps(m, x, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * m.weight


def mlps(make):
    """The forward of MLPs replaced: make(module) gives the function."""
    return lambda e: [setattr(layer.mlp, "forward", make(layer.mlp)) for layer in e.layers]


def windows(which):
    """Layers of which which(number) holds have a window of 12, the others none."""
    def how(old, m, q, k, v, mask, scaling, more):
        i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])[None]
        seen = (j <= i) & ((i - j < 12) | (not which(m.layer_idx)))
        own = torch.where(seen, 0.0, torch.finfo(q.dtype).min).to(q.dtype)[None, None]
        return old(m, q, k, v, own, scaling=scaling, **more)
    return attend(how)


def in_bf16(name):
    return lambda e: e.weight(name).data.copy_(e.weight(name).data.bfloat16())


def experts_softmax(how):
    return softmax_as(lambda plain, x, dim: how(x) if x.shape[-1] == 4 else plain(x, dim=dim))


def shared_gate(value):
    def change(e):
        for layer in e.layers:
            layer.mlp.shared_expert_gate.forward = lambda x: torch.full_like(x[..., :1], value)
    return change


def normed_residual(l):
    def fn(x, attn):
        h = l.input_layernorm(x)
        x = h + attn(h)
        return x + l.mlp(l.post_attention_layernorm(x))
    return fn


def parallel(l):
    def fn(x, attn):
        return x + attn(l.input_layernorm(x)) + l.mlp(l.post_attention_layernorm(x))
    return fn


def sequential_phi(l):
    def fn(x, attn):
        x = x + attn(l.input_layernorm(x))
        return x + l.mlp(l.input_layernorm(x))
    return fn


def olmo2_before(l):
    def fn(x, attn):
        x = x + attn(l.post_attention_layernorm(x))
        return x + l.mlp(l.post_feedforward_layernorm(x))
    return fn


def head_is_embedding(e):
    e.model.lm_head.weight = torch.nn.Parameter(e.model.get_input_embeddings().weight.data.clone())


def int8(w):
    d = w.abs().amax(-1, keepdim=True) / 127
    return (w / d).round() * d


def matrices(to):
    def change(e):
        for p in e.each("weight"):
            if p.dim() == 2:
                p.data = to(p.data)
    return change


def slopes(to):
    def change(e):
        old = e.code._get_alibi_slopes
        e.patch("_get_alibi_slopes", lambda n, device: to(old(n, device)))
    return change


def lookahead(*words):
    return "(?is)" + "".join(f"(?=.*({w}))" for w in words)


PAIRS = "(?i)adjacent|interleav|pair|half|halves"
EPS = "(?i)eps"
WINDOW = "(?i)window|sliding|local"
THETA = "(?i)theta|base|freq"
SCALE = "(?i)scal"
OF_EXPERTS = "(?i)(normali|softmax|divid|chosen|top).*(expert|rout)|(expert|rout).*(normali|softmax|divid|add up)"
KINDS = "(?i)(sliding|local|full|global|window).*layer|layer.*(sliding|local|full|global|window)"

SET7 = [
    # replicas
    # NeuraLegion/shainet 111
    ("rope of adjacent pairs", LLAMA, "ref", rotation(rotate_adjacent), PAIRS),
    # Open-Athena/MarinFold 184: rope_parameters of transformers 5 are not read
    ("theta 10000, no llama3 scaling", "llama3", "ref", config(rope_parameters=make_hf.rope(10000.0)),
     lookahead("scal|factor|llama3", "theta|base|10000")),
    # lyogavin/airllm 368, Lightning-AI/litgpt 2217
    ("theta 10000 for 1e6", "qwen2", "ref", ropes(rope_theta=10000.0), THETA),
    # paiml/aprender 1606, Wenyueh/MinivLLM 82
    ("eps 1e-5 for 1e-6", "qwen3", "ref", config(rms_norm_eps=1e-5), EPS),
    # EleutherAI/gpt-neox 1345
    ("eps added to the RMS, not the variance", LLAMA, "ref", norms(eps_outside), EPS),
    # NVIDIA-NeMo/Megatron-Bridge 2656, ml-explore/mlx-lm 390
    ("window + 1", "mistral", "ref", config(sliding_window=13), WINDOW),
    # huggingface/transformers 35681
    ("sliding window lost", "gemma2", "ref", config(sliding_window=4096), WINDOW),
    # TransformerLensOrg/TransformerLens 778
    ("local and global layers exchanged", "gemma2", "ref", rolled_types(1), KINDS),
    # TransformerLensOrg/TransformerLens 910
    ("llama3 factor 8 for 32", "llama3", "ref", ropes(factor=8.0), "(?i)factor|scal"),
    # lablup/mlxcel 391
    ("softmax over the chosen experts", "olmoe", "ref", config(norm_topk_prob=True),
     OF_EXPERTS),
    # pytorch/torchtitan 1448
    ("router's weights not normalised", "qwen3-moe", "ref", config(norm_topk_prob=False),
     OF_EXPERTS),
    # onnxruntime/mobius 233, huggingface/transformers 43756
    ("no_rope_layers inverted", "smollm3", "ref", config(no_rope_layers=[0, 0, 0, 1]), "(?i)rope|rota|position"),
    # pytorch/executorch 22043, airockchip/rknn-llm 501
    ("rope on every layer", "smollm3", "ref", config(no_rope_layers=[1, 1, 1, 1]), "(?i)rope|rota|position"),
    # ml-explore/mlx-lm 1507
    ("attention_factor 1 of YaRN", "llama-yarn", "ref", ropes(attention_factor=1.0),
     "(?i)attention.factor|mscale|yarn|magnitude|scal"),
    # vllm-project/vllm 46835
    ("bias of the head lost", "phi", "ref", lambda e: e.model.lm_head.bias.data.zero_(),
     "(?i)(head|output|logit).*bias|bias.*(head|output|logit)"),
    # lablup/mlxcel 928, elixir-nx/bumblebee 204
    ("qkv split in flat thirds", "neox", "ref", rows(flat_thirds, "query_key_value.weight", "query_key_value.bias"),
     "(?i)qkv|fused|thirds|interleav|per head|query_key_value"),
    # utensils/mold 1074
    ("1 added twice to gains", "gemma3", "file", all_norms(lambda w: w + 1),
     "(?i)(norm|gain).*(1|one)|(1|one).*(norm|gain)"),
    # TensorAuto/OpenTau 179
    ("embedding scaled twice", "gemma3", "ref", embedded(lambda x: x * 24 ** 0.5), "(?i)embed"),
    # huggingface/transformers 37109
    ("embedding scale rounded to bf16", "gemma2", "ref", embedded(lambda x: x / 24 ** 0.5 * 4.90625),
     "(?i)embed.*(bf16|bfloat16|round|scale|times 4.90625)|scale.*embed"),
    # OpenNMT/CTranslate2 1882
    ("residual_multiplier missing", "granite", "ref", config(residual_multiplier=1.0), "(?i)residual"),
    # unslothai/unsloth 1218
    ("logits multiplied, not divided", "granite", "ref", config(logits_scaling=1 / 3),
     "(?i)logit|output.weight: times 9"),
    # ml-explore/mlx-swift-examples 99
    ("no soft caps", "gemma2", "ref", config(attn_logit_softcapping=None, final_logit_softcapping=None),
     lookahead("cap.*(score|attention)|(score|attention).*cap", "cap.*logit|logit.*cap")),
    # TransformerLensOrg/TransformerLens 694
    ("scale of hidden_size / n_head", "gemma2", "ref", config(query_pre_attn_scalar=6),
     "(?i)scal|query_pre_attn|sqrt|score"),
    # ggml-org/llama.cpp 12957, hellas-ai/catgrad 370
    ("rope by halves", "glm4", "ref", rotation(plain_rotation), PAIRS),
    # vllm-project/vllm 16618
    ("norms after the branches skipped", "glm4", "ref", norms(skip, "post_self_attn_layernorm", "post_mlp_layernorm"),
     "(?i)norm"),
    # huggingface/transformers 29402
    ("exact GELU for tanh", "gemma1", "ref", mlp_act(lambda x: f.gelu(x)), "(?i)gelu|erf|exact"),
    # mlx-node/mlx-node 33: chunks of a prefill begin at twice their offset
    ("positions of chunks twice", LLAMA, "ref", at_positions(lambda p: p + p // 16 * 16), "(?i)position|chunk"),
    # microsoft/onnxruntime-genai 2354
    ("decode steps one position further", "qwen2", "ref", at_positions(lambda p: p + (p >= 32).long()),
     "(?i)position"),
    # tenstorrent/tt-metal 54413
    ("zeros in the cache", LLAMA, "ref", lost_slots(20, 24), "(?i)(key|value|cache|position|KV).*2[0-4]|zero"),
    # deepspeedai/DeepSpeed 4088
    ("head tied though untied", LLAMA, "ref", head_is_embedding, "(?i)tied|embedding"),
    # onnxruntime/mobius 548 and others: a scale of YaRN's length on scores, too
    ("scores times mscale squared", "llama-yarn", "ref",
     attention(scaling=lambda a: a.scaling * (0.1 * torch.tensor(4.0).log().item() + 1) ** 2),
     "(?i)scal|score|factor|mscale"),
    # EleutherAI/gpt-neox: a GPT-J block
    ("one norm for both branches", "neox", "ref", lambda e: [setattr(a, "data", b.data) for x in ("weight", "bias")
     for a, b in zip(e.each(f"post_attention_layernorm.{x}"), e.each(f"input_layernorm.{x}"))], "(?i)norm"),

    # planted
    ("window - 1", "mistral", "ref", config(sliding_window=11), WINDOW),
    ("global layer first", "gemma3", "ref", rolled_types(-1), KINDS),
    ("theta of global layers in all", "gemma3", "ref", gemma_ropes(sliding=make_hf.rope(1e6)),
     "(?i)theta|base|rope|freq"),
    ("half the window", "gemma3", "ref", config(sliding_window=8), WINDOW),
    ("q and k norms without + 1", "gemma3", "ref", norms(plain_gain, "q_norm", "k_norm"), "(?i)norm"),
    ("norm after the MLP skipped", "gemma3", "ref", norms(skip, "post_feedforward_layernorm"), "(?i)norm"),
    ("gate and up exchanged", LLAMA, "file", swap(*GATE_UP), "(?i)gate.*up|up.*gate"),
    ("GELU for SiLU", LLAMA, "ref", mlp_act(lambda x: f.gelu(x)), "(?i)gelu"),
    ("quick GELU for tanh GELU", "gpt2", "ref", mlp_act(lambda x: x * torch.sigmoid(1.702 * x)), "(?i)gelu|1\\.702"),
    ("KV heads tiled", "llama-8", "ref", kv_heads(lambda n, r: [i % n for i in range(n * r)]),
     "(?i)head|kv|group|tile|repeat"),
    ("scores by 1/d", LLAMA, "ref", attention(scaling=1 / 8), "(?i)scal|sqrt|score"),
    ("scores by 1/sqrt(n_embd)", "qwen3", "ref", attention(scaling=32 ** -0.5), "(?i)scal|sqrt|score"),
    ("next key is seen", LLAMA, "ref", masked(lambda i, j: j <= i + 1), "(?i)mask|future|later|next|causal|sees"),
    ("own key is not seen", "qwen2", "ref", masked(lambda i, j: (j < i) | (j == 0)),
     "(?i)own|itself|self|mask|diagonal"),
    ("last layer missing", "olmo2", "ref", config(num_hidden_layers=2), "(?i)layer"),
    ("final norm skipped", LLAMA, "ref", norms(skip, "model.norm"), "(?i)norm"),
    ("gains of the final norm lost", "qwen2", "ref", lambda e: e.model.model.norm.weight.data.fill_(1), "(?i)norm"),
    ("norms of a layer exchanged", LLAMA, "file", swap("input_layernorm.weight", "post_attention_layernorm.weight"),
     "(?i)norm"),
    ("token ids one more", LLAMA, "ref", ids(lambda t: (t + 1) % VOCAB), "(?i)token|embedding"),
    ("a BOS before, its row cut", LLAMA, "ref", ids(lambda t: torch.cat((torch.full_like(t[:, :1], 1), t), 1), cut=1),
     "(?i)token|BOS|before|position"),
    ("padded on the left, not masked", "qwen2", "ref",
     ids(lambda t: torch.cat((torch.zeros_like(t[:, :4]), t), 1), cut=4), "(?i)token|pad|before|position"),
    ("linear scaling missing", "llama-linear", "ref", config(rope_parameters=make_hf.rope(10000.0)),
     "(?i)scal|factor"),
    ("linear scaling multiplies", "llama-linear", "ref", freq(lambda t: t * 16), "(?i)scal|factor|freq|position"),
    ("k bias of the last layer lost", "qwen2", "ref", zero("k_proj.bias", only=(2,)), "(?i)(w?k|b_?k).*bias|bias.*k"),
    ("k and v biases exchanged", "qwen2", "file", swap("k_proj.bias", "v_proj.bias"), "(?i)bias"),
    ("biases of q and k after rope", "qwen2", "ref", biases_after_rope, "(?i)bias"),
    ("k normed with q's gains", "qwen3", "ref", lambda e: [setattr(k, "data", q.data) for q, k in zip(
        e.each("q_norm.weight"), e.each("k_norm.weight"))], "(?i)norm"),
    ("sigmoid in the router", "qwen3-moe", "ref", experts_softmax(lambda x: x.sigmoid()), "(?i)sigmoid"),
    ("one expert for two", "qwen3-moe", "ref", config(num_experts_per_tok=1), "(?i)expert"),
    ("experts' gate and up exchanged", "qwen3-moe", "ref", rows(halves_of(1, 0), "experts.gate_up_proj"),
     "(?i)gate.*up|up.*gate"),
    ("shared expert's gate ignored", "qwen2-moe", "ref", shared_gate(40.0), "(?i)shared"),
    ("shared expert dropped", "qwen2-moe", "ref", shared_gate(-80.0), "(?i)shared"),
    ("router's rows rolled", "olmoe", "file", rows(lambda e, w: w.roll(1, 0), "mlp.gate.weight"), "(?i)expert|rout"),
    ("three experts for two", "mixtral", "ref", config(num_experts_per_tok=3), "(?i)expert"),
    ("norms before, not after", "olmo2", "ref", layer_does(olmo2_before), "(?i)norm"),
    ("window lost", "olmo3", "ref", config(sliding_window=4096), WINDOW),
    ("W_o transposed", "gpt2", "file", rows(lambda e, w: w.T, "attn.c_proj.weight"), "(?i)transpos"),
    ("exact GELU", "gpt2", "ref", mlp_act(lambda x: f.gelu(x)), "(?i)gelu|erf|exact"),
    ("positions begin at 2", "gpt2", "ref", at_positions(lambda p: p + 2), "(?i)position"),
    ("eps 1e-6 for 1e-5", "gpt2", "ref", config(layer_norm_epsilon=1e-6), EPS),
    ("bias of the MLP's output lost", "gpt2", "file", zero("mlp.c_proj.bias"), "(?i)bias"),
    ("bias of the final norm lost", "gpt2", "ref", lambda e: e.model.transformer.ln_f.bias.data.zero_(),
     "(?i)(ln_f|norm).*bias|bias.*norm"),
    ("c_attn read as k, q, v", "gpt2", "ref", conv1d(1, 0, 2), "(?i)q.*k|k.*q"),
    ("c_attn read as v, k, q", "gpt2", "file", conv1d(2, 1, 0), "(?i)q.*v|v.*q"),
    ("tanh GELU", "starcoder2", "ref", mlp_act(lambda x: f.gelu(x)), "(?i)gelu|erf|exact"),
    ("bias of W_o lost", "starcoder2", "ref", zero("o_proj.bias"), "(?i)bias"),
    ("sequential branches", "phi", "ref", layer_does(sequential_phi), "(?i)parallel|sequential|residual|branch"),
    ("parallel branches", LLAMA, "ref", layer_does(parallel), "(?i)parallel|sequential|residual|branch"),
    ("residual taken after the norm", "qwen2", "ref", layer_does(normed_residual), "(?i)residual|norm"),
    ("logit_scale missing", "cohere", "ref", config(logit_scale=1.0), "(?i)logit"),
    ("rope by halves", "cohere", "ref", rotation(halves_for_pairs), PAIRS),
    ("biases of norms lost", "stablelm", "ref", zero("layernorm.bias"), "(?i)bias"),
    ("all of the head rotated", "stablelm", "ref", whole_rotary, "(?i)rota|rope|partial|dim"),
    ("up and gate in the fused matrix", "phi3", "file", rows(halves_of(1, 0), "gate_up_proj.weight"),
     "(?i)gate.*up|up.*gate"),
    ("k and v in the fused matrix", "phi3", "ref", rows(phi3_kv, "qkv_proj.weight"), "(?i)k.*v|v.*k"),
    ("slopes 2^-i", "bloom", "ref", slopes(lambda s: 2.0 ** -torch.arange(1, len(s) + 1)), "(?i)alibi|slope"),
    ("norm of embeddings skipped", "bloom", "ref", norms(skip, "word_embeddings_layernorm"),
     "(?i)embed.*norm|norm.*embed"),
    ("embedding_multiplier missing", "granite", "ref", config(embedding_multiplier=1.0), "(?i)embed"),
    ("attention_multiplier ignored", "granite", "ref", attention(scaling=8 ** -0.5), "(?i)scal|sqrt|score|attention"),
    ("rope by halves", "gptj", "ref", code("rotate_every_two", lambda old, e: half), PAIRS),
    ("W_o of layer 4 transposed", "llama-7", "file", rows(lambda e, w: w.T, "o_proj.weight", only=(4,)),
     "(?is)(?=.*transpos)(?=.*4)"),
    ("layers 2 and 3 exchanged", "llama-7", "file", layers_exchanged(2, 3), "(?is)(?=.*2)(?=.*3)"),
    ("the cache in float8", LLAMA, "ref", cached(lambda m, x: x.to(torch.float8_e4m3fn).to(x.dtype)),
     "(?i)f8|fp8|float8|e4m3|8.bit"),
    ("matrices in int8 by rows", LLAMA, "ref", matrices(int8), "(?i)int8|8.bit|q8|quanti|round"),
    ("everything in float16", "qwen2", "ref", everything_in(torch.float16), "(?i)f16|float16|half|precision"),
    ("softmax in bfloat16", LLAMA, "ref", softmax_as(
        lambda plain, x, dim: plain(x.to(torch.bfloat16), dim=dim).to(x.dtype)), "(?i)bf16|bfloat16"),

    # two at once
    ("no biases, theta 10000", "qwen2", "ref", in_turn(zero(*QKV), ropes(rope_theta=10000.0)),
     lookahead("bias", "theta|base|freq")),
    ("Gemma run as Llama: no scale, no + 1", "gemma1", "ref",
     in_turn(embedded(lambda x: x / 24 ** 0.5), norms(plain_gain)), lookahead("embed", "norm|gain")),
    ("gate and up exchanged, KV heads tiled", "llama-8", "ref",
     in_turn(swap(*GATE_UP), kv_heads(lambda n, r: [i % n for i in range(n * r)])),
     lookahead("gate", "head|kv|group|tile")),
    ("exact GELU, positions begin at 1", "gpt2", "ref",
     in_turn(mlp_act(lambda x: f.gelu(x)), at_positions(lambda p: p + 1)), lookahead("gelu|erf|exact", "position")),
    ("two multipliers missing", "granite", "ref", config(residual_multiplier=1.0, logits_scaling=1.0),
     lookahead("residual", "logit")),
    ("window + 1, rope of adjacent pairs", "mistral", "ref",
     in_turn(config(sliding_window=13), rotation(rotate_adjacent)),
     lookahead("window", "adjacent|interleav|pair|hal[fv]")),
    ("router not normalised, no q and k norms", "qwen3-moe", "ref",
     in_turn(config(norm_topk_prob=False), norms(skip, "q_norm", "k_norm")), lookahead("norm", "expert|rout")),
    ("sequential branches, whole rotary", "neox", "ref",
     in_turn(config(use_parallel_residual=False), whole_rotary), lookahead("parallel|sequential|residual|branch",
                                                                           "rota|rope|partial|dim")),

    # written after the first run, when the suspects had been read
    ("epsilon of q's and k's norms", "qwen3", "ref", norms(lambda m: lambda x: rms_eps(m, x, 1e-3), "q_norm", "k_norm"),
     "(?i)eps.*q and k"),
    ("epsilon of the final norm", LLAMA, "ref", norms(lambda m: lambda x: rms_eps(m, x, 1e-3), "model.norm"),
     "(?i)eps.*final"),
    ("long factors for a short text", "phi3-long", "ref", ropes(short_factor=LONG), "(?i)long"),
    ("not multiplied with up", LLAMA, "ref", mlps(lambda m: lambda x: m.down_proj(m.act_fn(m.gate_proj(x)))),
     "(?i)gate alone|up"),
    ("norms of branches exchanged", "falcon", "ref", in_turn(swap("ln_attn.weight", "ln_mlp.weight"),
                                                             swap("ln_attn.bias", "ln_mlp.bias")),
     "(?i)norm.*exchanged"),

    ("the cache in int8", LLAMA, "ref", cached(lambda m, x: int8(x)), "int8"),
    ("slopes of ALiBi negative", "bloom", "ref", slopes(lambda x: -x), "(?i)alibi.*sign"),
    ("every second window lost", "mistral", "ref", windows(lambda i: i % 2 == 0), KINDS),
    ("windows from layer 1 on", "mistral", "ref", windows(lambda i: i >= 1), KINDS),
    ("rope bases exchanged", "gemma3", "ref", gemma_ropes(make_hf.rope(10000.0), make_hf.rope(1e6)),
     "(?i)base.*exchanged"),
    ("the head in bfloat16", "qwen2", "ref", in_bf16("lm_head.weight"), "output in BF16"),
    ("the embedding in bfloat16", "qwen2", "ref", in_bf16("embed_tokens.weight"), "token_embd in BF16"),
    ("norms after branches without + 1", "gemma3", "ref", norms(
        plain_gain, "post_attention_layernorm", "post_feedforward_layernorm"), "gains of .* after .* - 1"),
    ("rope base, scores not scaled", LLAMA, "ref", in_turn(ropes(rope_theta=5e5), attention(scaling=1.0)),
     lookahead("base", "sqrt|scal")),

    # nothing may be named
    ("healthy", "gemma2", "ref", lambda e: None, None),
    ("healthy", "olmoe", "ref", lambda e: None, None),
    ("healthy", "granite", "ref", lambda e: None, None),
    ("healthy", "starcoder2", "ref", lambda e: None, None),
    ("random q in layer 0, up in layer 2", LLAMA, "ref", in_turn(
        noise("q_proj.weight", only=(0,), by=1.0), noise("up_proj.weight", only=(2,), by=1.0)),
     (None, "attn_q.weight, ffn_up.weight")),
    ("random down and k in all", "qwen2", "ref", noise("down_proj.weight", "k_proj.weight", by=0.5), None),
]
