"""Settings that a model's author gives (general.sampling.* of GGUF, generation_config.json): generate and the repl draw as
with these options, what is given wins, and nothing else reads them. Seeds that are drawn.

author.py MGPT WEIGHTS.
"""
import json
import math
import os
import random
import struct
import sys
import tempfile

from checks import check, failed, gguf_with_keys, run_program

MGPT, WEIGHTS = sys.argv[1:3]
NAMES = WEIGHTS + '/names.gguf'
SAMPLES = ('--samples', '40', '--batch', '7')
KEYS = {'temp': 0.6, 'top_k': 5, 'top_p': 0.95, 'min_p': 0.01, 'penalty_repeat': 1.2, 'penalty_last_n': 3, 'xtc_probability': 0.1,
        'xtc_threshold': 0.2}
OPTIONS = {'--temp': '0.6', '--top-k': '5', '--top-p': '0.95', '--min-p': '0.01', '--repeat-penalty': '1.2', '--repeat-last': '3',
           '--xtc': '0.1:0.2'}
SAID = ("mgpt: author's settings: temp 0.6, top-k 5, top-p 0.95, min-p 0.01, repeat-penalty 1.2, repeat-last 3, xtc 0.1:0.2 "
        "(--ignore-author leaves them out)\n")


def run(*words, code=0, stdin=None):
    done = run_program(MGPT, *words, code=code, timeout=100, text=None if stdin is None else stdin.encode())
    return done.stdout.decode(), done.stderr.decode()


def words_of(options):
    return [word for pair in options.items() for word in pair]


def author(folder, name, keys):
    path = folder + '/' + name + '.gguf'
    gguf_with_keys(NAMES, path, {'general.sampling.' + key: value for key, value in keys.items()})
    return path


def check_all(folder):
    model = author(folder, 'all', KEYS)
    out, err = run('generate', model, *SAMPLES)
    check('said', err, SAID)
    check('drawn as with the options', out, run('generate', NAMES, *SAMPLES, *words_of(OPTIONS))[0])
    check('--quiet', run('generate', model, *SAMPLES, '--quiet'), (out, ''))
    check('--ignore-author', run('generate', model, *SAMPLES, '--ignore-author'), run('generate', NAMES, *SAMPLES))
    for option, value in {'--temp': '1', '--top-k': '0', '--top-p': '1', '--min-p': '0', '--repeat-penalty': '1', '--repeat-last': '-1',
                          '--xtc': '0'}.items():
        expected = run('generate', NAMES, *SAMPLES, *words_of(OPTIONS | {option: value}))[0]
        found, err = run('generate', model, *SAMPLES, option, value)
        check(option + ' wins', found, expected)
        check(option + ' wins, and is not said to be the author\'s', (' ' + option[2:] + ' ') in err, False)
    text = '/set\nan\n' + '\n' * 4 + '/set temp 0\n' + '\n' * 4
    check('repl', run('repl', model, stdin=text)[0], run('repl', NAMES, *words_of(OPTIONS), stdin=text)[0])
    record = '{"prompt":"an"}\n{"prompt":"an","temperature":2}\n'
    check('records', run('generate', model, '--records', '-', stdin=record)[0],
          run('generate', NAMES, '--records', '-', *words_of(OPTIONS), stdin=record)[0])
    for words in (('score', '{}', '-f', '-'), ('tokenize', '{}', '-p', 'anna'), ('trace', '{}', '--list')):
        found, expected = (run(*[word.format(path) for word in words], stdin='anna\n') for path in (model, NAMES))
        check(words[0] + ' does not read them', found, expected)


def check_parts(folder):
    """Each key alone; what is off is not said."""
    for keys, options, said in (
            ({'temp': 0.0}, ('--temp', '0'), 'temp 0 '), ({'top_k': -1, 'top_p': 0.5}, ('--top-p', '0.5'), 'top-k 0, top-p 0.5 '),
            ({'top_k': 2000000}, (), 'top-k 2000000 '), ({'mirostat': 2, 'mirostat_tau': 3.0}, ('--mirostat', '2:3'), 'mirostat 2:3 '), ({'mirostat': 0}, (), ''),
            ({'penalty_repeat': 1.0}, (), ''), ({'xtc_threshold': 0.1}, (), ''), ({'sequence': 'top_k;temperature'}, (), ''),
            ({'sequence': 'top_k;temperature', 'top_k': 4}, ('--top-k', '4'), 'top-k 4, in our order ')):
        out, err = run('generate', author(folder, 'part', keys), *SAMPLES)
        check(keys, out, run('generate', NAMES, *SAMPLES, *options)[0])
        check(keys, err, "mgpt: author's settings: %s(--ignore-author leaves them out)\n" % said if said else '')


def check_bad(folder):
    for keys, line in (({'temp': -1.0}, "the author's temp: expected a number from 0 to 1e+30, found '-1' (--ignore-author)"),
                       ({'top_p': 1.5}, "the author's top-p: expected a number from 0 to 1, found '1.5' (--ignore-author)"),
                       ({'top_p': float('nan')}, "the author's top-p: expected a number from 0 to 1, found 'nan' (--ignore-author)"),
                       ({'temp': 'hot'}, 'key general.sampling.temp: expected a number (byte 24)'),
                       ({'mirostat': 1}, "the author's mirostat: expected a whole number from 0 to 2 as number 1 of 2[:TAU:ETA], "
                                         "found '1' (--ignore-author)")):
        path = author(folder, 'bad', keys)
        for command in ('generate', 'repl'):
            check(keys, run(command, path, code=3, stdin=''), ('', 'mgpt: %s: %s\n' % (path, line)))
        run('generate', path, '--ignore-author')


def write_llama(folder):
    """A random Llama whose head is screened when only the largest logit counts: tied, of 256 tokens."""
    draw = random.Random(5)
    width, n = 32, 256
    shapes = {'embed_tokens': (n, width), 'norm': (width,), 'layers.0.input_layernorm': (width,), 'layers.0.post_attention_layernorm': (width,),
              **{'layers.0.self_attn.%s_proj' % part: (width, width) for part in 'qkvo'},
              **{'layers.0.mlp.%s_proj' % part: (width, width) for part in ('gate', 'up', 'down')}}
    header, data = {}, b''
    for name, shape in shapes.items():
        values = [draw.gauss(0, 0.3 if i < 4096 else 0.01) if len(shape) > 1 else 1 for i in range(math.prod(shape))]
        more = struct.pack('<%df' % len(values), *values)
        header['model.%s.weight' % name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': (len(data), len(data) + len(more))}
        data += more
    os.mkdir(folder)
    text = json.dumps(header).encode()
    with open(folder + '/model.safetensors', 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + data)
    config = {'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'hidden_size': width, 'intermediate_size': width, 'num_hidden_layers': 1,
              'num_attention_heads': 2, 'num_key_value_heads': 2, 'vocab_size': n, 'max_position_embeddings': 512, 'rms_norm_eps': 1e-5,
              'rope_theta': 1e4, 'hidden_act': 'silu', 'tie_word_embeddings': True}
    tokenizer = {'added_tokens': [], 'normalizer': None, 'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': False},
                 'model': {'type': 'BPE', 'vocab': {chr(0x4e00 + i) if i >= 26 else chr(97 + i): i for i in range(n)}, 'merges': []}}
    for name, value in (('config.json', config), ('tokenizer.json', tokenizer)):
        with open(folder + '/' + name, 'w', encoding='utf-8') as file:
            json.dump(value, file)


def check_converted(folder):
    """generation_config.json next to a checkpoint."""
    there = folder + '/hf'
    write_llama(there)
    plain = folder + '/plain.gguf'
    run('convert', there, plain)
    for config, said, note in (
            ({'do_sample': True, 'temperature': 0.6, 'top_p': 0.95, 'top_k': 20, 'min_p': 0.0, 'repetition_penalty': 1.05},
             'temp 0.6, top-k 20, top-p 0.95, min-p 0, repeat-penalty 1.05', ''),
            ({'do_sample': False, 'temperature': 0.6, 'top_k': 20, 'repetition_penalty': 1.0}, 'temp 0', ''),
            ({'temperature': None, 'top_k': 7}, 'top-k 7', ''),
            ({'temperature': 'hot', 'top_k': 7.5, 'top_p': 0.5}, 'top-p 0.5',
             'mgpt: generation_config.json: temperature: expected a number from 0 to 1e+30: left out\n'
             'mgpt: generation_config.json: top_k: expected a number from -1 to 2.14748e+09: left out\n'),
            ({'temperature': 0.0, 'repetition_penalty': 2.0}, 'temp 0, repeat-penalty 2', ''),
            ({'temperature': 1.5, 'top_k': -1, 'top_p': 0.0, 'min_p': 1.0, 'repetition_penalty': 1000.0},
             'temp 1.5, top-p 0, min-p 1, repeat-penalty 1000', ''),  # -1: all, as without the key
            ({'top_k': -2, 'top_p': 1.5, 'min_p': -0.5, 'repetition_penalty': 1001.0}, '',
             ''.join('mgpt: generation_config.json: %s: left out\n' % what for what in (
                 'repetition_penalty: expected a number from 0.001 to 1000', 'top_k: expected a number from -1 to 2.14748e+09',
                 'top_p: expected a number from 0 to 1', 'min_p: expected a number from 0 to 1'))),
            ({'eos_token_id': 3, 'repetition_penalty': 1.0}, '', '')):
        with open(there + '/generation_config.json', 'w', encoding='utf-8') as file:
            json.dump(config, file)
        lines = run('convert', there, folder + '/out.gguf')[1].splitlines(True)
        check(config, ''.join(line for line in lines if 'left out' in line), note)
        out, err = run('generate', folder + '/out.gguf', '-p', 'a', '-n', '8', '--ignore-end')
        check(config, err.partition(" (--ignore")[0], "mgpt: author's settings: " + said if said else err)
        options = [word for setting in said.split(', ') if said for word in ('--' + setting.split()[0], setting.split()[1])]
        check(config, out, run('generate', plain, '-p', 'a', '-n', '8', '--ignore-end', *options)[0])
        found, err = run('generate', there, '-p', 'a', '-n', '8', '--ignore-end')
        check(config, found, out)
        check(config, said in err, True)
        greedy = ('-p', 'a', '-n', '400', '--ignore-end', '--temp', '0', '--no-fused')
        check(config, run('generate', folder + '/out.gguf', *greedy)[0], run('generate', plain, *greedy, *options, '--temp', '0')[0])


def check_seed():
    """A drawn seed is printed, and gives the same text when it is typed; two are not equal."""
    out, err = run('generate', NAMES, *SAMPLES, '-s', '-1')
    check('the seed is printed', err[:11], 'mgpt: seed ')
    check('and draws the same', run('generate', NAMES, *SAMPLES, '-s', err[11:].strip())[0], out)
    check('another one', run('generate', NAMES, '-s', '-1')[1] != err, True)
    out, err = run('repl', NAMES, '--temp', '1', stdin='/set seed -1\nan\n\n\n')
    check('repl', run('repl', NAMES, '--temp', '1', stdin='/set seed %s\nan\n\n\n' % err[11:].strip())[0], out)
    check('repl, --seed', run('repl', NAMES, '--seed', '-1', stdin='')[1][:11], 'mgpt: seed ')
    for text in ('-2', '1.5', '', 'x', '18446744073709551616'):
        check(text, run('generate', NAMES, '--seed=' + text, code=2),
              ('', "mgpt generate: -s, --seed: expected a whole number, found '%s' (see mgpt generate --help)\n" % text))


with tempfile.TemporaryDirectory() as FOLDER:
    for part in (check_all, check_parts, check_bad, check_converted):
        part(FOLDER)
check_seed()
sys.exit(bool(failed))
