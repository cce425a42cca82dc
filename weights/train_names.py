"""Trains the names model and writes it as microgpt JSON (flat layout) for `mgpt convert`.

The shape is the canonical microgpt: 1 layer, 16 wide, 4 heads, context 16, 27 tokens (a..z, then
BOS as id 26, which also ends a name), ReLU, RMSNorm without gain, no bias, untied head, norm after
the embedding and none at the end: 4,192 numbers.

Held out are the 2,000 names docs[1000:3000] after random.seed(42); random.shuffle(docs), the set on
which losses of other models of this shape are published. Names of that set are also removed from
the rest, where 297 of them occur again. The loss is the mean of -log p over all tokens, the end
included. One thread and a fixed seed: the run repeats bit for bit on one version of PyTorch.

    train_names.py names.txt -o /tmp/names.json && mgpt convert /tmp/names.json weights/names.gguf

With --snapshots DIR it also writes what the model was after the steps of SNAPSHOTS (and at the end), for `mgpt lab`:

    train_names.py names.txt -o /tmp/names.json --snapshots /tmp/steps
    for f in /tmp/steps/*.json; do
        mgpt convert $f /tmp/names.gguf --type f16 && mv /tmp/names.gguf weights/names-steps/$(basename $f .json).gguf
    done

and texts.txt and held.txt into DIR: the names that it was trained on, and those that it was not.
"""

import argparse
import json
import math
import os
import random

import torch
from torch.nn import functional as F

N_EMBD, N_HEAD, N_CTX, BOS, N_VOCAB = 16, 4, 16, 26, 27
SNAPSHOTS = (0, 5, 10, 20, 40, 70, 100, 150, 200, 300, 500, 800, 1200, 2000, 4000)
SHAPES = {
    "wte": (N_VOCAB, N_EMBD),
    "wpe": (N_CTX, N_EMBD),
    "lm_head": (N_VOCAB, N_EMBD),
    "layer0.attn_wq": (N_EMBD, N_EMBD),
    "layer0.attn_wk": (N_EMBD, N_EMBD),
    "layer0.attn_wv": (N_EMBD, N_EMBD),
    "layer0.attn_wo": (N_EMBD, N_EMBD),
    "layer0.mlp_fc1": (4 * N_EMBD, N_EMBD),
    "layer0.mlp_fc2": (N_EMBD, 4 * N_EMBD),
}


def read_names(path):
    """(training names, held-out names), without common members."""
    with open(path, encoding="ascii") as file:
        docs = [line.strip() for line in file if line.strip()]
    random.seed(42)
    random.shuffle(docs)
    held_out = docs[1000:3000]
    seen = set(held_out)
    return [name for name in docs if name not in seen], held_out


def write_names(path, names):
    with open(path, "w", encoding="ascii") as file:
        file.write("".join(f"{name}\n" for name in names))


def to_tensors(names):
    """Inputs and targets [N, 16]; positions after the end have target -1, which no loss counts."""
    inputs = torch.full((len(names), N_CTX), BOS)
    targets = torch.full((len(names), N_CTX), -1)
    for row, name in enumerate(names):
        ids = [BOS, *(ord(c) - ord("a") for c in name), BOS]
        length = min(len(ids) - 1, N_CTX)
        inputs[row, :length] = torch.tensor(ids[:length])
        targets[row, :length] = torch.tensor(ids[1:length + 1])
    return inputs, targets


def rms(x):
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()


def forward(w, ids):
    x = rms(w["wte"][ids] + w["wpe"][:ids.shape[1]])
    h = rms(x)
    q, k, v = (F.linear(h, w[f"layer0.attn_w{part}"]).unflatten(-1, (N_HEAD, -1)).transpose(1, 2)
               for part in "qkv")
    z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + F.linear(z.transpose(1, 2).flatten(-2), w["layer0.attn_wo"])
    h = F.relu(F.linear(rms(x), w["layer0.mlp_fc1"]))
    x = x + F.linear(h, w["layer0.mlp_fc2"])
    return F.linear(x, w["lm_head"])


def loss_of(w, inputs, targets):
    logits = forward(w, inputs)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


def train(w, cfg, train_set, held_out):
    inputs, targets = train_set
    optimizer = torch.optim.AdamW(w.values(), lr=cfg.lr, betas=(0.9, 0.99), weight_decay=0.0)
    for step in range(cfg.steps):
        snapshot(cfg, step, w)
        rate = 0.5 * (1 + math.cos(math.pi * step / cfg.steps))
        optimizer.param_groups[0]["lr"] = cfg.lr * min(rate, (step + 1) / 100)
        rows = torch.randint(len(inputs), (cfg.batch,))
        loss = loss_of(w, inputs[rows], targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % cfg.report == 0 or step + 1 == cfg.steps:
            with torch.no_grad():
                print(f"step {step + 1:6d}  batch loss {loss.item():.4f}  "
                      f"held out {loss_of(w, *held_out).item():.4f}", flush=True)


def snapshot(cfg, step, w):
    """What the model is after so many steps."""
    if cfg.snapshots and (step in SNAPSHOTS or step == cfg.steps):
        save(os.path.join(cfg.snapshots, f"step-{step:05d}.json"), w)


@torch.no_grad()
def sample(w, temperature):
    ids = [BOS]
    while len(ids) <= N_CTX:
        logits = forward(w, torch.tensor([ids]))[0, -1]
        ids.append(torch.multinomial(torch.softmax(logits / temperature, -1), 1).item())
        if ids[-1] == BOS:
            break
    return "".join(chr(ord("a") + i) for i in ids if i != BOS)


def save(path, w):
    """Each float32 is written as the shortest double that reads back as itself."""
    state = {name: p.detach().tolist() for name, p in w.items()}
    state["_vocab"] = [chr(ord("a") + i) for i in range(BOS)]
    state["_bos_id"] = BOS
    state["_vocab_size"] = N_VOCAB
    with open(path, "w", encoding="ascii") as out:
        json.dump(state, out)


def options():
    parser = argparse.ArgumentParser(description="train the microgpt names model")
    parser.add_argument("names", help="names.txt")
    parser.add_argument("-o", "--output", required=True, help="the JSON file to write")
    parser.add_argument("--snapshots", metavar="DIR", help="a folder for the model after some of the steps")
    parser.add_argument("--steps", type=int, default=20000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--report", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    cfg = options()
    if cfg.snapshots:
        os.makedirs(cfg.snapshots, exist_ok=True)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    names = read_names(cfg.names)
    if cfg.snapshots:
        for file, list_ in zip(("texts.txt", "held.txt"), names):
            write_names(os.path.join(cfg.snapshots, file), list_)
    training, held_out = (to_tensors(part) for part in names)
    w = {name: (0.08 * torch.randn(shape)).requires_grad_() for name, shape in SHAPES.items()}
    print(f"{len(training[0])} names to train on, {len(held_out[0])} held out, "
          f"{sum(p.numel() for p in w.values())} parameters, torch {torch.__version__}")
    train(w, cfg, training, held_out)
    snapshot(cfg, cfg.steps, w)
    save(cfg.output, w)
    print(" ".join(sample(w, 0.5) for _ in range(20)))


if __name__ == "__main__":
    main()
