"""mgpt.transformer_lens without torch: arrays with a tensor's methods are in its place, and Model says what they must hold.

torch_conventions.py compares the same calls with TransformerLens, next to torch.
"""
import importlib
import pickle
import sys
import types

import mgpt
import numpy as np
import pytest


class Tensor(np.ndarray):
    """What the module uses of torch.Tensor."""

    def detach(self):
        return self

    def numpy(self):
        return self.view(np.ndarray)

    def softmax(self, axis):
        e = np.exp(self - self.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    def topk(self, k):
        return types.SimpleNamespace(indices=np.argsort(-self, kind="stable")[:k])


@pytest.fixture(scope="module")
def lens():
    torch = types.SimpleNamespace(Tensor=Tensor, from_numpy=lambda array: array.view(Tensor), cat=lambda rows: np.concatenate(rows).view(Tensor))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch", torch)
        patch.delitem(sys.modules, "mgpt.transformer_lens", raising=False)
        yield importlib.import_module("mgpt.transformer_lens")
        sys.modules.pop("mgpt.transformer_lens")


@pytest.fixture(scope="module")
def hooked(lens, names):
    return lens.HookedTransformer.from_pretrained(names.path)


def halve(value, hook):
    assert isinstance(value, Tensor)
    return value * 0.5


def add(value, hook):
    value += 1  # in place


HOOKS = [("blocks.0.hook_mlp_out", halve), ("blocks.0.attn.hook_z", add)]


@pytest.fixture(scope="module")
def changed(names):
    """Logits of "anna" with HOOKS, by Model."""
    return names.run_with_hooks(names.to_tokens("anna"), [("blocks.0.hook_mlp_out", lambda v, hook: v * 0.5),
                                                          ("blocks.0.attn.hook_z", lambda v, hook: v.__iadd__(1))])


def test_runs_with_hooks(hooked, names, changed):
    """Hooks change the run, whether they are given, added or inside `with`; the other arguments are kept."""
    tokens, plain = names.to_tokens("anna"), names("anna")
    found = hooked.run_with_hooks("anna", HOOKS)
    assert isinstance(found, Tensor) and found.tobytes() == changed.tobytes() != plain.tobytes()
    assert hooked("anna").tobytes() == hooked(tokens).tobytes() == plain.tobytes() and hooked.to_tokens("anna").dtype == np.int64
    texts, padded = ["anna", "b"], names.run_with_hooks(["anna", "b"], [("blocks.0.hook_mlp_out", lambda v, hook: v * 0.5)])
    assert hooked(tuple(texts), "loss") == hooked(texts, "loss") == names(texts, "loss") == hooked.run_with_cache(texts, return_type="loss")[0] != names.loss_fn(names(texts), names.to_tokens(texts))
    assert hooked.run_with_hooks(texts, HOOKS[:1], return_type="loss") == names._loss(padded, names.to_tokens(texts), [5, 2], False)
    assert hooked.to_tokens("<BOS>an", prepend_bos=False).tolist() == [[26, 0, 13]]
    for kind, each in (("loss", False), ("loss", True)):
        want = names.loss_fn(changed, tokens, each)
        assert np.array_equal(hooked.run_with_hooks("anna", HOOKS, return_type=kind, loss_per_token=each), want)
        assert np.array_equal(hooked("anna", kind, loss_per_token=each), names("anna", kind, loss_per_token=each))
    both = hooked.run_with_hooks("anna", HOOKS, return_type="both")
    assert both[0].tobytes() == changed.tobytes() and both[1] == names.loss_fn(changed, tokens)
    assert hooked.run_with_hooks("anna", HOOKS, return_type=None) is None
    assert hooked.run_with_hooks("anna", HOOKS, prepend_bos=False).tobytes() == hooked.run_with_hooks(tokens[:, 1:], HOOKS).tobytes()
    with hooked.hooks(HOOKS) as inside:
        assert inside("anna").tobytes() == inside.run_with_cache("anna")[0].tobytes() == changed.tobytes()
    for row in HOOKS:
        hooked.add_hook(*row)
    seen = []
    with hooked.hooks([("blocks.0.hook_mlp_out", lambda value, hook: seen.append(value.tobytes()))]):
        assert hooked("anna").tobytes() == changed.tobytes()
    hooked.run_with_hooks("anna", [("blocks.0.hook_mlp_out", lambda value, hook: seen.append(value.tobytes()))])
    assert seen[0] == seen[1] == hooked.run_with_cache("anna")[1]["mlp_out", 0].tobytes()  # after those that are there
    with pytest.raises(ValueError, match="nope"):
        hooked.add_hook("nope", halve)
    assert hooked("anna").tobytes() == changed.tobytes()
    with pytest.raises(KeyError), hooked.hooks([("hook_embed", lambda value, hook: {}["no"])]):
        hooked("anna")
    assert hooked("anna").tobytes() == changed.tobytes()
    hooked.reset_hooks()
    assert hooked("anna").tobytes() == plain.tobytes()


@pytest.mark.parametrize("stop", (None, 0, 1, 2, 3, 9, -1, -3))
def test_cache_up_to_a_layer(lens, root, stop):
    """With stop_at_layer the residual stream before that layer, and values of earlier ones only."""
    path = root / "tests/golden/gemma3"
    model, plain = lens.HookedTransformer(path), mgpt.Model(path)
    n = plain.info.n_layer
    logits, whole = plain.run_with_cache([[1, 2, 3], [3, 2, 1]])
    found, cache = model.run_with_cache(np.array([[1, 2, 3], [3, 2, 1]]), stop_at_layer=stop)
    assert isinstance(cache, lens.ActivationCache)
    at = n if stop is None or stop >= n else stop % n
    if at == n:
        assert found.tobytes() == logits.tobytes() and list(cache) == list(whole)
    else:
        assert found.tobytes() == whole["resid_pre", at].tobytes()
        early = [name for name in whole if (name.split(".")[0] == "blocks" and int(name.split(".")[1]) < at) or name.startswith("hook_")]
        assert list(cache) == early
    for name in cache:
        assert isinstance(cache[name], Tensor) and cache[name].tobytes() == whole[name].tobytes(), name
    one, _ = model.run_with_cache(np.array([[1, 2, 3]]), stop_at_layer=stop, remove_batch_dim=True)
    assert one.tobytes() == found[:1].tobytes() and one.shape == found[:1].shape


def test_generate(hooked, names):
    """The text with what Model draws after it; without stop_at_eos the end token does not end it."""
    for given, want in (({"temperature": 0.7, "seed": 4}, {"temperature": 0.7, "seed": 4}), ({"do_sample": False}, {"temperature": 0}),
                        ({"top_k": 3, "top_p": 0.5, "seed": 2}, {"top_k": 3, "top_p": 0.5, "seed": 2, "temperature": 1})):
        text = "ann" + "".join(names.generate("ann", 6, ignore_author=True, **want))
        assert hooked.generate("ann", 6, verbose=False, **given) == text
        assert hooked.generate(names.to_tokens("ann"), 6, **given) == "<BOS>" + text
    text = hooked.generate("ann", 6, seed=3, prepend_bos=False)
    assert text == "ann" + "".join(names.generate([0, 13, 13], 6, seed=3, temperature=1)) != hooked.generate("ann", 6, seed=3)
    longer = hooked.generate("ann", 12, seed=1, stop_at_eos=False)
    assert longer == "ann" + "".join(names.generate("ann", 12, seed=1, temperature=1, ignore_end=True, ignore_author=True))
    with pytest.raises(ValueError, match="expected one text"):
        hooked.generate(["ann", "bo"], 3)


def test_places(hooked):
    assert hooked.get_token_position("n", "anna") == 2 and hooked.get_token_position(13, "anna", mode="last") == 3
    assert hooked.get_token_position("n", "anna", prepend_bos=False) == 1
    with pytest.raises(ValueError, match="no token 'z'"):
        hooked.get_token_position("z", "anna")


def test_construction(lens, names):
    with pytest.raises(ValueError, match="device: expected 'cpu', found cuda"):
        lens.HookedTransformer(names.path, device="cuda")
    model = pickle.loads(pickle.dumps(lens.HookedTransformer(names.path, default_prepend_bos=False)))
    assert type(model) is lens.HookedTransformer and model.to_tokens("an").tolist() == [[0, 13]]
    model = lens.TransformerBridge.boot_transformers(names.path)
    assert model.enable_compatibility_mode(no_processing=True) is None
    with pytest.raises(NotImplementedError, match="no_processing=True"):
        model.enable_compatibility_mode()


@pytest.mark.parametrize("asked, name", [
    (("z", 3), "blocks.3.attn.hook_z"), (("attn", 0), "blocks.0.attn.hook_pattern"), (("attn_logits", 1), "blocks.1.attn.hook_attn_scores"),
    (("key", 2), "blocks.2.attn.hook_k"), (("mlp_post", 2), "blocks.2.mlp.hook_post"), (("pre_linear", 2), "blocks.2.mlp.hook_pre_linear"),
    (("query", 1), "blocks.1.attn.hook_q"), (("value", 1), "blocks.1.attn.hook_v"), (("mlp_pre", 1), "blocks.1.mlp.hook_pre"),
    (("out", 1), "blocks.1.hook_resid_post"), (("rot_q", 0), "blocks.0.attn.hook_rot_q"), (("rot_k", 0), "blocks.0.attn.hook_rot_k"),
    (("result", 2), "blocks.2.attn.hook_result"), (("scale", 2, "ln2"), "blocks.2.ln2.hook_scale"), (("q", 1), "blocks.1.attn.hook_q"),
    (("in", 4), "blocks.4.hook_resid_pre"), (("resid_mid", 4), "blocks.4.hook_resid_mid"), (("normalized", 3, "ln1"), "blocks.3.ln1.hook_normalized"),
    (("scale",), "ln_final.hook_scale"), (("embed",), "hook_embed"), (("hook_embed",), "hook_embed"),
    (("blocks.0.hook_mlp_out",), "blocks.0.hook_mlp_out"), (("k", 0), "blocks.0.attn.hook_k")])
def test_names_of_hooks(lens, asked, name):
    assert lens.utils.get_act_name(*asked) == name


def test_utilities(lens, hooked, names, capsys):
    """test_prompt prints ranks and probabilities that follow from Model's logits."""
    value = np.arange(24).reshape(2, 3, 4).view(Tensor)
    assert lens.utils.get_corner(value, 2).tolist() == [[[0, 1], [4, 5]], [[12, 13], [16, 17]]]
    assert type(lens.utils.to_numpy(value)) is np.ndarray and lens.utils.to_numpy([1, 2]).tolist() == [1, 2]
    assert lens.utils.get_device() == "cpu"
    ranks = []
    for at, letter in enumerate("nz"):
        row = names("an" + "nz"[:at])[0, -1]
        ranks.append((letter, int((row > row[names.to_single_token(letter)]).sum())))
    lens.utils.test_prompt("an", "nz", hooked, prepend_space_to_answer=False, top_k=2)
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == f"Ranks of the answer tokens: {ranks}" and len(said) == 7
    row = names("an")[0, -1].astype(np.float64)
    probs = np.exp(row) / np.exp(row).sum()
    token = names.to_single_token("n")
    assert said[0] == f"|n|: rank {ranks[0][1]}, logit {row[token]:.2f}, probability {probs[token]:.2%}"
    best = np.argsort(-row)[:2]
    assert said[1:3] == [f"  {i}: |{names.to_single_str_token(int(t))}|, logit {row[t]:.2f}, probability {probs[t]:.2%}" for i, t in enumerate(best)]
    lens.utils.test_prompt("an", ["n", "zz"], hooked, prepend_space_to_answer=False, print_details=False)
    first = [("n", ranks[0][1]), ("z", int((row > row[names.to_single_token("z")]).sum()))]
    assert capsys.readouterr().out == f"Ranks of the answer tokens: {[first]}\n"
