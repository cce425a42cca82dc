"""Trains the character model weights/shakespeare.gguf and writes it, with gguf.py.

Architecture "llama": RMSNorm with gain, rotary positions on adjacent pairs, grouped-query
attention, SwiGLU, tied head. The vocabulary is the sorted characters of the text, without BOS. The
first nine tenths of the text train, the last tenth is held out; its loss is the mean over all its
characters in consecutive windows of one context each. The weights file holds matrices as F16 and
gains as F32, and the loss printed last is that of the rounded weights.

Uses a GPU when there is one (bfloat16 matrix products, float32 weights), else the CPU. The seed
fixes the run on one kind of machine and one version of PyTorch, not across them.

    train_shakespeare.py tinyshakespeare.txt -o weights/shakespeare.gguf
"""

import argparse
import math
import os
import time

# cuBLAS is only deterministic with a fixed workspace, which must be chosen before CUDA starts.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import gguf
from reference import byte_alphabet

EPS, ROPE_BASE = 1e-5, 10000.0


def rope_table(n_ctx, head_dim):
    """cos and sin [n_ctx, head_dim/2] of the angle t · base^(-2i/d)."""
    freq = ROPE_BASE ** (-torch.arange(0, head_dim, 2).double() / head_dim)
    angle = torch.outer(torch.arange(n_ctx).double(), freq)
    return angle.cos().float(), angle.sin().float()


def rotate(x, cos, sin):
    """x [B, heads, T, d]: each adjacent pair (2i, 2i+1) turned by its angle."""
    a, b = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = cos[:x.shape[-2]].to(x.dtype), sin[:x.shape[-2]].to(x.dtype)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        head_dim = cfg.n_embd // cfg.n_head
        self.attn_norm = nn.RMSNorm(cfg.n_embd, eps=EPS)
        self.attn_q = nn.Linear(cfg.n_embd, cfg.n_embd, bias=False)
        self.attn_k = nn.Linear(cfg.n_embd, cfg.n_kv * head_dim, bias=False)
        self.attn_v = nn.Linear(cfg.n_embd, cfg.n_kv * head_dim, bias=False)
        self.attn_output = nn.Linear(cfg.n_embd, cfg.n_embd, bias=False)
        self.ffn_norm = nn.RMSNorm(cfg.n_embd, eps=EPS)
        self.ffn_gate = nn.Linear(cfg.n_embd, cfg.n_ff, bias=False)
        self.ffn_up = nn.Linear(cfg.n_embd, cfg.n_ff, bias=False)
        self.ffn_down = nn.Linear(cfg.n_ff, cfg.n_embd, bias=False)

    def attention(self, h, cos, sin):
        head_dim = self.cfg.n_embd // self.cfg.n_head
        q, k, v = (linear(h).unflatten(-1, (-1, head_dim)).transpose(1, 2)
                   for linear in (self.attn_q, self.attn_k, self.attn_v))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        group = self.cfg.n_head // self.cfg.n_kv
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        drop = self.cfg.dropout if self.training else 0.0
        z = F.scaled_dot_product_attention(q, k, v, dropout_p=drop, is_causal=True)
        return self.attn_output(z.transpose(1, 2).flatten(-2))

    def forward(self, x, cos, sin):
        drop = lambda y: F.dropout(y, self.cfg.dropout, self.training)
        x = x + drop(self.attention(self.attn_norm(x), cos, sin))
        h = self.ffn_norm(x)
        return x + drop(self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h)))


class Model(nn.Module):
    """Module names are the GGUF tensor names, except that blk.N is blk[N]."""

    def __init__(self, cfg, n_vocab):
        super().__init__()
        self.cfg = cfg
        self.token_embd = nn.Embedding(n_vocab, cfg.n_embd)
        self.blk = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layer))
        self.output_norm = nn.RMSNorm(cfg.n_embd, eps=EPS)
        cos, sin = rope_table(cfg.n_ctx, cfg.n_embd // cfg.n_head)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                branch_end = name.endswith(("attn_output.weight", "ffn_down.weight"))
                scale = 0.02 / math.sqrt(2 * cfg.n_layer) if branch_end else 0.02
                nn.init.normal_(p, std=scale)

    def forward(self, ids):
        x = F.dropout(self.token_embd(ids), self.cfg.dropout, self.training)
        for block in self.blk:
            x = block(x, self.cos, self.sin)
        return F.linear(self.output_norm(x), self.token_embd.weight)


def load(path, chars):
    """A model that this script has written, for the same characters."""
    meta, tensors = gguf.read(path)
    if meta["tokenizer.ggml.tokens"] != metadata_tokens(chars):
        raise SystemExit(f"{path}: has other characters than the text")
    keys = dict(n_ctx="context_length", n_embd="embedding_length", n_layer="block_count",
                n_ff="feed_forward_length", n_head="attention.head_count",
                n_kv="attention.head_count_kv")
    cfg = argparse.Namespace(dropout=0.0, **{k: meta["llama." + v] for k, v in keys.items()})
    model = Model(cfg, len(chars))
    model.load_state_dict({name: torch.from_numpy(a.astype(np.float32))
                           for name, a in tensors.items()})
    return model.eval()


@torch.no_grad()
def widen(model, small):
    """Gives a model the function of a narrower one with as many layers and KV heads: its weights are
    among others, whose results do not count yet."""
    cfg, old = model.cfg, small.cfg
    head_dim, group, heads = old.n_embd // old.n_head, old.n_head // old.n_kv, np.arange(old.n_head)
    heads = heads // group * (cfg.n_head // cfg.n_kv) + heads % group
    of_heads = np.add.outer(heads * head_dim, np.arange(head_dim)).ravel()
    for (name, p), w in zip(model.named_parameters(), small.parameters(), strict=True):
        kind = name.split(".")[-2]
        if p.dim() == 1:
            p[:len(w)] = w * math.sqrt(len(w) / len(p))
            continue
        if kind in ("token_embd", "attn_output", "ffn_down"):
            p *= 1e-3
        rows = of_heads if kind == "attn_q" else np.arange(w.shape[0])
        cols = of_heads if kind == "attn_output" else np.arange(w.shape[1])
        p[np.ix_(rows, cols)] = w


def autocast(device):
    return torch.autocast("cuda", torch.bfloat16, enabled=device == "cuda")


@torch.no_grad()
def soft_targets(teacher, ids):
    """The teacher's probabilities after each of ids."""
    return torch.softmax(teacher(ids).float(), -1).flatten(0, 1)


@torch.no_grad()
def held_out_loss(model, data, n_ctx):
    """Mean of -log p over data[1:], in consecutive windows; float32 throughout."""
    model.eval()
    total = 0.0
    for at in range(0, len(data) - 1, 64 * n_ctx):
        part = data[at:at + 64 * n_ctx + 1]
        full = (len(part) - 1) // n_ctx * n_ctx
        for size, lo, hi in ((n_ctx, 0, full), (len(part) - 1 - full, full, len(part) - 1)):
            if hi > lo:
                logits = model(part[lo:hi].view(-1, size)).float()
                targets = part[lo + 1:hi + 1]
                total += F.cross_entropy(logits.flatten(0, 1), targets, reduction="sum").item()
    model.train()
    return total / (len(data) - 1)


def learning_rate(cfg, step):
    if step < cfg.warmup:
        return cfg.lr * (step + 1) / cfg.warmup
    done = (step - cfg.warmup) / max(1, cfg.steps - cfg.warmup)
    return cfg.lr * (cfg.lr_end + (1 - cfg.lr_end) * 0.5 * (1 + math.cos(math.pi * done)))


def optimizer_for(model, cfg, device):
    decay = [p for p in model.parameters() if p.dim() == 2]
    gains = [p for p in model.parameters() if p.dim() == 1]
    groups = [dict(params=decay, weight_decay=cfg.weight_decay), dict(params=gains, weight_decay=0)]
    return torch.optim.AdamW(groups, lr=cfg.lr, betas=(0.9, 0.99), fused=device == "cuda")


def train(model, cfg, data, held_out, device, teacher):
    optimizer = optimizer_for(model, cfg, device)
    window = torch.arange(cfg.n_ctx + 1, device=device)
    start = time.time()
    for step in range(cfg.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(cfg, step)
        at = torch.randint(len(data) - cfg.n_ctx, (cfg.batch, 1), device=device)
        ids = data[at + window]
        with autocast(device):
            logits = model(ids[:, :-1])
            target = soft_targets(teacher, ids[:, :-1]) if teacher else ids[:, 1:].flatten()
        loss = F.cross_entropy(logits.float().flatten(0, 1), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % cfg.report == 0 or step + 1 == cfg.steps:
            held = held_out_loss(model, held_out, cfg.n_ctx)
            print(f"step {step + 1:6d}  batch loss {loss.item():.4f}  held out {held:.4f}  "
                  f"{time.time() - start:.0f} s", flush=True)


@torch.no_grad()
def sample(model, cfg, chars, prompt, n, temperature):
    """n characters after the prompt; the context is the last n_ctx of them."""
    model.eval()
    device = model.token_embd.weight.device
    ids = [chars.index(c) for c in prompt]
    for _ in range(n):
        logits = model(torch.tensor([ids[-cfg.n_ctx:]], device=device))[0, -1].float()
        probs = torch.softmax(logits / temperature, -1)
        ids.append(torch.multinomial(probs, 1).item())
    return "".join(chars[i] for i in ids)


def round_to_file(model, cfg):
    """Rounds the weights in place to what the file stores: matrices to F16, unless --type f32."""
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 2 and cfg.type == "f16":
                p.copy_(p.half().float())


def metadata_tokens(chars):
    alphabet = byte_alphabet()
    return [alphabet[ord(c)] for c in chars]


def metadata(cfg, chars):
    head_dim = cfg.n_embd // cfg.n_head
    return {
        "general.architecture": "llama",
        "general.name": "tinyshakespeare characters",
        "general.license": "mit",
        "general.file_type": int(cfg.type == "f16"),
        "general.alignment": 32,
        "llama.vocab_size": len(chars),
        "llama.context_length": cfg.n_ctx,
        "llama.embedding_length": cfg.n_embd,
        "llama.block_count": cfg.n_layer,
        "llama.feed_forward_length": cfg.n_ff,
        "llama.attention.head_count": cfg.n_head,
        "llama.attention.head_count_kv": cfg.n_kv,
        "llama.attention.layer_norm_rms_epsilon": EPS,
        "llama.rope.dimension_count": head_dim,
        "llama.rope.freq_base": ROPE_BASE,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": metadata_tokens(chars),
        "tokenizer.ggml.token_type": [1] * len(chars),
        "tokenizer.ggml.merges": [],  # every character is one byte: nothing to merge
        "tokenizer.ggml.add_bos_token": False,
    }


def save(path, model, cfg, chars):
    tensors = {}
    for name, p in model.named_parameters():
        array = p.detach().cpu().numpy()
        tensors[name] = array.astype(np.float16 if p.dim() == 2 and cfg.type == "f16" else np.float32)
    gguf.write(path, metadata(cfg, chars), tensors)


def options():
    parser = argparse.ArgumentParser(description="train the Shakespeare character model")
    parser.add_argument("text", help="tinyshakespeare.txt")
    parser.add_argument("-o", "--output", required=True, help="the GGUF file to write")
    parser.add_argument("--teacher", help="a model of this script, whose probabilities to learn")
    parser.add_argument("--widen", help="a narrower model of this script to begin with")
    parser.add_argument("--type", choices=("f16", "f32"), default="f16", help="of matrices")
    for name, default in dict(n_embd=128, n_layer=6, n_head=4, n_kv=2, n_ff=352, n_ctx=256,
                              batch=64, steps=9000, warmup=200, report=1000, seed=1).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    for name, default in dict(lr=2e-3, lr_end=0.01, dropout=0.2, weight_decay=0.1).items():
        parser.add_argument("--" + name.replace("_", "-"), type=float, default=default)
    return parser.parse_args()


def main():
    cfg = options()
    with open(cfg.text, encoding="ascii", newline="") as file:
        text = file.read()
    chars = sorted(set(text))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(cfg.seed)
    torch.use_deterministic_algorithms(True)
    data = torch.tensor([chars.index(c) for c in text], device=device)
    n_train = len(text) * 9 // 10
    model = Model(cfg, len(chars)).to(device)
    print(cfg, f"parameters {sum(p.numel() for p in model.parameters())}", device,
          torch.__version__, flush=True)
    if cfg.widen:
        widen(model, load(cfg.widen, chars).to(device))
    teacher = load(cfg.teacher, chars).to(device) if cfg.teacher else None
    train(model, cfg, data[:n_train], data[n_train:], device, teacher)
    round_to_file(model, cfg)
    print(f"held out, rounded weights: {held_out_loss(model, data[n_train:], cfg.n_ctx):.4f} nats")
    save(cfg.output, model, cfg, chars)
    print(sample(model, cfg, chars, "\n", 600, 0.8))


if __name__ == "__main__":
    main()
