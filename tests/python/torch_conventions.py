"""Names of TransformerLens next to TransformerLens: tokens, weights, stacks, batches, and its main demo as a notebook.

Not collected by default: it wants torch, transformers and transformer_lens (suite "torch" of meson test).
"""
import contextlib
import io
import json
import time

import mgpt
import numpy as np
import pytest
from random_models import random_model

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
bridges = pytest.importorskip("transformer_lens.model_bridge")
lens = pytest.importorskip("mgpt.transformer_lens")

END = "<|endoftext|>"
SIZES = {"vocab_size": 600, "hidden_size": 32, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 4,
         "max_position_embeddings": 128}
CONFIGS = {"gpt2": ("GPT2Config", {"vocab_size": 600, "n_positions": 128, "n_embd": 32, "n_layer": 3, "n_head": 4}),
           "llama": ("LlamaConfig", {**SIZES, "num_key_value_heads": 2}),
           "gemma2": ("Gemma2Config", {**SIZES, "num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 8}),
           "qwen3": ("Qwen3Config", {**SIZES, "num_key_value_heads": 2, "head_dim": 16})}
TEXTS = ["After John and Mary went to the store, Mary gave a bottle of milk to", "The cat sat on the mat.", "a"]


@pytest.fixture(scope="module", params=CONFIGS)
def pair(request, root, tmp_path_factory):
    """(name, TransformerLens', ours in numpy, ours in tensors): a random checkpoint with a tokenizer of byte pairs."""
    folder = tmp_path_factory.mktemp(request.param)
    words = tokenizers.Tokenizer(tokenizers.models.BPE())
    words.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = tokenizers.decoders.ByteLevel()
    text = [(root / "README.md").read_text(), *[" John Mary Claire The cat store milk a b" for _ in range(99)]]
    words.train_from_iterator(text, tokenizers.trainers.BpeTrainer(
        vocab_size=600, special_tokens=[END], initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    marks = dict.fromkeys(["bos_token", "eos_token", "unk_token", "pad_token"], END)
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, **marks).save_pretrained(folder)
    kind, options = CONFIGS[request.param]
    model = random_model(kind, {**options, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}, seed=7)
    model.save_pretrained(folder)
    theirs = bridges.TransformerBridge.boot_transformers(str(folder), hf_model=model)
    torch.set_grad_enabled(False)
    yield request.param, theirs, mgpt.Model.from_pretrained(folder), lens.HookedTransformer.from_pretrained(folder)
    torch.set_grad_enabled(True)


def near(ours, theirs, what, most=2e-5):
    ours, theirs = (torch.as_tensor(x).detach().double().numpy() for x in (ours, theirs))
    assert ours.shape == theirs.shape, (what, ours.shape, theirs.shape)
    assert np.abs(ours - theirs).max() <= most * max(1, np.abs(theirs).max()), what


def test_tokens(pair):
    _, theirs, ours, tensors = pair
    for bos in (None, False, True):
        want = theirs.to_tokens(TEXTS, prepend_bos=bos, padding_side="right")
        assert tensors.to_tokens(TEXTS, prepend_bos=bos).tolist() == want.tolist()
        for text in TEXTS:
            assert tensors.to_tokens(text, prepend_bos=bos).tolist() == theirs.to_tokens(text, prepend_bos=bos).tolist()
            assert tensors.to_str_tokens(text, prepend_bos=bos) == theirs.to_str_tokens(text, prepend_bos=bos)
    tokens = theirs.to_tokens(TEXTS[0])
    assert tensors.to_string(tokens) == theirs.to_string(tokens) and tensors.to_string(tokens[0]) == theirs.to_string(tokens[0])
    assert tensors.to_string(40) == theirs.to_string(40) and tensors.to_single_token(" Mary") == theirs.to_single_token(" Mary")
    assert tensors.to_tokens(f"a{END}b").tolist() == theirs.to_tokens(f"a{END}b").tolist()
    assert lens.HookedTransformer.boot_transformers(ours.path, device=torch.device("cpu")).cfg.device == "cpu"
    with pytest.raises(ValueError, match="device: expected 'cpu', found cuda"):
        lens.HookedTransformer(ours.path, device="cuda")
    assert END not in ours.to_str_tokens(f"a{END}b", prepend_bos=False)  # text, unless it is asked for
    for mode in ("first", "last"):
        assert tensors.get_token_position(" Mary", TEXTS[0], mode) == theirs.get_token_position(" Mary", TEXTS[0], mode)


def test_weights(pair):
    """By role, in TransformerLens' shapes."""
    name, theirs, ours, tensors = pair
    for weight in ("W_E", "W_U", "W_Q", "W_K", "W_V", "W_O", "W_in", "W_out", "W_gate", "W_pos"):
        if (weight == "W_pos") != (name == "gpt2") and weight in ("W_pos", "W_gate"):
            with pytest.raises(mgpt.Error) if weight == "W_pos" else contextlib.nullcontext():
                assert getattr(ours, weight) is None
            continue
        near(getattr(tensors, weight), getattr(theirs, weight), weight)
        assert np.array_equal(getattr(ours, weight), getattr(tensors, weight).numpy()), weight
    for bias in ("b_Q", "b_K", "b_V", "b_O", "b_in", "b_out"):
        if name == "gpt2":
            near(getattr(ours, bias), getattr(theirs, bias), bias)
        else:
            assert not getattr(ours, bias).any()
    for size in ("n_layers", "d_model", "n_heads", "d_head", "d_mlp", "d_vocab", "n_ctx"):
        assert getattr(ours.cfg, size) == getattr(theirs.cfg, size), size


def test_runs(pair):
    """Calls, losses and batches with padding; where a text has ended nothing is compared."""
    name, theirs, ours, tensors = pair
    near(tensors(TEXTS[0]), theirs(TEXTS[0]), "logits")
    for per_token in (False, True):
        near(tensors(TEXTS[0], "loss", loss_per_token=per_token), theirs(TEXTS[0], return_type="loss", loss_per_token=per_token), "loss")
    want, found = theirs(TEXTS, padding_side="right"), tensors(TEXTS)
    lengths = [tensors.to_tokens(text).shape[1] for text in TEXTS]
    assert len(set(lengths)) == 3
    for i, n in enumerate(lengths):
        near(found[i, :n], want[i, :n], "batch")
        assert torch.equal(found[i, :n], tensors(TEXTS[i])[0])
    tokens = torch.randint(1, 600, (4, 20), generator=torch.Generator().manual_seed(1))
    near(tensors(tokens), theirs(tokens), "tokens")
    assert np.array_equal(ours(tokens.numpy()), tensors(tokens).numpy())
    near(tensors.loss_fn(tensors(tokens), tokens, per_token=True), theirs.loss_fn(theirs(tokens), tokens, per_token=True), "loss_fn")
    logits, cache = tensors.run_with_cache(tokens)
    _, theirs_cache = theirs.run_with_cache(tokens)
    for key in ("blocks.1.attn.hook_pattern", "blocks.2.hook_resid_post", "blocks.0.attn.hook_z"):
        near(cache[key], theirs_cache[key], key)
    half = tensors.run_with_cache(tokens, ["blocks.0.attn.hook_pattern"], stop_at_layer=1)
    assert list(half[1]) == ["blocks.0.attn.hook_pattern"] and torch.equal(half[0], cache["resid_post", 0])


def test_hooks_of_batches(pair):
    """A hook gets all rows at once: here each row depends on the others."""
    _, theirs, ours, tensors = pair
    tokens = torch.randint(1, 600, (3, 12), generator=torch.Generator().manual_seed(2))

    def mean(value, hook):
        value[:, 1:] = value[:, 1:].mean(0, keepdim=True)
        return value

    def turn(value, hook):
        return value.roll(1, 0)

    for rows in ([("blocks.1.attn.hook_z", mean)], [("blocks.0.attn.hook_pattern", turn), ("blocks.2.hook_mlp_out", mean)]):
        near(tensors.run_with_hooks(tokens, fwd_hooks=rows), theirs.run_with_hooks(tokens, fwd_hooks=rows), rows[0][0])
    with tensors.hooks([("blocks.1.attn.hook_z", mean)]):
        found = tensors(tokens)
    near(found, theirs.run_with_hooks(tokens, fwd_hooks=[("blocks.1.attn.hook_z", mean)]), "hooks()")
    tensors.add_hook("blocks.1.attn.hook_z", mean)
    assert torch.equal(tensors(tokens), found)
    tensors.reset_hooks()
    assert not torch.equal(tensors(tokens), found)


def test_stacks(pair):
    name, theirs, ours, tensors = pair
    _, want = theirs.run_with_cache(TEXTS[0])
    _, found = tensors.run_with_cache(TEXTS[0])
    _, arrays = ours.run_with_cache(tensors.to_tokens(TEXTS[0]).numpy())
    for method, options in (("accumulated_resid", {}), ("accumulated_resid", {"incl_mid": True, "layer": 2, "mlp_input": True}),
                            ("accumulated_resid", {"apply_ln": True}), ("accumulated_resid", {"apply_ln": True, "layer": 2, "pos_slice": -1}),
                            ("decompose_resid", {}), ("decompose_resid", {"mode": "attn", "layer": 2, "mlp_input": True}),
                            ("decompose_resid", {"apply_ln": True, "pos_slice": (1, 4)}), ("stack_head_results", {}),
                            ("stack_head_results", {"incl_remainder": True, "layer": 2, "apply_ln": True, "pos_slice": -1})):
        (a, labels), (b, their_labels) = (getattr(c, method)(return_labels=True, **options) for c in (found, want))
        near(a, b, (method, options))
        assert labels == their_labels
        assert np.array_equal(getattr(arrays, method)(**options), a.numpy())
    near(found.stack_activation("pattern"), want.stack_activation("pattern"), "stack_activation")
    stack = arrays.decompose_resid()
    near(stack.sum(0), want["resid_post", -1], "the sum is the residual stream")


def test_factored(pair):
    """QK and OV of all heads; what TransformerLens computes of them, and of random factors, with tensors and arrays."""
    from transformer_lens import FactoredMatrix
    name, theirs, ours, tensors = pair
    draw = torch.Generator().manual_seed(3)
    rows = [(tensors.OV, theirs.OV), (tensors.QK, theirs.QK), (ours.OV, theirs.OV),
            (tensors.embed.W_E @ tensors.OV @ tensors.unembed.W_U, theirs.W_E @ theirs.OV @ theirs.W_U)]
    for left, right in (((5, 2), (2, 5)), ((3, 16, 5), (2, 1, 5, 16)), ((4, 7, 3), (3, 9))):
        a, b = (torch.randn(shape, generator=draw) for shape in (left, right))
        rows += [(lens.FactoredMatrix(a, b), FactoredMatrix(a, b)), (mgpt.FactoredMatrix(a.numpy(), b.numpy()), FactoredMatrix(a, b))]
    for found, want in rows:
        assert tuple(found.shape) == tuple(want.shape)
        near(found.norm(), want.norm(), "norm")
        near(found.S, want.S, "S")
        near(abs(found.collapse_l()), want.collapse_l().abs(), "collapse_l")
        near(abs(found.collapse_r()), want.collapse_r().abs(), "collapse_r")
        near(found.get_corner(2), want.get_corner(2), "corner")
        near(found.make_even().AB, want.make_even().AB, "make_even")
        near(found.T[..., 1].AB, want.T[..., 1].AB, "index")
        if found.ldim == found.rdim:
            near(np.sort(np.abs(np.asarray(found.eigenvalues))), np.sort(want.eigenvalues.abs().numpy()), "eigenvalues")
    assert tensors.all_head_labels == theirs.all_head_labels
    theirs_named = dict(theirs.tl_named_parameters())
    for word, weight in tensors.tl_named_parameters():
        if word.endswith((".w", ".b")):  # of norms: TransformerLens has no rows for some, and Gemma's without the 1
            continue
        want = theirs_named[word]  # which has heads of keys and values as often as queries share them
        near(weight.repeat_interleave(len(want) // len(weight), 0) if word[-3:] in ("W_K", "W_V", "b_K", "b_V") else weight, want, word)


def test_answers(pair, capsys):
    """The ranks that both print for answers of one token, of more, and for several."""
    import transformer_lens.utilities as utilities
    _, theirs, _, tensors = pair
    for answer in ("John", " bottle of milk", ["John", "Mary", "cat"]):
        last = []
        for program, model in ((utilities, theirs), (lens.utils, tensors)):
            program.test_prompt(TEXTS[0], answer, model)
            last.append("".join(capsys.readouterr().out.partition("Ranks of the answer tokens:")[2].split()))
        assert last[0] == last[1] and last[0]
    corner = lens.utils.get_corner(tensors.W_E, 2)
    assert torch.equal(corner, utilities.get_corner(theirs.W_E, 2)) and corner.shape == (2, 2)


def test_results(pair):
    """What each head adds; a hook that changes it."""
    name, theirs, ours, tensors = pair
    word = "blocks.1.attn.hook_result"

    def silence(value, hook):
        value[:, :, 2] = 0
        return value

    for model in (theirs, tensors):
        model.set_use_attn_result(True)
    _, want = theirs.run_with_cache(TEXTS[0], names_filter=[word])
    _, found = tensors.run_with_cache(TEXTS[0], names_filter=[word])
    near(found["result", 1], want[word], word)
    near(tensors.run_with_hooks(TEXTS[0], [(word, silence)]), theirs.run_with_hooks(TEXTS[0], fwd_hooks=[(word, silence)]), "logits")
    for model in (theirs, tensors):
        model.set_use_attn_result(False)


def test_logit_attrs(pair):
    """The parts of a logit add up to it; those of GPT-2 are TransformerLens' with the norm folded into W_U."""
    name, theirs, ours, tensors = pair
    tokens = tensors.to_tokens(TEXTS[0])
    logits, cache = tensors.run_with_cache(tokens)
    stack = cache.decompose_resid()
    parts = cache.logit_attrs(stack, " Mary", " John")
    mary, john = (tensors.to_single_token(word) for word in (" Mary", " John"))
    bias = 0
    if ours.has("ln_final", bias=True):
        bias = float(ours.tensor_of("ln_final", bias=True) @ (ours.W_U[:, mary] - ours.W_U[:, john]))
    want = logits[0, :, mary] - logits[0, :, john]
    if ours.info.logit_softcap:
        cap = ours.info.logit_softcap
        want = cap * (torch.atanh(logits[0, :, mary] / cap) - torch.atanh(logits[0, :, john] / cap))
    assert torch.allclose(parts.sum(0)[0] + bias, want, atol=2e-4), (parts.sum(0)[0] + bias - want).abs().max()
    at_end = cache.logit_attrs(cache.decompose_resid(pos_slice=-1), " Mary", " John", pos_slice=-1)
    assert torch.allclose(at_end, parts[:, :, -1], atol=1e-5)
    each = cache.logit_attrs(stack, tokens)  # [batch, position]
    assert torch.allclose(each[:, 0, 3], cache.logit_attrs(stack, int(tokens[0, 3]))[:, 0, 3], atol=1e-5)


IMPORT = "from mgpt.transformer_lens import HookedTransformer, utils\n"
THEIRS = "import transformer_lens.utilities as utils\nfrom transformer_lens.model_bridge import TransformerBridge as HookedTransformer\n"


def compare(name, ours, theirs):
    """Of a cell's results: numbers are near, everything else is equal."""
    if isinstance(theirs, torch.Tensor) and theirs.dtype.is_floating_point:
        near(ours, theirs, name, 1e-4 if name.endswith("restored") else 2e-5)  # a quotient of small differences
    elif isinstance(theirs, torch.Tensor):
        assert torch.equal(ours, theirs), name
    elif isinstance(theirs, (str, int, float, tuple, list, dict)):
        assert ours == theirs, name


def greedy(model, text, n):
    """The likeliest tokens after a text by whole passes: generate of TransformerLens 4.3, which keeps keys and values, draws
    others from the third token on."""
    tokens = model.to_tokens(text)
    for _ in range(n):
        tokens = torch.cat([tokens, model(tokens)[:, -1:].argmax(-1)], 1)
    return model.to_string(tokens[0, 1:])


@pytest.mark.parametrize("pair", ["gpt2"], indirect=True)
def test_demo(pair, root, monkeypatch):
    """Each cell of the notebook with both libraries; the import is the only one that differs."""
    ours = pair[2]
    monkeypatch.setenv("GPT2", ours.path)
    notebook = json.loads((root / "tools/python/examples/transformer_lens_demo.ipynb").read_text())
    cells = ["".join(cell["source"]) + "\n" for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells[0] == IMPORT and len(cells) == 24
    spaces, times, unchanged = ({}, {}), [0.0, 0.0], 0
    for i, cell in enumerate(cells):
        before = set(spaces[1])
        for side, code in enumerate((cell, THEIRS if cell == IMPORT else cell)):
            start = time.perf_counter()
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(code, f"cell {i}", "exec"), spaces[side])
            times[side] += (time.perf_counter() - start) * (i > 1)  # without imports and opening
        for name in set(spaces[1]) - before:
            want = greedy(spaces[1]["model"], "The cat", 8) if name == "text" else spaces[1][name]
            compare(f"cell {i}: {name}", spaces[0][name], want)
        unchanged += code == cell
    assert unchanged == len(cells) - 1
    print(f"{unchanged} of {len(cells)} cells unchanged; mgpt {times[0]:.2f} s, TransformerLens {times[1]:.2f} s")
