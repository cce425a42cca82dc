"""Keys that many configurations share."""


def rope(theta, **more):
    return {"rope_type": "default", "rope_theta": theta, **more}


def shape(embd, head, kv, ff, layers=2, vocab=33, context=64, **more):
    """The keys that the llama family shares."""
    return dict(hidden_size=embd, num_attention_heads=head, num_key_value_heads=kv,
                intermediate_size=ff, num_hidden_layers=layers, vocab_size=vocab,
                max_position_embeddings=context, bos_token_id=0, eos_token_id=1,
                pad_token_id=None, **more)


def without(keys, *names):
    return {key: value for key, value in keys.items() if key not in names}
