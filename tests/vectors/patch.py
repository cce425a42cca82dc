"""Makes patch.json: what transformers computes when one value inside a golden model is changed, for
mgpt patch (tests/cli/patch.py compares). Forward hooks on transformers' own modules, in float64.

    python3 tests/vectors/patch.py >tests/vectors/patch.json        torch 2.15, transformers 5.23
"""
import json
import pathlib
import sys

import torch
import transformers

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
CLEAN, CORRUPT = [3, 17, 8, 29, 5, 11], [3, 17, 21, 29, 6, 11]
A, B = 4, 9
POINTS = ["resid_pre", "attn_out", "mlp_out", "z", "pattern", "q", "k", "v"]
MODES = ["patch", "zero", "mean", "scale:-1.5"]


class Edited:
    """A model whose values at one point and layer go through `edit`, shaped [T, width] or, at the
    pattern, [H, T, T]."""

    def __init__(self, name):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            GOLDEN / name, attn_implementation="eager", dtype=torch.float64).eval()
        self.gpt2 = name == "gpt2"
        c = self.model.config
        self.layers, self.heads = c.num_hidden_layers, c.num_attention_heads
        self.kv_heads = getattr(c, "num_key_value_heads", None) or self.heads
        self.d = getattr(c, "head_dim", None) or c.hidden_size // self.heads

    def block(self, layer):
        return (self.model.transformer.h if self.gpt2 else self.model.model.layers)[layer]

    def parts(self, point):
        """Heads of the point; None: it has none."""
        return {"z": self.heads, "q": self.heads, "pattern": self.heads, "k": self.kv_heads,
                "v": self.kv_heads}.get(point)

    def hook(self, point, layer, edit):
        block = self.block(layer)
        attn = block.attn if self.gpt2 else block.self_attn

        def before(_, args, kwargs=None):
            return (edit(args[0][0])[None], *args[1:])

        def after(_, args, out):
            if isinstance(out, tuple):
                return (edit(out[0][0])[None], *out[1:])
            return edit(out[0])[None]

        def third(_, args, out):
            n = self.d * self.heads
            i = "qkv".index(point)
            new = out.clone()
            new[0, :, i * n:(i + 1) * n] = edit(out[0, :, i * n:(i + 1) * n])
            return new

        if point == "resid_pre":
            return block.register_forward_pre_hook(before)
        if point == "z":
            return (attn.c_proj if self.gpt2 else attn.o_proj).register_forward_pre_hook(before)
        if point in ("attn_out", "mlp_out"):
            return (attn if point == "attn_out" else block.mlp).register_forward_hook(after)
        if self.gpt2:
            return attn.c_attn.register_forward_hook(third)
        return getattr(attn, point + "_proj").register_forward_hook(after)

    def run(self, tokens, point=None, layer=None, edit=None):
        """Logits after the last token."""
        softmax, count = torch.nn.functional.softmax, [0]

        def counting(x, *args, **kwargs):
            y = softmax(x, *args, **kwargs)
            count[0] += 1
            return edit(y[0])[None] if point == "pattern" and count[0] == layer + 1 else y

        handle = self.hook(point, layer, edit) if point not in (None, "pattern") else None
        torch.nn.functional.softmax = counting
        try:
            with torch.no_grad():
                return self.model(torch.tensor([tokens])).logits[0, -1]
        finally:
            torch.nn.functional.softmax = softmax
            if handle:
                handle.remove()

    def keep(self, tokens, point, layer):
        kept = []
        self.run(tokens, point, layer, lambda x: kept.append(x.clone()) or x)
        return kept[0]


def metric_of(name, logits, clean):
    logprobs = torch.log_softmax(logits, -1)
    if name == "kl":
        reference = torch.log_softmax(clean, -1)
        return float((reference.exp() * (reference - logprobs)).sum())
    return float(logits[A] - logits[B] if " - " in name else logprobs[A])


def site_edit(model, point, mode, head, pos, other, own):
    """The change of one head and position."""
    n = own.shape[-1] if model.parts(point) is None else model.d
    cols = slice(head * n, (head + 1) * n)

    def edit(x):
        x = x.clone()
        row = (head, pos, slice(0, pos + 1)) if point == "pattern" else (pos, cols)
        if mode == "patch":
            x[row] = other[row]
        elif mode == "zero":
            x[row] = 0
        elif mode == "mean":
            x[row] = own[:, cols].mean(0)
        else:
            x[row] *= float(mode.split(":")[1])
        return x
    return edit


def grid(model, point, mode, into, metric):
    run, rest = (CORRUPT, CLEAN) if into == "corrupt" else (CLEAN, CORRUPT)
    clean = model.run(CLEAN)
    layers = []
    for layer in range(model.layers):
        own, other = model.keep(run, point, layer), model.keep(rest, point, layer)
        heads = [[metric_of(metric, model.run(run, point, layer, site_edit(
            model, point, mode, head, pos, other, own)), clean) for pos in range(len(run))]
            for head in range(model.parts(point) or 1)]
        layers.append(heads if model.parts(point) else heads[0])
    return layers


def main():
    cases = []
    metrics = ["%d - %d" % (A, B), "logprob:%d" % A, "kl"]
    for name in ("gpt2", "llama"):
        model = Edited(name)
        for i, point in enumerate(POINTS):
            for j, mode in enumerate(MODES):
                if point == "pattern" and mode == "mean" or (i + j) % 2 and mode != "patch":
                    continue
                metric, into = metrics[(i + j) % 3], ("corrupt", "clean")[(i + j) % 3 == 1]
                values = grid(model, point, mode, into, metric)
                cases.append({"model": name, "metric": metric, "over": point, "mode": mode,
                              "into": into, "values": values})
    text = json.dumps({"clean": CLEAN, "corrupt": CORRUPT, "cases": cases},
                      default=float).replace('{"model"', '\n{"model"')
    sys.stdout.write(json.dumps(json.loads(text, parse_float=lambda x: float("%.7g" % float(x))))
                     .replace('{"model"', '\n{"model"') + "\n")


main()
