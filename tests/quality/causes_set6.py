"""A sixth set of bugs for causes.py, written before anything was mended for it. See causes_list.py."""

from causes_fresh import attend, cached, softmax_as
from causes_planted import *  # noqa: F403
from causes_set4 import at_positions, layer_does, residual_in
from causes_set5 import LLAMA, QKV, row_of

f = torch.nn.functional


def attention_of(how):
    """how(q, k, v, mask) gives what attention gets instead."""
    return attend(lambda old, m, q, k, v, mask, scaling, more: old(m, *how(q, k, v, mask), scaling=scaling, **more))


def scores_of(how):
    """Attention written out: how(scores before the mask, mask) gives the weights."""
    def to(old, m, q, k, v, mask, scaling, more):
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
        w = how(q @ k.transpose(2, 3) * scaling, mask)
        return (w @ v).transpose(1, 2).contiguous(), w
    return attend(to)


def layers_in(order):
    def change(e):
        old = [[p.data.clone() for p in layer.parameters()] for layer in e.layers]
        for layer, i in zip(e.layers, order):
            for p, x in zip(layer.parameters(), old[i]):
                p.data = x
    return change


def k_alone(x, cos, sin, how):
    """Keys are those with fewer heads."""
    return how(x, cos, sin) if x.shape[1] == 2 else plain_rotation(x, cos, sin)


def q4(e):
    for p in (p for layer in e.layers for p in layer.parameters() if p.dim() == 2 and p.shape[1] % 32 == 0):
        x = p.data.reshape(-1, 32)
        d = x.gather(1, x.abs().argmax(1, keepdim=True)) / -8
        q = (x * (1 / d) + 8.5).floor().clamp(0, 15) - 8
        p.data = (q * d.half().float()).reshape(p.shape)


def norm_of_sums(l):
    def fn(x, attn):
        x = l.post_attention_layernorm(x + attn(l.input_layernorm(x)))
        return l.post_feedforward_layernorm(x + l.mlp(l.pre_feedforward_layernorm(x)))
    return fn


def mlp_first(l):
    def fn(x, attn):
        x = x + l.mlp(l.post_attention_layernorm(x))
        return x + attn(l.input_layernorm(x))
    return fn


def half_residual(l):
    def fn(x, attn):
        h = l.post_attention_layernorm(x + attn(l.input_layernorm(x)))
        return h + l.mlp(h)
    return fn


def of_branch(name, by):
    return lambda e: [getattr(l, name).register_forward_hook(lambda m, a, out: (
        out * by if torch.is_tensor(out) else (out[0] * by, *out[1:]))) for l in e.layers]


def weight_as(name, to):
    def change(e):
        w = e.weight(name)
        w.data = to(w.data).contiguous().clone()
    return change


def low_rank(e):
    torch.manual_seed(2)
    for p in e.each("q_proj.weight", "v_proj.weight"):
        p.data += 0.2 * torch.randn(len(p), 2) @ torch.randn(2, p.shape[1])


# Label, model, kinds, change, what the cause says (a pattern).
SET6 = [
    # ---- positions, rotation ----
    ("frequencies by i / d, not 2 i / d", LLAMA, "ref", freq(lambda t: t.sqrt()), r"rope base 100\b"),
    ("frequencies by 4 i / d", "qwen3", "ref", freq(lambda t: t * t), r"rope base"),
    ("frequencies from the second on", LLAMA, "ref", freq(lambda t: t * t[1] / t[0]), r"positions divided|frequenc"),
    ("angles in degrees", "qwen2", "ref", freq(lambda t: t * 3.14159265358979 / 180), r"positions divided by 57"),
    ("two tokens share a position", LLAMA, "ref", at_positions(lambda t: t // 2), r"position"),
    ("position 0 twice in gpt2", "gpt2", "ref", at_positions(lambda t: (t - 1).clamp(min=0)), r"first two are 0"),
    ("positions from 1 in gpt2", "gpt2", "ref", at_positions(lambda t: t + 1), r"first is 1"),
    ("keys rotate the other way", LLAMA, "ref", rotation(lambda x, c, s: k_alone(x, c, s, lambda x, c, s: plain_rotation(
        x, c, -s))), r"k.*direction|direction.*k"),
    ("keys in adjacent pairs", LLAMA, "ref", rotation(lambda x, c, s: k_alone(x, c, s, rotate_adjacent)), r"k.*pairs|pairs.*k"),
    ("keys are not rotated", "qwen2", "ref", rotation(lambda x, c, s: k_alone(x, c, s, lambda x, c, s: x)), r"k is not"),
    ("half of a head rotates", "qwen3", "ref", rotation(lambda x, c, s: torch.cat((plain_rotation(x[..., :4], c[..., ::2],
     s[..., ::2]), x[..., 4:]), -1)), r"RoPE rotates 4"),
    ("cosines in float16", LLAMA, "ref", rotation(lambda x, c, s: plain_rotation(x, c.half().to(x), s.half().to(x))),
     r"cosines.*float16"),
    ("phi: whole heads' frequencies", "phi", "ref", freq(lambda t: 10000.0 ** (-torch.arange(len(t)).to(t) / 4)),
     r"frequenc|rope base"),
    # ---- attention ----
    ("1/sqrt(n_head)", LLAMA, "ref", attention(scaling=0.5), r"attention scores"),
    ("1/sqrt(head_dim) twice", "phi", "ref", attention(scaling=1 / 8), r"1/d"),
    ("keys that are not seen get -10", LLAMA, "ref", scores_of(lambda s, mask: f.softmax(s + mask.clamp(min=-10), -1)),
     r"not seen|mask"),
    ("mask transposed", "gpt2", "ref", attention_of(lambda q, k, v, m: (q, k, v, m.transpose(2, 3))), r"mask|keys"),
    ("softmax over the queries", "llama-mha", "ref", scores_of(lambda s, mask: f.softmax(s + mask, -2)), r"softmax"),
    ("KV groups in reverse", LLAMA, "ref", kv_heads(lambda G, n: [G - 1 - i // n for i in range(G * n)]), r"heads"),
    ("KV heads tiled for v alone", "qwen3", "ref", attend(lambda old, m, q, k, v, mask, scaling, more: (
        lambda w: ((w @ v.repeat(1, 2, 1, 1)).transpose(1, 2).contiguous(), w))(
            old(m, q, k, v, mask, scaling=scaling, **more)[1])), r"v\b|values"),
    ("values are the rotated keys", "qwen3", "ref", attention_of(lambda q, k, v, m: (q, k, k, m)), r"v is k|values"),
    ("q and k exchanged after RoPE", "llama-mha", "ref", attention_of(lambda q, k, v, m: (k, q, v, m)), r"q and k exchanged"),
    ("a soft cap of 20 on scores", LLAMA, "ref", scores_of(lambda s, mask: f.softmax(20 * (s / 20).tanh() + mask, -1)),
     r"soft cap"),
    ("heads of the output in reverse", "neox", "ref", rows(heads(lambda n: list(range(n))[::-1], cols=True), "attention.dense.weight"),
     r"heads of .* in reverse"),
    ("the last head is not added", "qwen2", "ref", rows(lambda e, w: torch.cat((w[:, :24], 0 * w[:, 24:]), 1), "o_proj.weight"),
     r"head 3"),
    ("o's bias twice", "gpt2", "ref", rows(lambda e, w: 2 * w, "attn.c_proj.bias"), r"biases of attn_output times 2"),
    ("q's bias negative", "qwen2", "ref", rows(lambda e, w: -w, "q_proj.bias"), r"biases of attn_q times -1"),
    ("v's bias on k", "qwen2", "ref", lambda e: [a.data.copy_(b.data) for a, b in zip(e.each("k_proj.bias"),
     e.each("v_proj.bias"))], r"bias"),
    ("the cache forgets position 4", LLAMA, "ref", cached(lambda m, x: torch.cat((x[:, :, :4], 0 * x[:, :, 4:5], x[:, :, 5:]), 2)),
     r"positions 4 to 4"),
    # ---- norms, layers ----
    ("epsilon 1e-6 is 1e-2", "olmo2", "ref", config(rms_norm_eps=1e-2), r"epsilon"),
    ("gain of q's norm lost", "qwen3", "file ref", ones("q_norm.weight"), r"q.*norm"),
    ("norms of q and k normalise once more", "qwen3", "ref", norms(lambda m: lambda x: rms(m, rms(m, x)), "q_norm", "k_norm"),
     r"norms? .*twice|twice"),
    ("gemma: norms of the sums", "gemma3", "ref", layer_does(norm_of_sums), r"sums"),
    ("the MLP before attention", LLAMA, "ref", layer_does(mlp_first), r"MLP.*attention"),
    ("residual of the MLP is normed", LLAMA, "ref", layer_does(half_residual), r"norm"),
    ("layers 1 and 2 exchanged", "qwen2", "file ref", layers_in((0, 2, 1)), r"layers 1 and 2 exchanged"),
    ("layers in threes", LLAMA, "ref", layers_in((1, 2, 0)), r"layers one further"),
    ("attention's output by half", "neox", "ref", of_branch("attention", 0.5), r"attention.s output times 0.5"),
    ("the MLP's output by 2", "phi", "ref", of_branch("mlp", 2.0), r"MLP.s output times 2"),
    ("residuals by 0.7", "qwen3", "ref", in_turn(of_branch("self_attn", 0.7), of_branch("mlp", 0.7)), r"branches times 0.7|embeddings times 1.428"),
    # ---- MLP, tensors ----
    ("relu2 for gelu", "gpt2", "ref", mlp_act(lambda x: f.relu(x) ** 2), r"relu2"),
    ("gelu for silu, erf", "gemma3", "ref", mlp_act(f.gelu), r"gelu_erf"),
    ("leaky relu", "phi", "ref", mlp_act(f.leaky_relu), None),
    ("the last units of the MLP lost", LLAMA, "ref", rows(lambda e, w: torch.cat((w[:, :32], 0 * w[:, 32:]), 1), "down_proj.weight"),
     None),
    ("all layers have k of the first", LLAMA, "ref", lambda e: [p.data.copy_(next(e.each("k_proj.weight")).data)
     for p in e.each("k_proj.weight")], r"attn_k of layer 0"),
    ("rows of the head in reverse", "qwen2", "file ref", weight_as("lm_head.weight", lambda w: w.flip(0)), r"output"),
    ("embeddings one row late", "stablelm", "file ref", weight_as("embed_tokens.weight", lambda w: w.roll(1, 0)), r"ids|token_embd"),
    ("embedding of token 7 is 8's", LLAMA, "file ref", row_of("embed_tokens.weight", 7, lambda w, r: w[8].clone()), r"token_embd|row 7|embedding of token 7"),
    ("rank 2 added to q and v", LLAMA, "ref", low_rank, (None, r"attn_q.*attn_v")),
    ("head divided by sqrt(n_embd)", "olmo2", "ref", logits_as(lambda x: x / 32**0.5), r"logits|output|final norm"),
    ("logits plus 1", "qwen3", "ref", logits_as(lambda x: x + 1), r"logits|output|bias"),
    # ---- precision ----
    ("weights in Q4_0", LLAMA, "ref", q4, r"Q4_0"),
    ("norms' results in bfloat16", "qwen2", "ref", norms(lambda m: lambda x: rms(m, x).bfloat16().to(x.dtype)), r"bfloat16"),
    ("logits in float16", "qwen3", "ref", logits_as(lambda x: x.half().to(x.dtype)), r"float16"),
    ("the residual in bfloat16", "olmo2", "ref", residual_in(torch.bfloat16), r"bfloat16"),
    ("weights of attention in float16", LLAMA, "ref", softmax_as(lambda old, x, dim: old(x, dim).half().to(x.dtype)), r"float16"),
    # ---- two at once ----
    ("two: rope base, gelu", LLAMA, "ref", in_turn(ropes(rope_theta=500000.0), config(hidden_act="gelu")),
     r"base.*gelu|gelu.*base"),
    ("two: k not rotated, epsilon", LLAMA, "ref", in_turn(config(rms_norm_eps=1e-3), rotation(lambda x, c, s: k_alone(
        x, c, s, lambda x, c, s: x))), r"k is not.*eps|eps.*k is not"),
    ("two: KV heads tiled, no final norm", "qwen2", "ref", in_turn(kv_heads(lambda G, n: [i % G for i in range(G * n)]),
     norms(skip, "model.norm")), r"KV.*final|final.*KV"),
    ("two: window off, gains without + 1", "gemma3", "ref", in_turn(config(sliding_window=4096), norms(
        lambda m: lambda x: rms(m, x, whole=True) * m.weight)), r"window.*- 1|- 1.*window"),
    ("two: biases lost, layers exchanged", "qwen2", "ref", in_turn(zero(*QKV), layers_in((0, 2, 1))),
     r"bias.*exchanged|exchanged.*bias"),
    # ---- nothing may be named ----
    ("healthy", "mistral", "ref", lambda e: None, None),
    ("healthy", "stablelm", "ref", lambda e: None, None),
    ("healthy", "phi3", "ref", lambda e: None, None),
    ("random v in layer 1", LLAMA, "ref", noise("v_proj.weight", only=(1,), by=1.0), (None, r"blk.1.attn_v")),
]
