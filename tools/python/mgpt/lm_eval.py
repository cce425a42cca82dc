"""Models of mgpt for lm-evaluation-harness.

python -m mgpt.lm_eval --model mgpt --model_args path=model.gguf --tasks arc_easy,lambada_openai

Takes the harness' options; in programs `MgptLM(path=...)` is a model for lm_eval.simple_evaluate. Tokens, windows and
stop sequences are those of its backend `hf` with batch_size=1. Needs `pip install lm_eval`, but not torch.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from lm_eval.__main__ import cli_evaluate
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs, postprocess_generated_text
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from . import _tool
from ._sampling import SETTINGS
from .generate import Sampler
from .model import Decoder, Model
from .score import add_in_order
from .session import Session, step_many

AT_ONCE = 16  # texts that are generated together, with one pass over the weights for a token of each


@register_model("mgpt")
class MgptLM(LM):
    """A model file or checkpoint, with the methods that the harness calls."""

    def __init__(self, path: str, max_length: int = 0, threads: int = 0, add_bos_token: bool | None = None,
                 batch_size: object = 1, max_batch_size: object = None, device: object = None) -> None:
        """`max_length` and `threads` 0: the model's, chosen. `add_bos_token` None: as the model asks for it. The last
        three are what the harness gives to every model; no number depends on a batch, and the device is the CPU."""
        super().__init__()
        self._path, self._n_ctx, self._threads, self._add_bos = path, max_length, threads, add_bos_token

    # ---- what the model has ----

    @cached_property
    def model(self) -> Model:
        """The model in this process, opened when it is needed; log-likelihoods are computed by the program."""
        return Model(self._path, threads=self._threads)

    @property
    def max_length(self) -> int:
        """Positions of the model, or as many as max_length allows."""
        return min(self._n_ctx or self.model.info.n_ctx, self.model.info.n_ctx)

    @property
    def prefix_token_id(self) -> int:
        """What an empty context is: BOS, or EOS without one."""
        info = self.model.info
        if max(info.bos, info.eos) < 0:
            raise ValueError(f"{self._path}: no BOS or EOS to begin a text with")
        return info.bos if info.bos >= 0 else info.eos

    def tok_encode(self, text: str) -> list[int]:
        """Tokens as the tokenizer makes them by itself."""
        starts = text.startswith(self.model.token_text(self.prefix_token_id))
        return self.model.encode(text, bos=not starts and self._add_bos is not False, special=True)

    # ---- what the harness asks ----

    def loglikelihood(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """(log-probability, is_greedy) of each (context, continuation), by `mgpt score --json`."""
        groups: dict[str, list[int]] = {}
        for i, request in enumerate(requests):
            groups.setdefault(request.args[0], []).append(i)
        records = [{"context": context, "continuations": [requests[i].args[1] for i in group]}
                   for context, group in groups.items()]
        answers: list[tuple[float, bool]] = [(0.0, False)] * len(requests)
        for group, found in zip(groups.values(), self._score(records), strict=True):
            for i, one in zip(group, found["continuations"], strict=True):
                answers[i] = one["sum_logprob"], one["is_greedy"]
                self.cache_hook.add_partial("loglikelihood", requests[i].args, answers[i])
        return answers

    def _score(self, records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        options = [f"-t{self._threads}"] * bool(self._threads) + [f"-c{self._n_ctx}"] * bool(self._n_ctx)
        options += ["--no-bos"] * (self._add_bos is False)
        with tempfile.TemporaryDirectory(prefix="mgpt-") as folder:
            file = Path(folder) / "records.jsonl"
            file.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
            lines = _tool.run("score", "-m", self._path, "--json", "-f", file, *options).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def loglikelihood_rolling(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[float]:
        """The log-probability of each text, in windows of the model's length that do not overlap in what they score."""
        answers = []
        for (text,) in (request.args for request in requests):
            windows = get_rolling_token_windows(self.tok_encode(text), self.prefix_token_id, self.max_length, 1)
            pairs = [make_disjoint_window(window) for window in windows]
            scores = self.model.score([[*seen, *scored] for seen, scored in pairs], threads=self._threads)
            answers.append(sum(add_in_order(score.logprobs[-len(scored):])
                               for score, (_, scored) in zip(scores, pairs, strict=True)))
            self.cache_hook.add_partial("loglikelihood_rolling", (text,), answers[-1])
        return answers

    def generate_until(self, requests: Sequence[Any], disable_tqdm: bool = False) -> list[str]:
        """Continues each (context, options) to a stop sequence, an end token, or max_gen_toks."""
        answers = [""] * len(requests)
        order = sorted(range(len(requests)), key=lambda i: str(requests[i].args[0]))  # neighbours share what they begin with
        session = self.model.session(n_ctx=self._n_ctx, threads=self._threads)
        for first in range(0, len(order), AT_ONCE):
            texts = [_Text(self, session, *requests[i].args) for i in order[first: first + AT_ONCE]]
            while live := [text for text in texts if text.draw()]:
                for text, logits in zip(live, step_many([t.session for t in live], [t.token for t in live]), strict=True):
                    text.logits = logits
            for i, text in zip(order[first:], texts, strict=False):
                answers[i] = text.answer()
                self.cache_hook.add_partial("generate_until", requests[i].args, answers[i])
        return answers


class _Text:
    """One text that is being generated."""

    def __init__(self, lm: MgptLM, session: Session, context: str, options: dict[str, Any]) -> None:
        options = normalize_gen_kwargs(options, 256)
        self.left: int = options["max_gen_toks"]
        room = lm.max_length - self.left
        if room <= 0:
            raise ValueError(f"max_gen_toks: {self.left} leave no room for the text in {lm.max_length} positions")
        self.model, self.decoder, self.token, self.text = lm.model, Decoder(lm.model), -1, ""
        self.stops = handle_stop_sequences(options.get("until"), None)
        given = {name: options[name] for name in SETTINGS if options.get(name)} if options.get("do_sample") else {}
        self.choose = Sampler(**{"temperature": float(bool(given)), **given})
        self.logits = session.sync(lm.tok_encode(context)[-room:])
        self.session = session.fork()

    def draw(self) -> bool:
        """Draws a token, which is to be run; False when the text has ended."""
        if self.left == 0 or any(stop in self.text for stop in self.stops if stop):
            return False
        self.left -= 1
        self.token = self.choose(self.logits)
        if self.model.is_end(self.token):
            self.left = 0
            return False
        self.text += self.decoder.put(self.token)
        return self.left > 0

    def answer(self) -> str:
        """The text before the first stop sequence."""
        self.session.close()
        text: str = postprocess_generated_text(self.text + self.decoder.end(), self.stops, None)
        return text


if __name__ == "__main__":
    cli_evaluate()
