"""A fifth set of bugs for causes.py, written before anything was mended for it. See causes_list.py."""

import torch

from causes_fresh import attend, cached, masked, members, softmax_as
from causes_planted import *  # noqa: F403
from causes_set4 import at_positions, layer_does, of_other_layer

f = torch.nn.functional
LLAMA = "llama"
QKV = ("q_proj.bias", "k_proj.bias", "v_proj.bias")

FAMILIES.update({
    "mistral": lambda: hf.MistralConfig(**shape(32, 4, 2, 40), rms_norm_eps=1e-5, tie_word_embeddings=False,
                                        sliding_window=12, rope_parameters=make_hf.rope(10000.0)),
    "phi3": lambda: hf.Phi3Config(**shape(32, 4, 2, 40), rms_norm_eps=1e-5, tie_word_embeddings=False,
                                  rope_parameters=make_hf.rope(10000.0)),
    "cohere": lambda: hf.CohereConfig(**shape(32, 4, 2, 40), layer_norm_eps=1e-5, logit_scale=0.25,
                                      tie_word_embeddings=True, rope_parameters=make_hf.rope(10000.0)),
    "stablelm": lambda: hf.StableLmConfig(**shape(32, 4, 2, 40), layer_norm_eps=1e-5, use_qkv_bias=True,
                                          tie_word_embeddings=False,
                                          rope_parameters=make_hf.rope(10000.0, partial_rotary_factor=0.25)),
    "qwen2-moe": lambda: hf.Qwen2MoeConfig(**shape(32, 4, 2, 40), rms_norm_eps=1e-6, num_experts=4, num_experts_per_tok=2,
                                           moe_intermediate_size=24, shared_expert_intermediate_size=40,
                                           norm_topk_prob=False, tie_word_embeddings=False,
                                           rope_parameters=make_hf.rope(10000.0)),
    "glm4": lambda: hf.Glm4Config(**shape(32, 4, 2, 40), head_dim=8, rms_norm_eps=1e-5, tie_word_embeddings=False,
                                  attention_bias=True,
                                  rope_parameters=make_hf.rope(10000.0, partial_rotary_factor=0.5)),
})


def rms_plain(x, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)


def row_of(name, row, to):
    def change(e):
        w = e.weight(name).data
        w[row] = to(w, row)
    return change


def layer_twice(at):
    def change(e):
        layer = e.layers[at]
        old = layer.forward
        layer.forward = lambda x, *a, **k: old((lambda y: y if torch.is_tensor(y) else y[0])(old(x, *a, **k)), *a, **k)
    return change


def scores_by(how):
    """Scores of a query at i and a key at j multiplied by how(i, j)."""
    def to(old, m, q, k, v, mask, scaling, more):
        i = torch.arange(q.shape[2])[:, None].to(q.dtype)
        return old(m, q * how(i), k, v, mask, scaling=scaling, **more)
    return attend(to)


def values_normed(old, m, q, k, v, mask, scaling, more):
    return old(m, q, k, rms_plain(v), mask, scaling=scaling, **more)


def mask_times(old, m, q, k, v, mask, scaling, more):
    """Scores times a mask of 0 and 1."""
    n = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(n, 1) for x in (k, v))
    w = f.softmax((q @ k.transpose(2, 3) * scaling).tril(), -1)
    return (w @ v).transpose(1, 2).contiguous(), w


def mask_late(old, m, q, k, v, mask, scaling, more):
    """Masked after the softmax."""
    n = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(n, 1) for x in (k, v))
    w = f.softmax(q @ k.transpose(2, 3) * scaling, -1).tril()
    return (w @ v).transpose(1, 2).contiguous(), w


def lost_head(layer, head):
    def change(e):
        a = e.layers[layer].self_attn

        def hook(m, args):
            x = args[0].clone()
            d = head_width(e, 0)
            x[..., head * d : (head + 1) * d] = 0
            return (x,)
        a.o_proj.register_forward_pre_hook(hook)
    return change


def both_active(e):
    for layer in e.layers:
        m = layer.mlp
        m.forward = lambda x, m=m: m.down_proj(m.act_fn(m.gate_proj(x)) * m.act_fn(m.up_proj(x)))


def mlp_of_input(l):
    def fn(x, attn):
        h = x + attn(l.input_layernorm(x))
        return x + l.mlp(l.post_attention_layernorm(h))
    return fn


def scaled_sums(l):
    def fn(x, attn):
        x = (x + attn(l.input_layernorm(x))) * 0.5**0.5
        return (x + l.mlp(l.post_attention_layernorm(x))) * 0.5**0.5
    return fn


def norm_of_output(l):
    def fn(x, attn):
        h = l.input_layernorm(x)
        x = x + attn(h)
        return x + l.mlp(l.post_attention_layernorm(l.post_attention_layernorm(x)))
    return fn


def shared(how):
    def change(e):
        for layer in e.layers:
            layer.mlp.shared_expert_gate.register_forward_hook(lambda m, a, out: how(out))
    return change


def no_shared(e):
    for layer in e.layers:
        layer.mlp.shared_expert.register_forward_hook(lambda m, a, out: 0 * out)


def norms_moved(name, by):
    def change(e):
        p = list(e.each(name))
        old = [x.data.clone() for x in p]
        for i, x in enumerate(p):
            x.data = old[(i + by) % len(p)]
    return change


def gate_up_halves(e):
    for p in e.each("gate_up_proj.weight"):
        a, b = p.data.chunk(2, 0)
        p.data = torch.cat((b, a)).contiguous()


def own_norm(e):
    """q and k normalised though the model does not."""
    old = e.code.apply_rotary_pos_emb
    e.patch("apply_rotary_pos_emb", lambda q, k, c, s, **m: old(rms_plain(q), rms_plain(k), c, s, **m))


# Label, model, kinds, change, what the cause says (a pattern).
SET5 = [
    # ---- positions, rotation ----
    ("tokens from 24 on: positions 3 more", "qwen2", "ref", at_positions(lambda t: t + 3 * (t >= 24)), r"24.*3 more"),
    ("a position skipped at each chunk of 10", LLAMA, "ref", at_positions(lambda t: t + t // 10), r"one more.*10"),
    ("positions restart in gpt2", "gpt2", "ref", at_positions(lambda t: t % 20), r"begin again.*20"),
    ("frequencies in reverse", LLAMA, "ref", freq(lambda t: t.flip(0)), r"frequency of the first"),
    ("attention factor 1.2", LLAMA, "ref", rotation(lambda x, c, s: 1.2 * plain_rotation(x, c, s)),
     r"attention factor|attention scores"),
    ("only cosines scaled", "qwen3", "ref", rotation(lambda x, c, s: plain_rotation(x, 1.1 * c, s)), None),
    ("partial rotation of stablelm ignored", "stablelm", "file ref", whole_rotary, r"RoPE rotates"),
    ("glm: halves, not adjacent pairs", "glm4", "ref", rotation(plain_rotation), r"halves|pairs"),
    ("cohere: halves, not adjacent pairs", "cohere", "ref", rotation(lambda x, c, s: (
        lambda n: x * c[..., ::2].repeat(1, 1, 1, 2) + half(x) * s[..., ::2].repeat(1, 1, 1, 2))(0)), r"halves|pairs"),
    ("q before the rotation scaled by n_rot", "stablelm", "ref", attention(scaling=4**-0.5), r"attention scores|head"),
    ("dynamic NTK, factor 4", LLAMA, "ref", ropes(rope_theta=10000.0 * 4 ** (8 / 6)), r"NTK|rope base"),
    ("rope in float16 angles", "qwen3", "ref", freq(lambda t: t.half().to(t.dtype)), r"float16"),
    # ---- attention ----
    ("scores times a mask of 0 and 1", "gpt2", "ref", attend(mask_times), r"score of 0"),
    ("masked after the softmax", LLAMA, "ref", attend(mask_late), r"softmax over all keys"),
    ("values normalised", "qwen3", "ref", attend(values_normed), r"v\b|values"),
    ("q and k normalised", LLAMA, "ref", own_norm, r"norms of q and k"),
    ("log of the length", LLAMA, "ref", scores_by(lambda i: (i + 2).log()), None),
    ("head 1 of layer 2 lost", LLAMA, "ref", lost_head(2, 1), r"head 1 of layer 2"),
    ("mistral: no window", "mistral", "ref", config(sliding_window=None), r"no sliding window"),
    ("mistral: window of 11", "mistral", "file ref", config(sliding_window=11), r"window of (one (less|more)|11)"),
    ("mistral: chunks for windows", "mistral", "ref", masked(lambda i, j: (j <= i) & (i // 12 == j // 12)), r"chunk"),
    ("ALiBi in llama", LLAMA, "ref", attend(lambda old, m, q, k, v, mask, s, more: old(m, q, k, v, mask + torch.tensor(
        [2.0 ** (-2 * (h + 1)) for h in range(4)]).to(q.dtype)[None, :, None, None] * (
            torch.arange(q.shape[2])[None] - torch.arange(q.shape[2])[:, None]).to(q.dtype), scaling=s, **more)), r"ALiBi"),
    ("slopes in reverse", "bloom", "ref", code("_get_alibi_slopes", lambda old, e: lambda *a, **k: old(*a, **k).flip(-1)),
     r"slopes in reverse"),
    ("k without its bias, v with half", "qwen2", "ref", zero("k_proj.bias"), r"bias of k"),
    ("keys twice as long", "qwen2", "ref", rows(lambda e, w: 2 * w, "k_proj.weight", "k_proj.bias"), r"attention scores|k\b"),
    ("keys and values one late from layer 0", "qwen3", "ref", cached(
        lambda m, x: torch.cat((x[:, :, :1], x[:, :, :-1]), 2) if m.layer_idx == 0 else x), r"layer 0"),
    ("softmax at a temperature", "gemma3", "ref", attention(scaling=0.7 / 8**0.5), r"attention scores"),
    # ---- norms, layers ----
    ("layer 1 runs twice", LLAMA, "ref", layer_twice(1), r"layer 1 runs twice"),
    ("the first layer is not run", "gpt2", "ref", lambda e: setattr(e.layers[0], "forward", lambda x, *a, **k: x), r"layer 0"),
    ("the MLP adds to the input", LLAMA, "ref", layer_does(mlp_of_input), r"layer's input|residual"),
    ("sums by sqrt(2)", LLAMA, "ref", layer_does(scaled_sums), r"residual|branches"),
    ("the MLP's norm twice", LLAMA, "ref", layer_does(norm_of_output), r"twice"),
    ("final norm without its gain", "qwen3", "file ref", ones("norm.weight") if False else (
        lambda e: e.weight("model.norm.weight").data.fill_(1)), r"output_norm|final norm"),
    ("ffn norms are those of the next layer", LLAMA, "file ref", norms_moved("post_attention_layernorm.weight", 1),
     r"ffn_norm of layer n"),
    ("the norm's mean subtracted in the final one", "qwen2", "ref", norms(
        lambda m: lambda x: f.layer_norm(x, x.shape[-1:], eps=eps_of(m)) * m.weight, "model.norm"), r"final norm"),
    ("q and k: norm without the mean of squares", "gemma3", "ref", norms(lambda m: lambda x: x * gain_of(m), "q_norm", "k_norm"),
     r"norm.*q"),
    ("one norm of each layer for both", "cohere", "ref", config(layer_norm_eps=1e-2), r"epsilon"),
    ("glm: no norms after branches", "glm4", "ref", norms(skip, "post_self_attn_layernorm", "post_mlp_layernorm"),
     r"norms? after"),
    # ---- MLP, experts ----
    ("gate and up both active", LLAMA, "ref", both_active, r"gate and of up"),
    ("no gate", "qwen3", "ref", mlp_act(lambda x: torch.ones_like(x)), None),
    ("bilinear", LLAMA, "ref", mlp_act(lambda x: x), r"activation none"),
    ("phi3: up and gate", "phi3", "file ref", gate_up_halves, r"gate and up|ffn_up"),
    ("shared expert's gate ignored", "qwen2-moe", "ref", shared(lambda x: x * 0 + 100), r"shared expert"),
    ("no shared expert", "qwen2-moe", "ref", no_shared, r"shared|exp"),
    ("weights of experts normalised (qwen2)", "qwen2-moe", "ref", members("norm_topk_prob", lambda x: True), r"expert"),
    # ---- tensors, embedding, head ----
    ("token 5's embedding is 0", LLAMA, "file ref", row_of("embed_tokens.weight", 5, lambda w, r: 0 * w[r]), r"token_embd|row 5"),
    ("position 7's embedding is 8's", "gpt2", "file ref", row_of("wpe.weight", 7, lambda w, r: w[r + 1].clone()),
     r"position_embd"),
    ("logits less the largest", "qwen2", "ref", logits_as(lambda x: x - x.amax(-1, keepdim=True)), r"largest"),
    ("logits less the mean", LLAMA, "ref", logits_as(lambda x: x - x.mean(-1, keepdim=True)), r"mean"),
    ("cohere: no logit scale", "cohere", "ref", logits_as(lambda x: x / 0.25), r"logits|head|output"),
    ("embeddings by n_embd", "gemma3", "ref", embedded(lambda x: x * 24**0.5), r"embeddings"),
    ("o of layer 0 is layer 1's", "llama-mha", "file ref", of_other_layer("o_proj.weight", 0, 1), r"attn_output"),
    ("gates are ups", LLAMA, "ref", lambda e: [a.data.copy_(b.data) for a, b in zip(e.each("gate_proj.weight"),
     e.each("up_proj.weight"))], r"gate is up"),
    ("k is v", "qwen3", "ref", lambda e: [a.data.copy_(b.data) for a, b in zip(e.each("k_proj.weight"),
     e.each("v_proj.weight"))], r"k is v"),
    ("o in components first", "llama-mha", "file ref", rows(lambda e, w: w.reshape(len(w), 4, 8).transpose(1, 2).reshape(w.shape),
     "o_proj.weight"), r"component|rows of attention"),
    ("down negative in layer 0", LLAMA, "file ref", rows(lambda e, w: -w, "down_proj.weight", only=(0,)), r"ffn_down|MLP|sign"),
    ("v of all layers negative", "qwen3", "ref", rows(lambda e, w: -w, "v_proj.weight"), r"attn_v|attention.s output times"),
    # ---- precision ----
    ("attention scores in bfloat16", LLAMA, "ref", softmax_as(lambda old, x, dim: old(x.bfloat16().to(x.dtype), dim)),
     r"scores in bf|bfloat16"),
    ("weights in float8", LLAMA, "ref", lambda e: [setattr(p, "data", p.data.to(torch.float8_e4m3fn).float())
     for p in e.model.parameters()], r"float8"),
    ("the residual in float16", "qwen2", "ref", lambda e: [l.register_forward_hook(lambda m, a, out: (
        out if torch.is_tensor(out) else out[0]).half().to(e.model.dtype)) for l in e.layers], r"float16"),
    # ---- two at once ----
    ("two: biases lost, gelu", "qwen2", "ref", in_turn(config(hidden_act="gelu"), zero(*QKV)), r"bias.*gelu|gelu.*bias"),
    ("two: no window, norms of q and k late", "gemma3", "ref", in_turn(norms_after_rope), r"after"),
    ("two: gate and up, adjacent pairs", LLAMA, "ref", in_turn(swap("gate_proj.weight", "up_proj.weight"),
     rotation(rotate_adjacent)), r"gate and up.*(pairs|halves)|(pairs|halves).*gate and up"),
    ("two: final norm's + 1, epsilon", "gemma3", "ref", in_turn(config(rms_norm_eps=1e-3), norms(
        lambda m: lambda x: rms(m, x, whole=True) * m.weight, "model.norm")), r"final norm.*eps|eps.*final norm"),
    ("two: scale by d, KV heads tiled", LLAMA, "ref", in_turn(attention(scaling=1 / 8), kv_heads(
        lambda G, n: [i % G for i in range(G * n)])), r"(attention|1/d).*KV|KV.*(attention|1/d)"),
    # ---- nothing may be named ----
    ("healthy", "glm4", "ref", lambda e: None, None),
    ("healthy", "cohere", "ref", lambda e: None, None),
    ("healthy", "qwen2-moe", "ref", lambda e: None, None),
    ("random gate in layer 2", "qwen2", "ref", noise("gate_proj.weight", only=(2,), by=1.0), None),
]
