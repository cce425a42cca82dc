"""tests/golden/qwen3 with vocabularies of 33 tokens in which a prompt can end inside a token."""
import json
import shutil
import subprocess


def convert(mgpt, root, folder, name, tokenizer):
    shutil.copytree(root + '/tests/golden/qwen3', '%s/%s' % (folder, name))
    for file, content in ('tokenizer', tokenizer), ('tokenizer_config', {'eos_token': '<e>'}):
        with open('%s/%s/%s.json' % (folder, name, file), 'w', encoding='utf-8') as out:
            json.dump({'added_tokens': [{'id': 0, 'content': '<e>', 'special': True}], **content} if file == 'tokenizer' else content, out)
    subprocess.run([mgpt, 'convert', '%s/%s' % (folder, name), '%s/%s.gguf' % (folder, name)], check=True, capture_output=True)
    return '%s/%s.gguf' % (folder, name)


def pairs_model(mgpt, root, folder, name='pairs', **more):
    """Byte-level BPE: letters, pairs and a few longer pieces, and the two bytes of U+00E9. Tokens 0 and 1 end texts (generation_config.json)."""
    pieces = ['<e>', '\u010a', '\u0120', *'abcdehlorsty', 'he', 'hel', 'lo', 'ld', 'or', '\u0120a', '\u0120b', '\u0120h', '\u0120hel', 'th', 'er',
              '\u00c3', '\u00a9', 'yes', 'ye', 'ys', '\u00c3\u00a9', '\u0120t']
    merges = ['h e', 'l o', 'l d', 'o r', '\u0120 a', '\u0120 b', '\u0120 h', 'he l', '\u0120 hel', 't h', 'e r', 'y e', 'ye s', 'y s', '\u00c3 \u00a9', '\u0120 t']
    return convert(mgpt, root, folder, name, {
        'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': False},
        'model': {'type': 'BPE', 'vocab': {p: i for i, p in enumerate(pieces)}, 'merges': merges}, **more})


def unigram_model(mgpt, root, folder):
    """SentencePiece's Unigram, with spaces as U+2581."""
    words = ['he', 'hel', 'hell', 'lo', 'ello', '\u2581he', '\u2581hell', '\u2581hello', '\u2581t', 'th', '\u2581the', 'ther', 'er', '\u2581a', 'ab', 'or', 'wor', '\u2581wor', 'ld']
    pieces = [['<e>', 0.0], ['<unk>', 0.0], ['\u2581', -3.0], *[[c, -4.0 - i / 8] for i, c in enumerate('abehlordtwsy')], *[[w, -5.0 + len(w) / 4 - i / 16] for i, w in enumerate(words[:18])]]
    return convert(mgpt, root, folder, 'unigram', {
        'pre_tokenizer': {'type': 'Metaspace', 'replacement': '\u2581', 'add_prefix_space': True}, 'model': {'type': 'Unigram', 'unk_id': 1, 'vocab': pieces},
        'decoder': {'type': 'Metaspace', 'replacement': '\u2581', 'add_prefix_space': True}})
