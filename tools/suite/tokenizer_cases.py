"""Group tokenizers: a small Llama with each kind of tokenizer, and the ids of 300 texts by Hugging Face's tokenizers."""
import json
import pathlib
import tempfile

import made

CONFIG = {'architectures': ['LlamaForCausalLM'], 'dtype': 'bfloat16', 'head_dim': 16,
          'hidden_act': 'silu', 'hidden_size': 32, 'intermediate_size': 32, 'max_position_embeddings': 1024,
          'model_type': 'llama', 'num_attention_heads': 2, 'num_hidden_layers': 1, 'num_key_value_heads': 1,
          'rms_norm_eps': 1e-5, 'rope_parameters': {'rope_theta': 10000.0, 'rope_type': 'default'}, 'tie_word_embeddings': True}
LAYER = {'mlp.down_proj': (32, 32), 'mlp.gate_proj': (32, 32), 'mlp.up_proj': (32, 32), 'self_attn.k_proj': (16, 32),
         'self_attn.o_proj': (32, 32), 'self_attn.q_proj': (32, 32), 'self_attn.v_proj': (16, 32)}


def llama(name, n_vocab):
    """The model's tensors."""
    tensors = [('model.embed_tokens.weight', (n_vocab, 32), 0.0, -8), ('model.norm.weight', (32,), 1.0, -9)]
    tensors += [('model.layers.0.%s.weight' % norm, (32,), 1.0, -9) for norm in ('input_layernorm', 'post_attention_layernorm')]
    tensors += [('model.layers.0.%s.weight' % part, shape, 0.0, -9) for part, shape in LAYER.items()]
    return made.model_tensors({'id': name, 'tensors': tensors})


def config_of(vocabulary):
    """The configuration for a vocabulary: {piece: id}, or Unigram's [piece, score] in order."""
    pieces = vocabulary if isinstance(vocabulary, dict) else {piece: i for i, (piece, _) in enumerate(vocabulary)}
    first, last = ('<s>', '</s>') if '<s>' in pieces else ('[CLS]', '[SEP]')
    return {**CONFIG, 'vocab_size': len(pieces), 'bos_token_id': pieces[first], 'eos_token_id': pieces[last]}


def write_tokenizers(suite, data):
    texts = (data / 'texts.jsonl').read_bytes()
    for line in map(json.loads, (data / 'kinds.jsonl').read_text().splitlines()):
        name = line['id']
        tokenizer = (data / (name + '.json')).read_text()
        vocabulary = json.loads(tokenizer)['model']['vocab']
        with tempfile.TemporaryDirectory() as place:
            source = pathlib.Path(place) / name
            source.mkdir()
            (source / 'config.json').write_text(json.dumps(config_of(vocabulary), indent=2) + '\n')
            (source / 'model.safetensors').write_bytes(made.safetensors(llama(name, len(vocabulary)), 'bfloat16'))
            (source / 'tokenizer.json').write_text(tokenizer)
            (source / 'tokenizer_config.json').write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}\n')
            files = suite.model_files(name, source)
        suite.add({'id': name, 'group': 'tokenizers', 'kind': 'tokenizer', 'what': line['what'], 'files': files,
                   'texts': suite.put('texts.jsonl', texts),
                   'ref': suite.put('ref/%s.jsonl' % name, (data / (name + '.ids')).read_bytes())})
