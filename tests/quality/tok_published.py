"""Compares the ids of published tokenizers with those of the programs that read them: Hugging Face's tokenizers for
tokenizer.json, sentencepiece for *.model, and what the ids decode to.

    python3 tests/quality/tok_published.py build/tools/mgpt FOLDER... [--texts 300] [--seed 1] [--show 2]

Each folder with such a file counts (also .gz), with the configurations beside it. Texts are random ones, ill-formed bytes,
tokens of the vocabulary and special tokens one after the other. mgpt adds no second BOS and needs texts in normal form C
where the tokenizer does that. Special tokens may also be those that the configuration names, as in transformers. An
unknown character decodes to nothing. Needs tokenizers, transformers, sentencepiece. Exits with 1 if any id differs.
"""
import argparse
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

import sentencepiece
import transformers
from tokenizers import Tokenizer

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vectors"))
from tok_corpus import cases  # noqa: E402
from tok_model import Library, random_text, write_model  # noqa: E402

PARSE_SPECIAL = 2
BESIDE = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "generation_config.json")
NAMES = ("bos_token", "eos_token", "unk_token", "pad_token", "additional_special_tokens")


def content(path):
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def known(text):
    """Without characters that are newer than the Unicode of PCRE2, which belong to other classes there."""
    return "".join(c for c in text if unicodedata.category(c) != "Cn" and not 0xD800 <= ord(c) < 0xE000)


def texts_of(vocab, specials, options):
    rng = random.Random(options.seed)
    texts = cases(40) + [known(random_text(rng)) for _ in range(options.texts)]
    texts += [rng.randbytes(rng.randint(1, 30)).decode(errors="replace") for _ in range(40)]
    texts += [rng.choice(["", " ", "  "]).join(rng.choice(vocab) for _ in range(rng.randint(1, 6))) for _ in range(60)]
    for _ in range(40 if specials else 0):
        texts.append("".join(rng.choice([rng.choice(specials), " ", "x", "  \n", "\u00e9"]) for _ in range(rng.randint(2, 8))))
    return [known(t) for t in texts]


class HuggingFace:
    """tokenizer.json, without dropout; `named` also has the special tokens that the configuration names."""

    def __init__(self, data, folder):
        tree = json.loads(data)
        if tree["model"].get("dropout"):
            tree["model"]["dropout"] = None
        self.t = Tokenizer.from_str(json.dumps(tree))
        self.t.no_padding()
        self.t.no_truncation()
        self.vocab = self.t.get_vocab()
        self.special = [i for i, a in self.t.get_added_tokens_decoder().items() if a.special]
        self.specials = [a.content for a in self.t.get_added_tokens_decoder().values()]
        config = folder / "tokenizer_config.json"
        names = json.loads(config.read_text()) if config.exists() else {}
        names = {k: v.get("content") if isinstance(v, dict) else v for k, v in names.items() if k in NAMES and v}
        copy = Tokenizer.from_str(self.t.to_str())
        self.named = transformers.PreTrainedTokenizerFast(tokenizer_object=copy, **names) if names else None
        first = self.t.encode("").ids[:1]
        self.bos = self.t.id_to_token(first[0]) if first else None
        self.before = self.t.encode("e", add_special_tokens=False).ids[:1]

    def same(self, text, ours):
        return (self.bos and text.startswith(self.bos)) or self.t.encode(text).ids == ours or (
            self.named is not None and self.named.encode(text) == ours)

    def encode(self, text):
        return self.t.encode(text).ids

    def decodes(self, ids, library):
        shown = self.t.decode([i for i in self.before + ids if i not in self.special], skip_special_tokens=False)
        found = library.decode(self.before + ids)
        return shown.rstrip(" ") in (found.rstrip(" "), found.removeprefix(" ").rstrip(" "))


class SentencePiece:
    bos, specials, named = None, [], None

    def __init__(self, data, folder):
        self.t = sentencepiece.SentencePieceProcessor(model_proto=data)
        self.vocab = {self.t.id_to_piece(i): i for i in range(self.t.get_piece_size())}
        self.ends = {self.t.bos_id(), self.t.eos_id()}

    def encode(self, text):
        return self.t.encode(text)

    def same(self, text, ours):
        """With the BOS and EOS that the configuration may add."""
        want = self.encode(text)
        return want in [ours, ours[1:], ours[:-1], ours[1:-1]] and self.ends >= set(ours[:1] + ours[-1:]) - set(want)

    def decodes(self, ids, library):
        found = library.decode(ids)
        return self.t.unk_id() in ids or self.t.decode(ids).lstrip(" ") == found.lstrip(" ")


def compare(path, peer, library, options):
    with tempfile.TemporaryDirectory() as to:
        name = path.name.removesuffix(".gz")
        target = name if name in ("tokenizer.json", "spiece.model") else "tokenizer.model"
        n = max(peer.vocab.values()) + 1
        write_model(to, n, type("None", (), {"save": lambda *_: None}))
        (pathlib.Path(to) / target).write_bytes(content(path))
        for beside in BESIDE:
            if (path.parent / beside).exists():
                (pathlib.Path(to) / beside).write_bytes((path.parent / beside).read_bytes())
        done = subprocess.run([options.mgpt, "convert", to, to + "/m.gguf"], capture_output=True, text=True, errors="replace")
        if done.returncode:
            print("%s: refused: %s" % (path, done.stderr.strip().split("\n")[-1]))
            return 0
        library.open(to + "/m.gguf")
    wrong = n_decoded = 0
    texts = texts_of(sorted(peer.vocab), peer.specials, options)
    flags = 0 if isinstance(peer, SentencePiece) else PARSE_SPECIAL
    for text in texts:
        ours = library.encode(unicodedata.normalize("NFC", text) if ", NFC" in done.stderr else text, flags)
        if isinstance(ours, str) or not peer.same(text, ours):
            wrong += 1
            if wrong <= options.show:
                print("%s: %r\n  expected %s\n  found    %s" % (path, text, peer.encode(text), ours))
        elif not peer.decodes(ours, library):
            n_decoded += 1
            if n_decoded <= options.show:
                print("%s: %r decodes to %r" % (path, text, library.decode(ours)))
    library.close()
    print("%s: %d tokens, %d texts, %d wrong, %d decoded otherwise" % (path, n, len(texts), wrong, n_decoded), flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mgpt")
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=2)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    library, n, bad = Library(options.mgpt), 0, 0
    for path in sorted(p for folder in options.folders for p in folder.rglob("*") if p.is_file()):
        name = path.name.removesuffix(".gz")
        if name != "tokenizer.json" and not name.endswith(".model"):
            continue
        try:
            peer = (HuggingFace if name == "tokenizer.json" else SentencePiece)(content(path), path.parent)
        except Exception as e:  # what the peer does not read is no tokenizer
            print("%s: %s" % (path, str(e)[:100]))
            continue
        n += 1
        bad += compare(path, peer, library, options) > 0
    print("%d tokenizers, %d with other ids" % (n, bad))
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
