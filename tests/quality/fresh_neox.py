"""Configurations of GPT-NeoX for fresh.py."""
import transformers as hf
from fresh_draw import some_rotated


def neox(d):
    keys = d.shape(kv=False)
    rotated = some_rotated(d, 0.25, 0.5, 1.0)
    return hf.GPTNeoXConfig(**keys, hidden_act=d.act('gelu'), use_parallel_residual=d.chance(0.7),
                            attention_bias=d.chance(0.8), rope_parameters=d.rope(rotated=rotated))


def neox_japanese(d):
    keys = d.shape(kv=False)
    del keys['intermediate_size']
    return hf.GPTNeoXJapaneseConfig(**keys, intermediate_multiple_size=d.of([4, 4, 4, 3]), hidden_act=d.act('gelu'),
                                    rope_parameters=d.rope(rotated=some_rotated(d, 0.25, 0.5, 1.0)))
