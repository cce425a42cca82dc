"""Model.circuits against formulas in NumPy, from tensors by role."""
import sys

import mgpt
import numpy as np
import pytest

MODELS = {"names": [0], "gpt2": [0, 1], "llama": [0, 1], "qwen3": [0, 1], "gemma2": [0, 1]}


@pytest.fixture(scope="module", params=[(name, layer) for name, layers in MODELS.items() for layer in layers], ids=str)
def case(request, root, names):
    name, layer = request.param
    return names if name == "names" else mgpt.Model(root / "tests/golden" / name), layer


def tensor(m, role, layer=0, bias=False, absent=None):
    return m.tensor_of(role, layer, bias=bias).astype(np.float64) if m.has(role, layer, bias=bias) else absent


def norm(m, x, role, layer=0, kind=None):
    """A norm of rows in float64; kind: MGPT_NO_NORM, RMSNORM, LAYERNORM (default: the model's)."""
    if (m.info.norm == "layernorm") if kind is None else kind == 2:
        x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x ** 2).mean(-1, keepdims=True) + m.info.norm_eps)
    return x * tensor(m, role, layer, absent=1) + tensor(m, role, layer, bias=True, absent=0)


def begins(m):
    """The residual that each token begins with."""
    x = tensor(m, "W_E")[:m.info.n_tokens] * (np.sqrt(m.info.n_embd) if m.info.arch == "gemma2" else 1)
    return norm(m, x, "ln_embd", kind=m.info.ln_embd) if m.info.ln_embd else x


def heads(m, role, layer, x):
    """[tokens, heads, d] of W_Q, W_K or W_V, in the order of its rows: alike for queries and keys."""
    out = x @ tensor(m, role, layer).T + tensor(m, role, layer, bias=True, absent=0)
    return out.reshape(len(x), -1, m.info.head_dim)


def scores(m, layer, head, x):
    h = norm(m, x, "ln1", layer)
    q, k = heads(m, "W_Q", layer, h)[:, head], heads(m, "W_K", layer, h)[:, head * m.info.n_head_kv // m.info.n_head]
    if m.has("q_norm", layer):
        q, k = norm(m, q, "q_norm", layer), norm(m, k, "k_norm", layer)
    return q @ k.T * m.info.attn_scale


def logits(m, out):
    """Of rows that are added to the residual: the last norm's gain and mean, not its division."""
    if m.info.ln_final == 2:
        out = out - out.mean(-1, keepdims=True)
    return out * tensor(m, "ln_final", absent=1) @ tensor(m, "W_U")[:m.info.n_tokens].T * m.info.logit_scale


def same(found, want):
    return np.abs(found - want).max() <= 3e-6 * max(1, np.abs(want).max())  # float32's rounding in the model's pass


def test_heads(case):
    m, layer = case
    x, d = begins(m), m.info.head_dim
    for head in range(m.info.n_head):
        assert same(m.circuits("qk", layer, head).table, scores(m, layer, head, x))
        v = heads(m, "W_V", layer, norm(m, x, "ln1", layer))[:, head * m.info.n_head_kv // m.info.n_head]
        out = v @ tensor(m, "W_O", layer)[:, head * d:(head + 1) * d].T * tensor(m, "ln1_post", layer, absent=1)
        assert same(m.circuits("ov", layer, head).table, logits(m, out * m.info.residual_scale))


def test_neurons_and_direct(case):
    m, layer = case
    x = begins(m)
    for neuron in (0, m.info.n_ff - 1):
        column = tensor(m, "W_down", layer)[:, neuron] * tensor(m, "ln2_post", layer, absent=1) * m.info.residual_scale
        assert same(m.circuits("promotes", layer, neuron).table[0], logits(m, column[None])[0])
        fires = m.circuits("fires", layer, neuron).table[:, 0]
        h = norm(m, x, "ln2", layer)
        up = h @ tensor(m, "W_up", layer)[neuron] + tensor(m, "W_up", layer, bias=True, absent=np.zeros(m.info.n_ff))[neuron]
        if m.info.gated:
            gate = h @ tensor(m, "W_gate", layer)[neuron]
            tanh = np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate ** 3))
            up *= gate / (1 + np.exp(-gate)) if m.info.activation == "silu" else gate / 2 * (1 + tanh)
        elif m.info.activation == "relu":
            up = np.maximum(up, 0)
        else:
            up = up / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (up + 0.044715 * up ** 3)))
        assert same(fires, up)
    assert same(m.circuits("direct").table, logits(m, x))


def test_places(names, root):
    m = mgpt.Model(root / "tests/golden/gpt2")
    for m in (names, m):
        x = tensor(m, "W_pos")
        x = norm(m, x, "ln_embd") if m.info.ln_embd else x
        assert same(m.circuits("places", 0, 1).table, scores(m, 0, 1, x))
    with pytest.raises(mgpt.Error, match="no table of positions"):
        mgpt.Model(root / "tests/golden/llama").circuits("places")


def test_many(root, tmp_path):
    """More tokens and positions than run in one pass: each row is in its place."""
    sys.path.insert(0, str(root / "weights"))
    import gguf

    metadata, tensors = gguf.read(root / "weights/names.gguf")[:2]
    draw, more = np.random.default_rng(0), 600
    for name in "token_embd", "position_embd", "output":
        tensors[name + ".weight"] = np.concatenate([tensors[name + ".weight"], draw.normal(size=(more, 16)).astype(np.float32)])
    metadata["microgpt.context_length"] += more
    metadata["microgpt.vocab_size"] += more
    metadata["tokenizer.ggml.tokens"] += [f"{i:03}" for i in range(more)]
    metadata["tokenizer.ggml.token_type"] += [1] * more
    gguf.write(tmp_path / "many.gguf", metadata, tensors)
    m = mgpt.Model(tmp_path / "many.gguf")
    x, x_pos = begins(m), norm(m, tensor(m, "W_pos"), "ln_embd")
    assert len(x) == 27 + more and len(x_pos) == 16 + more
    assert same(m.circuits("qk", 0, 1).table, scores(m, 0, 1, x)) and same(m.circuits("places", 0, 1).table, scores(m, 0, 1, x_pos))
    v = heads(m, "W_V", 0, norm(m, x, "ln1"))[:, 1]
    assert same(m.circuits("ov", 0, 1).table, logits(m, v @ tensor(m, "W_O")[:, 4:8].T))
    direct = m.circuits("direct")
    assert same(direct.table, logits(m, x))
    most = np.argsort(-np.abs(direct.table), axis=None, kind="stable")[:40]
    assert [cell[:2] for cell in direct.strongest(40)] == [tuple(direct.labels[i] for i in divmod(int(cell), 27 + more)) for cell in most]
    assert max(most) // (27 + more) >= 256 and {len(labels) for labels in (direct.show().labels, direct.show().keys)} == {200}
    assert direct.show().labels == [direct.labels[i] for i in direct.order()[:200]]
    h = norm(m, x, "ln2")
    assert same(m.circuits("fires", 0, 3).table[:, 0], np.maximum(h @ tensor(m, "W_up")[3], 0))


def test_vowels(names):
    """What training found: in head 2's own order of the keys the first six letters are the vowels."""
    found = names.circuits("qk", 0, 2)
    table = found.table[:26, :26]
    first = np.linalg.svd(table - table.mean(0))[2][0]
    own = np.argsort(-first * np.sign(first[np.abs(first).argmax()]), kind="stable")
    order = [i for i in found.order() if i < 26]
    assert order == own.tolist() and "".join(found.labels[i] for i in order[:6]) == "ioyaue"
    vowels = [i for i in range(26) if found.labels[i] in "aeiouy"]
    assert round(table[np.ix_(vowels, vowels)].mean(), 2) == -2.96
    assert found.strongest(2) == [("g", "i", pytest.approx(28.8762, abs=1e-4)), ("g", "r", pytest.approx(-28.0369, abs=1e-4))]
    assert "<svg" in found._repr_html_() and "vowel" not in repr(found.show())
    assert [i for i in found.order() if not names.decode([i])] == [26] and found.along[26] == 0


def test_steps(root, names):
    """What weights/README.md says of the snapshots: head 2's own order; the last is names.gguf, rounded."""
    steps = sorted((root / "weights/names-steps").glob("step-*.gguf"))
    first = {}
    for path in steps:
        found = mgpt.Model(path).circuits("qk", 0, 2)
        first[int(path.stem[5:])] = "".join(found.labels[i] for i in found.order() if i < 26)[:6]
    said = [line.strip("| \n").split(" | ") for line in (root / "weights/README.md").read_text().splitlines()
            if line.startswith(("| step", "| head 2"))]
    assert len(first) == 16 and first[100] == "ioueay"
    assert {int(step.replace(",", "")): letters for step, letters in zip(said[0][1:], said[1][1:])}.items() <= first.items()
    last = mgpt.Model(steps[-1])
    for name in names.tensors:
        if names.tensors[name][0] == "F32" and last.tensors[name][0] == "F16":
            assert np.array_equal(last.tensor(name), names.tensor(name).astype(np.float16).astype(np.float32))


def test_mixtures(root):
    """Experts are no neurons that a layer has for every token; a shared expert is, and is narrower than n_ff."""
    m = mgpt.Model(root / "tests/golden/mixtral")
    for kind in ("fires", "promotes"):
        with pytest.raises(mgpt.Error):
            m.circuits(kind)
    m = mgpt.Model(root / "tests/golden/qwen2_moe")
    width = m.tensor_of("W_down", 0).shape[1]
    assert width < m.info.n_ff
    column = tensor(m, "W_down", 0)[:, width - 1]
    assert same(m.circuits("promotes", 0, width - 1).table[0], logits(m, column[None])[0])
    for kind in ("fires", "promotes"):
        with pytest.raises(mgpt.Error, match="layer 0 has no such part"):
            m.circuits(kind, 0, width)


def test_refused(names):
    with pytest.raises(ValueError, match="kind: expected qk, places"):
        names.circuits("kq")
    with pytest.raises(mgpt.Error, match="head 4: the layer has 4"):
        names.circuits("qk", 0, 4)
    with pytest.raises(mgpt.Error, match="layer 1: the model has 1"):
        names.circuits("ov", 1)
    with pytest.raises(mgpt.Error, match="neuron 64: the layer has 64"):
        names.circuits("fires", 0, 64)
    with pytest.raises(ValueError, match="index"):
        names.circuits("fires", 0, -1)
