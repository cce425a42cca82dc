"""Model.patch: the program's sweeps, and the same numbers from hooks."""
import mgpt
import numpy as np
import pytest

CLEAN, CORRUPT = "anna", "anno"


def difference(logits):
    return float(logits[0, -1, 13]) - float(logits[0, -1, 0])


@pytest.mark.parametrize("over", ["resid_pre", "resid_mid", "attn_out", "mlp_out", "z", "q", "k", "v", "pattern"])
def test_both_ways_agree(names, over):
    by_program = names.patch(CLEAN, CORRUPT, "n - a", over)
    by_hooks = names.patch(CLEAN, CORRUPT, difference, over)
    assert (by_program.clean, by_program.corrupt) == pytest.approx((by_hooks.clean, by_hooks.corrupt), abs=0)
    one, two = by_program[over], by_hooks[over]
    assert one.dims == two.dims and one.coords == two.coords and one.labels == two.labels
    assert one.values.tobytes() == two.values.astype(np.float64).tobytes()


def test_grids(names):
    result = names.patch(CLEAN, CORRUPT, "n - a", ["resid_pre", "z"], positions="3,-1", heads="1,2")
    assert list(result) == ["resid_pre", "z"] and len(result) == 2
    assert result["z"].dims == ("layer", "head", "position") and result["z"].values.shape == (1, 2, 2)
    assert result["z"].coords == {"layer": [0], "head": [1, 2], "position": [3, 4]} and result["z"].labels == ["n", "a"]
    assert result["z"].sel(head=2, position=4) == result["z"].values[:, 1, 1]
    assert result["resid_pre"].sel(layer=0, position=4) == result.clean != result.corrupt
    assert np.asarray(result["z"]).shape == (1, 2, 2) and np.mean(result["resid_pre"]) > 0
    assert result._repr_html_().count("<svg") == 3 and "layer 0" in result["z"]._repr_html_()
    with pytest.raises(KeyError, match="token"):
        result["z"].sel(token=1)
    with pytest.raises(ValueError):
        result["z"].sel(head=0)


def test_modes(names):
    zero = names.patch("olivia", None, "logprob:n", "z", mode="zero")
    by_hooks = names.patch("olivia", None, lambda x: mgpt_logprob(x[0, -1], 13), "z")
    assert zero.corrupt is None and np.allclose(zero["z"], by_hooks["z"], atol=1e-6)


def mgpt_logprob(row, token):
    row = row.astype(np.float64)
    return row[token] - row.max() - np.log(np.exp(row - row.max()).sum())


def test_checkpoint(root):
    model = mgpt.Model(root / "tests/golden/gpt2")
    tokens = list(range(1, 6))
    assert model.patch(tokens, tokens[::-1], lambda x: x[0, -1, 3], "mlp_out")["mlp_out"].values.shape[1] == 5
    by_program, by_hooks = (model.patch(tokens, tokens[::-1], metric, "z") for metric in ("3 - 4", lambda x: float(x[0, -1, 3]) - float(x[0, -1, 4])))
    assert np.allclose(by_program["z"], by_hooks["z"], atol=1e-6) and np.asarray(by_hooks["z"], np.float32).dtype == np.float32
    windowed = mgpt.Model(root / "tests/golden/mimo_v2_flash")  # its windowed layers have more keys
    for metric in "3 - 4", lambda x: float(x[0, -1, 3]):
        with pytest.raises((mgpt.Error, ValueError), match="over.* blocks.1.attn.hook_k is not as wide as in layer 0"):
            windowed.patch(tokens, tokens[::-1], metric, "k")


def test_refusals(names):
    for error, match, words in (
            (mgpt.Error, "length|tokens", ("anna", "ann", "n - a")), (mgpt.Error, "not a token", ("anna", "anno", "! - a")),
            (mgpt.Error, "--over", ("anna", "anno", "n - a", "nope")), (mgpt.Error, ".", ("anna", "anno", "nope")),
            (ValueError, "no hook", ("anna", "anno", difference, "nope")), (TypeError, "tokens", ([1], [2], "n - a")),
            (ValueError, "expected 5 tokens", ("anna", "ann", difference))):
        with pytest.raises(error, match=match):
            names.patch(*words)
    with pytest.raises(ValueError, match="need a metric that is text"):
        names.patch("anna", "anno", difference, layers="0")
