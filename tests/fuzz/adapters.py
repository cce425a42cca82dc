"""Models with adapters, for seeds.py. Standard library only."""
import json

import tiny_models
from formats import ADAPTER_CONFIG, TINY_CONFIG, adapter_tensors, safetensors, tiny_tensors


def adapters(converted):
    """(name, files) of PEFT and of llama.cpp, for the tiny llama, tied and not, and for the GGUF that `converted` makes."""
    table = [("model.embed_tokens.lora_embedding_A", [2, 8]), ("model.embed_tokens.lora_embedding_B", [4, 2])]
    head = [("lm_head.lora_A.weight", [2, 4]), ("lm_head.lora_B.weight", [8, 2])]
    norm, new = [("model.norm.weight", [4])], [("lm_head.weight", [8, 4]), ("model.embed_tokens.weight", [8, 4])]
    for untied in (False, True):
        config = json.dumps(dict(TINY_CONFIG, tie_word_embeddings=not untied), separators=(",", ":")).encode()
        model = [("config.json", config), ("model.safetensors", safetensors(*tiny_tensors(head=untied)))]
        base = converted(model)
        for name, dora, more in (("plain", 0, []), ("dora", 1, norm), ("tables", 0, table + head if untied else new)):
            says = json.dumps(dict(ADAPTER_CONFIG, use_dora=bool(dora)), separators=(",", ":")).encode()
            peft = [("adapter_config.json", says), ("adapter", safetensors(*adapter_tensors(dora, more)))]
            yield "%s-%d" % (name, untied), model + peft
            yield "%s-gguf-%d" % (name, untied), [("model.gguf", base)] + peft
        entries = {"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora",
                   "adapter.lora.alpha": 3.0}
        tensors = [("blk.0.attn_q.weight.lora_a", [4, 2], "f32"), ("blk.0.attn_q.weight.lora_b", [2, 4], "f16"),
                   ("blk.0.ffn_down.weight.lora_b", [2, 4], "f32"), ("blk.0.ffn_down.weight.lora_a", [4, 2], "bf16")]
        tensors += [("token_embd.weight.lora_a", [2, 8], "f32"), ("token_embd.weight.lora_b", [2, 4], "f32")] * untied
        yield "llama.cpp-%d" % untied, model + [("adapter", tiny_models.gguf(entries, tensors))]
