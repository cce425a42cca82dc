"""Models, text, sessions, generation and scores give what the commands give."""
import json
import struct
import subprocess
import threading
from pathlib import Path

import mgpt
import numpy as np
import pytest

PROGRAM = Path(mgpt.__file__).with_name("mgpt")


def command(*words, **options):
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=True, **options).stdout


def test_info(names):
    assert (names.info.arch, names.info.n_vocab, names.info.bos, names.info.add_bos) == ("microgpt", 27, 26, True)
    assert names.info.type == "F32" and names.info.isa
    assert "microgpt, 4192 parameters" in repr(names)


def test_text(names, shakespeare):
    assert names.encode("anna") == [26, 0, 13, 13, 0]
    assert names.encode("anna", bos=False) == [0, 13, 13, 0]
    assert names.encode("<BOS>a", special=True) == [26, 0]
    with pytest.raises(mgpt.Error, match="'<'"):  # text, unless it is asked for
        names.encode("<BOS>a")
    text = "ROMEO:\nWhat, ho!"
    assert shakespeare.decode(shakespeare.encode(text)) == text
    assert names.token_text(26) == "<BOS>" and names.is_end(26) and not names.is_end(0)
    assert names.decode([]) == ""


def test_tensors(names):
    kind, shape = names.tensors["token_embd.weight"]
    assert (kind, shape, names.tensor("token_embd.weight").shape) == ("F32", (27, 16), (27, 16))


def test_roles(root, names):
    """What a role names is in the pass: q = ln1(x) W_Q^T + b_Q, also of rows of one tensor; a norm of another name."""
    assert mgpt.ROLES["W_Q"] == list(mgpt.ROLES).index("W_Q") and names.has("W_Q", 0)
    assert not names.has("ln_final") and not names.has("W_Q", 0, bias=True) and not names.has("W_Q", 1)
    assert np.array_equal(names.tensor_of("W_U"), names.tensor("output.weight"))
    with pytest.raises(mgpt.Error, match="no bias of W_Q in layer 0"):
        names.tensor_of("W_Q", 0, bias=True)
    with pytest.raises(ValueError, match="role: expected one of W_E, .*, found 'Q'"):
        names.tensor_of("Q")
    model = mgpt.Model(root / "tests/golden/gpt2")
    cache = model.run_with_cache([1, 2, 3])[1]
    for role, name in (("W_Q", "q"), ("W_K", "k"), ("W_V", "v")):
        found = cache["blocks.1.ln1.hook_out"] @ model.tensor_of(role, 1).T + model.tensor_of(role, 1, bias=True)
        assert np.allclose(found.ravel(), cache[f"blocks.1.attn.hook_{name}"].ravel(), atol=1e-5)
    assert np.array_equal(model.tensor_of("W_U"), model.tensor_of("W_E"))  # tied
    seed = mgpt.Model(root / "tests/golden/seed_oss")  # its file calls the norm before the MLP post_attention_norm
    cache = seed.run_with_cache([1, 2, 3])[1]
    assert np.allclose(cache["blocks.0.ln2.hook_normalized"] * seed.tensor_of("ln2", 0), cache["blocks.0.ln2.hook_out"],
                       atol=1e-5)


def test_session(root, names):
    session = names.session()
    logits = session.feed(names.encode("anna"))
    assert logits.dtype == np.float32 and logits.shape == (27,) and len(session) == 5
    stepped = names.session()
    for token in names.encode("anna"):
        last = stepped.step(token)
    assert last.tobytes() == logits.tobytes() == session.logits.tobytes()
    fork = session.fork()
    assert fork.step(3).tobytes() != logits.tobytes() and fork.tokens == [26, 0, 13, 13, 0, 3]
    session.rewind(3)
    assert session.tokens == [26, 0, 13] and session.logits is None
    assert session.sync(names.encode("anna")).tobytes() == logits.tobytes()
    other = mgpt.Model(root / "tests/golden/deepseek_v2")  # values are narrower than keys
    run, cache = other.session(kv="f32"), other.run_with_cache([1, 2, 3])[1]
    run.feed([1, 2, 3])
    for head in range(other.info.n_head):
        assert all(np.array_equal(x, cache[name, 1][0, :, head]) for x, name in zip(run.kv(1, head), ("rot_k", "v")))
    k, v = session.kv(0, 1)
    assert k.shape == v.shape == (5, 4) and k.any() and v.any()


def test_logits(names, shakespeare):
    """All rows: of the fused path and the general one, of text and tokens, of no tokens, steered."""
    for model, text in ((names, "anna"), (shakespeare, "ROMEO: " * 20)):
        session, tokens = model.session(), model.encode(text)
        want = np.stack([session.step(t) for t in tokens])
        for got in (model.logits(text), model.logits(tokens, threads=2), model.logits(np.array([tokens]))):
            assert got.dtype == np.float32 and got.shape == want.shape and got.tobytes() == want.tobytes()
    assert names.logits([]).shape == (0, 27)
    steer = {0: np.ones(names.info.n_embd)}
    assert names.logits("anna", steer=steer)[-1].tobytes() == names.session(steer=steer).feed(names.encode("anna")).tobytes()
    with pytest.raises(mgpt.Error, match="context full"):
        names.logits([0] * 17)


def test_views_outlive_everything(root):
    """A view shows what its memory holds; that memory is there as long as the view is."""
    model = mgpt.Model(root / "weights/names.gguf")
    session = model.session()
    copy = session.feed([26, 1])
    view = session.logits
    assert view.tobytes() == copy.tobytes() and not view.flags.writeable
    for _ in range(10):
        session.step(2)
    model.close()
    del session, model
    assert np.isfinite(view).all()


def test_step_many(names):
    a, b = names.session(), names.session()
    a.feed([26, 1])
    b.feed([26, 2, 3])
    together = mgpt.step_many([a.fork(), b.fork()], [5, 6])
    assert [x.tobytes() for x in together] == [a.step(5).tobytes(), b.step(6).tobytes()]


def test_unembed(names):
    logits, cache = names.run_with_cache("anna", names="blocks.0.hook_resid_post")
    session = names.session()
    assert session.unembed(cache["resid_post", -1][0, 2]).tobytes() == logits[0, 2].tobytes()


def test_session_file(names, tmp_path):
    session = names.session()
    logits = session.feed(names.encode("anna"))
    session.save(tmp_path / "state")
    other = names.session()
    other.load(tmp_path / "state")
    assert other.tokens == session.tokens and other.logits.tobytes() == logits.tobytes()
    for call in other.load, session.save:
        with pytest.raises(mgpt.Error, match="^gone/state: "):
            call("gone/state")
    assert other.tokens == session.tokens
    (tmp_path / "mine").write_text("notes")
    with pytest.raises(mgpt.Error, match="not a session"):
        session.save(tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "notes"


@pytest.mark.parametrize("options", [{}, {"temperature": 0}, {"temperature": 0.5, "seed": 7},
                                     {"top_k": 3, "seed": 2}, {"top_p": 0.7}, {"min_p": 0.1, "n_ctx": 5}])
def test_generate_is_the_commands(names, shakespeare, options):
    words = {"temperature": "--temp", "seed": "-s", "top_k": "--top-k", "top_p": "--top-p", "min_p": "--min-p",
             "n_ctx": "-c"}
    flags = [word for key, value in options.items() for word in (words[key], value)]
    for model, text, n in ((names, "", None), (shakespeare, "ROMEO:", 40)):
        n_flags = ["-n", n] if n and "n_ctx" not in options else []
        if n and "n_ctx" in options:
            continue
        want = command("generate", model.path, "-p", text, "--no-prompt", *n_flags, *flags)
        assert "".join(model.generate(text, n, **options)) + "\n" == want


@pytest.mark.parametrize("stop", ["the", ["\n\n"], [".", ",\n"], ["e", "ed", "hed,"], ["none of it"]])
def test_stop_is_the_commands(shakespeare, stop):
    texts = [stop] if isinstance(stop, str) else stop
    flags = [word for text in texts for word in ("--stop", text.replace("\n", "\\n"))]
    want = command("generate", shakespeare.path, "-p", "the ", "-n", "90", "-s", "4", "--no-prompt", *flags)
    pieces = list(shakespeare.generate("the ", 90, seed=4, stop=stop))
    assert "".join(pieces) + "\n" == want
    assert not any(text in "".join(pieces) for text in texts)


@pytest.mark.parametrize("options", [{"temperature": 0.7, "seed": 5}, {"temperature": 0}, {"top_k": 3, "min_p": 0.1}, {"top_p": 0.6}])
def test_numbers_are_the_commands_and_scores(shakespeare, options):
    words = {"temperature": "--temp", "seed": "-s", "top_k": "--top-k", "top_p": "--top-p", "min_p": "--min-p"}
    flags = [word for key, value in options.items() for word in (words[key], value)]
    record = json.loads(command("generate", shakespeare.path, "-p", "KING", "-n", "20", "--json", "--top", "3", *flags))
    want = record["logprobs"]
    pieces = [p for p in shakespeare.generate("KING", 20, logprobs=3, **options) if p.token is not None]
    assert [p.token for p in pieces] == want["ids"] and [p.logprob for p in pieces] == want["token_logprobs"]
    assert [p.prob for p in pieces] == want["draw_probs"] and [str(p) for p in pieces] == want["tokens"]
    assert [p.top for p in pieces] == [[(t["id"], t["logprob"]) for t in top] for top in want["top_logprobs"]]
    score = json.loads(command("score", shakespeare.path, "--json", "--top", "3", input=json.dumps({"ids": record["tokens"]})))
    assert score["logprobs"]["token_logprobs"][-20:] == want["token_logprobs"]
    assert score["logprobs"]["top_logprobs"][-20:] == want["top_logprobs"]
    # The probability of the draw, from the logits.
    logits = shakespeare.logits(record["tokens"])[-21:-1].astype(np.float64)
    if options.get("temperature") == 0.7:
        p = np.exp((logits - logits.max(1, keepdims=True)) / np.float32(0.7))
        p = (p / p.sum(1, keepdims=True))[np.arange(20), want["ids"]]
        assert np.allclose(want["draw_probs"], p, rtol=1e-5)
    elif options.get("temperature") == 0:
        assert want["draw_probs"] == [1] * 20


def test_stop_and_ignore_end(names):
    assert "".join(names.generate("", temperature=0, ignore_end=True, n=8)) + "\n" == command(
        "generate", names.path, "--temp", "0", "--ignore-end", "-n", "8")
    for wrong in ("", ["a", ""], [5]):
        with pytest.raises(ValueError, match="stop: expected a text with characters"):
            names.generate("", stop=wrong)


def test_generate_many(names):
    """Texts, tokens and records, with arguments as their defaults (cli/records.py compares each with its prompt alone)."""
    prompts = ["an", [26, 12], {"id": 5, "prompt": "b", "seed": 3, "stop": "n"}, {"prompt": "Q"}, ""]
    records = [{"prompt": "an"}, {"ids": [26, 12]}, *prompts[2:4], {"prompt": ""}]
    done = subprocess.run([PROGRAM, "generate", names.path, "--records", "-", "-n", "7", "--temp", "0.7", "--top-k", "9", "-s", "4", "--top", "2"],
                          input="".join(json.dumps(r) + "\n" for r in records), capture_output=True, text=True)
    assert done.returncode == 3
    found = names.generate_many(prompts, 7, temperature=0.7, top_k=9, seed=4, logprobs=2, batch=2)
    assert found == [json.loads(line) for line in done.stdout.splitlines()] and "error" in found[3]
    assert names.generate_many([]) == []
    assert [r["text"] for r in names.generate_many(["an"], no_prompt=True)] == ["".join(names.generate("an"))]
    for named in ({"temperature": 0, "n_ctx": 4}, {"n": 0}, {"seed": 3, "ignore_end": True}, {"temperature": 0.7, "seed": 0}):
        texts = [r["text"] for r in names.generate_many(["an", np.array([26, 0, 13])], threads=1, **named)]
        assert texts == 2 * ["an" + "".join(names.generate("an", **named))], named
    with pytest.raises(TypeError, match="prompts: expected several"):
        names.generate_many("an")
    with pytest.raises(TypeError, match="unexpected argument 'tmp'"):
        names.generate_many(["an"], tmp=1)


def test_score_is_the_commands(names, shakespeare):
    for model, texts in ((names, ["anna", "olivia", "", "a" * 40]), (shakespeare, ["ROMEO:", "What, ho!"])):
        lines = "".join(json.dumps({"text": t}) + "\n" for t in texts)
        want = [json.loads(line) for line in command("score", model.path, "--json", input=lines).splitlines()]
        for score, record in zip(model.score(texts), want):
            assert score.ids == record["ids"] and score.n_tokens == record["n_tokens"]
            assert score.logprobs.tolist() == record["logprobs"]["token_logprobs"][1:]
            assert score.sum_logprob == record["sum_logprob"] and max(score.windows, 1) == record.get("windows", 1)
            assert score.perplexity == pytest.approx(record["perplexity"] or np.nan, rel=1e-14, nan_ok=True)


def test_a_text_that_begins_with_bos(names, tmp_path):
    """Where BOS is a letter, as in makemore's files, it is put in front of no text that has it."""
    path, key = tmp_path / "letter.gguf", b"tokenizer.ggml.bos_token_id"
    data = Path(names.path).read_bytes()
    assert data.count(key + struct.pack("<II", 4, 26)) == 1
    path.write_bytes(data.replace(key + struct.pack("<II", 4, 26), key + struct.pack("<II", 4, 0)))
    with mgpt.Model(path) as model:
        for score, text in zip(model.score(["anna", "nna"]), ["anna", "nna"], strict=True):
            record = json.loads(command("score", path, "--json", input=json.dumps({"text": text}) + "\n"))
            assert score.ids == record["ids"] == [0, 13, 13, 0, 26], (text, record["ids"])


@pytest.mark.parametrize("options", [{}, {"window": 7}, {"window": 9, "stride": 2}, {"stride": 16}, {"window": 1, "stride": 1}])
def test_score_rolls(names, options):
    """A text of any length, in windows: the numbers of the command (cli/rolling.py says which these are)."""
    texts = ["anna" * n for n in (1, 3, 4, 5, 30)] * 9
    words = [x for name, value in options.items() for x in ("--" + name, value)]
    lines = "".join(json.dumps({"text": t}) + "\n" for t in texts)
    want = [json.loads(line) for line in command("score", names.path, "--json", *words, input=lines).splitlines()]
    for text, score, record in zip(texts, names.score(texts, **options), want, strict=True):
        assert score.ids == record["ids"] and len(score.ids) == len(text) + 2
        assert score.logprobs.tolist() == record["logprobs"]["token_logprobs"][1:]
        assert score.windows == record.get("windows", 1) and score.sum_logprob == record["sum_logprob"]
    for wrong in ({"window": 17}, {"window": 0}, {"window": 4, "stride": 5}, {"stride": 17}):
        with pytest.raises(ValueError, match="expected a number from 1 to"):
            names.score(["anna"], **wrong)


def test_score_in_groups(names):
    """Texts share passes; each has the numbers that it has alone, in any order."""
    texts = ["anna", "olivia", "x", "mia"] * 50
    together = names.score(texts)
    alone = {text: names.score([text])[0].logprobs.tobytes() for text in set(texts)}
    assert [s.logprobs.tobytes() for s in together] == [alone[text] for text in texts]
    assert names.score([]) == [] and names.score([[26]])[0].n_tokens == 0
    with pytest.raises(mgpt.Error):
        names.score(["anna", "!"])
    with pytest.raises(ValueError, match="ids below 27, found 99"):
        names.score([[26, 99, 1]])


def test_checkpoint(root):
    """Converted in memory: the same logits as the file that mgpt convert writes."""
    path = root / "tests/fixtures/torch/nanogpt/ckpt.pt"
    with pytest.raises(mgpt.Error, match="not in the file: set --activation"):
        mgpt.Model(path)
    model = mgpt.Model(path, convert=["--assume", "nanogpt"])
    assert model.info.arch == "gpt2" and any("activation" in note for note in model.notes)
    assert not any("/tmp" in note for note in model.notes)
    assert model.tensor("output_norm.weight").shape == (8,)
    other = mgpt.Model(path, convert=["--activation", "gelu_tanh"])
    assert other.info.activation == "gelu_tanh" != model.info.activation


def test_lora(root):
    """The logits of PEFT's merged models; of GGUF too, whose file is then not the model's."""
    base, lora = root / "tests/golden/llama", root / "tests/fixtures/lora"
    for adapters, name in ((lora / "llama", "llama/ref.npz"), ((lora / "llama", 0.5), "llama/half.npz"),
                           ((lora / "llama", (lora / "llama_pattern", 1.0)), "llama_pattern/after.npz")):
        ref = np.load(lora / name)
        model = mgpt.Model(base, convert=["--no-tokenizer"], lora=adapters)
        found = model.session().feed(ref["tokens"])
        assert np.abs(found - ref["logits"][-1]).max() < 2e-5
        assert any("14 matrices changed" in note for note in model.notes)
    name = "blk.1.attn_v.weight"
    plain, added, taken = [mgpt.Model(base, convert=["--no-tokenizer"], lora=adapter).tensor(name)
                           for adapter in ((lora / "llama", 0.0), [lora / "llama"], (lora / "llama", np.float32(-1)))]
    assert np.abs(added - plain).max() > 1e-2 and np.abs(added + taken - 2 * plain).max() < 1e-6
    with pytest.raises(mgpt.Error, match="general.architecture is 'llama', expected 'microgpt'"):
        mgpt.Model(root / "weights/names.gguf", lora=lora / "llama/lora.gguf")


def test_threads(shakespeare):
    """Each thread has a session of its own; a second one in a session is refused."""
    tokens, want = shakespeare.encode("ROMEO:\n" * 20)[:200], []
    def run():
        want.append(shakespeare.session(threads=1).feed(tokens).tobytes())
    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(want)) == 1 and len(want) == 4


def test_one_thread_per_session(names):
    session, seen = names.session(), []
    def other():
        with pytest.raises(RuntimeError, match="another thread"):
            session.step(1)
        seen.append(1)
    def hook(value, hook):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    session.feed([26, 1], hooks=[("hook_embed", hook)])
    assert seen == [1]
