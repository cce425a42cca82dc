"""Random configurations of CTRL, North Micro Vision and ModernBERT's decoder, for fresh.py."""
import transformers as hf


def ctrl(d):
    keys = d.shape(kv=False, even=False)
    return hf.CTRLConfig(n_embd=keys['hidden_size'], n_head=keys['num_attention_heads'], n_layer=d.layers, dff=keys['intermediate_size'],
                         vocab_size=keys['vocab_size'], n_positions=d.n_ctx, layer_norm_epsilon=d.of([1e-6] * 9 + [1e-5]),
                         tie_word_embeddings=d.chance(0.7))


def cohere_compass(d):
    keys = d.shape()
    types, full = d.layer_types(), d.of([None, None, d.rope()])
    types = types if not full or d.chance(0.3) else ['full_attention'] * d.layers
    return hf.CohereCompassTextConfig(
        **keys, logit_scale=d.of([None, d.real(0.05, 1)]), sliding_window=d.r.randint(1, 30), layer_types=types,
        rope_parameters={'full_attention': full, 'sliding_attention': d.rope()}, **d.bias('attention_bias'))


def modernbert(d):
    keys = d.shape(kv=False) | dict(pad_token_id=0)
    act = d.of(['gelu', 'gelu', 'silu', 'relu', 'gelu_pytorch_tanh'])
    return hf.ModernBertDecoderConfig(
        **keys, hidden_activation=act, classifier_activation=act if d.chance(0.9) else 'silu', norm_eps=d.of([1e-5, 1e-6, 1e-3]),
        local_attention=d.r.randint(2, 60), layer_types=d.of([None, d.layer_types()]),
        rope_parameters={'full_attention': d.rope(), 'sliding_attention': {'rope_type': 'default', 'rope_theta': d.of([10000.0, 160000.0, 500.0])}},
        **d.bias('attention_bias', 'mlp_bias', 'norm_bias', 'classifier_bias', 'decoder_bias'))
