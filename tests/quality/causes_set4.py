"""A fourth set of bugs for causes.py, written before anything was mended for it. See causes_list.py."""

import torch

from causes_fresh import attend, cached, ids, masked, members, softmax_as
from causes_planted import *  # noqa: F403

f = torch.nn.functional
LLAMA = "llama"
QKV = ("q_proj.bias", "k_proj.bias", "v_proj.bias")

# ---- positions and rotation ----


def at_positions(to):
    """The position of token t is to(t), for rotation or the table of positions; not for the mask, which
    transformers takes apart where positions begin again."""
    def change(e):
        rope = getattr(getattr(e.model, "model", None), "rotary_emb", None)
        if rope:
            rope.forward = lambda x, position_ids, *a, old=rope.forward: old(x, to(position_ids), *a)
        else:
            wpe = e.model.transformer.wpe
            wpe.forward = lambda ids, old=wpe.forward: old(to(ids))
    return change


def by_heads(x, cos, sin):
    """x [B, H, T, d] rotated as if H were the positions."""
    c, s = cos[:, :, : x.shape[1]].transpose(1, 2), sin[:, :, : x.shape[1]].transpose(1, 2)
    return x * c + half(x) * s


def first_head_only(x, cos, sin):
    return torch.cat((plain_rotation(x[:, :1], cos, sin), x[:, 1:]), 1)


def unsigned(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((b, a), -1) * sin


def angles_in(dtype):
    """Products of positions and frequencies are rounded."""
    def change(e):
        m = e.model.model.rotary_emb

        def forward(x, position_ids, **more):
            angle = (position_ids[0].to(m.inv_freq)[:, None] * m.inv_freq).to(dtype).to(x.dtype)
            angle = torch.cat((angle, angle), -1)[None]
            return angle.cos(), angle.sin()
        m.forward = forward
    return change


# ---- attention ----


def lost_slots(first, last):
    def to(m, x):
        x = x.clone()
        x[:, :, first:last] = 0
        return x
    return cached(to)


def masked_windows(allowed):
    """In layers with a window: allowed(query, key, window)."""
    def how(old, m, q, k, v, mask, scaling, more):
        w = getattr(m, "sliding_window", None)
        if w:
            i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])[None]
            mask = torch.where(allowed(i, j, w), 0.0, torch.finfo(q.dtype).min).to(q.dtype)[None, None]
        return old(m, q, k, v, mask, scaling=scaling, **more)
    return attend(how)


def capped(before_scale=False, before_mask=False):
    """The soft cap on scores elsewhere than before the mask."""
    def how(old, m, q, k, v, mask, scaling, more):
        n, cap = q.shape[1] // k.shape[1], more["softcap"]
        k, v = (x.repeat_interleave(n, 1) for x in (k, v))
        s = q @ k.transpose(2, 3)
        s = cap * torch.tanh(s / cap) * scaling if before_scale else s * scaling
        if before_mask:
            s = s + mask
        if not before_scale:
            s = cap * torch.tanh(s / cap)
        w = f.softmax(s if before_mask else s + mask, dim=-1)
        return (w @ v).transpose(1, 2).contiguous(), w
    return attend(how)


def kv_unnormed(e):
    """k and v read the residual, q its norm."""
    for layer in e.layers:
        layer.input_layernorm.register_forward_pre_hook(lambda m, a, layer=layer: setattr(layer, "raw", a[0]))
        for p in (layer.self_attn.k_proj, layer.self_attn.v_proj):
            p.register_forward_pre_hook(lambda m, a, layer=layer: (layer.raw,))


def gains_only(m):
    return lambda x: x * gain_of(m)


def l2(m):
    return lambda x: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + eps_of(m)) * gain_of(m)


def gain_first(m):
    return lambda x: rms(m, x * gain_of(m), whole=True)


# ---- layers ----


def layer_does(make):
    """make(layer) gives a function of the residual, attention (of a normed input) and the rest's keywords."""
    def change(e):
        for layer in e.layers:
            def forward(x, *a, fn=make(layer), layer=layer, **k):
                return fn(x, lambda h: layer.self_attn(h, *a, **k)[0])
            layer.forward = forward
    return change


def post_norm(l):
    def fn(x, attn):
        x = l.input_layernorm(x + attn(x))
        return l.post_attention_layernorm(x + l.mlp(x))
    return fn


def pre_norm_of_post(l):
    def fn(x, attn):
        x = x + attn(l.post_attention_layernorm(x))
        return x + l.mlp(l.post_feedforward_layernorm(x))
    return fn


def mlp_replaces(l):
    def fn(x, attn):
        x = x + attn(l.input_layernorm(x))
        return l.mlp(l.post_attention_layernorm(x))
    return fn


def residual_twice(l):
    def fn(x, attn):
        x = 2 * x + attn(l.input_layernorm(x))
        return x + l.mlp(l.post_attention_layernorm(x))
    return fn


def parallel(l):
    return lambda x, attn: x + attn(l.input_layernorm(x)) + l.mlp(l.post_attention_layernorm(x))


def up_plus_one(e):
    for layer in e.layers:
        m = layer.mlp
        m.forward = lambda x, m=m: m.down_proj(m.act_fn(m.gate_proj(x)) * (m.up_proj(x) + 1))


def residual_in(dtype):
    def change(e):
        for layer in e.layers:
            layer.register_forward_hook(lambda m, a, out: (out if torch.is_tensor(out) else out[0]).to(dtype).to(
                e.model.dtype))
    return change


# ---- tensors ----


def of_other_layer(name, to, of):
    def change(e):
        p = list(e.each(name))
        p[to].data = p[of].data.clone()
    return change


def qkv_by_group(e):
    """Rows of [q q k v] of each group, one after the other, are read as all of q, all of k, all of v."""
    for layer in e.layers:
        a = layer.self_attn
        q, k, v = (getattr(a, f"{x}_proj").weight.data for x in "qkv")
        n, d = e.config.num_key_value_heads, head_width(e, 0)
        w = torch.cat((q, k, v)).reshape(n, -1, d, q.shape[1])
        a.q_proj.weight.data = w[:, :-2].reshape(q.shape).clone()
        a.k_proj.weight.data = w[:, -2].reshape(k.shape).clone()
        a.v_proj.weight.data = w[:, -1].reshape(v.shape).clone()


def component_first(e, w):
    """Rows [d, H] read as [H, d]."""
    return w.reshape(head_width(e, 0), -1, *w.shape[1:]).transpose(0, 1).reshape(w.shape)


def q8(e):
    """Weights of layers in blocks of 32 as Q8_0 has them."""
    for layer in e.layers:
        for name, p in layer.named_parameters():
            if p.dim() == 2 and p.shape[1] % 32 == 0:
                b = p.data.reshape(-1, 32)
                d = b.abs().amax(1, keepdim=True) / 127
                p.data = ((b / d).round() * d.half().float()).reshape(p.shape)


def tf32(x):
    bits = x.float().view(torch.int32)
    return ((bits + 0x1000) & ~0x1fff).view(torch.float32).to(x.dtype)


def products_in_tf32(e):
    for m in e.model.modules():
        if isinstance(m, torch.nn.Linear):
            m.forward = lambda x, m=m: f.linear(tf32(x), tf32(m.weight), m.bias)


def experts_exchanged(e):
    for name, p in e.model.named_parameters():
        if "experts" in name and p.shape[0] == 4:
            p.data = p.data[[1, 0, 2, 3]].contiguous()


def router_reads_residual(e):
    for layer in e.layers:
        layer.post_attention_layernorm.register_forward_pre_hook(lambda m, a, l=layer: setattr(l, "raw", a[0]))
        g = layer.mlp.gate
        g.register_forward_pre_hook(lambda m, a, l=layer: (l.raw.reshape(-1, l.raw.shape[-1]),))


# Label, model, kinds, change, what the cause says (a pattern).
SET4 = [
    # ---- reports ----
    ("mlx-node 33: positions of a chunk doubled", LLAMA, "ref", at_positions(lambda t: t + t // 16 * 16), r"position.*16"),
    ("transformers 43082: positions restart", LLAMA, "ref", at_positions(lambda t: t % 16), r"position.*16"),
    ("VeloxQuant 389: positions lag", LLAMA, "ref", at_positions(lambda t: t - 4 * (t >= 20)), r"position.*20"),
    ("positions clamped", "gpt2", "ref", at_positions(lambda t: t.clamp(max=31)), r"positions.* 31"),
    ("tt-metal 54413: slots of the cache left zero", LLAMA, "ref", lost_slots(16, 24), r"16"),
    ("imp 986: a chunk sees only itself", LLAMA, "ref", masked(lambda i, j: (j <= i) & (i // 16 == j // 16)), r"chunk.*16"),
    ("cache of 32 positions as a ring", LLAMA, "ref", masked(lambda i, j: (j <= i) & (i - j < 32)), r"window of 32"),
    ("parallax 373: a window though there is none", "qwen2", "ref", masked(lambda i, j: (j <= i) & (i - j < 12)),
     r"window of 12"),
    ("larql 237: scores not capped, mask capped", "gemma2", "ref", capped(before_mask=True), r"cap"),
    ("Automodel 1852: the router reads the residual", "qwen3-moe", "ref", router_reads_residual, r"router|expert"),
    ("gpt-oss: gate times (up + 1)", LLAMA, "ref", up_plus_one, r"up.*1"),
    ("rotated before the heads are transposed", LLAMA, "ref", rotation(by_heads), r"head"),
    ("llama.cpp 23758: + 1 in the norms of the file", "qwen3", "file", rows(
        lambda e, w: w + 1, "input_layernorm.weight", "post_attention_layernorm.weight"), r"gains .*norm"),
    # ---- rotation ----
    ("cosines and sines exchanged", LLAMA, "ref", rotation(lambda x, c, s: x * s + half(x) * c),
     r"cosine|other direction"),
    ("both halves with +", "qwen2", "ref", rotation(unsigned), r"RoPE turns a pair"),
    ("only head 0 rotates", "qwen2", "ref", rotation(first_head_only), r"head 0"),
    ("frequencies by n - 1", LLAMA, "ref", freq(lambda t: t[0] * (t[1] / t[0]) ** (torch.arange(len(t)) * len(t) / (len(t) - 1))),
     r"rope base|frequenc"),
    ("angles in bfloat16", LLAMA, "ref", angles_in(torch.bfloat16), r"angles.*bf"),
    ("YaRN without rounding of its bounds", "llama-yarn", "ref", ropes(truncate=False), r"YaRN"),
    ("positions from 2", "gpt2", "ref", positions(2), r"positions off by two"),
    # ---- attention ----
    ("softmax over heads", "gpt2", "ref", softmax_as(lambda old, x, dim: old(x, 1)), r"softmax"),
    ("scores times sqrt(d)", LLAMA, "ref", attention(scaling=8**0.5), r"attention scores times|sqrt"),
    ("soft cap before the scale", "gemma2", "ref", capped(before_scale=True), r"cap"),
    ("caps exchanged", "gemma2", "ref", config(attn_logit_softcapping=10.0, final_logit_softcapping=5.0), r"cap"),
    ("k and v read the residual", LLAMA, "ref", kv_unnormed, r"k.*v|norm"),
    ("q and k times gains only", "qwen3", "ref", norms(gains_only, "q_norm", "k_norm"), r"norm.*q.*k"),
    ("q and k by their length", "qwen3", "ref", norms(l2, "q_norm", "k_norm"), r"norm.*q.*k|attention scores"),
    ("windows with 4 first keys", "gemma3", "ref",
     masked_windows(lambda i, j, w: (j <= i) & ((i - j < w) | (j < 4))), r"first"),
    ("windows to both sides", "gemma3", "ref", masked_windows(lambda i, j, w: (i - j).abs() < w), r"mask|sees"),
    ("a prefix of 8 sees itself", LLAMA, "ref", masked(lambda i, j: (j <= i) | ((i < 8) & (j < 8))), r"prefix|first 8|mask"),
    ("ALiBi of 8 heads", "bloom", "ref", code("_get_alibi_slopes", lambda old, e: lambda n, *a, **k: old(8, *a, **k)[:4]),
     r"ALiBi"),
    # ---- norms, residual ----
    ("RMSNorm for LayerNorm", "gpt2", "ref", norms(lambda m: lambda x: rms(m, x) + m.bias), r"RMSNorm"),
    ("gains before the norm", LLAMA, "ref", norms(gain_first), r"gain"),
    ("the final norm has a layer's gain", LLAMA, "file ref",
     lambda e: e.weight("model.norm.weight").data.copy_(e.weight("layers.0.input_layernorm.weight")), r"output_norm|final"),
    ("norms after, not before", LLAMA, "ref", layer_does(post_norm), r"norm.*after|post"),
    ("norms before, not after", "olmo2", "ref", layer_does(pre_norm_of_post), r"norm.*before|pre"),
    ("the MLP replaces the residual", LLAMA, "ref", layer_does(mlp_replaces), r"residual"),
    ("the residual counts twice", LLAMA, "ref", layer_does(residual_twice), r"residual"),
    ("parallel branches", LLAMA, "ref", layer_does(parallel), r"parallel"),
    # ---- MLP, embedding, head ----
    ("gelu_quick for silu", LLAMA, "ref", mlp_act(lambda x: x * torch.sigmoid(1.702 * x)), r"gelu_quick"),
    ("logits by a temperature", "qwen2", "ref", logits_as(lambda x: x / 0.7), r"logits|output"),
    ("probabilities", LLAMA, "ref", logits_as(lambda x: x.softmax(-1)), r"probabilit"),
    # ---- tensors ----
    ("gate of layer 2 is layer 1's", LLAMA, "file ref", of_other_layer("gate_proj.weight", 2, 1), r"ffn_gate"),
    ("v of layer 0 is layer 2's", "qwen2", "ref", of_other_layer("v_proj.weight", 0, 2), r"attn_v"),
    ("the last layer is not run", LLAMA, "ref", lambda e: setattr(e.layers[2], "forward", lambda x, *a, **k: x), r"layer"),
    ("k of layer 1 is zero", LLAMA, "ref", zero("k_proj.weight", only=(1,)), r"attn_k|layer 1"),
    ("up of layer 2 is zero", LLAMA, "ref", zero("up_proj.weight", only=(2,)), r"layer 2"),
    ("weights in Q8_0", LLAMA, "ref", q8, r"Q8_0"),
    ("v transposed", "llama-mha", "file ref", rows(lambda e, w: w.T, "v_proj.weight"), r"transposed"),
    ("qkv by group", LLAMA, "ref", qkv_by_group, r"qkv|group"),
    ("heads in the inner axis", "llama-mha", "ref", rows(component_first, "q_proj.weight", "k_proj.weight", "v_proj.weight"),
     r"component|heads"),
    ("biases twice", "qwen2", "ref", rows(lambda e, w: 2 * w, *QKV), r"bias"),
    ("experts 0 and 1 exchanged", "qwen3-moe", "ref", experts_exchanged, r"expert"),
    # ---- precision ----
    ("the residual in bfloat16", LLAMA, "ref", residual_in(torch.bfloat16), r"residual.*bf"),
    ("logits in bfloat16", "qwen2", "ref", logits_as(lambda x: x.bfloat16().to(x.dtype)), r"bf"),
    ("keys and values in float8", LLAMA, "ref", cached(lambda m, x: x.to(torch.float8_e4m3fn).to(x.dtype)), r"float8|fp8"),
    ("products in TF32", LLAMA, "ref", products_in_tf32, r"TF32|tf32"),
    # ---- two at once ----
    ("two: adjacent pairs, epsilon", LLAMA, "ref", in_turn(config(rms_norm_eps=1e-3), rotation(rotate_adjacent)),
     r"(pairs|halves).*eps|eps.*(pairs|halves)"),
    ("two: no embedding scale, erf", "gemma3", "ref", in_turn(config(hidden_activation="gelu"),
     embedded(lambda x: x / 24**0.5)), r"embedd.*gelu|gelu.*embedd"),
    ("two: window of one more, no cap", "gemma2", "ref", config(sliding_window=17, final_logit_softcapping=None),
     r"window.*cap|cap.*window"),
    ("two: tied head, rope base", LLAMA, "ref", in_turn(ropes(rope_theta=5e5),
     lambda e: e.weight("lm_head.weight").data.copy_(e.weight("embed_tokens.weight"))), r"tied.*base|base.*tied"),
    ("two: last layer lost, biases lost", "qwen2", "ref", in_turn(zero(*QKV), lambda e: setattr(
        e.layers[2], "forward", lambda x, *a, **k: x)), r"layer.*bias|bias.*layer"),
    # ---- nothing may be named ----
    ("healthy", "llama-bias", "ref", lambda e: None, None),
    ("silu of 1.3 x", LLAMA, "ref", mlp_act(lambda x: x * torch.sigmoid(1.3 * x)), None),
    ("noise everywhere", "qwen3", "ref", noise("weight", by=0.05), None),
    ("tokens shuffled", "gpt2", "ref", ids(lambda t: t[:, torch.randperm(t.shape[1], generator=torch.Generator().manual_seed(5))]),
     None),
]
