"""FactoredMatrix, weights by parameters' names, and what each head adds: against NumPy."""
import mgpt
import numpy as np
import pytest

SHAPES = [((5, 2), (2, 5)), ((3, 4, 16, 5), (3, 4, 5, 16)), ((4, 7, 3), (3, 9)), ((2, 3, 6, 8), (2, 1, 8, 6))]
MODELS = ("gpt2", "llama", "gemma2", "granite", "cohere", "phi")


def turned(x):
    return x.swapaxes(-2, -1)


@pytest.fixture(params=SHAPES)
def pair(request):
    """A factored matrix and the product."""
    draw = np.random.default_rng(sum(request.param[0]))
    a, b = (draw.standard_normal(shape) for shape in request.param)
    return mgpt.FactoredMatrix(a, b), a @ b


def test_parts(pair):
    """What is computed through the small side is that of the product."""
    factored, whole = pair
    assert factored.shape == whole.shape and factored.ndim == whole.ndim and np.allclose(factored.AB, whole)
    u, s, v = factored.svd()
    n = s.shape[-1]
    assert np.allclose(s, np.linalg.svd(whole, compute_uv=False)[..., :n]) and (np.diff(s) <= 0).all()
    assert np.allclose(u @ (s[..., None] * turned(v)), whole) and factored.Vh is factored.V
    for vectors in (u, v):
        assert np.allclose(turned(vectors) @ vectors, np.eye(n))
    assert np.allclose(factored.norm(), np.linalg.norm(whole, axis=(-2, -1)))
    assert np.allclose(turned(u) @ whole, factored.collapse_l()) and np.allclose(whole @ v, factored.collapse_r())
    even = factored.make_even()
    assert np.allclose(even.AB, whole) and np.allclose(turned(even.A) @ even.A, even.B @ turned(even.B))
    assert np.allclose(factored.T.AB, turned(whole)) and np.allclose((2 * factored * 3).AB, 6 * whole)
    assert np.array_equal(factored.get_corner(2), (factored.A[..., :2, :] @ factored.B[..., :2])[(slice(2),) * whole.ndim])
    if factored.ldim == factored.rdim:
        found = np.sort(np.abs(factored.eigenvalues))[..., ::-1]
        least = min(found.shape[-1], whole.shape[-1])
        want = np.sort(np.abs(np.linalg.eigvals(whole)))[..., ::-1]
        assert np.allclose(found[..., :least], want[..., :least], atol=1e-6) and factored.eigenvalues.dtype.kind == "c"
    else:
        with pytest.raises(ValueError, match="BA: expected a square matrix"):
            factored.eigenvalues


def test_products(pair):
    """With matrices on both sides, with vectors, with another factored one."""
    factored, whole = pair
    draw = np.random.default_rng(1)
    for n in (1, 3, 40):
        right, left = draw.standard_normal((factored.rdim, n)), draw.standard_normal((n, factored.ldim))
        after, before = factored @ right, left @ factored
        assert np.allclose(after.AB, whole @ right) and np.allclose(before.AB, left @ whole)
        assert after.mdim == min(factored.mdim, factored.rdim) and before.mdim == min(factored.mdim, factored.ldim)
    vector = draw.standard_normal(factored.rdim)
    assert np.allclose(factored @ vector, whole @ vector)
    vector = draw.standard_normal(factored.ldim)
    assert np.allclose(vector @ factored, vector @ whole)
    assert np.allclose((factored @ factored.T).AB, whole @ turned(whole))


def test_index(pair):
    """A number takes a leading axis away and keeps that of rows or columns."""
    factored, whole = pair
    first = (0,) * (whole.ndim - 2)
    for index, want in ((first, whole[first]), ((*first, 1), whole[(*first, slice(1, 2))]), ((..., -1), whole[..., -1:]),
                        ((*first, slice(1, 4), -1), whole[(*first, slice(1, 4), slice(-1, None))]),
                        ((..., slice(2), slice(1, 3)), whole[..., :2, 1:3]), ((..., [2, 0], slice(None)), whole[..., [2, 0], :])):
        assert np.allclose(factored[index].AB, want) and factored[index].shape == want.shape, index
    assert np.allclose(factored.unsqueeze(0).AB, whole[None])
    with pytest.raises(IndexError, match="indices for"):
        factored[(0,) * (whole.ndim + 1)]


def test_refused():
    with pytest.raises(ValueError, match=r"expected A \[..., l, m\] and B \[..., m, r\], found \[5, 2\] and \[3, 5\]"):
        mgpt.FactoredMatrix(np.zeros((5, 2)), np.zeros((3, 5)))
    for scalar in np.ones(3), [1, 2, 3]:
        with pytest.raises(ValueError, match=r"expected a number, found \[3\]"):
            mgpt.FactoredMatrix(np.eye(2), np.eye(2)) * scalar


@pytest.mark.parametrize("name", MODELS)
def test_circuits(root, name):
    """QK and OV of each head, where heads share keys and values too; blocks have the same weights."""
    model = mgpt.Model(root / f"tests/golden/{name}")
    qk, ov, shared = model.QK, model.OV, model.info.n_head // model.info.n_head_kv
    assert qk.shape == ov.shape == (model.cfg.n_layers, model.cfg.n_heads, model.cfg.d_model, model.cfg.d_model)
    for layer, block in enumerate(model.blocks):
        for head in range(model.cfg.n_heads):
            q, k, v, o = (getattr(block.attn, "W_" + part)[i] for part, i in
                          (("Q", head), ("K", head // shared), ("V", head // shared), ("O", head)))
            assert np.allclose(qk[layer, head].AB, q @ k.T, atol=1e-6) and np.allclose(ov[layer, head].AB, v @ o, atol=1e-6)
    assert model.all_head_labels[-1] == f"L{model.cfg.n_layers - 1}H{model.cfg.n_heads - 1}"
    weights = dict(model.tl_named_parameters())
    assert weights["embed.W_E"].tobytes() == model.W_E.tobytes() == model.embed.W_E.tobytes()
    assert weights["unembed.W_U"].tobytes() == model.W_U.tobytes() and weights["unembed.b_U"].tobytes() == model.b_U.tobytes()
    for part, weight in ("attn", "W_Q"), ("attn", "W_O"), ("attn", "b_K"), ("attn", "b_O"), ("mlp", "W_in"), ("mlp", "b_out"):
        for layer in range(model.cfg.n_layers):
            assert np.array_equal(weights[f"blocks.{layer}.{part}.{weight}"], getattr(model, weight)[layer]), weight
    assert ("blocks.0.mlp.W_gate" in weights) == model.cfg.gated_mlp and ("pos_embed.W_pos" in weights) == (name == "gpt2")
    assert np.array_equal(weights["blocks.1.ln1.w"], model.tensor_of("ln1", 1))
    assert ("ln_final.b" in weights) == model.has("ln_final", bias=True)
    with pytest.raises(AttributeError, match="attn has no W_q, did you mean 'W_Q'"):
        model.blocks[0].attn.W_q


@pytest.mark.parametrize("layer", (0, 1))
@pytest.mark.parametrize("name", MODELS)
def test_results_of_heads(root, name, layer):
    """hook_result is z W_O, its sum is hook_attn_out; a hook on it is one on z, and one that changes nothing changes no bit."""
    model = mgpt.Model(root / f"tests/golden/{name}")
    tokens, name = [[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]], f"blocks.{layer}.attn.hook_result"
    assert name not in model.hook_names
    before = model.run_with_cache(tokens)[0]
    model.set_use_attn_result(True)
    assert model.hook_names.index(name) == model.hook_names.index(f"blocks.{layer}.hook_attn_out") - 1
    logits, cache = model.run_with_cache(tokens)
    assert logits.tobytes() == before.tobytes()
    assert cache[name].shape == (2, 5, model.cfg.n_heads, model.cfg.d_model)
    assert np.allclose(cache["result", layer], np.einsum("bthd,hde->bthe", cache["z", layer], model.W_O[layer]), atol=1e-5)
    every = np.concatenate([np.moveaxis(cache["result", i], -2, 0) for i in range(model.cfg.n_layers)])
    assert np.allclose(every * model.info.residual_scale, cache.stack_head_results(), atol=1e-5)
    assert model.run_with_hooks(tokens, [(name, lambda v, hook: v.copy())]).tobytes() == before.tobytes()

    def silence(value, hook):
        value[:, :, 1] = 0

    seen = []
    for where in (name, f"blocks.{layer}.attn.hook_z"):
        keep = [(where, silence), (f"blocks.{layer}.hook_attn_out", lambda v, hook: seen.append(v.copy()))]
        seen.append(model.run_with_hooks(tokens, keep))
    assert np.allclose(seen[0], seen[2], atol=2e-5 * np.abs(seen[2]).max()) and not np.allclose(seen[0], cache["attn_out", layer])
    assert np.allclose(seen[1], seen[3], atol=2e-5 * np.abs(before).max()) and not np.allclose(seen[1], before, atol=1e-3)
    changed = model.run_with_cache(tokens, name, hooks=[(f"blocks.{layer}.attn.hook_z", silence)])[1][name]
    assert not changed[:, :, 1].any() and changed[:, :, 0].tobytes() == cache[name][:, :, 0].tobytes()
    model.use_attn_result = False
    assert name not in model.hook_names
    with pytest.raises(ValueError, match="no hook is called"):
        model.run_with_cache(tokens, name)


def test_rows_share_passes(names, root, monkeypatch):
    """A batch without hooks is one call of the library; each row has the bits that it has alone."""
    import mgpt.batch
    import mgpt.score
    from mgpt._interrupt import run
    calls = []

    def count(handles, name, *arguments, **options):
        calls.append(name)
        return run(handles, name, *arguments, **options)

    texts = ["annabel", "bo", "carl", "a"]
    for model in (names, mgpt.Model(root / "tests/golden/gemma2")):
        tokens = model.to_tokens(texts) if model is names else np.array([[1, 2, 3, 4], [4, 3, 2, 1], [5, 5, 5, 5]])
        alone = [model.run_with_cache(row) for row in tokens]
        with monkeypatch.context() as patched:
            patched.setattr(mgpt.batch, "run", count)
            patched.setattr(mgpt.score, "run", count)
            calls.clear()
            logits, cache = model.run_with_cache(tokens)
            assert calls == ["mgpt_feed_many"]
            assert model(tokens).tobytes() == logits.tobytes() and calls == 2 * ["mgpt_feed_many"]
        for i, (want, values) in enumerate(alone):
            assert logits[i].tobytes() == want[0].tobytes()
            assert all(cache[name][i].tobytes() == values[name][0].tobytes() for name in values)
    many = names.to_tokens(texts * 20)
    assert all(row.tobytes() == names(many[i % 4])[0].tobytes() for i, row in enumerate(names(many)))
