"""run_with_cache and hooks: names, shapes, bits, and what they refuse. Values: test_suite.py."""
import mgpt
import numpy as np
import pytest

TEXT = "olivia"


def test_shapes_and_bits(names):
    tokens = names.encode(TEXT)
    logits, cache = names.run_with_cache(TEXT)
    n = len(tokens)
    assert logits.shape == (1, n, 27) and logits[0, -1].tobytes() == names.session().feed(tokens).tobytes()
    assert {k: v.shape for k, v in cache.items()} == {
        name: (1, 4, n, n) if name.endswith(("scores", "pattern")) else
        (1, n, 4, 4) if name.endswith(("_q", "_k", "_v", "_z")) else (1, n, 64 if ".mlp." in name else 16)
        for name in names.hook_names if name != "logits"}
    assert np.array_equal(np.triu(cache["pattern", 0][0, 0], 1), np.zeros((n, n)))
    assert (cache["attn_scores", 0][0, 0][np.triu_indices(n, 1)] == -np.inf).all()
    assert cache["pattern", np.int64(-1)] is cache["pattern", -1] is cache["blocks.0.attn.hook_pattern"] and len(cache) == 18
    assert cache["normalized", 0, "ln1"].shape == cache["embed",].shape == (1, n, 16)
    with pytest.raises(KeyError, match="several"):
        cache["normalized", 0]
    again, few = names.run_with_cache(np.array([tokens]), names="*pattern", remove_batch_dim=True)
    assert again.tobytes() == logits.tobytes() and few["pattern", 0].shape == (4, n, n) and len(few) == 1
    assert list(names.run_with_cache(TEXT, names=["hook_embed", "*_z"])[1]) == ["hook_embed", "blocks.0.attn.hook_z"]
    assert list(names.run_with_cache(TEXT, names=lambda n: n.endswith("hook_q"))[1]) == ["blocks.0.attn.hook_q"]


def test_norms(root):
    """normalized * gain + bias is the output; a changed part changes it, an unchanged one no bit."""
    model = mgpt.Model(root / "tests/golden/gpt2")
    tokens = [1, 2, 3, 4]
    logits, cache = model.run_with_cache(tokens)
    x, scale, normalized, out = (cache["blocks.1." + n] for n in (
        "hook_resid_mid", "ln2.hook_scale", "ln2.hook_normalized", "ln2.hook_out"))
    assert scale.shape == (1, 4, 1) and normalized.shape == out.shape == x.shape
    gain, bias = model.tensor("blk.1.ffn_norm.weight"), model.tensor("blk.1.ffn_norm.bias")
    assert np.allclose(normalized * gain + bias, out, atol=1e-5)
    assert np.allclose((x - x.mean(-1, keepdims=True)) / scale, normalized, atol=1e-6)
    parts = ["blocks.1.ln2.hook_scale", "blocks.1.ln2.hook_normalized", "ln_final.hook_scale"]
    assert model.run_with_hooks(tokens, [(parts, lambda v, hook: v.copy())]).tobytes() == logits.tobytes()
    double = [(parts[0], lambda v, hook: v * 2)]
    half = model.run_with_cache(tokens, hooks=double)[1]
    assert np.allclose(half[parts[1]] * 2, normalized, atol=1e-5)
    assert np.allclose(half["blocks.1.ln2.hook_out"], normalized / 2 * gain + bias, atol=1e-5)
    assert mgpt.check(model, {"tokens": tokens, "logits": logits[0], **{k: v[0] for k, v in cache.items()}})


def same(value, hook):
    return value.copy()


def test_hooks_that_change_nothing(shakespeare):
    logits = shakespeare.run_with_cache("ROMEO: ho")[0]
    seen = []
    def look(value, hook):
        seen.append((hook.name, hook.layer(), value.shape))
    assert shakespeare.run_with_hooks("ROMEO: ho", [(None, look)]).tobytes() == logits.tobytes()
    assert [s[0] for s in seen if "attn_scores" not in s[0] and "pattern" not in s[0]] == [
        name for name in shakespeare.hook_names if "attn_scores" not in name and "pattern" not in name]
    assert {s[0] for s in seen} == set(shakespeare.hook_names) and len(seen) == len(shakespeare.hook_names)
    assert shakespeare.run_with_hooks("ROMEO: ho", [(lambda n: True, same)]).tobytes() == logits.tobytes()


LONG = [(7919 * i * i + 13 * i + 5) % 65 for i in range(200)]  # logits and the last norm come 72 rows at a time


def test_long_texts(shakespeare):
    """Every row of every value is that of single steps, and of chunks below 72."""
    session, rows = shakespeare.session(kv="f32", chunk=50), {}
    steps = np.stack([session.step(t) for t in LONG])
    logits, cache = shakespeare.run_with_cache(LONG)
    assert logits[0].tobytes() == shakespeare.logits(LONG).tobytes() == steps.tobytes()
    session.rewind(0)
    names = [n for n in shakespeare.hook_names if "pattern" not in n and "scores" not in n and n != "logits"]
    session.feed(LONG, [(names, lambda v, hook: rows.setdefault(hook.name, []).append(v[0]))])
    for name in names:
        assert cache[name][0].tobytes() == np.concatenate(rows[name]).tobytes(), name


@pytest.mark.parametrize("name", ["logits", "ln_final.hook_scale", "ln_final.hook_normalized", "ln_final.hook_out"])
def test_hooks_on_long_texts(shakespeare, name):
    """A hook gets all rows of the value at once; those that it changes are the ones that count."""
    shapes = []
    def double_some(value, hook):
        shapes.append(value.shape)
        value[:, 100:] *= 2
    plain = shakespeare.run_with_cache(LONG)[0]
    logits, cache = shakespeare.run_with_cache(LONG, hooks=[(name, double_some)])
    assert [shape[:2] for shape in shapes] == [(1, len(LONG))]
    want = plain.copy()
    want[:, 100:] *= 0.5 if name.endswith("scale") else 2
    assert np.allclose(logits, want, rtol=1e-5, atol=1e-5)
    if name in ("logits", "ln_final.hook_out"): # parts of a norm are multiplied by the gain here
        assert logits[:, :100].tobytes() == plain[:, :100].tobytes()
    session = shakespeare.session(kv="f32", chunk=len(LONG))
    assert session.feed(LONG, [(name, double_some)]).tobytes() == logits[0, -1].tobytes()


@pytest.mark.parametrize("first, then", [("*attn_scores", "*hook_pattern"), ("ln_final.hook_out", "logits")])
def test_hooks_after_changed_values(shakespeare, first, then):
    """A hook on what follows a changed value gets it once and whole, although the pass has run again."""
    double, seen = [(first, lambda value, hook: value * 2)], {}
    shakespeare.run_with_hooks(LONG, [*double, (then, lambda value, hook: seen.setdefault(hook.name, []).append(value))])
    logits, cache = shakespeare.run_with_cache(LONG, hooks=double)
    assert all(len(x) == 1 and x[0].tobytes() == (logits if name == "logits" else cache[name]).tobytes() for name, x in seen.items())


def zero_head(value, hook):
    value[:, :, 1] = 0


def test_ablation_is_a_zero_output(names):
    """z of a head set to 0, in place or by a new value, is W_o without its columns."""
    _, cache = names.run_with_cache(TEXT)
    logits, changed = names.run_with_cache(TEXT, hooks=[("blocks.0.attn.hook_z", zero_head)])
    want = cache["z", 0].reshape(1, -1, 16).copy()
    want[:, :, 4:8] = 0
    out = want @ names.tensor("blk.0.attn_output.weight").T
    assert np.allclose(changed["attn_out", 0], out, atol=1e-6)
    assert not changed["z", 0][:, :, 1].any()
    mask = np.ones((1, 1, 4, 1), np.float32)
    mask[0, 0, 1] = 0
    returned = names.run_with_hooks(TEXT, [("blocks.0.attn.hook_z", lambda z, hook: z * mask)])
    assert returned.tobytes() == logits.tobytes()


@pytest.mark.parametrize("name", ["attn_scores", "pattern"])
def test_attention_of_several_layers(shakespeare, name):
    """A hook gets whole matrices of every layer; what follows is computed from the changed ones."""
    text, calls = "ROMEO: ho", []
    def first_key(value, hook):
        calls.append(hook.layer())
        unseen = -np.inf if name == "attn_scores" else 0
        value[:, 0] = unseen
        value[:, 0, :, 0] = 1
    hooks = [(f"blocks.*.attn.hook_{name}", first_key)]
    logits, cache = shakespeare.run_with_cache(text, hooks=hooks)
    n = shakespeare.info.n_layer
    assert calls == list(range(n))
    for layer in range(n):
        assert (cache["pattern", layer][0, 0, :, 0] == 1).all() and not cache["pattern", layer][0, 0, :, 1:].any()
        d = shakespeare.info.head_dim
        want = np.repeat(cache["v", layer][0, :1, 0], logits.shape[1], 0)
        assert np.allclose(cache["z", layer][0, :, 0, :d], want, atol=1e-6)


def test_pattern_of_another_run(shakespeare):
    """A pattern put in place of itself changes no bit; put into another run it arrives whole."""
    logits, cache = shakespeare.run_with_cache("ROMEO: ho")
    put = [("blocks.1.attn.hook_pattern", lambda p, hook: cache[hook.name])]
    assert shakespeare.run_with_hooks("ROMEO: ho", put).tobytes() == logits.tobytes()
    other = shakespeare.run_with_cache("JULIET ho", hooks=put)[1]
    assert other["pattern", 1].tobytes() == cache["pattern", 1].tobytes()


def test_order(names):
    """Several hooks on a name run one after the other; each sees what the ones before made."""
    seen = []
    hooks = [("hook_embed", lambda x, hook: x * 0 + 2), ("hook_embed", lambda x, hook: seen.append(x.max())),
             ("blocks.0.hook_resid_pre", lambda x, hook: seen.append(x.shape))]
    names.run_with_hooks(TEXT, hooks)
    assert seen == [2.0, (1, 7, 16)]


def test_session_hooks(names):
    """Steps see one token; chunks of a long text are seen one by one."""
    session, shapes = names.session(chunk=3), []
    hooks = [("blocks.0.attn.hook_pattern", lambda p, hook: shapes.append(p.shape)), ("*_z", zero_head)]
    tokens = names.encode(TEXT)
    session.feed(tokens[:-1], hooks)
    last = session.step(tokens[-1], hooks)
    assert shapes == [(1, 4, 3, 3), (1, 4, 3, 6), (1, 4, 1, 7)]
    assert last.tobytes() == names.run_with_hooks(TEXT, [("*_z", zero_head)])[0, -1].tobytes()
    plain, ablated = ("".join(names.generate("a", seed=3, hooks=h)) for h in ([], hooks[1:]))
    assert plain != ablated


def test_changed_patterns_in_chunks(names):
    def even(value, hook):
        value[:] = np.where(value > 0, 0.25, 0)
    tokens = names.encode(TEXT)
    hooks = [("*pattern", even)]
    want = names.run_with_hooks(TEXT, hooks)[0, -1].tobytes()
    assert names.session(chunk=3).feed(tokens, hooks).tobytes() == want


class Oops(Exception):
    pass


@pytest.mark.parametrize("name", ["hook_embed", "blocks.0.attn.hook_pattern", "blocks.0.hook_mlp_out"])
def test_exceptions_come_through(names, name):
    session = names.session(chunk=2)
    logits = session.feed([26, 1])
    n = 0
    def raises(value, hook):
        nonlocal n
        n += 1
        if n == 2: # in the second chunk
            raise Oops("from the hook")
    with pytest.raises(Oops, match="from the hook"):
        session.feed([2, 3, 4, 5], [(name, raises)])
    assert session.tokens == [26, 1] and session.logits.tobytes() == logits.tobytes()
    assert session.step(2).tobytes() == names.session().feed([26, 1, 2]).tobytes()


@pytest.mark.parametrize("result, error", [
    (np.zeros(3), ValueError), ("text", ValueError), (np.zeros((1, 7, 16), complex), TypeError),
    (np.full((1, 7, 16), "x"), TypeError), (np.full((1, 7, 16), None), TypeError)])
def test_results_are_checked(names, result, error):
    with pytest.raises(error, match="hook_embed: expected a value of"):
        names.run_with_hooks(TEXT, [("hook_embed", lambda x, hook: result)])


def test_names_are_checked(names):
    for hooks in ([("hook_embd", same)], [("", same)]):
        with pytest.raises(ValueError, match="no hook is called"):
            names.run_with_hooks(TEXT, hooks)
    with pytest.raises(ValueError, match="did you mean 'hook_embed'"):
        names.run_with_cache(TEXT, names="hook_embd")
    with pytest.raises(TypeError, match="pairs"):
        names.run_with_hooks(TEXT, [("hook_embed", "no function")])
    with pytest.raises((TypeError, ValueError)):
        names.run_with_hooks(TEXT, [same])


def test_calls_in_a_hook(names):
    """A hook reads its session as it was and cannot change it; kept values stay valid."""
    session, kept = names.session(), []
    session.feed([26])
    def hook(value, hook):
        kept.append(value)
        assert session.tokens == [26] and len(session) == 1 and session.kv(0, 0)[0].shape == (1, 4)
        for call in (lambda: session.step(1), lambda: session.rewind(0), lambda: session.feed([1])):
            with pytest.raises(mgpt.Error):
                call()
    session.feed([1, 2], [("blocks.0.hook_resid_mid", hook)])
    assert kept[0].shape == (1, 2, 16) and np.isfinite(kept[0]).all() and session.tokens == [26, 1, 2]


def test_closing_in_a_hook(root):
    model = mgpt.Model(root / "weights/names.gguf")
    session = model.session()
    session.feed([1], [("hook_embed", lambda x, hook: model.close())])
    with pytest.raises(ValueError, match="closed"):
        session.step(1)
