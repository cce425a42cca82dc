"""TransformerLens' notebooks on this engine: torch tensors outside, the engine inside. Needs torch (`pip install torch`).

    from mgpt.transformer_lens import HookedTransformer, utils   # in place of transformer_lens
    model = HookedTransformer.from_pretrained("folder")          # as save_pretrained writes it
    logits, cache = model.run_with_cache("Hello")

Weights are as in the file (from_pretrained_no_processing), and nothing has gradients. BOS comes in front of every text of the
architectures for which it does there; `default_prepend_bos` and `prepend_bos` say otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from . import model as _model
from ._lib import POINT
from .cache import Cache, Floats
from .conventions import Prompts
from .factored import FactoredMatrix
from .hooks import Hook, HookRow, Names, choose

HookPoint = Hook
__all__ = ["ActivationCache", "FactoredMatrix", "HookPoint", "HookedTransformer", "TransformerBridge", "utils"]
# Architectures (of GGUF) whose texts have no BOS in TransformerLens 4.3.
_NO_BOS = {"bloom", "ernie4_5", "ernie4_5-moe", "exaone", "exaone4", "glm4", "glm4moe", "gptneox", "granite", "minimax-m2", "mpt", "phi2", "phimoe",
           "qwen2", "qwen3", "qwen3moe", "seed_oss", "smollm3", "starcoder2"}


class ActivationCache(Cache):
    """A Cache of tensors, which share the arrays' memory."""

    def _give(self, array: Floats) -> Any:
        return torch.from_numpy(array)


class HookedTransformer(_model.Model):
    """A Model whose arrays are tensors."""

    _special = True

    def __init__(self, path: str | os.PathLike[str], *, default_prepend_bos: bool | None = None, device: Any = "cpu",
                 **options: Any) -> None:
        """`options` are those of Model. The engine runs on the CPU: another device is refused."""
        if str(device) != "cpu":
            raise ValueError(f"device: expected 'cpu', found {device}")
        super().__init__(path, **options)
        self._options["default_prepend_bos"] = default_prepend_bos
        self._bos = self.info.arch not in _NO_BOS if default_prepend_bos is None else default_prepend_bos
        self._kept_hooks: list[HookRow] = []

    @classmethod
    def boot_transformers(cls, path: str | os.PathLike[str], **options: Any) -> HookedTransformer:
        """from_pretrained, as TransformerLens 4 calls it."""
        return cls.from_pretrained(path, **options)

    from_pretrained_no_processing = boot_transformers

    def enable_compatibility_mode(self, disable_warnings: bool = False, no_processing: bool = False) -> None:
        """Nothing is to do with `no_processing`; weights are not folded or centred here."""
        if not no_processing:
            raise NotImplementedError("enable_compatibility_mode: weights are as in the file here: expected no_processing=True")

    def _prepends_bos(self) -> bool:
        return self._bos

    def _give(self, array: Any) -> Any:
        array = np.asarray(array)
        return torch.from_numpy(array if array.dtype.kind == "f" else array.astype(np.int64))

    # ---- runs ----

    def _wrapped(self, rows: Iterable[HookRow]) -> list[HookRow]:
        def wrap(fn: Callable[..., Any]) -> Callable[..., Any]:
            def call(value: Floats, hook: Hook) -> Any:
                new = fn(torch.from_numpy(value), hook=hook)
                return new if new is None else new.detach().numpy()

            return call

        return [(name, wrap(fn)) for name, fn in [*self._kept_hooks, *rows]]

    def __call__(self, text: Prompts, return_type: str | None = "logits", *, loss_per_token: bool = False,
                 prepend_bos: bool | None = None) -> Any:
        """See Model; hooks of add_hook are called."""
        return self.run_with_hooks(text, return_type=return_type, loss_per_token=loss_per_token, prepend_bos=prepend_bos)

    forward = __call__

    def run_with_hooks(self, text: Prompts, fwd_hooks: Iterable[HookRow] = (), *, return_type: str | None = "logits",  # type: ignore[override]
                       loss_per_token: bool = False, prepend_bos: bool | None = None) -> Any:
        """Hooks get tensors [texts, T, ...] and change them in place or return new ones."""
        rows, hooks = self._prompts(text, prepend_bos), self._wrapped(fwd_hooks)
        if not hooks:
            return super().__call__(rows if not isinstance(text, (list, tuple)) else text, return_type, loss_per_token=loss_per_token,
                                    prepend_bos=prepend_bos)
        logits = super().run_with_hooks(rows, hooks)
        return self._returned(text, rows, logits, return_type, loss_per_token, prepend_bos)

    def run_with_cache(self, text: Prompts, names_filter: Names = None, *, remove_batch_dim: bool = False,  # type: ignore[override]
                       stop_at_layer: int | None = None, return_type: str | None = "logits", prepend_bos: bool | None = None) -> Any:
        """Logits and an ActivationCache. With `stop_at_layer` values of earlier layers, and the residual stream there in place of
        logits."""
        rows, n = self._prompts(text, prepend_bos), self.info.n_layer
        stop = n if stop_at_layer is None else range(n)[stop_at_layer] if stop_at_layer < n else n
        last = f"blocks.{stop}.hook_resid_pre" if stop < n else "logits"
        names = {h.name for h in choose(self, names_filter)
                 if stop == n or (h.index < stop and (h.index >= 0 or h.point < POINT["RESID_PRE"]))}
        logits, cache = super().run_with_cache(rows, [*names, last], hooks=self._wrapped(()), remove_batch_dim=remove_batch_dim)
        kept = ActivationCache({name: value for name, value in cache._values.items() if name in names}, cache.labels, self)
        if stop < n:
            residual = cache._values[last]
            return torch.from_numpy(residual[None] if remove_batch_dim else residual), kept
        return self._returned(text, rows, logits, return_type, False, prepend_bos), kept

    def add_hook(self, name: Names, hook: Callable[..., Any]) -> None:
        """Calls and runs have this hook until reset_hooks."""
        choose(self, name)
        self._kept_hooks.append((name, hook))

    def reset_hooks(self) -> None:
        """Takes away what add_hook has added."""
        self._kept_hooks.clear()

    @contextmanager
    def hooks(self, fwd_hooks: Iterable[HookRow] = ()) -> Iterator[HookedTransformer]:
        """These hooks are there inside a `with` statement."""
        before, self._kept_hooks = self._kept_hooks, [*self._kept_hooks, *fwd_hooks]
        try:
            yield self
        finally:
            self._kept_hooks = before

    def generate(self, text: Prompts = "", max_new_tokens: int = 10, *, do_sample: bool = True, temperature: float = 1.0,  # type: ignore[override]
                 top_k: int | None = None, top_p: float | None = None, stop_at_eos: bool = True, prepend_bos: bool | None = None,
                 verbose: bool = True, **options: Any) -> Any:
        """The text with its continuation; random numbers are those of `seed`, not torch's."""
        tokens = self._prompts(text, prepend_bos)
        if len(tokens) != 1:
            raise ValueError("generate: expected one text (Model.generate_many continues several)")
        given = {"top_k": top_k, "top_p": top_p, **options}
        pieces = super().generate(tokens[0], max_new_tokens, do_sample=do_sample, temperature=temperature, ignore_end=not stop_at_eos, ignore_author=True,
                                  **{name: value for name, value in given.items() if value is not None})
        return (text if isinstance(text, str) else self.to_string(tokens[0])) + "".join(pieces)

    def get_token_position(self, token: int | str, text: str, mode: str = "first", prepend_bos: bool | None = None) -> int:
        """Where a token is in a text, for the first or the last time."""
        wanted = self.to_single_token(token) if isinstance(token, str) else token
        places = np.flatnonzero(self._prompts(text, prepend_bos)[0] == wanted)
        if not len(places):
            raise ValueError(f"get_token_position: the text has no token {token!r}")
        return int(places[0 if mode == "first" else -1])


TransformerBridge = HookedTransformer

_ALIASES = {"attn": "pattern", "attn_logits": "attn_scores", "key": "k", "query": "q", "value": "v", "mlp_pre": "pre",
            "mlp_post": "post", "in": "resid_pre", "out": "resid_post"}
_PARTS = {**dict.fromkeys(("k", "v", "q", "z", "rot_k", "rot_q", "pattern", "attn_scores", "result"), "attn."),
          **dict.fromkeys(("pre", "post", "pre_linear"), "mlp.")}


class utils:
    """What notebooks use of transformer_lens.utilities."""

    @staticmethod
    def get_act_name(name: str, layer: int | None = None, part: str | None = None) -> str:
        """The name of a hook: ("z", 3) is blocks.3.attn.hook_z, ("normalized", 3, "ln1") blocks.3.ln1.hook_normalized."""
        if layer is None and ("." in name or name.startswith("hook_")):
            return name
        name = _ALIASES.get(name, name)
        if layer is None:
            return ("ln_final." if name in ("scale", "normalized") else "") + f"hook_{name}"
        return f"blocks.{layer}." + _PARTS.get(name, f"{part}." if part else "") + f"hook_{name}"

    @staticmethod
    def to_numpy(value: Any) -> Any:
        """An array of a tensor, a list or a number."""
        return value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)

    @staticmethod
    def get_device() -> str:
        """The engine runs on the CPU."""
        return "cpu"

    @staticmethod
    def get_corner(value: Any, n: int = 3) -> Any:
        """The first n of each axis."""
        return value[(slice(n),) * value.ndim]

    @staticmethod
    def test_prompt(prompt: str, answer: str | list[str], model: HookedTransformer, prepend_space_to_answer: bool = True,
                    print_details: bool = True, prepend_bos: bool | None = None, top_k: int = 10) -> None:
        """Prints the rank of each token of an answer (of several: of their first tokens) after a prompt, with `print_details`
        its logit and probability and the likeliest tokens there."""
        words = [answer] if isinstance(answer, str) else answer
        words = [" " + word if prepend_space_to_answer and not word.startswith(" ") else word for word in words]
        start, ranks = model.to_tokens(prompt, prepend_bos=prepend_bos)[0], []
        for row in [model.to_tokens(word, prepend_bos=False)[0][: 1 if len(words) > 1 else None] for word in words]:
            for token, logits in zip(row, model(torch.cat([start, row])[None])[0, len(start) - 1 : -1], strict=True):
                text, probs = model.to_single_str_token(int(token)), logits.softmax(-1)
                ranks.append((text, int((logits > logits[token]).sum())))
                if print_details:
                    print(f"|{text}|: rank {ranks[-1][1]}, logit {logits[token]:.2f}, probability {probs[token]:.2%}")
                    for i, best in enumerate(logits.topk(top_k).indices.tolist()):
                        print(f"  {i}: |{model.to_single_str_token(best)}|, logit {logits[best]:.2f}, probability {probs[best]:.2%}")
        print("Ranks of the answer tokens:", [ranks] if len(words) > 1 else ranks)
