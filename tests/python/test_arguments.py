"""Every argument of the package's calls with usual and odd values, on three models: what is returned, or what is refused and how.

arguments.txt has a line for each result: a hash of its words with two sums of its numbers, or of the exception's line where the
package raises it; then the values that have it, the first and a hash of all. MGPT_WRITE=1 writes it again.
"""
import hashlib
import inspect
import itertools
import os
import pathlib
import re
import traceback
import types

import mgpt
import numpy as np
from mgpt import _rows
from test_said import NUMBER, halve, near, number, shown

SAID = pathlib.Path(os.environ["MGPT_SOURCE_ROOT"]) / "tests/python/arguments.txt"
PACKAGE = pathlib.Path(mgpt.__file__).parent
ODD = [None, True, -1, 0, 1, 2, 7, 99, 2**40, 0.5, -0.5, 1.5, float("nan"), float("inf"), "", "a", "x y", b"a", [], [3], [3, 1, 2], [99999], ["a", "b"], {}, {"a": 1}, (0, 1), (0.5, 0.1), (2, 3, 0.2)]
KINDS = {"kv": ["auto", "f32", "f16", "q8_0", "f8"], "over": ["resid_pre", "z,pattern", "heads", ["k", "v"], "mlp_out"], "metric": ["kl", "a - n", "5 - 6", "logprob:a", "logprob:5"], "mode": ["patch", "zero", "mean", "scale:2"],
         "into": ["clean", "corrupt", "other"], "layers": ["0", "-1", "9", "0-1"], "heads": ["0", "0,2", "1-9"], "positions": ["0", "1-2", "-1", "3-1"], "kind": ["qk", "ov", "places", "direct", "fires", "promotes"],
         "names": ["*", "blocks.0.*", ["hook_embed", "logits"]], "hooks": [[("blocks.0.attn.hook_z", halve)], [("none", halve)], [("*resid_post", lambda value, hook: value + 1)]],
         "role": ["W_Q", "W_K", "W_V", "W_O", "W_in", "W_gate", "W_out", "W_E", "W_U", "ln1", "ln2", "ln_final"], "regex": ["[a-e]*", "("], "ban": ["n", ["an", "l"]], "bias": [{3: 1.5}, {3: float("-inf")}, {"a": 1}],
         "stop": ["l", ["e", "n"]], "neuron": ["blocks.0.hook_resid_post[3]", "none[0]"], "name": ["output.weight", "blk.0.attn_q.weight"], "rng": ["python", "splitmix", "other"], "isa": ["scalar"]}
WITHOUT = {"threads", "self", "values", "sampling", "options", "file", "handle", "fwd_hooks"}  # no result hangs on them, or names of files


TOLD = {}  # what hashes are of, for a failure's lines


def told_as(name, text):
    key = f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    TOLD[key] = text[:300]
    return key


def outcome(call):
    """A result in some characters that all of it changes, or an exception: its name and a hash of its line, if the package raises it."""
    try:
        value = call()
        text = "\n".join(shown(list(value) if isinstance(value, types.GeneratorType) else value))
    except Exception as failed:  # all of them
        frames = traceback.extract_tb(failed.__traceback__)
        own = isinstance(failed, mgpt.Error) or pathlib.Path(frames[-1].filename).parent == PACKAGE
        ours = own and not isinstance(failed, AttributeError) and "NoneType" not in str(failed) and "not supported between" not in str(failed) and not str(failed).startswith("'")
        return told_as(type(failed).__name__, str(failed)) if ours else "elsewhere"
    numbers = np.array([float(x) for x in NUMBER.findall(text)] + [0.0])
    numbers = np.where(np.isfinite(numbers), np.clip(numbers, -1e9, 1e9), 0)
    at = np.arange(numbers.size)
    return f"{told_as('x', NUMBER.sub('#', text))} {number((numbers * np.cos(at)).sum())} {number((numbers * np.sin(at * at)).sum())}"


SAMPLING = [name for name in _rows.Sampling.__annotations__ if name != "rng_skip"]


def calls_of(name, model, texts):
    """{label: (function, arguments that it takes without change)}."""
    a, b = texts
    session = lambda **given: (lambda s: [s.feed(model.encode(a) if isinstance(a, str) else a), s.kv(0, 0), len(s), repr(s)])(model.session(**given))  # noqa: E731
    fed = lambda use: (lambda **given: (lambda s: [s.feed(model.encode(a) if isinstance(a, str) else a), use(s, **given), s.tokens, s.logits])(model.session()))  # noqa: E731
    cache = model.run_with_cache(a)[1]
    found = {
        "logits": (model.logits, {"text": a}), "score": (model.score, {"texts": [a, b]}), "lens": (model.lens, {"text": a}), "attribution": (model.attribution, {"text": a}), "session": (session, {}),
        "run_with_cache": (model.run_with_cache, {"text": a}), "run_with_hooks": (model.run_with_hooks, {"text": a, "hooks": [("blocks.0.hook_resid_post", halve)]}), "patch": (model.patch, {"clean": a, "corrupt": b}),
        "generate": (model.generate, {"text": a, "n": 5, "seed": 3}), "generate_many": (model.generate_many, {"prompts": [a, b], "n": 4, "seed": 2}), "circuits": (model.circuits, {"kind": "qk"}), "tensor": (model.tensor, {"name": "x"}),
        "has": (model.has, {"role": "W_Q"}), "tensor_of": (model.tensor_of, {"role": "W_K", "layer": 0}), "encode": (model.encode, {"text": "an"}), "decode": (model.decode, {"tokens": [3, 1]}), "token_text": (model.token_text, {"token": 3}),
        "is_end": (model.is_end, {"token": 3}), "step": (fed(mgpt.Session.step), {"token": 3}), "rewind": (fed(mgpt.Session.rewind), {"position": 1}), "sync": (fed(mgpt.Session.sync), {"tokens": [3, 1]}),
        "kv": (fed(mgpt.Session.kv), {"layer": 0, "head": 0}), "unembed": (fed(mgpt.Session.unembed), {"residual": np.arange(model.info.n_embd) / 8}), "head_scores": (model.head_scores, {"n": 3, "texts": 1})}
    for method in ("accumulated_resid", "decompose_resid", "stack_head_results", "stack_activation", "stack_neuron_results", "logit_attrs", "apply_ln_to_stack", "get_full_resid_decomposition", "show", "full_name"):
        if hasattr(cache, method):
            need = {"logit_attrs": {"residual_stack": cache.accumulated_resid(), "tokens": 5}, "apply_ln_to_stack": {"residual_stack": cache.accumulated_resid()}, "stack_activation": {"activation_name": "z"}}.get(method, {})
            names = inspect.signature(getattr(cache, method)).parameters
            first = [p for p in names.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in need]
            found["cache." + method] = (getattr(cache, method), {**{k: v for k, v in need.items() if k in names}, **{p.name: "pattern" for p in first}})
    if name == "names":
        found["choose"] = (model.choose, {"text": "an", "choices": ["na", "nie", "a"], "seed": 1})
    row = np.array(model.logits(a)[-1])
    found["Sampler"] = (lambda **given: (lambda s: [[s(row, np.array([3, 1], np.int32)) for _ in range(5)], s.edited(row, np.array([3, 1], np.int32)), s.seed, s.probability(row, 2)])(mgpt.Sampler(model=model, **given)), {"seed": 3})
    return found


def swept(function, given):
    """The names of the arguments that are changed."""
    parameters = inspect.signature(function).parameters
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    named = [n for n, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)] or list(given)
    more = SAMPLING if open_ended and "seed" in given else []
    if open_ended and not more and not named:
        more = ["n_ctx", "kv", "chunk"]
    return [n for n in dict.fromkeys([*named, *given, *more]) if n not in WITHOUT]


def told(value):
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))


def lines(models):
    for (name, model), texts in zip(models.items(), (("ann", "anb"), ([3, 1, 4], [3, 2, 4]), ([3, 1, 4], [3, 2, 4])), strict=True):
        width = model.info.n_embd
        steer = [{0: np.ones(width)}, mgpt.Steering(np.arange(float(width)), 0.1, 0), mgpt.Steering(np.ones((model.info.n_layer, width)), -0.5), {9: np.ones(width)}, {0: np.ones(3)}]
        for label, (function, given) in calls_of(name, model, texts).items():
            yield f">>> {name}.{label}"
            yield f"  {outcome(lambda: function(**given))}"  # noqa: B023
            for argument in swept(function, given):
                same = {}
                for value in [*KINDS.get(argument, []), *(steer if argument == "steer" else []), *ODD]:
                    if argument == "seed" and value in (None, -1):
                        continue  # draws one
                    same.setdefault(outcome(lambda: function(**{**given, argument: value})), []).append(told(value))  # noqa: B023
                for result, values in same.items():
                    yield f"  {argument}: {result} <- {values[0][:8]} {told_as(f'{len(values)}', ' '.join(values))}"


def test_arguments(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    models = {"names": mgpt.Model(root / "weights/names.gguf"), **{name: mgpt.Model(root / "tests/golden" / name) for name in ("gpt2", "gemma2")}}
    got = [line.replace(str(root), "ROOT").replace(str(tmp_path), "HERE") for line in lines(models)]
    if os.environ.get("MGPT_WRITE"):
        SAID.write_text("\n".join(got) + "\n")
    want = SAID.read_text().splitlines()
    wrong = [f"- {a}\n+ {b}" for a, b in itertools.zip_longest(want, got, fillvalue="") if a != b and not near(a, b)]
    now = {word: TOLD[word] for line in wrong[:5] for word in line.split() if word in TOLD}
    assert not wrong, "\n".join([*wrong[:20], *map(str, now.items())])
