"""The values of one run by name."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ._lib import Error, call
from ._ranges import near, number, shown
from .norms import Norm, layer_facts, norm_before

if TYPE_CHECKING:
    from .model import Model
    from .show import Heatmap

Floats = npt.NDArray[np.float32]
Place = int | slice | Sequence[int] | None  # of positions: None is all of them


class Cache(Mapping[str, Floats]):
    """Arrays by TransformerLens' names, in the order of the pass.

    cache["blocks.0.attn.hook_pattern"] and cache["pattern", 0] are the same; a negative layer counts from the last;
    cache["normalized", 0, "ln1"] says which of several. numpy.savez(path, **cache) writes a file for `mgpt check`.
    Stacks of the residual stream (accumulated_resid, ...) are those of TransformerLens' ActivationCache: their first
    axis is that of the parts, `layer` is the layer whose input they make (default: the head's).
    """

    def __init__(self, values: dict[str, Floats], labels: list[str], model: Model) -> None:
        """`labels` are the tokens as text, of the first row of a batch."""
        self._values, self.labels, self.model, self.n_layers = values, labels, model, model.info.n_layer

    def __getitem__(self, name: str | tuple[str | int, ...]) -> Floats:
        if isinstance(name, str):
            return self._give(self._values[name if name in self._values else self.full_name(name)])
        return self._give(self._values[self.full_name(*name)])

    def _give(self, array: Floats) -> Floats:
        """What users get of an array (mgpt.transformer_lens: a tensor)."""
        return array

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def full_name(self, *name: str | int) -> str:
        """The name of ("pattern", 0) or ("normalized", 0, "ln1") or ("embed",). KeyError if the cache lacks it."""
        word, layer, part = (*name, None, None)[:3]
        if isinstance(layer, int | np.integer) and layer < 0:
            layer += self.n_layers
        place = "" if layer is None else rf"blocks\.{layer}\."
        pattern = rf"{place}({part or '[a-z0-9_]+'}\.)?(hook_)?{re.escape(str(word))}"
        found = [n for n in self._values if re.fullmatch(pattern, n)]
        if len(found) != 1:
            wanted = word if len(name) == 1 else name
            raise KeyError(f"{wanted}: several are called so: {', '.join(found)}" if found else
                           f"{wanted if len(str(wanted)) < 80 else shown(wanted)}: not in this cache{self._near(str(word), layer)}")
        return found[0]

    def _near(self, word: str, layer: object) -> str:
        """A name that is near: of all for a full name, else of those of a layer by their last word."""
        if "." in word or word.startswith("hook_"):
            return near(word, self._values)
        place = "" if layer is None else f"blocks.{layer}."
        return near(word, {re.sub(r".*?(hook_)?(\w+)$", r"\2", n) for n in self._values if n.startswith(place)})

    def show(self, name: str, layer: int | None = None, head: int | None = None) -> Heatmap:
        """Heatmaps of a value for a notebook: of every head of a pattern, or of positions by columns."""
        from .show import Heatmap

        full = name if name in self._values else self.full_name(*[x for x in (name, layer) if x is not None])
        return Heatmap.of_value(full, self._values[full], self.labels, head)

    def __repr__(self) -> str:
        return "Cache(" + ", ".join(f"{n}: {list(v.shape)}" for n, v in self._values.items()) + ")"

    # ---- stacks of the residual stream ----

    def stack_activation(self, name: str, layer: int | None = None, part: str | None = None) -> Floats:
        """A value of all layers before `layer`: [layers, ...]."""
        place = () if part is None else (part,)
        return self._give(np.stack([self._values[self.full_name(name, i, *place)] for i in range(self._layer(layer))]))

    def accumulated_resid(self, layer: int | None = None, incl_mid: bool = False, apply_ln: bool = False,
                          pos_slice: Place = None, mlp_input: bool = False, return_labels: bool = False) -> Any:
        """The residual stream before each layer up to `layer`, with `incl_mid` also between attention and MLP. With
        `apply_ln` what the final norm makes of each (the logit lens), or the scale of the norm of `layer`."""
        last, rows = self._layer(layer), []
        for i in range(last):
            rows += [(f"{i}_pre", ("resid_pre", i))] + [(f"{i}_mid", ("resid_mid", i))] * incl_mid
        rows.append(("final_post", ("resid_post", last - 1)) if last == self.n_layers else (f"{last}_pre", ("resid_pre", last)))
        if mlp_input and last < self.n_layers:
            rows.append((f"{last}_mid", ("resid_mid", last)))
        stack = np.stack([at(self._values[self.full_name(*name)], pos_slice) for _, name in rows])
        if apply_ln:
            stack = self._scaled(stack, layer, mlp_input, pos_slice, recompute_ln=last == self.n_layers)
        return (self._give(stack), [label for label, _ in rows]) if return_labels else self._give(stack)

    def decompose_resid(self, layer: int | None = None, mlp_input: bool = False, mode: str = "all", apply_ln: bool = False,
                        pos_slice: Place = None, incl_embeds: bool = True, return_labels: bool = False) -> Any:
        """What was added to the residual stream before `layer`: the embeddings, then each attention and MLP. `mode`:
        "all", "attn", "mlp". Warns if all parts are not the whole stream: some models multiply or norm it between layers."""
        if mode not in ("all", "attn", "mlp"):
            raise ValueError(f"mode: expected all, attn or mlp, found {mode!r}{near(mode, ('all', 'attn', 'mlp'))}")
        last, rows = self._layer(layer), []
        if incl_embeds:
            norm = "ln_embed.hook_normalized"  # of what both make
            rows += [("embed_norm", norm)] if norm in self else [(name.removeprefix("hook_"), name) for name in
                                                                ("hook_embed", "hook_pos_embed") if name in self]
        for i in range(last):
            rows += [(f"{i}_{part}_out", self.full_name(f"{part}_out", i)) for part in ("attn", "mlp") if mode in ("all", part)]
        if mlp_input and mode != "mlp":
            rows.append((f"{last}_attn_out", self.full_name("attn_out", last)))
        stack = np.stack([at(self._values[name], pos_slice) for _, name in rows])
        if mode == "all" and incl_embeds:
            self._check_sum(stack, last, mlp_input, pos_slice)
        if apply_ln:
            stack = self._scaled(stack, layer, mlp_input, pos_slice)
        return (self._give(stack), [label for label, _ in rows]) if return_labels else self._give(stack)

    def stack_head_results(self, layer: int | None = None, return_labels: bool = False, incl_remainder: bool = False,
                           pos_slice: Place = None, apply_ln: bool = False) -> Any:
        """What each head of the layers before `layer` adds, z W_O: [layers * heads, ...]; with `incl_remainder` the rest of
        the residual stream comes last."""
        last, parts = self._layer(layer), []
        for i in range(last):
            z = at(self._values[self.full_name("z", i)], pos_slice, -3)
            parts += [np.moveaxis(np.einsum("...hd,hde->...he", z, self.model._heads("W_O", i)), -2, 0)]
        stack: Floats = np.concatenate(parts) * np.float32(self.model.info.residual_scale)
        labels = [f"L{i}H{h}" for i in range(last) for h in range(layer_facts(self.model, i).n_head)]
        if incl_remainder:
            whole = at(self._values[self.full_name("resid_post", last - 1)], pos_slice)
            stack, labels = np.concatenate([stack, whole[None] - stack.sum(0)[None]]), [*labels, "remainder"]
        if apply_ln:
            stack = self._scaled(stack, layer, pos_slice=pos_slice)
        return (self._give(stack), labels) if return_labels else self._give(stack)

    def logit_attrs(self, residual_stack: Floats, tokens: str | int | npt.ArrayLike,
                    incorrect_tokens: str | int | npt.ArrayLike | None = None, pos_slice: Place = None) -> Floats:
        """What each part of a stack adds to the logit of a token, or to the difference of two: the scale of the final norm is
        what it was, its gain counts (TransformerLens has it in W_U), the bias and a cap do not. Tokens: one, [batch],
        or [batch, position]."""
        way = self._directions(tokens) - (0 if incorrect_tokens is None else self._directions(incorrect_tokens))
        stack = self._scaled(np.asarray(residual_stack), pos_slice=pos_slice)
        if way.ndim == 2 and stack.ndim == 4 and way.shape[0] == stack.shape[1]:
            way = way[:, None]
        return self._give(np.asarray((stack * way).sum(-1), np.float32))

    def _directions(self, tokens: str | int | npt.ArrayLike) -> Floats:
        """The rows of the head for tokens, times the gain of the final norm: [..., n_embd]."""
        model = self.model
        if model.has("W_head"):
            raise Error(f"{model.path}: logits are no sum over parts: a matrix and an activation are before the head ({model.info.arch})")
        ids = np.asarray(model.to_single_token(tokens) if isinstance(tokens, str) else tokens)
        found, n = model._find("W_U", -1, False), model.info.n_embd
        out = np.empty((ids.size, n), np.float32)
        for row, token in zip(out, ids.ravel(), strict=True):
            call("mgpt_read_tensor", model._open().pointer, found.name, found.first + model._id(token) * n, n, row.ctypes.data,
                 what=model.path)
        norm = self._norm(self.n_layers, False)
        gain = (1 if norm is None else norm.gain) * np.float32(model.info.logit_scale)
        return np.asarray(out.reshape(*ids.shape, n) * gain, np.float32)

    def apply_ln_to_stack(self, stack: Floats, layer: int | None = None, mlp_input: bool = False, pos_slice: Place = None,
                          recompute_ln: bool = False) -> Floats:
        """A stack in the scale that the norm before a layer (default: the head) had in this run, centred if that is a
        LayerNorm, without gain and bias. `recompute_ln`: each part gets that norm by itself, with gain and bias."""
        return self._give(self._scaled(np.asarray(stack), layer, mlp_input, pos_slice, recompute_ln))

    def _scaled(self, stack: Floats, layer: int | None = None, mlp_input: bool = False, pos_slice: Place = None,
                recompute_ln: bool = False) -> Floats:
        last = self._layer(layer)
        norm = self._norm(last, mlp_input)
        if norm is None:
            return stack
        centre = norm.centre(stack)
        if recompute_ln:
            return np.asarray(centre / norm.scale(centre) * norm.gain + norm.bias, np.float32)
        residual = at(self._values[self._residual(last, mlp_input)], pos_slice)
        return np.asarray(centre / norm.scale(norm.centre(residual)), np.float32)

    def _residual(self, last: int, mlp_input: bool) -> str:
        """The name of the residual stream before a layer's attention or MLP, or the head."""
        return self.full_name(*("resid_post", last - 1) if last == self.n_layers else ("resid_mid" if mlp_input else "resid_pre", last))

    def _check_sum(self, stack: Floats, last: int, mlp_input: bool, pos_slice: Place) -> None:
        whole = at(self._values[self._residual(last, mlp_input)], pos_slice)
        rest = np.abs(whole - stack.sum(0)).max() / np.abs(whole).max()
        if rest > 1e-3:
            warnings.warn(f"decompose_resid: the parts are not all of the residual stream: up to {rest:.1%} of its largest number is missing "
                          "(the model multiplies or norms it between layers, or a hook or steering changed it)", stacklevel=3)

    def _norm(self, layer: int, mlp_input: bool) -> Norm | None:
        """The norm before a layer's attention or MLP, or the head; None: there is none."""
        return norm_before(self.model, "ln_final" if layer == self.n_layers else "ln2" if mlp_input else "ln1",
                           -1 if layer == self.n_layers else layer)

    def _layer(self, layer: int | None) -> int:
        return self.n_layers if layer in (None, -1) else int(number("layer", layer, 1, self.n_layers))


def at(value: Floats, place: Place, axis: int = -2) -> Floats:
    """Positions of a value: a number takes the axis away."""
    if place is None:
        return value
    index: list[Any] = [slice(None)] * value.ndim
    index[axis] = slice(*place) if isinstance(place, tuple) else place
    part: Floats = value[tuple(index)]
    return part
