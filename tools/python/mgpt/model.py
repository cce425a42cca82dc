"""A model: text and tokens, sessions, and whole runs."""

from __future__ import annotations

import ctypes as c
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

import numpy as np
import numpy.typing as npt

from . import analysis
from . import hooks as _hooks
from ._choose import author_settings
from ._handle import ModelHandle
from ._info import info_of
from ._lib import (EARG, NO_SPECIAL_TOKENS, PARSE_SPECIAL, ROLES, CModelParams, CStream, CTensor, Error, call, lib)
from ._ranges import c_string, near, number, one_of, option, shown
from .analysis import Attribution, HeadScores, Lens, MaxText
from .batch import run_rows
from .cache import Cache
from .choice import Choice, choose
from .circuits import Circuit, circuits
from .conventions import Conventions, Prompts, is_batch
from .generate import Sampler, Stops, generate
from .patching import Metric, Patched, run_hooks, run_program
from .score import Score, all_logits, score
from .session import Floats, Session, Tokens, ids
from .steering import NOTHING, Added, Steering, Vectors

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._rows import Sampling
    from .lab import Page

Adapter = str | os.PathLike[str] | tuple[str | os.PathLike[str], float]
Lora = Adapter | Sequence[Adapter]


class Model(Conventions):
    """The weights of a GGUF file, or of a checkpoint that `mgpt convert` reads (a file or a directory).

    A model is immutable; threads may share it. Close it, or use it in a `with` statement, to free the memory at a
    known time: its sessions end with it.
    """

    def __init__(self, path: str | os.PathLike[str], *, isa: str | None = None, vocab_only: bool = False,
                 threads: int = 0, convert: Sequence[str] = (), lora: Lora = ()) -> None:
        """`convert` are options of `mgpt convert` for a checkpoint, such as ["--heads", "4"]; what the conversion
        infers is in `notes`. `lora` is an adapter, a PEFT directory or GGUF, or a list of adapters that are applied
        in order; each is a path or (path, scale). `isa` names an instruction set, which never changes a result."""
        self.path = os.fspath(path)
        self.notes: list[str] = []  # what mgpt convert says
        self._handle: ModelHandle | None = None
        self._sessions: list[ref[Session]] = []  # a WeakSet has callbacks, in which a signal handler cannot raise
        self._hook_table: dict[str, _hooks.Hook] | None = None
        if not isinstance(self.path, str):
            raise TypeError(f"path: expected str or a path of str, found {shown(self.path)}")
        self._options = {"isa": isa, "vocab_only": vocab_only, "threads": threads, "convert": list(convert), "lora": lora}
        params = CModelParams(c_string("isa", isa) if isa else None, vocab_only, option("threads", threads), 0)
        file, kept = self.path, None
        if lora or not is_gguf(self.path):
            from ._tool import converted, lora_options

            kept = converted(self.path, [*convert, *lora_options(lora)], self.notes)
            file = os.path.join(kept.name, "model.gguf")
        pointer = call("mgpt_open", os.fsencode(file), c.byref(params), what=self.path)
        self._handle = ModelHandle(pointer, kept)
        self.info = info_of(pointer)

    def _open(self) -> ModelHandle:
        if self._handle is None:
            raise ValueError("the model is closed")
        return self._handle

    def close(self) -> None:
        """Ends the model and its sessions. Calls that run now finish first; later ones raise ValueError."""
        handle, self._handle = self._handle, None
        if handle:
            handle.closed = True
        for session in [known() for known in self._sessions]:
            if session is not None:
                session.close()

    def _know(self, session: Session) -> None:
        """The model ends it when it is closed."""
        self._sessions = [known for known in self._sessions if known() is not None] + [ref(session)]

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def __repr__(self) -> str:
        i = self.info
        return f"<mgpt.Model {self.path}: {i.arch}, {i.n_params} parameters, {i.n_layer} layers, {i.type}>"

    # ---- text ----

    def encode(self, text: str, *, bos: bool = True, special: bool = False) -> list[int]:
        """Token ids of a text, with BOS in front if the model asks for it and `bos` is true.

        `special`: control tokens such as <|endoftext|> in the text become one token. Error names a character that the
        vocabulary lacks.
        """
        if not isinstance(text, str):
            raise TypeError(f"text: expected str, found {type(text).__name__}")
        data = (unicodedata.normalize("NFC", text) if self.info.nfc else text).encode()
        flags = (0 if bos else NO_SPECIAL_TOKENS) | (PARSE_SPECIAL if special else 0)
        handle, out = self._open(), np.empty(len(data) + 2, np.int32)
        n = call("mgpt_encode", handle.pointer, data, len(data), flags, out.ctypes.data, len(out))
        if n > len(out):  # a normaliser of the model made the text longer
            out = np.empty(n, np.int32)
            call("mgpt_encode", handle.pointer, data, len(data), flags, out.ctypes.data, n)
        return [int(token) for token in out[:n]]

    def decode(self, tokens: Tokens) -> str:
        """The text of tokens: whole characters, U+FFFD for bytes that are none; control tokens have no text."""
        stream = Decoder(self)
        return "".join([stream.put(self._id(token)) for token in ids(tokens)]) + stream.end()

    def _id(self, token: Any) -> int:
        return int(number("token", token, 0, self.info.n_vocab - 1))

    def token_text(self, token: int) -> str:
        """A token as the vocabulary spells it, control tokens too: "<s>", "Ġthe"."""
        handle, n = self._open(), c.c_size_t()
        address = lib.mgpt_token_text(handle.pointer, self._id(token), c.byref(n))
        return c.string_at(address, n.value).decode("utf-8", "replace") if address else ""

    def is_end(self, token: int) -> bool:
        """Whether a token ends a text."""
        return bool(lib.mgpt_is_end(self._open().pointer, self._id(token)))

    def _tokens(self, text: str | Tokens) -> npt.NDArray[np.int32]:
        """Tokens of a text, or tokens as they are; a batch of one is taken for its row."""
        if isinstance(text, str):
            return ids(self.encode(text))
        array = np.asarray(text)
        return ids(array[0] if array.ndim == 2 and len(array) == 1 else array)

    def _rows(self, text: Prompts) -> list[npt.NDArray[np.int32]]:
        """The rows of a batch, of equal length; one for a text or tokens."""
        rows = list(self._padded(text)) if is_batch(text) else [self._tokens(cast("str | Tokens", text))]
        if not rows or not len(rows[0]):
            raise ValueError("text: nothing to run: the text is empty and the model has no BOS")
        return rows

    def _labels(self, tokens: npt.NDArray[np.int32]) -> list[str]:
        return [self.decode([t]) or self.token_text(t) for t in tokens]

    # ---- weights ----

    @property
    def tensors(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Name, element type and shape (rows first) of every tensor in the file."""
        handle, found = self._open(), CTensor()
        rows = {}
        for i in range(lib.mgpt_n_tensors(handle.pointer)):
            call("mgpt_get_tensor", handle.pointer, i, c.byref(found))
            rows[found.name.decode()] = found.type.decode(), tuple(found.dims[: found.n_dims][::-1])
        return rows

    def tensor(self, name: str) -> Floats:
        """A tensor as float32, shape [rows, columns] as in PyTorch. Reads a GGUF file again."""
        handle, found = self._open(), CTensor()
        try:
            call("mgpt_find_tensor", handle.pointer, c_string("name", name), c.byref(found))
        except Error as failed:
            raise Error(f"{failed}{near(name, self.tensors)}", failed.status) from None
        out = np.empty(tuple(found.dims[: found.n_dims][::-1]), np.float32)
        call("mgpt_read_tensor", handle.pointer, name.encode(), 0, out.size, out.ctypes.data, what=self.path)
        return out

    def _find(self, role: str, layer: int, bias: bool) -> CTensor:
        if role not in ROLES:
            raise ValueError(f"role: expected one of {', '.join(ROLES)}, found {shown(role)}{near(role, ROLES)}")
        found = CTensor()
        call("mgpt_find_role", self._open().pointer, ROLES[role], number("layer", layer, -1, 2**31 - 1), bias, c.byref(found))
        return found

    def has(self, role: str, layer: int = -1, *, bias: bool = False) -> bool:
        """Whether the model has a tensor of this role, as tensor_of."""
        try:
            self._find(role, layer, bias)
        except Error as error:
            if error.status != EARG:
                raise
            return False
        return True

    def tensor_of(self, role: str, layer: int = -1, *, bias: bool = False) -> Floats:
        """The weight or bias that has a role, whatever its tensor's name: "W_Q", "W_O", "W_up", "ln1", "W_E", "W_U".

        The shape is that of the file, rows first: W_Q is [n_head * head_dim, n_embd], also where one tensor has the
        rows of q, k and v. `mgpt.ROLES` lists the roles. Error: the model has none.
        """
        found = self._find(role, layer, bias)
        out = np.empty(tuple(found.dims[: found.n_dims][::-1]), np.float32)
        call("mgpt_read_tensor", self._open().pointer, found.name, found.first, out.size, out.ctypes.data, what=self.path)
        return out

    # ---- runs ----

    def session(self, *, n_ctx: int = 0, threads: int = 0, chunk: int = 0, kv: str = "auto",
                steer: Steering | Vectors | None = None) -> Session:
        """An empty session of at most n_ctx positions (0: the model's).

        `threads` and `chunk` (tokens per pass, 0: chosen) never change a bit. `kv` is the type of keys and values:
        "f32", "f16", "q8_0" or "auto". `steer` adds vectors to the residual stream: Steering(file or array, scale).
        """
        return Session._new(self, n_ctx, threads, chunk, kv, self._added(steer))

    def _added(self, steer: Steering | Vectors | None) -> Added:
        if steer is None:
            return NOTHING
        return Added((steer if isinstance(steer, Steering) else Steering(steer)).rows(self))

    @property
    def author_settings(self) -> dict[str, Any]:
        """How the model's author draws, by arguments of Sampler: {"temperature": 0.6, "top_p": 0.95}; from general.sampling.*
        of the file, or generation_config.json of a checkpoint. `generate` uses them, what scores does not."""
        return author_settings(self)

    @property
    def hook_names(self) -> list[str]:
        """The names of all values inside this model, in the order of the pass."""
        return list(self._all_hooks())

    def _all_hooks(self) -> dict[str, _hooks.Hook]:
        if self._hook_table is None:
            self._hook_table = _hooks.list_hooks(self)
        return self._hook_table

    def run_with_cache(self, text: Prompts, names: _hooks.Names = None, *, names_filter: _hooks.Names = None,
                       hooks: Iterable[_hooks.HookRow] = (), remove_batch_dim: bool = False,
                       steer: Steering | Vectors | None = None) -> tuple[Floats, Cache]:
        """Runs a text or tokens; returns logits [1, T, n_vocab] and the values inside, as TransformerLens does.

        `names` chooses: None (all), a name or pattern ("blocks.*.attn.hook_pattern"), several, or a function of the
        name; `names_filter` is its name in TransformerLens. `hooks` change values first, as in run_with_hooks. A list of
        texts, or rows of tokens, is a batch: every first axis is that of the texts, and what follows the tokens of a
        shorter text is padding (to_tokens). Keys and values are kept in float32. `steer` is as in `session`; hooks get
        what it has changed.
        """
        found = run_rows(self, self._rows(text), hooks, names_filter if names is None else names, steer)
        if remove_batch_dim and len(found.store["logits"]) != 1:
            raise ValueError(f"remove_batch_dim: expected one text, found {len(found.store['logits'])}")
        values = {n: v[0] if remove_batch_dim else v for n, v in found.store.items()}
        del values["logits"]
        return found.store["logits"], Cache(values, found.labels, self)

    def run_with_hooks(self, text: Prompts, hooks: Iterable[_hooks.HookRow] = (),
                       steer: Steering | Vectors | None = None, *, fwd_hooks: Iterable[_hooks.HookRow] = ()) -> Floats:
        """Runs a text or tokens with hooks; returns logits [1, T, n_vocab].

        Each hook is (name, function), the name as in run_with_cache. function(value, hook=...) gets a copy of the
        value, [1, T, ...] as in TransformerLens, and changes it in place or returns a new one of its shape. Texts above
        4096 tokens come in chunks. Of a batch (a list of texts, or rows of tokens) hooks get all rows as one value. An
        exception in a hook ends the run and comes through. `fwd_hooks` is the name of `hooks` in TransformerLens.
        """
        return run_rows(self, self._rows(text), [*hooks, *fwd_hooks], (), steer).store["logits"]

    def generate(self, text: str | Tokens = "", n: int | None = None, *, n_ctx: int = 0, threads: int = 0,
                 kv: str = "auto", hooks: Iterable[_hooks.HookRow] = (), steer: Steering | Vectors | None = None,
                 stop: str | Iterable[str] = (), ignore_end: bool = False, logprobs: int | None = None,
                 heal: bool = False, ignore_author: bool = False, max_new_tokens: int | None = None, do_sample: bool = True,
                 **sampling: Unpack[Sampling]) -> Iterator[str]:
        """Continues a text: yields pieces until a stop text, an end token, n tokens, or the end of the context.

        The pieces are those that `mgpt generate --no-prompt` prints for the same options. `stop` is one text or
        several: what is drawn ends before the first of them. `ignore_end`: end tokens are drawn as others are.
        `logprobs=N`: the pieces are mgpt.Piece, each with its token, its probabilities and the N likeliest.
        `heal`: the text may end inside a word: its last bytes are drawn again, as `mgpt generate --heal` does.
        `sampling` are arguments of Sampler: temperature, seed, top_k, repeat_penalty, ban=["..."], dry=(0.8, 1.75, 2), ...
        What it does not say, author_settings do, unless `ignore_author` is true. `max_new_tokens` is n; `do_sample=False` takes
        the likeliest token: the names of transformers.
        """
        n = one_of("n", n, "max_new_tokens", max_new_tokens)
        named: Any = (sampling if ignore_author else self.author_settings | sampling) | ({} if do_sample else {"temperature": 0})
        tokens, sampler, stops = self._tokens(text), Sampler(model=self, **named), Stops(stop)
        n = None if n is None else int(option("n", n))
        logprobs = None if logprobs is None else int(option("logprobs", logprobs))
        if heal and (self.info.tokenizer == "none" or {"ban", "regex"} & set(named)):
            raise ValueError("heal: not with ban, regex, or a model without vocabulary")
        if not len(tokens):
            raise ValueError("text: nothing to begin with: the text is empty and the model has no BOS")
        session = self.session(n_ctx=n_ctx, threads=threads, kv=kv, steer=steer)
        return generate(session, tokens, n, sampler, list(hooks), stops, ignore_end, logprobs, heal)

    def choose(self, text: str | Tokens | Session, choices: Iterable[str], *, n_ctx: int = 0, threads: int = 0,
               kv: str = "auto", steer: Steering | Vectors | None = None, **sampling: Unpack[Sampling]) -> Choice:
        """Which of several texts goes on after a text, tokens, or those of a session (which stays as it is).

        What `mgpt generate --choices` takes for the same settings of the sampler (temperature 0: the likeliest), with
        the log-probabilities of all: of the tokens that text and choice have together, as `generate --help` says.
        """
        session = text.fork() if isinstance(text, Session) else self.session(n_ctx=n_ctx, threads=threads, kv=kv, steer=steer)
        return choose(self, session, text.tokens if isinstance(text, Session) else text, choices, self.author_settings, sampling)

    def generate_many(self, prompts: Iterable[str | Tokens | Mapping[str, Any]], n: int | None = None, *, batch: int = 0,
                      n_ctx: int = 0, threads: int = 0, logprobs: int | None = None,
                      ignore_end: bool = False, heal: bool = False, no_prompt: bool = False, ignore_author: bool = False,
                      **sampling: Unpack[Sampling]) -> list[dict[str, Any]]:
        """Continues many prompts in common passes: what `mgpt generate --records` writes of each, in their order.

        A prompt is a text, tokens, or a record: {"prompt" or "ids", "id", "n", "seed", "stop", "temperature", ...}; the
        arguments are what a record does not say. Each has the text that it has alone, as "text", with "tokens" and
        "finish_reason"; one that cannot be drawn has "error".
        """
        from .generate import generate_many

        options = {"n": n, "batch": batch, "n_ctx": n_ctx, "threads": threads, "logprobs": logprobs,
                   "ignore_end": ignore_end, "heal": heal, "no_prompt": no_prompt, "ignore_author": ignore_author, **sampling}
        return generate_many(self._run_on(), prompts, options)

    def logits(self, text: str | Tokens, *, threads: int = 0, kv: str = "auto",
               steer: Steering | Vectors | None = None) -> Floats:
        """The logits after every token of a text or tokens, float32 [T, n_vocab]; row t predicts token t + 1.

        The bits are those of a session that takes one step after the other.
        """
        return all_logits(self.session(threads=threads, kv=kv, steer=steer), self._tokens(text))

    def score(self, texts: Iterable[str | Tokens], *, threads: int = 0, steer: Steering | Vectors | None = None,
              window: int | None = None, stride: int | None = None) -> list[Score]:
        """Log-probabilities of texts, with the numbers of `mgpt score --json`. A str is a document: BOS in front and
        the end token after it where the model has them. Tokens are taken as they are. A text with more tokens than
        `window` (default: the context) is scored in windows, each after the first of `stride` tokens more (default: the
        window), as loglikelihood_rolling of lm-evaluation-harness does it."""
        return score(self.session(threads=threads, steer=steer), texts, window, stride)

    def patch(self, clean: str | Tokens, corrupt: str | Tokens | None = None, metric: Metric = "kl",
              over: str | Sequence[str] = "resid_pre", *, mode: str | None = None, into: str | None = None,
              layers: str | None = None, heads: str | None = None, positions: str | None = None) -> Patched:
        """Changes one value at a time, by layer, head and position, and returns the metric of each run.

        `metric` is text as `mgpt patch --help` says: "A - B", "logprob:TOKEN", "kl"; then all sites run in common
        passes, and the other options are those of the command: mode "patch", "zero", "mean", "scale:X"; layers "0-3".
        Or a function of the logits [1, T, n_vocab], called after a run for each site: the corrupted prompt gets values
        of the clean run; without `corrupt` the clean run gets 0. `over`: resid_pre, resid_mid, resid_post, attn_out,
        mlp_out; by head z, pattern, q, k, v. result["z"].sel(layer=0, head=3) is an array of positions.
        """
        points = over.split(",") if isinstance(over, str) else list(over)
        options = {"mode": mode, "into": into, "layers": layers, "heads": heads, "positions": positions}
        if callable(metric):
            if any(options.values()):
                raise ValueError("patch: mode, into, layers, heads and positions need a metric that is text")
            return run_hooks(self, clean, corrupt, metric, points)
        texts = [t if t is None or isinstance(t, str) else self._words(t) for t in (clean, corrupt)]
        return run_program(self, str(texts[0]), texts[1], {"metric": metric, "over": ",".join(points), **options})

    def lens(self, text: str | Tokens, *, steer: Steering | Vectors | None = None) -> Lens:
        """The logit lens: after every half layer and token, what the final norm and the head would say there: the
        likeliest token, and rank and log-probability of what the model says in the end."""
        return analysis.lens(self, text, steer)

    def attribution(self, text: str | Tokens, token: int | str | None = None, other: int | str | None = None, *,
                    position: int = -1) -> Attribution:
        """The logit of `token` (default: the likeliest) after a position, less that of `other` (default: the mean of all
        logits), as a sum over heads, MLPs, embeddings and biases, with each norm's scale as it was: the repl's /dla."""
        return analysis.attribution(self, text, token, other, position)

    def head_scores(self, n: int = 50, *, texts: int = 4, seed: int = 0) -> HeadScores:
        """Induction, previous token and duplicate token scores of all heads: mean attention weights of the second half of
        n random tokens that are repeated (fewer where the context is short), BOS in front, over some texts."""
        return analysis.head_scores(self, n, texts, seed)

    def max_texts(self, neuron: str | tuple[int, int], file: str | os.PathLike[str], k: int = 10) -> list[MaxText]:
        """The k lines of a file at which a neuron is largest, the largest first: (layer, i) of an MLP, or column i of any
        hook, "blocks.3.hook_resid_post[17]". Lines above the context come in parts. Many lines share a pass."""
        return analysis.max_texts(self, neuron, file, k)

    def circuits(self, kind: str, layer: int = 0, index: int = 0) -> Circuit:
        """Weights multiplied out over all tokens (the repl's /circuits): "qk", "places", "ov" of head `index`; "direct";
        "fires", "promotes" of neuron `index`."""
        return circuits(self, kind, layer, index)

    def _words(self, tokens: Tokens) -> str:
        """Tokens for a command, which takes ids of a model without vocabulary only."""
        if self.info.tokenizer != "none":
            raise TypeError("patch: expected text (or a function as metric), found tokens")
        return ",".join([str(token) for token in ids(tokens)])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its path and options: the file is opened again."""
        return _reopen, (type(self), os.path.abspath(self.path), self._options)

    def __copy__(self) -> Model:
        return self  # it is immutable

    def __deepcopy__(self, memo: object) -> Model:
        return self

    def _run_on(self) -> str:
        """What the program `mgpt` runs this model from: a GGUF file, or what a checkpoint or an adapter became."""
        file = self._open().file
        return self.path if file is None else os.path.join(file.name, "model.gguf")

    def lab(self, text: str = "", *options: str) -> Page:
        """The page of `mgpt lab` about a text, which a notebook shows; .save(path) keeps it."""
        from .lab import Page

        return Page.make(self._run_on(), text, options)


class Decoder:
    """Tokens to text, one at a time: each put gives the characters that are complete."""

    def __init__(self, model: Model) -> None:
        """Makes a decoder for a model, which it keeps open."""
        self._handle, self._stream, self._id = model._open(), CStream(), model._id
        self._buffer = c.create_string_buffer(1024)

    def put(self, token: int) -> str:
        """The characters that a token completes."""
        n = self._put(token)
        if n > len(self._buffer):
            self._buffer = c.create_string_buffer(n)
            n = self._put(token)
        return self._buffer.raw[:n].decode()

    def _put(self, token: int) -> int:
        return int(lib.mgpt_stream_put(c.byref(self._stream), self._handle.pointer, self._id(token), self._buffer,
                                       len(self._buffer)))

    def end(self) -> str:
        """U+FFFD if an incomplete character is held; begins a new text."""
        n = lib.mgpt_stream_end(c.byref(self._stream), self._buffer, len(self._buffer))
        return self._buffer.raw[:n].decode()


def _reopen(kind: type[Model], path: str, options: dict[str, Any]) -> Model:
    return kind(path, **options)


def is_gguf(path: str) -> bool:
    """As the commands decide it: by content. What cannot be opened is left to mgpt_open's message."""
    if os.path.isdir(path):
        return False
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"GGUF"
    except OSError:
        return True
