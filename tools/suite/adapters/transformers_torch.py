"""transformers on PyTorch, in float32: pip install torch transformers. suite.py run DIR --serve 'python3 transformers_torch.py' --format hf"""
import torch
import transformers
from adapter import chunk_of, main


def inner(model, text, names):
    """The input and outputs of layers, patterns of attention, the output of the last norm."""
    inside, seen = next(m for m in model.modules() if any(isinstance(c, torch.nn.ModuleList) for c in m.children())), {}
    layers = next(c for c in inside.children() if isinstance(c, torch.nn.ModuleList))
    layers[0].register_forward_pre_hook(lambda module, args, more: seen.update({"blocks.0.hook_resid_pre": args[0] if args else more["hidden_states"]}), with_kwargs=True)
    last = [("ln_final.hook_out", module) for name, module in inside.named_children() if name == "ln_f" or "norm" in name][-1:]
    for name, module in [*((f"blocks.{n}.hook_resid_post", layer) for n, layer in enumerate(layers)), *last]:
        module.register_forward_hook(lambda module, args, out, name=name: seen.update({name: out if torch.is_tensor(out) else out[0]}))
    patterns = iter(model(text, use_cache=False, output_attentions=True).attentions)
    seen.update((f"blocks.{n}.attn.hook_pattern", next(patterns)) for n, layer in enumerate(layers) if not hasattr(layer, "conv"))
    return torch.cat([seen[name].flatten() for name in names]).numpy()


def logits(model, ids, how):
    eager = "eager" if how[:1] == ["--hooks"] else None  # the others show no patterns
    found = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32, attn_implementation=eager).eval()
    found.set_experts_implementation("eager")  # the others want widths that are multiples of 16
    text, cache, rows = torch.tensor([ids]), None, []
    with torch.no_grad():
        if eager:
            return inner(found, text, how[1].split(","))
        size = chunk_of(how, len(ids))
        for at in range(0, len(ids), size):
            out = found(text[:, at:at + size], past_key_values=cache, use_cache=bool(how))
            cache = out.past_key_values if how else None
            rows.append(out.logits[0])
    return torch.cat(rows).float().numpy()


def tokens(model, texts):
    return transformers.AutoTokenizer.from_pretrained(model)(texts, add_special_tokens=False)["input_ids"]


main(logits, tokens)
