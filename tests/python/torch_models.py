"""run_with_cache next to transformers and TransformerLens on random checkpoints: names, shapes, values.

Not collected by default: it wants torch, transformers and transformer_lens (suite "torch" of meson test).
"""
import mgpt
import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

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
    torch.manual_seed(5)
    kind, options = CONFIGS[request.param]
    config = getattr(transformers, kind)(**options)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    model.save_pretrained(folder)
    return request.param, folder, model, mgpt.Model(folder, convert=["--no-tokenizer"])


def near(ours, theirs, what):
    theirs = theirs.detach().float().numpy()
    assert ours.shape == theirs.shape, (what, ours.shape, theirs.shape)
    both = np.isfinite(ours) & np.isfinite(theirs) if "scores" in what else np.ones(ours.shape, bool)
    assert np.abs(ours - theirs)[both].max() <= 1e-5 * max(1, np.abs(theirs[both]).max()), what


def test_transformers(pair):
    _, _, model, ours = pair
    with torch.no_grad():
        want = model(torch.tensor(IDS[None]), output_hidden_states=True, output_attentions=True)
    logits, cache = ours.run_with_cache(IDS)
    near(logits, want.logits, "logits")
    for layer, (hidden, pattern) in enumerate(zip(want.hidden_states, want.attentions)):
        near(cache["resid_pre", layer], hidden, f"resid_pre {layer}")
        near(cache["pattern", layer], pattern, f"pattern {layer}")
    near(cache["normalized", None, "ln_final"], want.hidden_states[-1], "ln_final")


def test_transformer_lens(pair):
    name, folder, model, ours = pair
    lens = pytest.importorskip("transformer_lens.model_bridge")
    bridge = lens.TransformerBridge.boot_transformers(str(folder), hf_model=model)
    with torch.no_grad():
        want_logits, want = bridge.run_with_cache(torch.tensor(IDS[None]))
    logits, cache = ours.run_with_cache(IDS)
    near(logits, want_logits, "logits")
    common = [n for n in cache if n in want]
    print(name, "ours only:", *[n for n in cache if n not in want and ".1." not in n and ".2." not in n])
    for key in [n for n in common if 'hook_normalized' not in n]: # there before the gain
        near(cache[key], want[key], key)
    layer = "blocks.0.attn.hook_"
    assert {layer + "q", layer + "k", layer + "v", layer + "z", layer + "pattern"} <= set(common)
