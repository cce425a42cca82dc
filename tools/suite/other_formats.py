"""The same model in files of other programs: llama2.c's .bin (version 0), llm.c's .bin (version 3), nanoGPT's checkpoint."""
import array
import io
import struct
import zipfile


def transposed(data, rows, columns):
    """A matrix of float32 [rows, columns] as [columns, rows]."""
    values = array.array('I', data)
    return b''.join(values[column::columns].tobytes() for column in range(columns))


def adjacent_pairs(data, heads, width):
    """Rows of q or k: of each head, those of the first half and of the second in turn, which Meta's programs rotate."""
    size = len(data) // (heads * width)
    rows = [data[i * size:(i + 1) * size] for i in range(heads * width)]
    return b''.join(rows[h * width + i % 2 * (width // 2) + i // 2] for h in range(heads) for i in range(width))


# ---- llama2.c ----

LLAMA2C = ('input_layernorm', 'self_attn.q_proj', 'self_attn.k_proj', 'self_attn.v_proj', 'self_attn.o_proj',
           'post_attention_layernorm', 'mlp.gate_proj', 'mlp.down_proj', 'mlp.up_proj')


def is_llama2c(config):
    """What run.c computes: base 10000 and epsilon 1e-5 are constants there."""
    rope = config.get('rope_parameters') or {}
    return (config['model_type'] == 'llama' and 'quantization' not in str(config) and rope == {'rope_type': 'default', 'rope_theta': 10000.0}
            and config['rms_norm_eps'] == 1e-5 and not config['attention_bias'] and not config['mlp_bias']
            and config['head_dim'] * config['num_attention_heads'] == config['hidden_size'])


def llama2c(config, tensors):
    """The file of run.c; tensors: {name: bytes of float32}."""
    heads, kv, width = config['num_attention_heads'], config['num_key_value_heads'], config['head_dim']
    own_head = 'lm_head.weight' in tensors
    context, n_vocab = config['max_position_embeddings'], config['vocab_size']
    out = struct.pack('<7i', config['hidden_size'], config['intermediate_size'], config['num_hidden_layers'], heads, kv,
                      -n_vocab if own_head else n_vocab, context)
    out += tensors['model.embed_tokens.weight']
    for part in LLAMA2C:
        for layer in range(config['num_hidden_layers']):
            data = tensors['model.layers.%d.%s.weight' % (layer, part)]
            out += adjacent_pairs(data, heads if 'q_' in part else kv, width) if part[-6:] in ('q_proj', 'k_proj') else data
    out += tensors['model.norm.weight'] + bytes(4 * context * width) # tables of cosines and sines, which it no longer reads
    return out + tensors.get('lm_head.weight', b'')


def llama2c_tokenizer(pieces):
    """tokenizer.bin: the longest piece's length, then score, length and text of each."""
    lines = [struct.pack('<fi', -float(i), len(piece.encode())) + piece.encode() for i, piece in enumerate(pieces)]
    return struct.pack('<i', max(len(piece.encode()) for piece in pieces)) + b''.join(lines)


# ---- GPT-2's programs ----

GPT2 = ('ln_1.weight', 'ln_1.bias', 'attn.c_attn.weight', 'attn.c_attn.bias', 'attn.c_proj.weight', 'attn.c_proj.bias',
        'ln_2.weight', 'ln_2.bias', 'mlp.c_fc.weight', 'mlp.c_fc.bias', 'mlp.c_proj.weight', 'mlp.c_proj.bias')


def linear_layers(config, tensors):
    """{name: (shape, bytes)}: matrices as torch.nn.Linear has them, [out, in]."""
    width, shapes = config['n_embd'], {'attn.c_attn': (3, 1), 'attn.c_proj': (1, 1), 'mlp.c_fc': (4, 1), 'mlp.c_proj': (1, 4)}
    out = {'transformer.wte.weight': ((config['vocab_size'], width), tensors['transformer.wte.weight']),
           'transformer.wpe.weight': ((config['n_positions'], width), tensors['transformer.wpe.weight'])}
    for layer in range(config['n_layer']):
        for part in GPT2:
            name = 'transformer.h.%d.%s' % (layer, part)
            data = tensors[name]
            rows, columns = (width * n for n in shapes.get(part.rsplit('.', 1)[0], (0, 0)))
            if rows and part.endswith('weight'):
                out[name] = (rows, columns), transposed(data, columns, rows)
            else:
                out[name] = (len(data) // 4,), data
    for end in ('weight', 'bias'):
        out['transformer.ln_f.' + end] = (width,), tensors['transformer.ln_f.' + end]
    return out


def llm_c(config, tensors):
    """llm.c's file of float32: the vocabulary padded to a multiple of 128 rows; matrices of all layers together."""
    linear, n_vocab = linear_layers(config, tensors), config['vocab_size']
    padded = (n_vocab + 127) // 128 * 128
    header = (20240326, 3, config['n_positions'], n_vocab, config['n_layer'], config['n_head'], config['n_embd'], padded)
    out = struct.pack('<256i', *header, *[0] * (256 - len(header))) + linear['transformer.wte.weight'][1]
    out += bytes(4 * (padded - n_vocab) * config['n_embd']) + linear['transformer.wpe.weight'][1]
    out += b''.join(linear['transformer.h.%d.%s' % (layer, part)][1] for part in GPT2 for layer in range(config['n_layer']))
    return out + linear['transformer.ln_f.weight'][1] + linear['transformer.ln_f.bias'][1]


def pickled(value):
    """A value in pickle's opcodes (protocol 2): text, bool, int, float or dict."""
    if isinstance(value, str):
        return b'X' + struct.pack('<I', len(value)) + value.encode()
    if isinstance(value, bool):
        return b'\x88' if value else b'\x89'
    if isinstance(value, int):
        return b'J' + struct.pack('<i', value)
    if isinstance(value, float):
        return b'G' + struct.pack('>d', value)
    if isinstance(value, tuple):
        return b'(' + b''.join(map(pickled, value)) + b't'
    if isinstance(value, dict):
        return b'}(' + b''.join(pickled(k) + (v if isinstance(v, bytes) else pickled(v)) for k, v in value.items()) + b'u'
    raise TypeError(value)


def pickled_tensor(number, shape, size):
    """A tensor of float32 whose numbers are in the archive's data/NUMBER."""
    storage = b'(' + pickled('storage') + b'ctorch\nFloatStorage\n' + pickled(str(number)) + pickled('cpu') + pickled(size) + b'tQ'
    strides = tuple(size // shape[0] if i == 0 and len(shape) == 2 else 1 for i in range(len(shape)))
    return (b'ctorch._utils\n_rebuild_tensor_v2\n(' + storage + b'K\0' + pickled(tuple(shape)) + pickled(strides)
            + b'\x89ccollections\nOrderedDict\n)RtR')


def nanogpt(config, tensors):
    """ckpt.pt of nanoGPT: torch.save's archive of model and model_args."""
    linear = linear_layers(config, tensors)
    linear['lm_head.weight'] = linear['transformer.wte.weight']
    numbers = {name: number for number, name in enumerate(n for n in linear if n != 'lm_head.weight')}
    numbers['lm_head.weight'] = numbers['transformer.wte.weight'] # one storage: the head is the table
    state = {name: pickled_tensor(numbers[name], shape, len(data) // 4) for name, (shape, data) in linear.items()}
    model_args = {'n_layer': config['n_layer'], 'n_head': config['n_head'], 'n_embd': config['n_embd'],
                  'block_size': config['n_positions'], 'bias': True, 'vocab_size': config['vocab_size'], 'dropout': 0.0}
    body = b'\x80\x02' + pickled({'model': state_dict(state), 'model_args': model_args, 'iter_num': 0, 'best_val_loss': 1.0}) + b'.'
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w') as archive:
        entries = {'data.pkl': body, 'byteorder': b'little', 'version': b'3\n'}
        entries.update(('data/%d' % number, linear[name][1]) for name, number in numbers.items() if name != 'lm_head.weight')
        for name, data in entries.items():
            archive.writestr(zipfile.ZipInfo('ckpt/' + name), data)
    return out.getvalue()


def state_dict(state):
    """An OrderedDict's opcodes."""
    return b'ccollections\nOrderedDict\n)R(' + b''.join(pickled(k) + v for k, v in state.items()) + b'u'
