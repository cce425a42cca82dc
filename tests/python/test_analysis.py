"""Model.lens, attribution, head_scores and max_texts, each against a formula in NumPy."""
import mgpt
import numpy as np
import pytest


@pytest.fixture(scope="module", params=["names", "gpt2", "llama"])
def case(request, root, names):
    """A model, a text as tokens, and the slope and offset of its final norm with its scale as it was."""
    if request.param == "names":
        model, tokens = names, names.encode("annabel")
    else:
        model = mgpt.Model(root / "tests/golden" / request.param)
        tokens = [3, 17, 8, 12, 2, 9]
    _, cache = model.run_with_cache(tokens, remove_batch_dim=True)
    return model, tokens, cache


def normed(model, x, frozen):
    """The final norm of rows x in float64; `frozen`: rows whose scale is taken, and no bias is added."""
    x, rows = np.asarray(x, np.float64), np.asarray(frozen, np.float64)
    if not model.has("ln_final"):
        return x
    layer_norm = model.has("ln_final", bias=True)
    if layer_norm:
        x, rows = x - x.mean(-1, keepdims=True), rows - rows.mean(-1, keepdims=True)
    return x / np.sqrt((rows ** 2).mean(-1, keepdims=True) + model.info.norm_eps) * model.tensor_of("ln_final")


def unembedded(model, x):
    bias = model.tensor_of("ln_final", bias=True) if model.has("ln_final") and model.has("ln_final", bias=True) else 0
    return (normed(model, x, x) + bias) @ model.tensor_of("W_U").T.astype(np.float64)


def logprobs(logits):
    top = logits.max(-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))


def test_lens(case):
    model, tokens, cache = case
    found = model.lens(tokens)
    final = model.logits(tokens).argmax(1)
    assert found.final.tolist() == final.tolist() and found.labels == cache.labels
    assert found.names[0] == "blocks.0.hook_resid_pre" and len(found.names) == 1 + 2 * model.info.n_layer
    for name, said, ranks, of_final in zip(found.names, found.tokens, found.ranks, found.logprobs):
        want = logprobs(unembedded(model, cache[name]))
        mine = np.take_along_axis(want, final[:, None], 1)
        assert np.allclose(of_final, mine[:, 0], atol=1e-5) and said.tolist() == want.argmax(1).tolist()
        assert ranks.tolist() == (1 + (want > mine).sum(1)).tolist()
    assert mgpt.analysis._said(np.float32([1, 2, 2]), 2)[:2] == (1, 2)  # of equals the first is before
    assert (found.ranks[-1] == 1).all() and "<svg" in found._repr_html_()
    assert found.logprobs[0].tolist() != found.logprobs[-1].tolist()


@pytest.mark.parametrize("position, token, other", [(-1, 4, 9), (2, 7, None), (-1, None, None)])
def test_attribution(case, position, token, other):
    model, tokens, cache = case
    found = model.attribution(tokens, token, other, position=position)
    logits = model.logits(tokens)[position].astype(np.float64)
    token = int(logits.argmax()) if token is None else token
    w = model.tensor_of("W_U").astype(np.float64)
    way = w[token] - (w.mean(0) if other is None else w[other])
    info, last = model.info, cache[f"blocks.{model.info.n_layer - 1}.hook_resid_post"][position]

    def part(x):
        return float(normed(model, x, last) @ way)
    for layer in range(info.n_layer):
        z, w_o = cache[f"blocks.{layer}.attn.hook_z"][position], model.tensor_of("W_O", layer).reshape(info.n_embd, info.n_head, -1)
        want = [part(w_o[:, h].astype(np.float64) @ z[h]) for h in range(info.n_head)]
        assert np.allclose(found.heads[layer], want, atol=1e-5) and max(map(abs, want)) > 1e-3
        assert found.mlps[layer] == pytest.approx(part(cache[f"blocks.{layer}.hook_mlp_out"][position]), abs=1e-5)
    against = logits.mean() if other is None else logits[other]
    assert found.total == pytest.approx(logits[token] - against, abs=1e-4)
    parts = found.heads.sum() + found.mlps.sum() + found.embedding + found.position + found.biases + found.rounding
    assert found.total == pytest.approx(parts, abs=1e-6) and abs(found.rounding) < 1e-4 and "<svg" in found._repr_html_()


def test_attribution_of_text(names):
    one, two = names.attribution("anna", "n", "a"), names.attribution("anna", 13, 0)
    assert one.heads.tolist() == two.heads.tolist() and one.what.startswith('after token 4 "a": logit of "n" minus "a"')
    for error, match, words, options in ((ValueError, "2 tokens", ("anna", "nn"), {}), (ValueError, "position", ("anna",), {"position": 5}),
                                         (ValueError, "token", ("anna", 27), {}), (ValueError, "goes with", ("anna", None, 3), {}),
                                         (mgpt.Error, "17 tokens", ("a" * 16,), {})):
        with pytest.raises(error, match=match):
            names.attribution(*words, **options)


def test_head_scores(shakespeare):
    info, n = shakespeare.info, 20
    found = shakespeare.head_scores(n, texts=2, seed=5)
    rng, sums = np.random.default_rng(5), np.zeros((3, info.n_layer, info.n_head))
    words = [t for t in range(info.n_tokens) if shakespeare.decode([t])]
    first = [info.bos] if info.bos >= 0 else []
    for _ in range(2):
        half = rng.choice(words, n, replace=n > len(words)).tolist()
        _, cache = shakespeare.run_with_cache([*first, *half, *half], "blocks.*.attn.hook_pattern", remove_batch_dim=True)
        for layer in range(info.n_layer):
            for head in range(info.n_head):
                for q in range(n, 2 * n):
                    row = cache["pattern", layer][head, len(first) + q]
                    sums[0, layer, head] += row[len(first) + q - n + 1]  # after the same token
                    sums[1, layer, head] += row[len(first) + q - 1]
                    sums[2, layer, head] += row[len(first) + q - n]
    for mine, want in zip((found.induction, found.previous, found.duplicate), sums / (2 * n)):
        assert np.allclose(mine, want, atol=1e-6)
    assert found.previous.max() > 0.5 and "induction" in found._repr_html_()


def test_head_scores_of_other_models(root, names):
    found = names.head_scores()
    mixed = mgpt.Model(root / "tests/golden/laguna").head_scores(4, texts=1)
    assert [np.isnan(row).sum() for row in mixed.duplicate] == [2, 0, 0, 0, 2] and not np.isnan(mixed.previous[:, :4]).any()
    assert found.induction.shape == (1, 4) and (0 <= found.duplicate).all() and (found.previous <= 1).all()


@pytest.mark.parametrize("neuron, name, column", [((0, 5), "blocks.0.mlp.hook_post", 5), ("blocks.0.attn.hook_z[6]", "blocks.0.attn.hook_z", 6),
                                                  ("blocks.0.hook_resid_post[3]", "blocks.0.hook_resid_post", 3)])
def test_max_texts(names, tmp_path, neuron, name, column):
    lines = ["anna", "", "olivia", "annabelannabelannabel", "xqz", "anna"] + [chr(97 + i % 26) * (i % 7 + 1) for i in range(90)]
    file = tmp_path / "names.txt"
    file.write_text("\n".join(lines) + "\n")
    found, want = names.max_texts(neuron, file, 5), []
    for i, line in enumerate(lines, 1):
        ids = names.encode(line, bos=False)
        for at in range(0, len(ids), 15):
            part = [26, *ids[at:at + 15]]
            row = names.run_with_cache(part, name, remove_batch_dim=True)[1][name].reshape(len(part), -1)[:, column]
            want.append((float(row.max()), i, int(row.argmax()), row.tolist()))
    want.sort(key=lambda w: -w[0])
    assert [(f.value, f.line, f.position, f.values.tolist()) for f in found] == want[:5]
    assert f"[{found[0].labels[found[0].position]}]" in str(found[0]) and "<svg" in found[0]._repr_html_()
    assert len(names.max_texts(neuron, file, 1000)) == len(want) == 96


def test_max_texts_of_a_layer(shakespeare, tmp_path):
    (tmp_path / "x").write_text("ROMEO:\n\nTo be, or not")
    for layer in range(shakespeare.info.n_layer):
        for best in shakespeare.max_texts((layer, 7), tmp_path / "x"):
            row = shakespeare.run_with_cache(("ROMEO:", "", "To be, or not")[best.line - 1])[1]["mlp.hook_post", layer][0, :, 7]
            assert best.values.tolist() == row.tolist() and best.value == row.max(), layer


def test_max_texts_refusals(names, shakespeare, tmp_path):
    (tmp_path / "x").write_text("anna\nAnna\n")
    for error, match, neuron in ((ValueError, "no hook", (1, 0)), (ValueError, "neuron", (0, 64)), (ValueError, "expected .layer", "mlp"),
                                 (ValueError, "one hook", "blocks.0.attn.hook_pattern[3]"), (ValueError, "one hook", "*[3]"), (mgpt.Error, "line 2", (0, 1))):
        with pytest.raises(error, match=match):
            names.max_texts(neuron, tmp_path / "x", 3)
    for part in ("normalized", "scale"):  # of a norm with gain
        with pytest.raises(ValueError, match="one hook"):
            shakespeare.max_texts(f"blocks.0.ln1.hook_{part}[0]", tmp_path / "x", 3)
    with pytest.raises(ValueError, match="k"):
        names.max_texts((0, 1), tmp_path / "x", 0)
