"""Edits of logits in Python: what `mgpt generate` draws with the same options, in the ranges of those."""
import json
import subprocess
import sys
from pathlib import Path

import mgpt
import numpy as np
import pytest
from mgpt._rows import EDITS

PROGRAM = Path(mgpt.__file__).with_name("mgpt")
CASES = [({"repeat_penalty": 1.3, "repeat_last": 4}, ["--repeat-penalty", "1.3", "--repeat-last", "4"]),
         ({"presence": 0.5, "frequency": np.float32(0.25)}, ["--presence", "0.5", "--frequency", "0.25"]),
         ({"dry": (3, 1.5, 1)}, ["--dry", "3:1.5:1"]), ({"dry": "9:2:1:3"}, ["--dry", "9:2:1:3"]),
         ({"bias": {"e": -2.5, 13: float("-inf")}}, ["--bias", "e-2.5", "--bias", "13-inf"]), ({"bias": [{"e": -2.5}, "a+1"]}, ["--bias", "e-2.5", "--bias", "a+1"]),
         ({"top_nsigma": 1}, ["--top-nsigma", "1"]), ({"typical": 0.5}, ["--typical", "0.5"]), ({"xtc": (0.6, 0.05)}, ["--xtc", "0.6:0.05"]),
         ({"mirostat": (2, 2.5)}, ["--mirostat", "2:2.5"]), ({"ban": ["el", "an", "e\\x6e"]}, ["--ban", "el", "--ban", "an", "--ban", "en"]),
         ({"regex": "[a-f]n+[a-z]{2}"}, ["--regex", "[a-f]n+[a-z]{2}"]), ({"ban": "a", "stop": "n"}, ["--ban", "a", "--stop", "n"])]


@pytest.mark.parametrize("named, options", CASES)
def test_as_generate(root, names, named, options):
    plain = list("".join(names.generate("anan", seed=s)) for s in range(20))
    texts = ["".join(names.generate("anan", seed=s, **named)) for s in range(20)]
    for s in range(20):
        done = subprocess.run([PROGRAM, "generate", root / "weights/names.gguf", "-p", "anan", "--no-prompt", "-s", str(s), *options],
                              capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        assert done.stdout == texts[s] + "\n"
    assert texts != plain


def test_schema(names):
    assert mgpt.schema_regex({"const": "an"}) == mgpt.schema_regex('{"const": "an"}') == '(?:"an")'
    wide = {"properties": {str(i): {"type": "boolean"} for i in range(12)}}
    assert len(mgpt.schema_regex(wide)) > 1000
    with pytest.raises(ValueError, match="^schema: #/properties/a: multipleOf is not supported with type"):
        mgpt.schema_regex({"properties": {"a": {"type": "integer", "multipleOf": 2}}})
    with pytest.raises(ValueError, match="no text of this model"):
        names.generate("a", regex=mgpt.schema_regex({"const": [1]}))
    assert "".join(names.generate("a", regex=mgpt.schema_regex({"type": "null"}))) == "null"


def test_numbers_of_what_stays(names):
    pieces = list(names.generate("b", seed=3, ban=["e", "an"], logprobs=2))
    assert [p.token for p in pieces[:-1]] == [ord(p) - 97 for p in pieces[:-1]] and all(0 < p.prob <= 1 and len(p.top) == 2 for p in pieces[:-1])
    assert "e" not in "".join(pieces)


def test_edited(names):
    tokens, logits = np.array([26, 0, 13, 0], np.int32), np.linspace(-3, 3, 27, dtype=np.float32)
    edited = mgpt.Sampler(model=names, repeat_penalty=2, presence=0.5, bias={"z": 1}).edited(logits, tokens)
    expected = logits.copy()
    expected[25] += 1
    for token in (0, 13, 26):
        expected[token] = (expected[token] * 2 if expected[token] < 0 else expected[token] / 2) - 0.5
    assert np.array_equal(edited, expected) and logits[26] == 3
    assert np.array_equal(mgpt.Sampler().edited(logits, tokens), logits)
    assert mgpt.Sampler(0, model=names, bias={"z": 9})(logits) == 25  # of no text
    with pytest.raises(TypeError, match="Sampler: expected temperature, .*found .0.8, 0, 1"):
        mgpt.Sampler(0.8, 0, 1.0, 0.0, 7, 8)


@pytest.mark.parametrize("named, failure, text", [
    ({"typical": 2}, ValueError, "^typical: expected a number from 0 to 1, found '2'$"), ({"dry": (1, 0.5)}, ValueError, "as number 2 of"),
    ({"bias": {"zz": 1}}, ValueError, "the text of one token"), ({"ban": [""]}, ValueError, "expected a text"), ({"regex": "[0-9]"}, ValueError, "no text of this model"),
    ({"repeat_penalty": "x" * 10**6}, TypeError, "expected a number"), ({"mirostat": True}, TypeError, "expected a number"),
    ({"bias": {1.5: "x"}}, TypeError, "expected a token's id or text"), ({"bias": {1: "x"}}, TypeError, "expected a number"), ({"ban": ["a\0b"]}, ValueError, "without NUL"), ({"typica": 1}, TypeError, "typical")])
def test_refused(names, named, failure, text):
    with pytest.raises(failure, match=text) as refused:
        names.generate("a", **named)
    assert len(str(refused.value)) < 400


def test_choose(root, names, shakespeare):
    for model, file, text, choices in ((names, "names", "ann", ["a", "ie", "i", "abel"]), (shakespeare, "shakespeare", "To be", [" or", "\n", ", a"])):
        for seed, more, options in ((0, {}, []), (3, {"temperature": 1.5}, ["--temp", "1.5"]), (0, {"temperature": 0}, ["--temp", "0"])):
            listed = ",".join(t.replace(",", "\\,").replace("\n", "\\n") for t in choices)
            done = subprocess.run([PROGRAM, "generate", root / f"weights/{file}.gguf", "-p", text, "--choices", listed, "-s", str(seed), *options, "--json"],
                                  capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
            record, found = json.loads(done.stdout), model.choose(text, choices, seed=seed, **more)
            assert (found.index, text + found.text) == (record["choice"], record["text"])
            assert [{"text": t, "tokens": i, "logprob": x} for t, i, x in zip(choices, found.tokens, found.logprobs)] == \
                [{k: v for k, v in c.items() if k != "prob"} for c in record["choices"]]
            assert np.allclose(found.probs, [c["prob"] for c in record["choices"]], rtol=1e-12)
        session = model.session()
        session.feed(model.encode(text))
        held = session.tokens
        for named in ({"steer": {0: np.ones(model.info.n_embd)}}, {"kv": "q8_0"}):
            other = model.session(**named)
            other.feed(held)
            assert model.choose(other, choices, seed=3) == model.choose(text, choices, seed=3, **named) != model.choose(text, choices, seed=3)
        assert model.choose(session, choices, seed=3) == model.choose(held, choices, seed=3) == model.choose(text, choices, seed=3) and session.tokens == held


def test_choices_after_tokens(names):
    """Tokens that the text of them would not have, here without BOS, stay as they are."""
    found, row = names.choose([0, 13], ["n", "ea"]), names.logits([0, 13])[-1].astype(np.float64)
    assert found.tokens == [[13], [4, 0]] and found.logprobs[0] == pytest.approx(row[13] - np.log(np.exp(row).sum()), rel=1e-6)
    with pytest.raises(mgpt.Error, match="context"):
        names.choose("an", ["abc"], n_ctx=4)


def test_choices_that_vanish(root, tmp_path):
    """A choice of which the normalizer leaves nothing."""
    sys.path.insert(0, str(root / "tests/cli"))
    from small_vocabularies import pairs_model

    model = mgpt.Model(pairs_model(str(PROGRAM), str(root), str(tmp_path), normalizer={"type": "Replace", "pattern": {"String": "_"}, "content": ""}))
    for choices in ["_", "b"], ["b", "_"], ["b", "h", "__"]:
        with pytest.raises(ValueError, match="^choices: '_+' has no token of its own after the text"):
            model.choose("a", choices)


def test_choices_after_control_tokens(root, tmp_path):
    """A control token in the text is read as the program reads it, and a choice may change the token before it."""
    sys.path.insert(0, str(root / "tests/cli"))
    from small_vocabularies import pairs_model

    path = pairs_model(str(PROGRAM), str(root), str(tmp_path))
    model = mgpt.Model(path)
    h, bos = model.encode("h", bos=False), model.info.bos
    for held in [bos, *h, bos, *h], [*h, bos, *h]:
        done = subprocess.run([PROGRAM, "generate", path, "--ids", ",".join(map(str, held)), "--choices", "e,o", "--json"],
                              capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
        record, found = json.loads(done.stdout), model.choose(held, ["e", "o"])
        assert [(found.tokens[i], found.logprobs[i]) for i in (0, 1)] == [(c["tokens"], c["logprob"]) for c in record["choices"]]
        assert found.tokens[0] == model.encode("he", bos=False)


def test_heal(root, names, tmp_path):
    sys.path.insert(0, str(root / "tests/cli"))
    from small_vocabularies import pairs_model, unigram_model

    for make, prompt in (pairs_model, "a b hel"), (unigram_model, "a hel"):
        path = make(str(PROGRAM), str(root), str(tmp_path))
        model = mgpt.Model(path)
        for seed in range(12):
            for n, named, options in (7, {}, []), (1, {"temperature": 1.5}, ["--temp", "1.5"]), (4, {"stop": "l", "repeat_penalty": 1.2}, ["--stop", "l", "--repeat-penalty", "1.2"]):
                done = subprocess.run([PROGRAM, "generate", path, "-p", prompt, "--no-prompt", "--heal", "-n", str(n), "-s", str(seed), *options],
                                      capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
                assert ("".join(model.generate(prompt, n, seed=seed, heal=True, **named)) + "\n").encode() == done.stdout
        assert model.generate_many([prompt], 7, heal=True)[0]["text"] == prompt + "".join(model.generate(prompt, 7, heal=True))
    assert list(names.generate("ann", heal=True)) == list(names.generate("ann")) and "".join(model.generate(prompt, 0, heal=True)) == ""
    for named in {"ban": "a"}, {"regex": "a"}:
        with pytest.raises(ValueError, match="not with ban"):
            names.generate("a", heal=True, **named)
    for model, text, named in (model, prompt, {"heal": True}), (names, "b", {"ban": ["e", "an"]}):  # hooks are there when tokens run again
        steer, hooks = {0: np.full(model.info.n_embd, 2)}, [("blocks.0.hook_resid_post", lambda value, hook: value + 2)]
        texts = [["".join(model.generate(text, 6, seed=s, **named, **more)) for s in range(20)] for more in ({"steer": steer}, {"hooks": hooks}, {})]
        assert texts[0] == texts[1] != texts[2]


def test_texts_of_bytes(root, tmp_path):
    """A character of two tokens; texts in NFC where the model asks for it, and those that a normaliser makes longer."""
    sys.path.insert(0, str(root / "tests/cli"))
    from small_vocabularies import pairs_model

    plain, nfc, longer = (mgpt.Model(pairs_model(str(PROGRAM), str(root), str(tmp_path), name, **more)) for name, more in (
        ("plain", {}), ("nfc", {"normalizer": {"type": "NFC"}}),
        ("longer", {"normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "hello"}})))
    assert plain.to_string([26, 27, 0, 26]) == "\u00e9<e>\ufffd" and plain.decode([26, 27]) == "\u00e9"
    assert nfc.encode("e\u0301") == plain.encode("\u00e9") == [31] != plain.encode("e\u0301")
    assert longer.encode("a" * 50) == longer.encode("a") * 50 and len(longer.encode("a")) == 2


def test_odd_tokens(root, names, tmp_path):
    """Tokens that look like an escape or a number, one longer than any buffer; a model without a name that puts no BOS in front."""
    sys.path.insert(0, str(root / "weights"))
    import gguf

    metadata, tensors = gguf.read(root / "weights/names.gguf")[:2]
    odd = ["\\n", "7", "xy" * 2000]
    for name in "token_embd.weight", "output.weight":
        tensors[name] = np.concatenate([tensors[name], tensors[name][:3] * np.float32(0.5)])
    metadata["microgpt.vocab_size"] += 3
    metadata["tokenizer.ggml.tokens"] += odd
    metadata["tokenizer.ggml.token_type"] += [1] * 3
    metadata["tokenizer.ggml.add_bos_token"] = False
    del metadata["general.name"], metadata["tokenizer.ggml.eos_token_id"]
    gguf.write(tmp_path / "odd.gguf", metadata, tensors)
    m = mgpt.Model(tmp_path / "odd.gguf")
    assert all(m.decode([i, 0, i]) == text + "a" + text and m.to_str_tokens([[i], [0]]) == [text, "a"] for i, text in enumerate(odd, 27))
    for text in odd[:2]:
        assert "".join(m.generate("a", 2, temperature=0, bias={text: 99})) == text * 2
    assert m.cfg.model_name == "odd.gguf" and not m.cfg.default_prepend_bos
    assert m.to_tokens("an").tolist() == [[0, 13]] and m.to_tokens("an", prepend_bos=True).tolist() == [[26, 0, 13]]
    assert m.info.eos < 0 and m.to_tokens([[0, 13], [0]]).tolist() == [[0, 13], [0, 26]]
    gguf.write(tmp_path / "bos.gguf", {**metadata, "tokenizer.ggml.add_bos_token": True, "general.name": "\u00e9"}, tensors)
    assert mgpt.Model(tmp_path / "bos.gguf").info.name == "\u00e9"
    for found, want in zip(m.head_scores(3, texts=1).show().maps, mgpt.Model(tmp_path / "bos.gguf").head_scores(3, texts=1).show().maps):
        assert np.array_equal(found, want)  # random text begins with BOS also where other texts do not
    (tmp_path / "bos.gguf").replace(tmp_path / "odd.gguf")
    (tmp_path / "odd.gguf").write_bytes(b"GGUF" + bytes(20))  # m has its own still
    with pytest.raises(mgpt.Error, match="odd.gguf: .*version"):
        m.generate_many(["an"])


@pytest.mark.parametrize("choices, failure, text", [
    ("ab", TypeError, "expected several texts"), ([], TypeError, "several texts"), (["a", ""], ValueError, "texts with characters"), ([1], ValueError, "found 1"),
    (["a", "b", "a"], ValueError, "'a' is 'a' again"), (["a", "?"], mgpt.Error, "not in the vocabulary"), (["a" * 20], mgpt.Error, "context")])
def test_choices_refused(names, choices, failure, text):
    with pytest.raises(failure, match=text):
        names.choose("a", choices)


def test_session_of_another_model(names, shakespeare):
    session = names.session()
    session.feed([1, 2])
    with pytest.raises(ValueError, match="text: expected a session of this model, found <mgpt.Session of .*names.gguf"):
        shakespeare.choose(session, ["a", "b"])


def test_padded(root, names, tmp_path):
    """Rows of the head that no token has are not drawn, and change no probability of drawing."""
    path = str(tmp_path / "padded.gguf")
    subprocess.run([sys.executable, root / "tests/cli/padded_vocabulary.py", root / "weights/names.gguf", path], check=True)
    padded = mgpt.Model(path)
    assert padded.logits("anna")[-1].argmax() >= padded.info.n_tokens == names.info.n_tokens
    for named in [{}, {"temperature": 0}, {"heal": True}, *(case[0] for case in CASES)]:
        for seed in range(5):
            pieces = [list(model.generate("anan", seed=seed, logprobs=0, **named)) for model in (padded, names)]
            assert [p.prob for p in pieces[0]] == [p.prob for p in pieces[1]] and pieces[0] == pieces[1]
    assert [r["text"] for r in padded.generate_many(["an", "el"], seed=5)] == [r["text"] for r in names.generate_many(["an", "el"], seed=5)]
    for found, want in zip(padded.head_scores(4).show().maps, names.head_scores(4).show().maps):
        assert np.array_equal(found, want)


def test_needs_a_model():
    for name in EDITS:
        with pytest.raises(TypeError, match=f"^{name}: expected a model"):
            mgpt.Sampler(**{name: "x"})


def test_author(root, names, tmp_path, capfd):
    sys.path.insert(0, str(root / "tests/cli"))
    from checks import gguf_with_keys

    keys = {"temp": 0.6, "top_k": 4, "xtc_probability": 0.5, "xtc_threshold": 0.05}
    gguf_with_keys(root / "weights/names.gguf", tmp_path / "a.gguf", {"general.sampling." + key: value for key, value in keys.items()})
    m, settings = mgpt.Model(tmp_path / "a.gguf"), {"temperature": 0.6, "top_k": 4, "xtc": (0.5, 0.05)}
    assert m.author_settings == settings and names.author_settings == {}
    for seed in range(20):
        assert "".join(m.generate("an", seed=seed)) == "".join(names.generate("an", seed=seed, **settings))
        assert "".join(m.generate("an", seed=seed, top_k=2)) == "".join(names.generate("an", seed=seed, **settings | {"top_k": 2}))
        assert "".join(m.generate("an", seed=seed, ignore_author=True)) == "".join(names.generate("an", seed=seed))
    assert m.generate_many(["an", "el"], seed=5) == names.generate_many(["an", "el"], seed=5, **settings)
    assert m.generate_many(["an", "el"], seed=5, ignore_author=True) == names.generate_many(["an", "el"], seed=5)
    for seed in range(20):
        assert m.choose("an", [*"abcdenz"], seed=seed) == names.choose("an", [*"abcdenz"], seed=seed, temperature=0.6, top_k=4)
    assert m.score(["anna"])[0].sum_logprob == names.score(["anna"])[0].sum_logprob
    gguf_with_keys(root / "weights/names.gguf", tmp_path / "b.gguf", {"general.sampling.temp": "hot"})
    with pytest.raises(mgpt.Error, match="b.gguf: key general.sampling.temp: expected a number"):
        mgpt.Model(tmp_path / "b.gguf").generate("an")
    assert capfd.readouterr().err == ""


def test_drawn_seed(names, capfd):
    sampler = mgpt.Sampler(seed=-1)
    assert capfd.readouterr().err == f"mgpt: seed {sampler.seed}\n" and 0 <= sampler.seed < 2**32
    text = "".join(names.generate("an", seed=-1))
    seed = int(capfd.readouterr().err.removeprefix("mgpt: seed "))
    assert "".join(names.generate("an", seed=seed)) == text
