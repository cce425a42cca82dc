"""A third set of bugs for causes.py: what programs do that the first two do not have. See causes_list.py."""

import torch

from causes_planted import *  # noqa: F403
from causes_fresh import masked

f = torch.nn.functional
LLAMA = "llama"


def keys_ahead(by):
    """Keys are rotated as if they were `by` positions further."""
    def make(old, e):
        def rotate(q, k, cos, sin, **more):
            n = torch.arange(cos.shape[1]) + by
            angle = n[:, None] * torch.cat([e.model.model.rotary_emb.inv_freq] * 2)[None].to(cos.dtype)
            return old(q, k, cos, sin, **more)[0], old(q, k, angle.cos()[None], angle.sin()[None], **more)[1]
        return rotate
    return code("apply_rotary_pos_emb", make)


def k_after(e):
    """The norm of k after rope, that of q before."""
    now = []
    old = e.code.apply_rotary_pos_emb
    for layer in e.layers:
        a = e.attn(layer)
        norm = a.k_norm.forward
        a.k_norm.forward = lambda x: x
        a.register_forward_pre_hook(lambda *_, norm=norm: now.append(norm))

    def rotate(q, k, cos, sin, **more):
        q, k = old(q, k, cos, sin, **more)
        return q, now[-1](k)
    e.patch("apply_rotary_pos_emb", rotate)


def values_rotated(e):
    old, kept = e.code.apply_rotary_pos_emb, []
    eager = e.code.eager_attention_forward

    def rotate(q, k, cos, sin, **more):
        kept.append((cos, sin))
        return old(q, k, cos, sin, **more)
    e.patch("apply_rotary_pos_emb", rotate)
    e.patch("eager_attention_forward", lambda m, q, k, v, mask, scaling=None, **more: eager(
        m, q, k, old(v, v, *kept[-1])[1], mask, scaling, **more))


def act_of_product(e):
    for layer in e.layers:
        m = layer.mlp
        m.forward = lambda x, m=m: m.down_proj(m.act_fn(m.gate_proj(x) * m.up_proj(x)))


def gate_up_interleaved(e):
    for layer in e.layers:
        m = layer.mlp
        w = torch.cat((m.gate_proj.weight.data, m.up_proj.weight.data))
        m.gate_proj.weight.data, m.up_proj.weight.data = w[::2].clone(), w[1::2].clone()


def attention_twice(e):
    for layer in e.layers:
        layer.self_attn.register_forward_hook(lambda m, a, out: (2 * out[0], *out[1:]))


def first_layers_gain(name):
    def change(e):
        all_of = list(e.each(name))
        for p in all_of:
            p.data = all_of[0].data.clone()
    return change


def c_attn(order):
    def change(e):
        for p in e.each("c_attn.weight", "c_attn.bias"):
            parts = p.data.chunk(3, -1)
            p.data = torch.cat([parts[i] for i in order], -1).contiguous()
    return change


def rms_sum(m):
    return lambda x: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + eps_of(m)) * gain_of(m)


def zero_weight(name):
    return lambda e: e.weight(name).data.zero_()


def late_rows(e):
    logits_as(lambda x: torch.cat((x[:, :1], x[:, :-1]), 1))(e)


def head_rolled(e):
    w = e.weight("lm_head.weight")
    w.data = w.data.roll(1, 0).clone()


def chunked(m, q, mask):
    if not m.sliding_window:
        return mask
    n = q.shape[2]
    i, j = torch.arange(n)[:, None], torch.arange(n)[None]
    ok = (j <= i) & (i // m.sliding_window == j // m.sliding_window)
    return torch.where(ok, 0.0, torch.finfo(q.dtype).min).to(q.dtype)[None, None]


def mlp_reads(how):
    """What the MLP of each layer reads: how(x)."""
    def change(e):
        for layer in e.layers:
            layer.mlp.register_forward_pre_hook(lambda m, a: (how(a[0]),))
    return change


def rope_q_scaled(by):
    def make(old, e):
        return lambda q, k, cos, sin, **m: tuple(x * s for x, s in zip(old(q, k, cos, sin, **m), (by, 1.0)))
    return code("apply_rotary_pos_emb", make)


def o_blocks(e):
    """Rows of W_o in halves exchanged."""
    for p in e.each("o_proj.weight"):
        a, b = p.data.chunk(2, 0)
        p.data = torch.cat((b, a)).contiguous()


def vocab_swap(e):
    w = e.weight("lm_head.weight").data
    w[[3, 5]] = w[[5, 3]].clone()


def down_rows(e):
    for p in e.each("down_proj.weight", only=(1,)):
        p.data = p.data.flip(0).contiguous()


def same_layer_kv(e):
    """Layer 2 uses layer 1's keys and values (cross-layer sharing)."""
    old, kept = e.code.eager_attention_forward, {}

    def attn(m, q, k, v, mask, *a, **more):
        kept[m.layer_idx] = (k, v)
        if m.layer_idx == 2:
            k, v = kept[1]
        return old(m, q, k, v, mask, *a, **more)
    e.patch("eager_attention_forward", attn)


# Label, model, kinds, change, what the cause says (a pattern).
MORE = [
    ("embeddings times sqrt(n_embd)", LLAMA, "ref", embedded(lambda x: x * 32**0.5), r"embeddings times"),
    ("keys one position ahead", LLAMA, "ref", keys_ahead(1), r"k.*position|keys"),
    ("attention added twice", LLAMA, "ref", attention_twice, r"attention.*(twice|times 2)|attn_output.*2"),
    ("silu of the product", LLAMA, "ref", act_of_product, r"product|activation"),
    ("RMSNorm by the sum", LLAMA, "ref", norms(rms_sum), r"sum|norm"),
    ("only the first query sees the first key", LLAMA, "ref", masked(lambda i, j: (j <= i) & ((j > 0) | (i == 0))), r"first"),
    ("rows of the head rolled", LLAMA, "file ref", head_rolled, r"output|logits|ids"),
    ("log-probabilities", LLAMA, "ref", logits_as(lambda x: x.log_softmax(-1)), r"log"),
    ("log-probabilities to base 2", LLAMA, "ref", logits_as(lambda x: x.log_softmax(-1) / 0.6931471805599453), r"to base 2"),
    ("a constant for each row", LLAMA, "ref", logits_as(lambda x: x + 3 * x[..., :1].sin()), r"constant"),
    ("heads of k exchanged, v not", LLAMA, "file ref", rows(heads(roll(1), "num_key_value_heads"), "k_proj.weight"),
     r"heads of k"),
    ("logits one row late", LLAMA, "ref", late_rows, r"late|row|position"),
    ("gate and up interleaved", "qwen3", "file ref", gate_up_interleaved, r"interleaved|gate and up"),
    ("values rotated", "qwen3", "ref", values_rotated, r"v.*rotat|values"),
    ("norm of k after rope", "qwen3", "ref", k_after, r"k alone after"),
    ("layer 0's norm of q in all layers", "qwen3", "ref", first_layers_gain("q_norm.weight"), r"q_norm"),
    ("layer 0's norm of q in all layers, file", "qwen3", "file", first_layers_gain("q_norm.weight"), r"q_norm"),
    ("k, q, v in c_attn", "gpt2", "file ref", c_attn([1, 0, 2]), r"q and k"),
    ("q, v, k in c_attn", "gpt2", "file ref", c_attn([0, 2, 1]), r"k and v"),
    ("scores by 1/(layer + 1)", "gpt2", "ref", config(scale_attn_by_inverse_layer_idx=True), r"layer"),
    ("no position embedding", "gpt2", "ref", zero_weight("wpe.weight"), r"position"),
    ("final norm's bias lost", "gpt2", "file ref", zero_weight("ln_f.bias"), r"output_norm|final norm"),
    ("c_proj transposed", "gpt2", "file ref", rows(lambda e, w: w.T, "attn.c_proj.weight"), r"transposed"),
    ("norm after the MLP skipped", "gemma3", "ref", norms(skip, "post_feedforward"), r"norm after|post_ffw"),
    ("norm before the MLP skipped", "gemma3", "ref", norms(skip, "pre_feedforward"),
     r"norm before|ffn_norm|norm.* MLP"),
    ("windows in chunks", "gemma3", "ref", code("eager_attention_forward", lambda old, e: (
        lambda m, q, k, v, mask, *a, **more: old(m, q, k, v, chunked(m, q, mask), *a, **more))), r"chunk"),
    ("head scaled as the embeddings", "gemma3", "ref", logits_as(lambda x: x * 24**0.5), r"the head .*times"),
    ("q scaled twice by 0.5", LLAMA, "ref", rope_q_scaled(0.5), r"attention"),
    ("MLP input clipped", LLAMA, "ref", mlp_reads(lambda x: x.clamp(-1, 1)), None),
    ("softplus for silu", LLAMA, "ref", mlp_act(f.softplus), None),
    ("rows of W_o in halves exchanged", LLAMA, "file ref", o_blocks, r"attn_output"),
    ("two rows of the head exchanged", LLAMA, "file ref", vocab_swap, r"output"),
    ("down of layer 1 reversed", "qwen3", "file ref", down_rows, r"ffn_down"),
    ("layer 2 has layer 1's keys and values", LLAMA, "ref", same_layer_kv, r"layer"),
    ("embedding gets the final norm", LLAMA, "ref", embedded(lambda x: x * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-5)),
     r"norm after the embedding"),
    ("position embeddings twice", "gpt2", "ref",
     lambda e: e.weight("wpe.weight").data.mul_(2), r"position_embd|position embeddings times 2"),
    ("c_fc bias halved", "gpt2", "ref", rows(lambda e, w: 0.5 * w, "mlp.c_fc.bias"), r"ffn_up.bias|biases of ffn_up times 0.5"),
    ("ln_1 and ln_2 exchanged", "gpt2", "file ref",
     in_turn(swap("ln_1.weight", "ln_2.weight"), swap("ln_1.bias", "ln_2.bias")),
     r"norms"),
    ("relu for gelu", "gpt2", "ref", mlp_act(torch.relu), r"activation relu"),
    ("positions reversed", "gpt2", "ref", lambda e: e.weight("wpe.weight").data.copy_(e.weight("wpe.weight").flip(0)),
     r"position"),
    ("heads of v reversed", "qwen3", "file ref",
     rows(heads(lambda n: list(range(n))[::-1], "num_key_value_heads"), "v_proj.weight"),
     r"heads of v"),
    ("q norm's gain on k, too", "qwen3", "ref",
     lambda e: [a.data.copy_(b.data) for a, b in zip(e.each("k_norm.weight"), e.each("q_norm.weight"))],
     r"k_norm|norms of q and k: q.s for both"),
    ("epsilon 1e-2 in norms", "qwen3", "ref", config(rms_norm_eps=1e-2), r"epsilon"),
    ("rope base 10000 in qwen3", "qwen3", "file ref", ropes(rope_theta=10000.0), r"rope base"),
    ("gemma: silu", "gemma3", "ref", mlp_act(f.silu), r"activation silu"),
    ("gemma: both scales", "gemma3", "ref", attention(scaling=1 / 8), r"scaled twice|attention"),
    ("gemma: q norm only", "gemma3", "ref", norms(skip, "k_norm"), r"norm of k"),
    ("gemma: window of 4", "gemma3", "ref", config(sliding_window=4), r"window of 4"),
    ("gemma: local rope base 20000", "gemma3", "ref", gemma_ropes(sliding=make_hf.rope(20000.0)), r"rope base.*window"),
]
