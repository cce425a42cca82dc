"""transformers on PyTorch, in float32: pip install torch transformers. suite.py run DIR --serve 'python3 transformers_torch.py' --format hf"""
import torch
import transformers
from adapter import main


def logits(model, ids, how):
    found = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    found.set_experts_implementation("eager")  # the others want widths that are multiples of 16
    text, cache, rows = torch.tensor([ids]), None, []
    size = {"": len(ids), "--step": 1, "--chunk": int((how + ["1", "1"])[1])}[how[0] if how else ""]
    with torch.no_grad():
        for at in range(0, len(ids), size):
            out = found(text[:, at:at + size], past_key_values=cache, use_cache=bool(how))
            cache = out.past_key_values if how else None
            rows.append(out.logits[0])
    return torch.cat(rows).float().numpy()


def tokens(model, texts):
    found = transformers.AutoTokenizer.from_pretrained(model)
    return [found(text, add_special_tokens=False)["input_ids"] for text in texts]


main(logits, tokens)
