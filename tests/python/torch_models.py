"""run_with_cache next to TransformerLens on random checkpoints: names, shapes, values (transformers: test_suite.py).

And what else a release is checked for. Not collected by default: it wants torch, transformers and transformer_lens (suite "torch" of meson test).
"""
import os
import pathlib
import subprocess
import sys

import mgpt
import numpy as np
import pytest
from random_models import random_model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

SMALL = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
         "max_position_embeddings": 64}
GROUPED = {**SMALL, "num_key_value_heads": 2}
GPT2 = {"vocab_size": 97, "n_positions": 64, "n_embd": 32, "n_layer": 3, "n_head": 4}
CONFIGS = {
    "gpt2": ("GPT2Config", GPT2),
    "gpt_neo": ("GPTNeoConfig", {"vocab_size": 97, "max_position_embeddings": 64, "hidden_size": 32, "num_layers": 2,
                                 "attention_types": [[["global", "local"], 1]], "num_heads": 4, "window_size": 8}),
    "pythia": ("GPTNeoXConfig", {**SMALL, "rotary_pct": 0.25}),
    "llama": ("LlamaConfig", GROUPED),
    "qwen2": ("Qwen2Config", GROUPED),
    "qwen3": ("Qwen3Config", {**GROUPED, "head_dim": 16}),
    "gemma3": ("Gemma3TextConfig", {**GROUPED, "head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16}),
    "phi": ("PhiConfig", SMALL),
}
IDS = np.random.default_rng(0).integers(0, 97, 30)


@pytest.fixture(scope="module", params=CONFIGS)
def pair(request, tmp_path_factory):
    """(name, folder, transformers' model, ours) of a fresh checkpoint."""
    folder = tmp_path_factory.mktemp(request.param)
    model = random_model(*CONFIGS[request.param], seed=5)
    model.save_pretrained(folder)
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({str(i): i for i in range(97)}, unk_token="0"))
    marks = dict.fromkeys(["unk_token", "bos_token", "eos_token", "pad_token"], "0")
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, **marks).save_pretrained(folder)  # for TransformerLens
    return request.param, folder, model, mgpt.Model(folder, convert=["--no-tokenizer"])


def near(ours, theirs, what):
    theirs = theirs.detach().float().numpy()
    assert ours.shape == theirs.shape, (what, ours.shape, theirs.shape)
    both = np.isfinite(ours) & np.isfinite(theirs) if "scores" in what else np.ones(ours.shape, bool)
    assert np.abs(ours - theirs)[both].max() <= 1e-5 * max(1, np.abs(theirs[both]).max()), what


def halve(value, hook):
    return value * 0.5


def change_head(value, hook):
    value[:, 1] = value[:, 1] * 0.25


@pytest.fixture(scope="module")
def bridge(pair):
    lens = pytest.importorskip("transformer_lens.model_bridge")
    return lens.TransformerBridge.boot_transformers(str(pair[1]), hf_model=pair[2])


def test_transformer_lens(pair, bridge):
    name, _, _, ours = pair
    with torch.no_grad():
        want_logits, want = bridge.run_with_cache(torch.tensor(IDS[None]))
    logits, cache = ours.run_with_cache(IDS)
    near(logits, want_logits, "logits")
    common = [n for n in cache if n in want]
    for key in common:
        if name != "gpt_neo" or not key.endswith("attn_scores"): # TransformerLens 4.3 has them after softmax there
            near(cache[key], want[key], key)
    layer, norm = "blocks.0.attn.hook_", "blocks.0.ln1.hook_"
    assert {layer + part for part in ("q", "k", "v", "z", "pattern", "attn_scores")} <= set(common)
    assert {norm + part for part in ("scale", "normalized", "out")} <= set(common)


@pytest.mark.parametrize("hook", [("blocks.1.attn.hook_z", halve), ("blocks.0.attn.hook_pattern", change_head),
                                  ("blocks.1.hook_mlp_out", halve), ("blocks.1.hook_resid_pre", halve)])
def test_hooks(pair, bridge, hook):
    if pair[0] == "gpt_neo" and hook[0].endswith("pattern"):
        pytest.skip("TransformerLens 4.3 applies softmax to GPT-Neo's pattern after the hook")
    with torch.no_grad():
        want = bridge.run_with_hooks(torch.tensor(IDS[None]), fwd_hooks=[hook])
    near(pair[3].run_with_hooks(IDS, [hook]), want, hook[0])


def test_types(root):
    """mypy --strict, as pyproject.toml asks for it."""
    pytest.importorskip("mypy")
    site = pathlib.Path(mgpt.__file__).parents[1]  # the wheel's package, which has _rows.py
    done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", os.devnull, "--config-file", root / "tools/python/pyproject.toml"],
                          cwd=site, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_pip_builds_it(root, tmp_path):
    """pip install ./tools/python, with what this build folder has compiled."""
    build = pathlib.Path(os.environ["MGPT_BUILD"]).parents[1]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path, "-C",
                    f"builddir={build}", root / "tools/python"], check=True)
    code = "import mgpt; print(mgpt.Model('weights/names.gguf').encode('anna'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=root, env={**os.environ, "PYTHONPATH": str(tmp_path)},
                          capture_output=True, text=True, check=True)
    assert done.stdout == "[26, 0, 13, 13, 0]\n"


def rolling_windows(tokens, prefix, window, seen):
    """lm-evaluation-harness' get_rolling_token_windows and make_disjoint_window from their descriptions: (context, scored);
    a window after the first scores all but `seen` - 1 of its tokens."""
    yield [prefix], tokens[:window]
    at = window
    while at < len(tokens):
        end = min(at + window - seen + 1, len(tokens))
        yield ([prefix] + tokens)[max(end - window, 0): at + 1], tokens[at:end]
        at = end


@pytest.mark.parametrize("window, stride", [(64, 64), (33, 5)])
def test_rolling_score(pair, window, stride):
    _, _, theirs, ours = pair
    tokens = np.random.default_rng(1).integers(0, 97, 301).tolist()
    want = []
    for context, scored in rolling_windows(tokens[1:], tokens[0], window, window - stride + 1):
        with torch.no_grad():
            rows = theirs(torch.tensor([context + scored[:-1]])).logits[0, len(context) - 1:].double().log_softmax(-1)
        want += [rows[i, token].item() for i, token in enumerate(scored)]
    found = ours.score([tokens], window=window, stride=stride)[0]
    assert found.n_tokens == 300 == len(want)
    assert -found.sum_logprob / 300 == pytest.approx(-sum(want) / 300, rel=1e-6)
