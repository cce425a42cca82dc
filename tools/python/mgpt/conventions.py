"""Names that other libraries have for what a Model does: those of TransformerLens, and from_pretrained.

Shapes and values are TransformerLens' without processing of weights (from_pretrained_no_processing), in numpy. What its
notebooks do with torch tensors runs with mgpt.transformer_lens.
"""

from __future__ import annotations

import ctypes as c
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ._lib import EIO, Error, lib
from ._ranges import near, shown
from .factored import FactoredMatrix
from .norms import layer_facts
from .parameters import Block, Part, parameters
from .score import WINDOW_TEXTS, logits_of_rows

if TYPE_CHECKING:
    from .model import Model
    from .session import Floats, Ints, Tokens

Prompts = Any  # a text, its tokens, several texts, or rows of tokens
M = TypeVar("M", bound="Conventions")
T = TypeVar("T")
lib.weights_qk_order.restype, lib.weights_qk_order.argtypes = c.c_void_p, [c.c_void_p]
RETURNS = ("logits", "loss", "both", None)


def is_batch(text: Any) -> bool:
    """Whether it is a list of texts or rows of tokens, of any number."""
    if isinstance(text, str) or isinstance(text, np.ndarray):
        return getattr(text, "ndim", 1) == 2
    if hasattr(text, "ndim"):
        return bool(text.ndim == 2)
    return isinstance(text, Sequence) and len(text) > 0 and (isinstance(text[0], str) or np.ndim(text[0]) == 1)


@dataclass
class Config:
    """A model's sizes and kinds by TransformerLens' names; Model.info has more."""

    model_name: str
    original_architecture: str
    n_layers: int
    d_model: int
    n_heads: int
    n_key_value_heads: int
    d_head: int
    d_mlp: int
    d_vocab: int
    n_ctx: int
    act_fn: str
    gated_mlp: bool
    normalization_type: str
    eps: float
    positional_embedding_type: str
    n_params: int
    default_prepend_bos: bool
    device: str = "cpu"


class Conventions:
    """What Model has by other names."""

    _special = False  # whether control tokens in a text are read as such
    _use_attn_result = False

    @classmethod
    def from_pretrained(cls: type[M], path: str | os.PathLike[str], **options: Any) -> M:
        """Model(path, **options): a checkpoint directory as save_pretrained writes it, or any other file of a model. Nothing
        is downloaded."""
        if not os.path.exists(path):
            raise Error(f"{path}: no such file or directory; mgpt downloads no models: hf download {path} --local-dir DIR, "
                        "then from_pretrained('DIR')", EIO)
        return cast("Any", cls)(path, **options)  # type: ignore[no-any-return]

    def _own(self) -> Model:
        return cast("Model", self)

    @property
    def cfg(self) -> Config:
        """Sizes and kinds by TransformerLens' names: cfg.n_layers, cfg.d_model, ..."""
        m = self._own()
        i = m.info
        kind = {"layernorm": "LN", "rmsnorm": "RMS"}.get(i.norm, i.norm)
        return Config(i.name or os.path.basename(m.path), i.arch, i.n_layer, i.n_embd, i.n_head, i.n_head_kv, i.head_dim, i.n_ff,
                      i.n_vocab, i.n_ctx, i.activation, i.gated, kind, i.norm_eps,
                      {"learned": "standard", "rope": "rotary"}.get(i.position, i.position), i.n_params, self._prepends_bos())

    def _prepends_bos(self) -> bool:
        return self._own().info.add_bos

    # ---- text ----

    def to_tokens(self, text: str | Sequence[str] | Sequence[Tokens], prepend_bos: bool | None = None,
                  padding_side: str = "right") -> Ints:
        """Tokens [texts, T] of a text or several. BOS comes first where the model asks for it, or as `prepend_bos` says.
        Shorter rows end in padding: the end token, or BOS, which no earlier token sees. It is on the right, since positions
        count from the first token."""
        if padding_side != "right":
            raise ValueError(f"padding_side: expected 'right', found {shown(padding_side)}")
        return self._give(self._padded(text, prepend_bos))

    def _padded(self, text: Prompts, prepend_bos: bool | None = None) -> Ints:
        m = self._own()
        rows = [self._one(row, prepend_bos) for row in ([text] if isinstance(text, str) else text)]
        out = np.full((len(rows), max(map(len, rows), default=0)), max(m.info.eos if m.info.eos >= 0 else m.info.bos, 0), np.int32)
        for row, tokens in zip(out, rows, strict=True):
            row[: len(tokens)] = tokens
        return out

    def _one(self, text: str | Tokens, prepend_bos: bool | None) -> Ints:
        m = self._own()
        if not isinstance(text, str):
            return m._tokens(text)
        wanted = self._prepends_bos() if prepend_bos is None else prepend_bos
        tokens = m.encode(text, bos=wanted and m.info.add_bos, special=self._special)
        if wanted and not m.info.add_bos and m.info.bos >= 0:
            tokens = [m.info.bos, *tokens]
        return m._tokens(tokens)

    def to_str_tokens(self, text: str | Tokens | Sequence[str], prepend_bos: bool | None = None) -> Any:
        """Each token's text, control tokens as the vocabulary spells them; a list of lists for a list of texts."""
        m = self._own()
        if is_batch(text) and isinstance(text[0], str):
            return [self.to_str_tokens(cast("str", one), prepend_bos) for one in text]
        tokens = self._one(text, prepend_bos) if isinstance(text, str) else m._tokens(np.asarray(text).reshape(-1))
        return m._labels(tokens)

    def to_string(self, tokens: int | Tokens | npt.NDArray[np.integer[Any]] | Sequence[Tokens]) -> Any:
        """The text of a token or of tokens, control tokens as the vocabulary spells them; a list for rows of tokens."""
        m, array = self._own(), np.asarray(tokens)
        if array.ndim == 2:
            return [self.to_string(row) for row in array]
        text, plain = "", list[int]()
        for token in array.reshape(-1).tolist():
            if self._is_control(token):
                text, plain = text + m.decode(plain) + m.token_text(token), []
            else:
                plain.append(token)
        return text + m.decode(plain)

    def _is_control(self, token: int) -> bool:
        m = self._own()
        spelt = "" if m.decode([token]) else m.token_text(token)
        return bool(spelt) and m.encode(spelt, bos=False, special=True) == [token]

    def to_single_token(self, text: str) -> int:
        """The id of a text that is one token; ValueError for any other."""
        from .analysis import _one

        return _one(self._own(), text)

    def to_single_str_token(self, token: int) -> str:
        """The text of one token."""
        return str(self.to_str_tokens([token])[0])

    # ---- runs ----

    def __call__(self, text: Any, return_type: str | None = "logits", *, loss_per_token: bool = False,
                 prepend_bos: bool | None = None) -> Any:
        """Logits [texts, T, n_vocab] of a text, of tokens, or of several; `return_type` "loss": the mean of what the next
        tokens cost in nats, without padding ([texts, T - 1] with `loss_per_token`); "both"; or None."""
        if return_type not in RETURNS:
            raise ValueError(f"return_type: expected 'logits', 'loss', 'both' or None, found {shown(return_type)}"
                             f"{near(return_type, ('logits', 'loss', 'both'))}")
        m, rows = self._own(), self._prompts(text, prepend_bos)
        first = m.session(kv="f32")
        logits = logits_of_rows([first, *(first.fork() for _ in rows[1:WINDOW_TEXTS])], rows)
        return self._returned(text, rows, logits, return_type, loss_per_token, prepend_bos)

    def _returned(self, text: Prompts, rows: Ints, logits: Floats, return_type: str | None, per_token: bool,
                  prepend_bos: bool | None) -> Any:
        if return_type in ("logits", None):
            return self._give(logits) if return_type else None
        loss = self._loss(logits, rows, None if not isinstance(text, (list, tuple)) else
                          [len(self._one(row, prepend_bos)) for row in text] if is_batch(text) else None, per_token)
        return (self._give(logits), loss) if return_type == "both" else loss

    def _prompts(self, text: Any, prepend_bos: bool | None = None) -> Ints:
        """Rows of tokens to run; TypeError or ValueError."""
        rows = self._padded(text, prepend_bos) if isinstance(text, str) or is_batch(text) else self._own()._tokens(text)[None]
        if not rows.size:
            raise ValueError("text: nothing to run: the text is empty and the model has no BOS")
        return rows

    def loss_fn(self, logits: Floats, tokens: Ints, per_token: bool = False) -> Any:
        """The mean of what each token after the first costs in nats, or [texts, T - 1] with `per_token`."""
        return self._loss(np.asarray(logits), np.asarray(tokens), None, per_token)

    def _loss(self, logits: Floats, rows: Ints, lengths: list[int] | None, per_token: bool) -> Any:
        wide = logits[:, :-1].astype(np.float64)
        wide -= wide.max(-1, keepdims=True)
        costs = np.log(np.exp(wide).sum(-1)) - np.take_along_axis(wide, rows[:, 1:, None].astype(np.int64), -1)[..., 0]
        if per_token:
            return self._give(costs.astype(np.float32))
        seen = np.arange(1, rows.shape[1]) < np.array(lengths if lengths else [rows.shape[1]] * len(rows))[:, None]
        return self._give(np.asarray(costs[seen].mean() if seen.any() else np.nan, np.float32)[()])

    # ---- weights ----

    def _heads(self, role: str, layer: int, *, bias: bool = False) -> Floats:
        """W_Q, W_K, W_V [heads, d_model, d_head], W_O [heads, d_head, d_model]; biases [heads, d_head], 0 where there is
        none. Rows of q and k are in the order of hook_q, which GGUF changes for some architectures."""
        m = self._own()
        facts = layer_facts(m, layer)
        heads = facts.n_head if role in ("W_Q", "W_O") else facts.n_head_kv
        d = facts.head_dim if role in ("W_Q", "W_K") else facts.value_dim
        if bias and not m.has(role, layer, bias=True):
            return np.zeros((heads, d), np.float32)
        found = m.tensor_of(role, layer, bias=bias)
        split = (found.T if role == "W_O" else found).reshape(heads, d, *found.shape[1:] if role != "W_O" else found.shape[:1])
        order = lib.weights_qk_order(m._open().pointer) if role in ("W_Q", "W_K") else None
        if order:
            split = split[:, list((c.c_uint32 * d).from_address(order))]
        return np.ascontiguousarray(split if bias or role == "W_O" else split.transpose(0, 2, 1))

    def _stack_heads(self, role: str, *, bias: bool = False) -> Floats:
        return self._stacked(role, [self._heads(role, i, bias=bias) for i in range(self._own().info.n_layer)])

    def _stacked(self, role: str, layers: list[Floats]) -> Floats:
        """One array of all layers, which have to be of one shape."""
        other = next((i for i, layer in enumerate(layers) if layer.shape != layers[0].shape), 0)
        if other:
            raise ValueError(f"{role}: {list(layers[other].shape)} in layer {other}, {list(layers[0].shape)} in layer 0: no array has all "
                             "layers; model.blocks[n] has those of layer n")
        return self._give(np.stack(layers))

    def _stack(self, role: str, columns: int = 0) -> Floats:
        """Matrices [layers, in, out], or biases of so many columns."""
        m, layers = self._own(), range(self._own().info.n_layer)
        if columns:
            return self._give(np.stack([m.tensor_of(role, i, bias=True) if m.has(role, i, bias=True) else
                                        np.zeros(columns, np.float32) for i in layers]))
        return self._stacked(role, [m.tensor_of(role, i).T for i in layers])

    def _give(self, array: T) -> T:
        """What users get of an array (mgpt.transformer_lens: a tensor)."""
        return array

    @property
    def W_E(self) -> Floats:
        """[d_vocab, d_model]"""
        return self._give(self._own().tensor_of("W_E"))

    @property
    def W_pos(self) -> Floats:
        """[n_ctx, d_model]"""
        return self._give(self._own().tensor_of("W_pos"))

    @property
    def W_U(self) -> Floats:
        """[d_model, d_vocab]"""
        return self._give(np.ascontiguousarray(self._own().tensor_of("W_U").T))

    @property
    def b_U(self) -> Floats:
        """[d_vocab]; 0 where the model has none, as all biases here"""
        m = self._own()
        return self._give(m.tensor_of("W_U", bias=True) if m.has("W_U", bias=True) else np.zeros(m.info.n_vocab, np.float32))

    @property
    def W_Q(self) -> Floats:
        """[n_layers, n_heads, d_model, d_head]"""
        return self._stack_heads("W_Q")

    @property
    def W_K(self) -> Floats:
        """[n_layers, n_key_value_heads, d_model, d_head]"""
        return self._stack_heads("W_K")

    @property
    def W_V(self) -> Floats:
        """[n_layers, n_key_value_heads, d_model, d_head]"""
        return self._stack_heads("W_V")

    @property
    def W_O(self) -> Floats:
        """[n_layers, n_heads, d_head, d_model]"""
        return self._stack_heads("W_O")

    @property
    def b_Q(self) -> Floats:
        """[n_layers, n_heads, d_head]"""
        return self._stack_heads("W_Q", bias=True)

    @property
    def b_K(self) -> Floats:
        """[n_layers, n_key_value_heads, d_head]"""
        return self._stack_heads("W_K", bias=True)

    @property
    def b_V(self) -> Floats:
        """[n_layers, n_key_value_heads, d_head]"""
        return self._stack_heads("W_V", bias=True)

    @property
    def b_O(self) -> Floats:
        """[n_layers, d_model]"""
        return self._stack("W_O", self._own().info.n_embd)

    @property
    def W_in(self) -> Floats:
        """[n_layers, d_model, d_mlp]"""
        return self._stack("W_up")

    @property
    def W_gate(self) -> Floats | None:
        """[n_layers, d_model, d_mlp]; None without a gate"""
        return self._stack("W_gate") if self._own().info.gated else None

    @property
    def W_out(self) -> Floats:
        """[n_layers, d_mlp, d_model]"""
        return self._stack("W_down")

    @property
    def b_in(self) -> Floats:
        """[n_layers, d_mlp]"""
        return self._stack("W_up", self._own().info.n_ff)

    @property
    def b_out(self) -> Floats:
        """[n_layers, d_model]"""
        return self._stack("W_down", self._own().info.n_embd)

    # ---- parts ----

    @property
    def blocks(self) -> list[Block]:
        """Weights by layer: blocks[0].attn.W_Q, .mlp.W_in, .ln1.w."""
        return [Block(self._own(), i) for i in range(self._own().info.n_layer)]

    @property
    def embed(self) -> Part:
        """Has W_E."""
        return Part(self._own(), "embed")

    @property
    def pos_embed(self) -> Part:
        """Has W_pos."""
        return Part(self._own(), "pos_embed")

    @property
    def ln_final(self) -> Part:
        """Has w and b."""
        return Part(self._own(), "ln_final")

    @property
    def unembed(self) -> Part:
        """Has W_U and b_U."""
        return Part(self._own(), "unembed")

    def tl_named_parameters(self) -> Iterator[tuple[str, Any]]:
        """("blocks.0.attn.W_Q", array) and so on, in TransformerLens' shapes."""
        return parameters(self._own())

    def _for_queries(self, stack: Floats) -> Floats:
        """[layers, KV heads, ...] with a head for each head of the queries."""
        shared = self._own().info.n_head // stack.shape[1]
        return stack if shared == 1 else cast("Any", stack)[:, np.arange(stack.shape[1] * shared) // shared]

    @property
    def QK(self) -> FactoredMatrix:
        """W_Q W_K^T of every head: [n_layers, n_heads, d_model, d_model]"""
        return FactoredMatrix(self.W_Q, self._for_queries(self.W_K).swapaxes(-2, -1))

    @property
    def OV(self) -> FactoredMatrix:
        """W_V W_O of every head: [n_layers, n_heads, d_model, d_model]"""
        return FactoredMatrix(self._for_queries(self.W_V), self.W_O)

    @property
    def all_head_labels(self) -> list[str]:
        """L0H0, L0H1, ..."""
        m = self._own()
        return [f"L{layer}H{head}" for layer in range(m.info.n_layer) for head in range(layer_facts(m, layer).n_head)]

    @property
    def use_attn_result(self) -> bool:
        """Whether there are hooks blocks.N.attn.hook_result [1, T, n_head, n_embd]: what each head adds. They take memory."""
        return self._use_attn_result

    @use_attn_result.setter
    def use_attn_result(self, use: bool) -> None:
        self._use_attn_result, self._own()._hook_table = bool(use), None

    def set_use_attn_result(self, use_attn_result: bool) -> None:
        """The same as a function."""
        self.use_attn_result = use_attn_result
