"""Names of other libraries: what they give by ours, batches with hooks, and names that are near."""
import importlib
import pickle
import sys
import threading
import types

import mgpt
import numpy as np
import pytest

GOLDEN = ("gpt2", "llama", "gemma3", "granite", "cohere", "olmo2", "gpt_neox", "qwen3", "phi", "olmo", "deepseek_v2", "minicpm3", "gemma2",
          "mpt", "bloom", "stablelm", "jais2", "lfm2", "minicpm", "apertus", "nanochat")
NO_SUM = ("gpt1", "opt_350m", "gemma4", "gemma4_e")  # norms after each sum, factors of layers


@pytest.mark.parametrize("name", GOLDEN)
@pytest.mark.filterwarnings("error::UserWarning")
def test_stacks_add_up(root, name):
    """The parts of the residual stream are all of it, and those of a logit difference are all of that."""
    model = mgpt.Model.from_pretrained(root / f"tests/golden/{name}")
    logits, cache = model.run_with_cache([[1, 2, 3, 4], [4, 3, 2, 1]])
    stack, labels = cache.decompose_resid(return_labels=True)
    assert len(labels) == len(stack) == 2 * model.cfg.n_layers + (2 if "hook_pos_embed" in cache else 1)
    whole = cache["resid_post", -1]
    assert np.allclose(stack.sum(0), whole, atol=1e-5 * np.abs(whole).max())
    for mid in [value for name, value in cache.items() if name == "blocks.1.hook_resid_mid"]:
        assert np.allclose(cache.decompose_resid(1, mlp_input=True).sum(0), mid, atol=1e-5 * np.abs(whole).max())
    heads, names = cache.stack_head_results(return_labels=True, incl_remainder=True)
    assert names[:2] == ["L0H0", "L0H1"] and names[-1] == "remainder"
    assert np.allclose(heads.sum(0), whole, atol=1e-5 * np.abs(whole).max())
    parts = cache.logit_attrs(stack, 5, 6).sum(0)
    cap, shift = model.info.logit_softcap, 0.0
    if cap:
        logits = cap * np.arctanh(logits / cap)
    if model.has("ln_final", bias=True):
        shift = model.tensor_of("ln_final", bias=True) @ (model.W_U[:, 5] - model.W_U[:, 6]) * model.info.logit_scale
    shift = shift + model.b_U[5] - model.b_U[6]
    assert np.allclose(parts + shift, logits[..., 5] - logits[..., 6], atol=2e-5 * np.abs(logits).max())


def test_logits_that_are_no_sum(root):
    """ModernBERT: the head reads the norm of an activation. The stream is a sum of its parts, a logit is not."""
    model = mgpt.Model(root / "tests/golden/modernbert_decoder")
    _, cache = model.run_with_cache([1, 2, 3, 4])
    stack = cache.decompose_resid()
    assert np.allclose(stack.sum(0), cache["resid_post", -1], atol=1e-5)
    assert cache["mlm_head.ln.hook_normalized"].shape == (1, 4, 24)
    with pytest.raises(mgpt.Error, match=r"logits are no sum over parts: a matrix and an activation are before the head \(modernbert-decoder\)"):
        cache.logit_attrs(stack, 5)


def test_layers_with_other_heads(root):
    """Laguna: layer 0 has four heads, the others have six. Gemma 4: heads of two widths. Stacks of all layers are refused in words."""
    model = mgpt.Model.from_pretrained(root / "tests/golden/laguna")
    _, cache = model.run_with_cache([1, 2, 3, 4])
    assert model.all_head_labels[3:5] == ["L0H3", "L1H0"] and model.all_head_labels[-1] == "L4H3"
    stack, labels = cache.stack_head_results(layer=2, return_labels=True)
    assert len(stack) == len(labels) == 4 + 6 and labels[-1] == "L1H5"
    for layer, heads in enumerate((4, 6, 6, 6, 4)):
        attn = model.blocks[layer].attn
        assert attn.W_Q.shape == (heads, 20, 8) and attn.W_O.shape == (heads, 8, 20)
        added = np.einsum("bthd,hde->bte", cache["z", layer], attn.W_O)
        assert np.allclose(added, cache["attn_out", layer], atol=1e-5), layer
    with pytest.raises(ValueError, match=r"W_Q: \[6, 20, 8\] in layer 1, \[4, 20, 8\] in layer 0: .*model.blocks\[n\] has"):
        model.W_Q
    wider = mgpt.Model.from_pretrained(root / "tests/golden/gemma4_e")
    with pytest.raises(ValueError, match=r"W_O: \[2, 8, 16\] in layer 2, \[2, 10, 16\] in layer 0"):
        wider.W_O


def test_a_batch_of_one(root):
    """A list of one text, or of one row, is what it is first of two."""
    model = mgpt.Model(root / "weights/names.gguf")
    for one, two in (["anna"], ("anna", "li")), ([[1, 2, 3]], [[1, 2, 3], [3, 2, 1]]), ([np.array([1, 2])], [np.array([1, 2])] * 2):
        logits, cache = model.run_with_cache(one)
        both, all_of = model.run_with_cache(two)
        assert np.array_equal(logits, both[:1]) and np.array_equal(model(one), logits) and len(model(one, "loss", loss_per_token=True)) == 1
        assert all(np.array_equal(cache[hook], all_of[hook][:1]) for hook in cache)
        assert np.array_equal(model.run_with_hooks(one), logits) and model(one, "loss") == model(one[0], "loss")
    assert model.to_str_tokens(["anna"]) == [model.to_str_tokens("anna")] and model.to_tokens(["anna"]).shape == (1, 5)


@pytest.mark.parametrize("name", NO_SUM)
def test_stacks_that_do_not_add_up(root, name):
    """Where the residual stream is no sum of outputs, the stack says how much is missing; the remainder has it."""
    model = mgpt.Model(root / f"tests/golden/{name}")
    _, cache = model.run_with_cache([1, 2, 3, 4])
    with pytest.warns(UserWarning, match=r"not all of the residual stream: up to \d+\.\d%") as told:
        stack = cache.decompose_resid()
    whole = cache["resid_post", -1]
    assert f"{np.abs(stack.sum(0) - whole).max() / np.abs(whole).max():.1%}" in str(told[0].message) and told[0].filename == __file__
    assert np.allclose(cache.stack_head_results(incl_remainder=True).sum(0), whole, atol=1e-5 * np.abs(whole).max())


@pytest.mark.parametrize("name", ("granite", "deepseek_v2", "minicpm3", "llama", "gpt2"))
def test_stack_of_heads_is_attention(root, name):
    """Without a norm after it attention is the sum of its heads and a bias."""
    model = mgpt.Model(root / f"tests/golden/{name}")
    _, cache = model.run_with_cache([1, 2, 3])
    found = cache.stack_head_results(layer=1).sum(0) + (model.b_O[0] if model.has("W_O", 0, bias=True) else 0)
    assert np.allclose(found, cache["attn_out", 0], atol=1e-5)
    lens, labels = cache.accumulated_resid(apply_ln=True, return_labels=True)
    assert labels == [f"{i}_pre" for i in range(model.info.n_layer)] + ["final_post"]
    assert np.allclose(lens[-1], cache["ln_final.hook_out"], atol=1e-5)
    assert np.allclose(cache.accumulated_resid(pos_slice=-1, incl_mid=True)[1], cache["resid_mid", 0][:, -1])


@pytest.mark.parametrize("place", (-2, (1, 3)))
@pytest.mark.parametrize("rows", ([1, 2, 3, 4], [[1, 2, 3, 4], [4, 3, 2, 1]]))
def test_stacks_at_places(root, rows, place):
    """A stack of some positions, and what is made of one, is that part of the whole."""
    _, cache = mgpt.Model(root / "tests/golden/gpt2").run_with_cache(rows)
    part = slice(*place) if isinstance(place, tuple) else place
    for make, more in ("accumulated_resid", {}), ("decompose_resid", {}), ("stack_head_results", {}), ("stack_head_results", {"incl_remainder": True}):
        whole, some = getattr(cache, make)(**more), getattr(cache, make)(pos_slice=place, **more)
        assert np.array_equal(some, whole[..., part, :]), make
        for found, of in ((cache.apply_ln_to_stack(some, pos_slice=place), cache.apply_ln_to_stack(whole)),
                          (getattr(cache, make)(pos_slice=place, apply_ln=True), getattr(cache, make)(apply_ln=True)),
                          (cache.logit_attrs(some, 3, pos_slice=place)[..., None], cache.logit_attrs(whole, 3)[..., None])):
            assert found.shape == of[..., part, :].shape and np.allclose(found, of[..., part, :], atol=1e-5), make


def test_logits_of_other_tokens(names):
    """A token for each row of a batch, or its text; the residual stream before layer -1 is that before the head."""
    _, cache = names.run_with_cache(["anna", "olli"])
    stack = cache.accumulated_resid(-1, mlp_input=True)
    each = cache.logit_attrs(stack, [0, 4])
    assert np.array_equal(stack, cache.accumulated_resid()) and np.array_equal(cache.logit_attrs(stack, "e"), cache.logit_attrs(stack, 4))
    assert np.array_equal(each, np.stack([cache.logit_attrs(stack, token)[:, i] for i, token in enumerate((0, 4))], 1))


def test_queries_have_the_order_of_hooks(root):
    """GGUF reorders the rows of q and k of Llama."""
    for name in ("llama", "gpt2"):
        model = mgpt.Model(root / f"tests/golden/{name}")
        _, cache = model.run_with_cache([1, 2, 3])
        for role, part in (("Q", "q"), ("K", "k"), ("V", "v")):
            weight, bias = getattr(model, f"W_{role}")[1], getattr(model, f"b_{role}")[1]
            found = np.einsum("bte,hed->bthd", cache["blocks.1.ln1.hook_out"], weight) + bias
            assert np.allclose(found, cache["blocks.1.attn.hook_" + part], atol=1e-5), (name, role)


def test_text(names):
    assert names.to_tokens("anna").tolist() == [[26, 0, 13, 13, 0]]
    assert names.to_tokens("anna", prepend_bos=False).tolist() == [[0, 13, 13, 0]]
    assert names.to_tokens(["anna", "bo"]).tolist() == [[26, 0, 13, 13, 0], [26, 1, 14, 26, 26]]
    assert names.to_str_tokens("an") == ["<BOS>", "a", "n"] and names.to_str_tokens(["a", "bo"])[1] == ["<BOS>", "b", "o"]
    assert names.to_string([26, 0, 13]) == "<BOS>an" and names.to_string([[0], [1]]) == ["a", "b"] and names.to_string(1) == "b"
    assert names.to_single_token("b") == 1 and names.to_single_str_token(26) == "<BOS>"
    with pytest.raises(ValueError, match="'bo' is 2 tokens, expected one"):
        names.to_single_token("bo")
    with pytest.raises(ValueError, match="padding_side: expected 'right', found 'left'"):
        names.to_tokens(["a", "bo"], padding_side="left")
    with pytest.raises(mgpt.Error, match="'<'"):
        names.to_tokens("<BOS>")


# Golden models by whether TransformerLens 4.3 puts BOS in front of their texts.
BOS = {True: ("apertus", "cohere", "falcon", "gemma", "gemma2", "gemma3", "gpt2", "gptj", "llama", "mixtral", "olmo", "olmo2", "opt", "phi3_longrope", "stablelm"),
       False: ("bloom", "ernie4_5", "exaone", "exaone4", "glm4", "gpt_neox", "granite", "mpt", "phi", "qwen2_window", "qwen3", "qwen3_moe", "seed_oss", "smollm3", "starcoder2")}


def test_bos_in_front(root, names, monkeypatch):
    """By default where the model asks for it, and in TransformerLens' names where it has it, which needs nothing of torch."""
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(from_numpy=lambda array: array))
    monkeypatch.delitem(sys.modules, "mgpt.transformer_lens", raising=False)
    hooked = importlib.import_module("mgpt.transformer_lens").HookedTransformer
    sys.modules.pop("mgpt.transformer_lens")
    assert names.cfg.default_prepend_bos
    for default, first in ((None, [26]), (True, [26]), (False, [])):
        model = hooked(names.path, default_prepend_bos=default)
        assert model.cfg.default_prepend_bos is bool(first)
        for asked, begin in ((None, first), (True, [26]), (False, [])):
            assert model.to_tokens("ann", prepend_bos=asked).tolist() == [[*begin, 0, 13, 13]]
            assert model("ann", prepend_bos=asked).shape[1] == len(begin) + 3
    for wanted, golden in BOS.items():
        for name in golden:
            assert hooked(root / "tests/golden" / name).cfg.default_prepend_bos is wanted, name


def test_calls(names):
    """Rows have the bits that they have alone; padding is in no loss."""
    texts = ["annabel", "bo", "c"]
    found, loss = names(texts, "both")
    for row, text in zip(found, texts, strict=True):
        alone = names.logits(text)
        assert row[: len(alone)].tobytes() == alone.tobytes()
    assert found.tobytes() == names(names.to_tokens(texts)).tobytes() == names.run_with_cache(texts, ())[0].tobytes()
    scores = [s.logprobs[:-1] for s in names.score(texts)]  # a document ends with the end token
    assert loss == pytest.approx(-np.concatenate(scores).mean(), rel=1e-6) and isinstance(loss, np.float32)
    each = names(texts[0], "loss", loss_per_token=True)
    assert each.shape == (1, 7) and np.allclose(-each[0], scores[0], rtol=1e-5)
    assert names("a", None) is None and np.isnan(names([0], "loss"))
    assert names.loss_fn(names(texts[0]), names.to_tokens(texts[0])) == pytest.approx(each.mean(), rel=1e-6)
    with pytest.raises(ValueError, match="return_type: expected .*, found 'los', did you mean 'loss'"):
        names("a", "los")
    with pytest.raises(ValueError, match="nothing to run"):
        names([])


def test_batch_hooks(names):
    """A hook sees all rows once, in this thread; what it mixes between rows arrives."""
    tokens, seen = names.to_tokens(["anna", "bobo", "carl"]), []

    def mean(value, hook):
        seen.append((hook.name, value.shape, threading.current_thread() is threading.main_thread()))
        value[:] = value.mean(0, keepdims=True)

    found = names.run_with_hooks(tokens, fwd_hooks=[("blocks.0.attn.hook_pattern", mean), ("blocks.0.hook_mlp_out", mean)])
    assert seen == [("blocks.0.attn.hook_pattern", (3, 4, 5, 5), True), ("blocks.0.hook_mlp_out", (3, 5, 16), True)]
    pattern = names.run_with_cache(tokens)[1]["pattern", 0].mean(0, keepdims=True)
    first = [("blocks.0.attn.hook_pattern", lambda value, hook: np.broadcast_to(pattern, value.shape))]
    mlp = names.run_with_cache(tokens, hooks=first)[1]["mlp_out", 0].mean(0, keepdims=True)
    for row, want in zip(tokens, found, strict=True):
        alone = names.run_with_hooks(row, [*first, ("blocks.0.hook_mlp_out", lambda value, hook: mlp)])
        assert alone[0].tobytes() == want.tobytes()
    z = names.run_with_cache(tokens)[1]["z", 0]
    turned = names.run_with_hooks(tokens, [("*hook_z", lambda value, hook: np.roll(value, 1, 0))])
    for i, row in enumerate(tokens):
        assert names.run_with_hooks(row, [("*hook_z", lambda value, hook: z[i - 1 : i or None])])[0].tobytes() == turned[i].tobytes()
    silent = names.run_with_hooks(tokens, [("*", lambda value, hook: None)])
    assert silent.tobytes() == names(tokens).tobytes()


@pytest.mark.parametrize("bad", [0, 2])
def test_batch_failures(names, bad):
    """An exception of a hook or a row comes through, and no thread is left."""
    before, tokens = threading.active_count(), names.to_tokens(["anna", "bobo", "carl"])

    def fail(value, hook):
        raise LookupError("mine")

    for hook in (fail, lambda value, hook: value[:1]):
        with pytest.raises((LookupError, ValueError), match="mine|expected a value of shape"):
            names.run_with_hooks(tokens, [("*hook_z", hook)])
    tokens[bad, 3] = 99
    with pytest.raises(mgpt.Error, match="99"):
        names.run_with_hooks(tokens, [("*hook_z", lambda value, hook: value)])
    assert threading.active_count() == before
    with pytest.raises(ValueError, match="remove_batch_dim: expected one text, found 2"):
        names.run_with_cache(["a", "b"], remove_batch_dim=True)


def test_generate(names):
    ours = [p for p in names.generate("a", 5, temperature=0)]
    assert ours == list(names.generate("a", max_new_tokens=5, do_sample=False))
    assert "".join(names.generate("a", max_new_tokens=5, do_sample=True, seed=3)) == "".join(names.generate("a", 5, seed=3))
    with pytest.raises(TypeError, match="max_new_tokens: another name of n"):
        names.generate("a", 5, max_new_tokens=5)


def test_from_pretrained(root):
    with pytest.raises(mgpt.Error, match="gpt2-medium: no such file or directory; mgpt downloads no models: hf download gpt2-medium"):
        mgpt.Model.from_pretrained("gpt2-medium")
    model = mgpt.Model.from_pretrained(root / "weights/names.gguf", threads=1)
    assert pickle.loads(pickle.dumps(model)).cfg == model.cfg and (model.cfg.d_model, model.cfg.normalization_type) == (16, "RMS")


def test_near_names(names):
    _, cache = names.run_with_cache("anna")
    for call, text in ((lambda: cache["patern", 0], r"\('patern', 0\): not in this cache, did you mean 'pattern'\?"),
                       (lambda: cache["blocks.0.hook_resid_pots"], "did you mean 'blocks.0.hook_resid_post'"),
                       (lambda: cache["zebra"], "zebra: not in this cache'?\"?$"),
                       (lambda: names.tensor("token_embd.wieght"), "did you mean 'token_embd.weight'"),
                       (lambda: names.tensor_of("W_q"), "did you mean 'W_Q'"),
                       (lambda: names.session(kv="q8"), "did you mean 'q8_0'"),
                       (lambda: names.generate("a", temprature=1), "did you mean 'temperature'"),
                       (lambda: names.generate_many(["a"], top_kk=1), "did you mean 'top_k'"),
                       (lambda: names.run_with_cache("a", "blocks.0.attn.hook_zz"), "did you mean 'blocks.0.attn.hook_z'"),
                       (lambda: names.run_with_cache("a", "nothing like it"), r"\(Model.hook_names\)"),
                       (lambda: names.patch("anna", "anne", "kl", "z")["zz"], "did you mean 'z'|expected one of z"),
                       (lambda: cache.decompose_resid(mode="atn"), "did you mean 'attn'")):
        with pytest.raises((KeyError, ValueError, TypeError, mgpt.Error), match=text):
            call()
    assert "embed" not in cache and cache["embed"] is cache["hook_embed"]
    assert names.tensors["token_embd.weight"] == ("F32", (27, 16))


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen2_sharded"])
def test_weights_are_those_of_the_pass(root, name):
    """Values of the last layer and logits from the weights of each role: stacked, by head, with biases."""
    model = mgpt.Model(root / "tests/golden" / name)
    ids, n, i = [1, 2, 3, 5], 4, model.info.n_layer - 1
    logits, cache = model.run_with_cache(ids)

    def value(point):
        found = cache[point if "final" in point else f"blocks.{i}.{point}"]
        return found.reshape(found.shape[-3] if found.ndim > 3 else n, -1)

    def close(found, point):
        assert np.allclose(found.reshape(n, -1), value(point), atol=2e-5), point

    for role, kept in ("Q", "attn.hook_q"), ("K", "attn.hook_k"), ("V", "attn.hook_v"):
        weights, biases = getattr(model, "W_" + role), getattr(model, "b_" + role)
        assert weights.shape[:2] == biases.shape[:2] == (model.info.n_layer, model.info.n_head if role == "Q" else model.info.n_head_kv)
        close(np.einsum("td,hde->the", value("ln1.hook_out"), weights[i]) + biases[i], kept)
    z = value("attn.hook_z").reshape(n, model.info.n_head, -1)
    close(np.einsum("the,hed->td", z, model.W_O[i]) + model.b_O[i], "hook_attn_out")
    post = value("mlp.hook_post")
    close(post @ model.W_out[i] + model.b_out[i], "hook_mlp_out")
    if model.W_gate is None:
        close(value("ln2.hook_out") @ model.W_in[i] + model.b_in[i], "mlp.hook_pre")
    else:
        gate, up = (value("ln2.hook_out") @ w[i] for w in (model.W_gate, model.W_in))
        assert np.allclose(gate / (1 + np.exp(-gate)) * up, post, atol=2e-5)
    assert np.allclose(value("ln_final.hook_out") @ model.W_U + model.b_U, logits.reshape(n, -1), atol=5e-5)
    first = model.W_E[ids] + (model.W_pos[:n] if name == "gpt2" else 0)
    assert np.allclose(first, cache["blocks.0.hook_resid_pre"].reshape(n, -1), atol=1e-6)
