"""MgptLM with a stand-in for the harness, of the functions that it takes from there: log-probabilities, windows, texts.

torch_lm_eval.py compares with the harness itself (suite "torch")."""
import importlib
import json
import subprocess
import sys
import types
from pathlib import Path

import mgpt
import numpy as np
import pytest

PROGRAM = Path(mgpt.__file__).with_name("mgpt")


def rolling_windows(tokens, prefix, most, _):
    """As the harness makes them: each token is predicted once, with up to `most` tokens before it."""
    for first in range(0, len(tokens), most):
        end = min(first + most, len(tokens))
        before = [prefix] if first == 0 else tokens[max(end - most, 1) - 1: first]
        yield before + tokens[first: end - 1], tokens[first:end]


class CacheHook:
    def __init__(self):
        self.kept = []

    def add_partial(self, *answer):
        self.kept.append(answer)


class LM:
    def __init__(self):
        self.cache_hook = CacheHook()


@pytest.fixture
def harness(monkeypatch):
    modules = {
        "lm_eval": {}, "lm_eval.api": {}, "lm_eval.models": {}, "lm_eval.__main__": {"cli_evaluate": None},
        "lm_eval.api.model": {"LM": LM}, "lm_eval.api.registry": {"register_model": lambda name: lambda model: model},
        "lm_eval.models.utils": {
            "handle_stop_sequences": lambda until, eos: [until] if isinstance(until, str) else until or [],
            "normalize_gen_kwargs": lambda options, most: {"max_gen_toks": most, **options},
            "postprocess_generated_text": lambda text, stops, _: min([text.split(s)[0] for s in stops if s] + [text], key=len)},
        "lm_eval.utils": {"get_rolling_token_windows": rolling_windows,
                          "make_disjoint_window": lambda pair: (pair[0][: len(pair[0]) - len(pair[1]) + 1], pair[1])}}
    for name, members in modules.items():
        module = types.ModuleType(name)
        module.__dict__.update(members)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "mgpt.lm_eval", raising=False)
    yield importlib.import_module("mgpt.lm_eval")
    sys.modules.pop("mgpt.lm_eval", None)


def requests(*args):
    return [types.SimpleNamespace(args=a) for a in args]


def scored(path, context, continuation, *options):
    """One pair by the command."""
    line = json.dumps({"context": context, "continuation": continuation})
    done = subprocess.run([PROGRAM, "score", path, "--json", *options], input=line, capture_output=True, text=True, check=True)
    record = json.loads(done.stdout)
    return record["sum_logprob"], record["is_greedy"]


def test_loglikelihood(harness, names, shakespeare):
    pairs = [("an", "na"), ("ol", "ivia"), ("an", "n"), ("", "emma"), ("an", "aa")]
    for options, words in (({}, ()), ({"add_bos_token": False, "max_length": 9, "threads": 1}, ("--no-bos", "-c9"))):
        lm = harness.MgptLM(names.path, **options)
        answers = lm.loglikelihood(requests(*pairs))
        assert answers == [scored(names.path, *pair, *words) for pair in pairs]
        assert sorted(lm.cache_hook.kept) == sorted(("loglikelihood", p, a) for p, a in zip(pairs, answers, strict=True))
    assert harness.MgptLM(names.path).tok_encode("<BOS>an") == harness.MgptLM(names.path).tok_encode("an") == [26, 0, 13]
    with pytest.raises(ValueError, match="shakespeare.gguf: no BOS or EOS to begin a text with"):
        harness.MgptLM(shakespeare.path).tok_encode("a")
    other = harness.MgptLM("x")
    other.__dict__["model"] = types.SimpleNamespace(info=types.SimpleNamespace(bos=-1, eos=5))
    assert other.prefix_token_id == 5  # without BOS it is EOS
    assert lm.max_length == 9 and lm.prefix_token_id == 26 and lm.tok_encode("ann") == [0, 13, 13]
    assert harness.MgptLM(names.path).max_length == 16 and harness.MgptLM(names.path, max_length=99).max_length == 16


def test_rolling(harness, names):
    """A text of three windows: each letter after BOS or the 16 - n letters before it."""
    texts = ["anna", "abcdefghijklmnopqrstuvwxyzabcdefghij"]
    lm = harness.MgptLM(names.path, add_bos_token=False)
    for text, found in zip(texts, lm.loglikelihood_rolling(requests(*[(t,) for t in texts])), strict=True):
        want, tokens = 0.0, names.encode(text, bos=False)
        for seen, predicted in rolling_windows(tokens, 26, 16, 1):
            logits = names.logits(seen)[-len(predicted):].astype(np.float64)
            rows = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
            want += sum(row[token] for row, token in zip(rows, predicted, strict=True))
        assert abs(found - want) < 1e-6 * abs(want)


def greedy(model, texts, part):
    """Up to 5 likeliest tokens after a part of each text's tokens."""
    found = []
    for context in texts:
        session, text = model.session(), ""
        logits = session.feed(model.encode(context)[part])
        while len(text) < 5 and not model.is_end(int(logits.argmax())):
            text += model.decode([int(logits.argmax())])
            logits = session.step(int(logits.argmax()))
        found.append(text)
    return found


def test_generate_until(harness, names):
    lm = harness.MgptLM(names.path)
    contexts = ["an", "ol", "k"] * 7  # more than run at once
    whole = [subprocess.run([PROGRAM, "generate", names.path, "-p", c, "-n", "5", "--temp", "0", "--no-prompt"],
                            capture_output=True, text=True, check=True).stdout.removesuffix("\n") for c in contexts]
    assert lm.generate_until(requests(*[(c, {"max_gen_toks": 5}) for c in contexts])) == whole
    drawn = {"temperature": 0.7, "top_k": 5, "max_gen_toks": 5}
    for more, same in ({"do_sample": True}, {"temperature": 0.7, "top_k": 5}), ({"do_sample": False}, {"temperature": 0}), ({}, {"temperature": 0}):
        want = ["".join(names.generate(c, 5, seed=0, **same)) for c in contexts[:3]]
        assert lm.generate_until(requests(*[(c, {**drawn, **more}) for c in contexts[:3]])) == want, more
    stop = whole[0][1]
    cut = lm.generate_until(requests(("an", {"until": [stop], "max_gen_toks": 5}), ("ol", {"max_gen_toks": 1})))
    assert cut == [whole[0].split(stop)[0], whole[1][:1]]
    longs = ["christopherolivian", "zoeemmaoliviajamesj"]
    ends, begins = greedy(names, longs, slice(-11, None)), greedy(names, longs, slice(0, 11))  # what leaves room for 5
    assert all(a != b for a, b in zip(ends, begins, strict=True))
    assert lm.generate_until(requests(*[(text, {"max_gen_toks": 5}) for text in longs])) == ends
    with pytest.raises(ValueError, match="leave no room"):
        lm.generate_until(requests(("an", {"max_gen_toks": 16})))
