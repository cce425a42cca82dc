"""python nnbench.py NNBENCH [--type q8_0]: runs the specs of ndif-team/nnbench with mgpt next to its hf.

NNBENCH is a clone of that repository; torch, transformers and nnsight are what its backend hf needs. Both get random
checkpoints, of 12 layers (gpt2) and 28 (llama). Prints the state of every cell. mgpt has no
gradients, so attribution_patching has no cell; what is not a gpt2 or a llama is left out.

A method is a function of a model, prompts and what the spec gives; it returns an array [..., vocabulary].
"""
import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import mgpt

Floats = npt.NDArray[np.float32]
Given = Any  # parameters that choose between forms which are one here, such as inplace and replace

TEXT = ("The Eiffel Tower is in the city of Rome. The capital of Japan, France and Russia is the city of hot water; "
        "the largest planet and the opposite of gold is hydrogen. The first president of the United States was Juliet. ")


# ---- methods ----


def logit_lens(model: mgpt.Model, prompts: list[str], layers: Any = "all", **given: Given) -> Floats:
    """The logits that each layer's residual stream would give: [layers, prompts, vocabulary]."""
    session, chosen = model.session(), range(model.info.n_layer) if layers == "all" else layers
    rows = [model.run_with_cache(prompt, "blocks.*.hook_resid_post")[1] for prompt in prompts]
    return np.array([[session.unembed(cache["resid_post", layer % model.info.n_layer][0, -1]) for cache in rows]
                     for layer in chosen])


def steering(model: mgpt.Model, prompts: list[str], layer: int = 8, target: str = " Rome", alpha: float = 6.0,
             **given: Given) -> Floats:
    """The last logits when a layer's output moves towards a token."""
    hooks = _steer(model, layer, target, alpha)
    return np.array([model.run_with_hooks(prompt, hooks)[0, -1] for prompt in prompts])


def gen_steering(model: mgpt.Model, prompts: list[str], layer: int = 8, target: str = " Rome", alpha: float = 6.0,
                 new_tokens: int = 8, **given: Given) -> Floats:
    """steering at each token of a greedy continuation of the first prompt."""
    return np.array(list(_greedy(model, prompts[0], new_tokens, _steer(model, layer, target, alpha), every=True)))


def activation_patching(model: mgpt.Model, prompts: list[str], **options: Given) -> Floats:
    """The last logits of the second prompt with a layer's output in the first."""
    return gen_patching(model, prompts, new_tokens=1, **options)


def gen_patching(model: mgpt.Model, prompts: list[str], layer: int = 6, patch: bool = True, new_tokens: int = 8,
                 **given: Given) -> Floats:
    """A greedy continuation of the second prompt, whose output of a layer is that of the first."""
    name = f"blocks.{layer}.hook_resid_post"
    clean = model.run_with_cache(prompts[0], name)[1][name] if patch else None
    hooks = [(name, lambda value, hook: clean)] if patch else []
    return np.array(list(_greedy(model, prompts[1], new_tokens, hooks, every=False)))


def ablation(model: mgpt.Model, prompts: list[str], layer: int = 6, target: str = "mlp", **given: Given) -> Floats:
    """The last logits without an MLP's or an attention's output."""
    hooks = [] if target == "none" else [(f"blocks.{layer}.hook_{target}_out", lambda value, hook: value * 0)]
    return np.array([model.run_with_hooks(prompt, hooks)[0, -1] for prompt in prompts])


def attention_pattern(model: mgpt.Model, prompts: list[str], layers: Any = "all", **given: Given) -> Floats:
    """Logarithms of what the last token looks at: [layers, heads, tokens]."""
    cache, chosen = model.run_with_cache(prompts[0])[1], range(model.info.n_layer) if layers == "all" else layers
    return np.log([cache["pattern", layer][0, :, -1] for layer in chosen])


METHODS = [logit_lens, steering, gen_steering, activation_patching, gen_patching, ablation, attention_pattern]


def _steer(model: mgpt.Model, layer: int, target: str, alpha: float) -> list[Any]:
    """Hooks that add alpha times the mean length of the rows, in the direction of the target's row of the head."""
    head = model.tensor_of("W_U")
    row = head[model.encode(target, bos=False)[-1]]

    def add(value: Floats, hook: mgpt.Hook) -> Floats:
        return value + alpha * np.linalg.norm(value, axis=-1).mean() * row / np.linalg.norm(row)

    return [(f"blocks.{layer}.hook_resid_post", add)] if alpha else []


def _greedy(model: mgpt.Model, prompt: str, n: int, hooks: list[Any], every: bool) -> Iterator[Floats]:
    """Logits before each token; hooks see the prompt, or every token."""
    session = model.session()
    yield (logits := session.feed(model.encode(prompt), hooks))
    for _ in range(n - 1):
        yield (logits := session.step(int(logits.argmax()), hooks if every else []))


# ---- nnbench ----


class Backend:
    """What nnbench's driver calls."""

    def __init__(self, convert: list[str]) -> None:
        self.convert = convert

    def load(self, repo: str) -> mgpt.Model:
        return mgpt.Model(repo, convert=self.convert)

    def teardown(self, model: mgpt.Model) -> None:
        model.close()


def register(families: list[str]) -> None:
    """Makes the methods cells of nnbench."""
    import torch
    from isb.methodologies.registry import cell

    for family in families:
        for method in METHODS:
            def run(be: Any, model: mgpt.Model, prompts: list[str], method: Any = method, **params: Any) -> Any:
                return torch.from_numpy(method(model, prompts, **params))
            cell(method.__name__, family=family, backend="mgpt")(run)

    @cell("attention_pattern", family="gpt2", backend="hf")
    def reference(be: Any, model: Any, prompts: list[str], layers: Any = "all") -> Any:
        """In place of nnbench's, which fails with transformers 5: the call that it reads has another name there."""
        with torch.no_grad():
            seen = model._module(**model.tokenizer(prompts[0], return_tensors="pt"), output_attentions=True).attentions
        return torch.stack([seen[i][0, :, -1] for i in (range(len(seen)) if layers == "all" else layers)]).log()


def checkpoint(folder: Path, family: str) -> str:
    """A random checkpoint with a tokenizer."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    torch.manual_seed(0)
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator([TEXT], trainers.BpeTrainer(vocab_size=400, special_tokens=["<|endoftext|>"],
                                                       initial_alphabet=alphabet, show_progress=False))
    transformers.PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|endoftext|>",
                                         pad_token="<|endoftext|>").save_pretrained(folder / family)
    ends: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0, "initializer_range": 0.05}
    config = (transformers.GPT2Config(vocab_size=len(bpe.get_vocab()), n_positions=64, n_embd=64, n_layer=12, n_head=4, **ends)
              if family == "gpt2" else
              transformers.LlamaConfig(vocab_size=len(bpe.get_vocab()), hidden_size=64, intermediate_size=160,
                                       num_hidden_layers=28, num_attention_heads=4, num_key_value_heads=2,
                                       max_position_embeddings=64, **ends))
    model = transformers.AutoModelForCausalLM.from_config(config)
    norm = model.transformer.ln_f if family == "gpt2" else model.model.norm
    norm.weight.data *= 6  # likely and unlikely tokens, as trained models have them
    model.save_pretrained(folder / family)
    return str(folder / family)


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("nnbench")
    words.add_argument("--type", default="f32", help="of mgpt's weights, as in mgpt convert")
    words.add_argument("--work", default=tempfile.gettempdir(), help="folder for the checkpoints")
    words.add_argument("--spec", help="this one only")
    given = words.parse_args()
    sys.path.insert(0, given.nnbench)
    from isb.backends import HFBackend
    from isb.specs import SPECS
    from isb.sweep import driver

    repos = {family: checkpoint(Path(given.work), family) for family in ("gpt2", "llama")}
    register(list(repos))
    hf, ours = HFBackend(), Backend(["--type", given.type])
    hf.load = partial(hf.load, device="cpu")
    driver.VLLMAsyncBackend = lambda **_: Backend([])  # what it runs a cell again with that differs: in float32
    rows = []
    for spec in SPECS.values():
        if spec.family in repos and given.spec in (None, spec.name):
            small = dataclasses.replace(spec, repo=repos[spec.family], warmup=0, n_trials=1)
            cells = driver.run_sweep(small, ("hf", "mgpt"), lambda name, _: hf if name == "hf" else ours)
            rows += [(spec.name, cell) for cell in cells]
    for name, cell in rows:
        if cell.backend == "mgpt":
            print(f"{name:26} {cell.workload:12} {cell.label:42} {cell.state:16} "
                  f"{cell.metrics.get('top1_agree', float('nan')):.3f} {cell.metrics.get('tv', float('nan')):.1e}  {cell.error or ''}")


if __name__ == "__main__":
    main()
