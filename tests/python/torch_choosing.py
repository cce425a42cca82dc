"""Edits of logits next to the processors of transformers, token by token along a text (suite torch)."""
import mgpt
import numpy as np
import pytest

torch = pytest.importorskip("torch")
from transformers import generation as hf  # noqa: E402

PROCESSORS = [({"repeat_penalty": 1.3}, lambda: hf.RepetitionPenaltyLogitsProcessor(1.3)),
              ({"repeat_penalty": 0.6}, lambda: hf.RepetitionPenaltyLogitsProcessor(0.6)),
              ({"typical": 0.4}, lambda: hf.TypicalLogitsWarper(0.4)), ({"typical": 0.95}, lambda: hf.TypicalLogitsWarper(0.95)),
              ({"bias": {"e": 2.0, "n": -1.5}}, lambda: hf.SequenceBiasLogitsProcessor([[[4], 2.0], [[13], -1.5]])),
              ({"bias": {"a": float("-inf")}}, lambda: hf.SuppressTokensLogitsProcessor([0]))]


@pytest.mark.parametrize("named, processor", PROCESSORS)
def test_processors(names, named, processor):
    sampler, other = mgpt.Sampler(model=names, **named), processor()
    for word in ("anna", "eleanor", "benjaminaelie"):
        tokens = np.array([26, *(ord(c) - 97 for c in word)], np.int32)
        logits = names.logits(tokens)
        for n in range(1, len(tokens) + 1):
            found = sampler.edited(logits[n - 1], tokens[:n])
            expected = other(torch.tensor(tokens[None, :n].astype(np.int64)), torch.tensor(logits[None, n - 1]))[0].numpy()
            assert np.array_equal(np.isinf(found), np.isinf(expected))
            np.testing.assert_allclose(found, expected, rtol=1e-6)
