"""Small models of transformers, and what causes_list.py changes in them."""

import pathlib
import sys

import torch
import transformers as hf

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "golden"))
import make_hf  # noqa: E402

VOCAB = 67

# ---- the models ----


def shape(embd, head, kv, ff, layers=3, **more):
    return make_hf.shape(embd, head, kv, ff, layers=layers, vocab=VOCAB, context=256, **more)


def llama(**more):
    rope = more.pop("rope", make_hf.rope(10000.0))
    return hf.LlamaConfig(**{**shape(32, 4, 2, 40), "rms_norm_eps": 1e-5, "rope_parameters": rope,
                             "tie_word_embeddings": False, **more})


def llama3(factor=32.0, original=64, low=1.0, high=4.0):
    return {"rope_type": "llama3", "rope_theta": 500000.0, "factor": factor, "low_freq_factor": low,
            "high_freq_factor": high, "original_max_position_embeddings": original}


def gemma3(scaled=True, **more):
    full = make_hf.rope(1e6)
    if scaled:
        full = {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}
    ropes = {"full_attention": full, "sliding_attention": make_hf.rope(10000.0)}
    return hf.Gemma3TextConfig(**{**shape(24, 4, 2, 32, layers=6), "head_dim": 8,
                                  "query_pre_attn_scalar": 8, "rms_norm_eps": 1e-6,
                                  "sliding_window": 16, "tie_word_embeddings": True,
                                  "rope_parameters": ropes, **more})


FAMILIES = {
    "llama": llama,
    "llama-mha": lambda: llama(num_key_value_heads=4),
    "llama-bias": lambda: llama(attention_bias=True, mlp_bias=True),
    "llama-7": lambda: llama(**shape(96, 8, 4, 192, layers=7)),
    "llama-tied": lambda: llama(tie_word_embeddings=True),
    "llama3": lambda: llama(hidden_size=32, num_attention_heads=2, num_key_value_heads=1, rope=llama3()),
    "llama-linear": lambda: llama(rope={"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}),
    "qwen2": lambda: hf.Qwen2Config(**shape(32, 4, 2, 40), rms_norm_eps=1e-6, tie_word_embeddings=False,
                                    rope_parameters=make_hf.rope(1e6)),
    "qwen3": lambda: hf.Qwen3Config(**shape(32, 4, 2, 40), head_dim=8, rms_norm_eps=1e-6,
                                    tie_word_embeddings=False, rope_parameters=make_hf.rope(1e6)),
    "olmo2": lambda: hf.Olmo2Config(**shape(32, 4, 4, 40), rms_norm_eps=1e-6, tie_word_embeddings=False,
                                    rope_parameters=make_hf.rope(500000.0)),
    "gemma3": gemma3,
    "gpt2": lambda: hf.GPT2Config(n_embd=32, n_head=4, n_layer=3, n_positions=256, vocab_size=VOCAB,
                                  bos_token_id=0, eos_token_id=0),
    "neox": lambda: hf.GPTNeoXConfig(
        hidden_size=32, num_attention_heads=4, intermediate_size=48, num_hidden_layers=3,
        vocab_size=VOCAB, max_position_embeddings=256, layer_norm_eps=1e-5, hidden_act="gelu",
        use_parallel_residual=True, tie_word_embeddings=False, bos_token_id=0, eos_token_id=0,
        rope_parameters=make_hf.rope(10000.0, partial_rotary_factor=0.5)),
    "phi": lambda: hf.PhiConfig(**shape(32, 4, 4, 40), layer_norm_eps=1e-5, tie_word_embeddings=False,
                                rope_parameters=make_hf.rope(10000.0, partial_rotary_factor=0.5)),
}


def from_config(config):
    return hf.AutoModelForCausalLM.from_config(config, attn_implementation="eager", experts_implementation="eager").eval()


def build(config, seed=7):
    torch.manual_seed(seed)
    model = from_config(config)
    make_hf.randomise(model)
    for name, parameter in model.named_parameters():  # one direction, so that a lost bias is seen
        if name.endswith("bias") and "norm" not in name:
            parameter.data += 0.2
    return model


class Edit:
    """A model that a case changes: its parts by common names."""

    def __init__(self, config):
        self.config, self.undo, self.cut = config, [], 0  # cut: first rows that the reference leaves out
        self.model = build(config)
        self.code = sys.modules[type(self.model).__module__]

    def again(self, **keys):
        """The same weights under another configuration."""
        self.config = type(self.config)(**{**self.config.to_dict(), **keys})
        old = self.model.state_dict()
        self.model = from_config(self.config)
        new = self.model.state_dict()
        self.model.load_state_dict({k: v for k, v in old.items()
                                    if k in new and v.shape == new[k].shape}, strict=False)

    @property
    def layers(self):
        return make_hf.parts(self.model)[0]

    def attn(self, layer):
        for name in ("self_attn", "attn", "attention"):
            if hasattr(layer, name):
                return getattr(layer, name)

    def each(self, *names, only=None):
        """Parameters whose names end so, of all layers or of those in `only`."""
        for i, layer in enumerate(self.layers):
            for name, p in layer.named_parameters():
                if (only is None or i in only) and any(name.endswith(n) for n in names):
                    yield p

    def weight(self, name):
        return next(p for n, p in self.model.named_parameters() if n.endswith(name))

    def patch(self, name, value, where=None):
        where = where or self.code
        old = getattr(where, name)
        setattr(where, name, value)
        self.undo.append(lambda: setattr(where, name, old))


# ---- what a case does ----


def rows(to, *names, only=None):
    """The rows of these parameters in another order; `to` gets the edit and a tensor."""
    def change(e):
        for p in e.each(*names, only=only):
            p.data = to(e, p.data).contiguous().clone()
    return change


def pairs(width, back=False):
    """As a converter permutes rows for rotation of adjacent pairs, in heads of `width(e, n)`."""
    def to(e, w):
        d = width(e, len(w))
        parts = (len(w) // d, d // 2, 2) if back else (len(w) // d, 2, d // 2)
        return w.reshape(*parts, *w.shape[1:]).transpose(1, 2).reshape(w.shape)
    return to


def both(one, two):
    return lambda e, w: two(e, one(e, w))


def head_width(e, n):
    c = e.config
    return getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads


def as_n_head(e, n):
    return n // e.config.num_attention_heads


def as_n_kv(e, n):
    return n // e.config.num_key_value_heads


def zero(*names, only=None):
    return rows(lambda e, w: torch.zeros_like(w), *names, only=only)


def ones(*names, only=None):
    return rows(lambda e, w: torch.ones_like(w), *names, only=only)


def heads(order, n="num_attention_heads", cols=False):
    """Heads in another order: order(n) lists them."""
    def to(e, w):
        count = getattr(e.config, n)
        if cols:
            return w.T.reshape(count, -1, len(w))[order(count)].reshape(-1, len(w)).T
        return w.reshape(count, -1, *w.shape[1:])[order(count)].reshape(w.shape)
    return to


def roll(by):
    return lambda n: [(i + by) % n for i in range(n)]


def axes(order, groups=None):
    """A fused matrix, whose rows transformers has as [head, 3, d], read with the axes so."""
    def to(e, w):
        h, d = e.config.num_attention_heads, head_width(e, 0)
        return w.reshape(h, 3, d, -1).permute(*order, 3).reshape(w.shape)
    return to


def swap(one, two, only=None):
    def change(e):
        for a, b in zip(list(e.each(one, only=only)), list(e.each(two, only=only))):
            a.data, b.data = b.data, a.data
    return change


def config(**keys):
    return lambda e: e.again(**keys)


def ropes(**keys):
    def change(e):
        e.again(rope_parameters={**e.config.rope_parameters, **keys})
    return change


def gemma_ropes(full=None, sliding=None):
    def change(e):
        now = e.config.rope_parameters
        e.again(rope_parameters={"full_attention": full or now["full_attention"],
                                 "sliding_attention": sliding or now["sliding_attention"]})
    return change


def freq(to):
    """The table of frequencies, of all layers."""
    def change(e):
        for m in e.model.modules():
            for name, table in list(m.named_buffers(recurse=False)):
                if name.endswith("inv_freq") and "original" not in name:
                    table.data = to(table.data)
    return change


def code(name, make):
    """A function of the model's module replaced: make(old, edit)."""
    return lambda e: e.patch(name, make(getattr(e.code, name), e))


def norms(make, *names):
    """The forward of norms replaced: make(module) gives the function."""
    def change(e):
        for name, m in e.model.named_modules():
            if "Norm" in type(m).__name__ and (not names or any(n in name for n in names)):
                m.forward = make(m)
    return change


def attention(**members):
    def change(e):
        for layer in e.layers:
            for k, v in members.items():
                setattr(e.attn(layer), k, v(e.attn(layer)) if callable(v) else v)
    return change


def in_turn(*changes):
    def change(e):
        for c in changes:
            c(e)
    return change


def skip(m):
    return lambda x: x


def eps_of(m):
    return getattr(m, "variance_epsilon", getattr(m, "eps", 1e-6))


def gain_of(m):
    return 1 + m.weight if "Gemma" in type(m).__name__ else m.weight


def rms(m, x, dtype=None, whole=False):
    wide = x.to(dtype) if dtype else x
    var = wide.pow(2).mean(-1, keepdim=True)
    y = x * torch.rsqrt(var.to(x.dtype) + eps_of(m))
    return y if whole else y * gain_of(m)


def norm_in(dtype, how):
    def make(m):
        def forward(x):
            if how == "all":
                n = x.to(dtype)
                y = n * torch.rsqrt(n.pow(2).mean(-1, keepdim=True) + eps_of(m)) * gain_of(m).to(dtype)
                return y.to(x.dtype)
            if how == "result":  # the variance alone is stored so
                var = x.pow(2).mean(-1, keepdim=True).to(dtype).to(x.dtype)
                return x * torch.rsqrt(var + eps_of(m)) * gain_of(m)
            return rms(m, x, dtype)
        return forward
    return make


def whole_norm(m):
    """A norm of heads [.., H, d] taken over all of them."""
    def forward(x):
        flat = x.flatten(-2)
        return rms(m, flat, whole=True).view(x.shape) * gain_of(m)
    return forward


def head_norm(e_width):
    def make(m):
        def forward(x):
            by_head = x.view(*x.shape[:-1], -1, e_width)
            return rms(m, by_head, whole=True).view(x.shape) * m.weight
        return forward
    return make


def norms_after_rope(e):
    now = []
    old = e.code.apply_rotary_pos_emb
    for layer in e.layers:
        a = e.attn(layer)
        norm = a.q_norm.forward, a.k_norm.forward
        a.q_norm.forward = a.k_norm.forward = lambda x: x
        a.register_forward_pre_hook(lambda *_, norm=norm: now.append(norm))

    def rotate(q, k, cos, sin, **more):
        q, k = old(q, k, cos, sin, **more)
        return now[-1][0](q), now[-1][1](k)
    e.patch("apply_rotary_pos_emb", rotate)


def half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def adjacent(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def rotation(how):
    """apply_rotary_pos_emb replaced by how(x, cos, sin) for q and k."""
    def make(old, e):
        return lambda q, k, cos, sin, unsqueeze_dim=1: tuple(
            how(x, cos.unsqueeze(1), sin.unsqueeze(1)) for x in (q, k))
    return code("apply_rotary_pos_emb", make)


def rotate_adjacent(x, cos, sin):
    n = cos.shape[-1]
    c, s = (t[..., : n // 2].repeat_interleave(2, -1) for t in (cos, sin))
    return torch.cat((x[..., :n] * c + adjacent(x[..., :n]) * s, x[..., n:]), -1)


def rotate_last(x, cos, sin):
    n = x.shape[-1] - cos.shape[-1]
    return torch.cat((x[..., :n], x[..., n:] * cos + half(x[..., n:]) * sin), -1)


def rotate_across(x, cos, sin):
    """Pairs (i, i + d / 2), of which only the first n_rot / 2 turn."""
    n, d = cos.shape[-1] // 2, x.shape[-1] // 2
    a, b, c, s = x[..., :n], x[..., d : d + n], cos[..., :n], sin[..., :n]
    return torch.cat((a * c - b * s, x[..., n:d], b * c + a * s, x[..., d + n :]), -1)


def plain_rotation(x, cos, sin):
    n = cos.shape[-1]
    return torch.cat((x[..., :n] * cos + half(x[..., :n]) * sin, x[..., n:]), -1)


def mixed(table):
    """A table for halves, its values in the order for adjacent pairs."""
    return table[..., : table.shape[-1] // 2].repeat_interleave(2, -1)


def weights_in(dtype):
    def change(e):
        for p in e.model.parameters():
            p.data = p.data.to(dtype).float()
    return change


def residual_normed(e):
    for layer in e.layers:
        for name in ("input_layernorm", "post_attention_layernorm"):
            def forward(x, old=getattr(layer, name).forward):
                x.copy_(old(x))  # the residual is the same tensor
                return x.clone()
            getattr(layer, name).forward = forward


def whole_rotary(e):
    e.again(rope_parameters={**e.config.rope_parameters, "partial_rotary_factor": 1.0})


def kv_heads(order):
    """Query heads read KV heads in another order: order(G, n) lists one for each of G n heads."""
    return code("repeat_kv", lambda old, e: lambda x, n: x[:, order(x.shape[1], n)])


def embedded(how):
    def change(e):
        e.model.get_input_embeddings().register_forward_hook(lambda m, a, out: how(out))
    return change


def logits_as(how):
    return lambda e: e.model.get_output_embeddings().register_forward_hook(lambda m, a, out: how(out))


def positions(by):
    def change(e):
        old = e.model.forward
        e.model.forward = lambda ids, **k: old(ids, position_ids=torch.arange(ids.shape[1])[None] + by, **k)
    return change


def everything_in(dtype):
    def change(e):
        e.dtype = dtype
    return change


def mlp_act(fn):
    def change(e):
        for m in e.model.modules():
            for name in ("act_fn", "act", "activation_fn"):
                if hasattr(m, name) and name in m._modules or hasattr(m, name) and callable(getattr(m, name)):
                    m._modules.pop(name, None)
                    object.__setattr__(m, name, fn)
    return change


def noise(*names, only=None, by=0.3):
    def to(e, w):
        torch.manual_seed(1)
        return w + by * torch.randn_like(w)
    return rows(to, *names, only=only)


def permuted_transpose(e, w):
    return pairs(head_width, back=True)(e, pairs(head_width)(e, w.T))


def layers_exchanged(one, two):
    def change(e):
        for a, b in zip(e.layers[one].parameters(), e.layers[two].parameters()):
            a.data, b.data = b.data, a.data
    return change
