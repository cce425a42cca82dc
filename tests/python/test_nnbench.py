"""tools/python/examples/nnbench.py: its methods are what they say; next to nnbench's hf they run by the command in it."""
import dataclasses
import importlib.util
import sys
from types import SimpleNamespace as Has

import numpy as np
import pytest


@pytest.fixture(scope="module")
def methods(root):
    spec = importlib.util.spec_from_file_location("nnbench", root / "tools/python/examples/nnbench.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_reads(methods, shakespeare):
    prompts = ["ROMEO:", "Who are "]
    lens, n = methods.logit_lens(shakespeare, prompts, unembed="weight"), shakespeare.info.n_layer
    assert lens.shape == (n, 2, shakespeare.info.n_vocab)
    assert lens[-1, 1].tobytes() == shakespeare.run_with_hooks(prompts[1], [])[0, -1].tobytes()
    assert methods.logit_lens(shakespeare, prompts, layers=[-1]).tobytes() == lens[-1:].tobytes()
    pattern = np.exp(methods.attention_pattern(shakespeare, prompts))
    assert pattern.shape == (n, shakespeare.info.n_head, 6) and np.allclose(pattern.sum(-1), 1)


def test_writes(methods, shakespeare):
    clean, corrupt = "ROMEO:", "ROMAN:"
    plain = shakespeare.run_with_hooks(corrupt, [])[0, -1]
    assert methods.activation_patching(shakespeare, [clean, corrupt], patch=False)[0].tobytes() == plain.tobytes()
    last = methods.gen_patching(shakespeare, [clean, corrupt], layer=shakespeare.info.n_layer - 1, new_tokens=4)
    assert last[0].tobytes() == shakespeare.run_with_hooks(clean, [])[0, -1].tobytes() and len(last) == 4
    assert methods.ablation(shakespeare, [corrupt], target="none")[0].tobytes() == plain.tobytes()
    for target in ("mlp", "attn"):
        assert abs(methods.ablation(shakespeare, [corrupt], layer=0, target=target) - plain).max() > 0.1
    a = shakespeare.encode("a", bos=False)[-1]
    steered = methods.steering(shakespeare, [corrupt], layer=2, target="a", mode="inplace")[0]
    assert steered[a] - steered.mean() > plain[a] - plain.mean() + 1
    rows = methods.gen_steering(shakespeare, [corrupt], layer=2, target="a", new_tokens=3)
    assert rows[0].tobytes() == steered.tobytes() and rows.shape == (3, len(plain))
    rows = methods.gen_steering(shakespeare, [corrupt], alpha=0, layer=2, target="a", new_tokens=3)
    assert shakespeare.decode(rows.argmax(-1)) == "".join(shakespeare.generate(corrupt, 3, temperature=0))


def test_main(methods, monkeypatch):
    ran, made = [], dataclasses.make_dataclass("Spec", ["name", "family", "repo", "warmup", "n_trials"])
    names = {"": Has(), ".backends": Has(HFBackend=lambda: Has(load=print)),
             ".sweep": Has(driver=Has(run_sweep=lambda spec, _, load: ran.append((spec.repo, load("mgpt", "").convert)) or [])),
             ".specs": Has(SPECS={family: made("of " + family, family, "", 3, 5) for family in ("gpt2", "llama", "t5")})}
    for name, module in names.items():
        monkeypatch.setitem(sys.modules, "isb" + name, module)
    monkeypatch.setattr(methods, "checkpoint", lambda work, family: family)
    monkeypatch.setattr(methods, "register", print)
    monkeypatch.setattr(sys, "path", sys.path[:])
    for words in ([], ["--type", "q8_0", "--spec", "of llama"]):
        monkeypatch.setattr(sys, "argv", ["nnbench.py", "here", *words])
        methods.main()
    assert ran == [("gpt2", ["--type", "f32"]), ("llama", ["--type", "f32"]), ("llama", ["--type", "q8_0"])]
