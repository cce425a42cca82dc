"""Does `check --explain` name the cause? Bugs planted in small models of transformers (causes_list.py).

Each case changes a model: its weights, its configuration, or the code that runs it. `file`: the changed
model is converted, and the reference is what transformers computes with the unchanged one (a converter's
fault). `ref`: the reference is what the changed model gives (another program's fault).

    causes.py MGPT [PATTERN ...]   prints a row for each case: named, hint, no, FALSE or silent, where nothing
                                   may be named, and the seconds; with logits only and with all inner values

Exits with 1 when something false is named, or less than 95 % of the rest.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX2"  # before torch: bfloat16 on a machine without all of AMX

import numpy as np
import torch
import transformers as hf

from causes_fresh import FRESH
from causes_list import CASES
from causes_more import MORE
from causes_set4 import SET4
from causes_set5 import SET5
from causes_set6 import SET6
from causes_set7 import SET7
from causes_set8 import SET8
from causes_set9 import SET9
from causes_set10 import SET10
from causes_planted import FAMILIES, VOCAB, Edit, head_width, make_hf

T = 48
SETS = (CASES, FRESH, MORE, SET4, SET5, SET6, SET7, SET8, SET9, SET10)

# ---- references ----


def watch(e, seen):
    """Values inside under TransformerLens names, by hooks on the modules."""
    def keep(name, heads=None, before=False):
        def hook(module, args, out=None):
            x = args[0] if before else (out if torch.is_tensor(out) else out[0])
            x = x[0].detach().clone()  # some programs write over it
            seen[name] = x.reshape(len(x), -1, heads) if heads else x
        return hook

    c = e.config
    layers, final = make_hf.parts(e.model)
    layers[0].register_forward_pre_hook(
        lambda m, a, k: seen.update({"blocks.0.hook_resid_pre": (a[0] if a else k["hidden_states"])[0].clone()}),
        with_kwargs=True)
    final.register_forward_hook(keep("ln_final.hook_normalized"))
    for n, layer in enumerate(layers):
        layer.register_forward_hook(keep(f"blocks.{n}.hook_resid_post"))
    d = head_width(e, 0) if c.model_type != "gpt2" else c.n_embd // c.n_head
    for n, layer in enumerate(e.layers):
        a, block = e.attn(layer), f"blocks.{n}."
        for short in "qkv":
            if hasattr(a, f"{short}_proj"):
                getattr(a, f"{short}_proj").register_forward_hook(keep(f"{block}attn.hook_{short}", d))
        for name in ("o_proj", "c_proj", "dense"):
            if hasattr(a, name):
                getattr(a, name).register_forward_pre_hook(keep(f"{block}attn.hook_z", d, before=True))
        mlp = layer.mlp
        for name, point in (("gate_proj", "pre"), ("up_proj", "pre_linear"), ("c_fc", "pre"), ("fc1", "pre"),
                            ("dense_h_to_4h", "pre")):
            if hasattr(mlp, name):
                getattr(mlp, name).register_forward_hook(keep(f"{block}mlp.hook_{point}"))
        for name in ("down_proj", "c_proj", "fc2", "dense_4h_to_h"):
            if hasattr(mlp, name):
                getattr(mlp, name).register_forward_pre_hook(keep(f"{block}mlp.hook_post", before=True))


def run(e, tokens, dtype):
    """Logits and values inside; the model computes in dtype."""
    seen = {}
    watch(e, seen)
    e.model.to(dtype)
    with torch.no_grad():
        if dtype == torch.float64:
            with make_hf.Float64():
                for m in e.model.modules():  # tables of frequencies, not rounded
                    for name, table in m.named_buffers(recurse=False):
                        if "inv_freq" in name:
                            setattr(m, name, table.double())
                out = e.model(tokens[None], output_attentions=True, use_cache=False)
        else:
            out = e.model(tokens[None], output_attentions=True, use_cache=False)
    patterns = out.attentions or []
    for n, pattern in enumerate(patterns):
        if pattern is not None and len(patterns) == len(e.layers):  # else they are another layer's
            seen[f"blocks.{n}.attn.hook_pattern"] = pattern[0]

    seen = {name: x[e.cut:] for name, x in seen.items()}

    def plain(x):
        return (x if x.dtype == torch.float64 else x.float()).numpy()
    return plain(out.logits[0]), {k: plain(v) for k, v in seen.items()}


class Bench:
    def __init__(self, mgpt, folder, double):
        self.mgpt, self.folder, self.double, self.converted = mgpt, folder, double, {}

    def convert(self, e, name):
        where = self.folder / name
        e.model.float().save_pretrained(where)
        subprocess.run([self.mgpt, "convert", where, f"{where}.gguf", "--type", "f32"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        return f"{where}.gguf"

    def clean(self, family):
        if family not in self.converted:
            self.converted[family] = self.convert(Edit(FAMILIES[family]()), family)
        return self.converted[family]

    def plant(self, number, family, kind, change):
        """Paths of the model and the two references of a case."""
        clean, broken = Edit(FAMILIES[family]()), Edit(FAMILIES[family]())
        change(broken)
        model = self.convert(broken, f"case{number}") if kind == "file" else self.clean(family)
        torch.manual_seed(3)
        tokens = torch.randint(0, VOCAB, (T,))
        told = clean if kind == "file" else broken
        dtype = torch.float64 if (number % 2 if self.double is None else self.double) else torch.float32
        try:
            logits, seen = run(told, tokens, getattr(told, "dtype", dtype))
        finally:
            for undo in broken.undo:
                undo()
        paths = []
        for label, more in (("logits", {}), ("hooks", seen)):
            paths.append(self.folder / f"case{number}{kind}.{label}.npz")
            np.savez(paths[-1], tokens=tokens.numpy(), logits=logits, **more)
        return model, paths

    def explain(self, model, reference):
        began = time.time()
        out = subprocess.run([self.mgpt, "check", model, reference, "--explain", "--json"],
                             capture_output=True, text=True)
        said = [json.loads(line) for line in out.stdout.splitlines() if line.startswith("{")]
        found = next((s for s in said if "restored" in s), None)
        return found, time.time() - began, out.returncode


def judge(found, code, wanted):
    """One word, and what was said."""
    if code not in (0, 1):
        return "ERROR", str(code)
    if not found:
        return ("silent" if wanted is None else "no"), ""
    cause = found["cause"] if found["restored"] or found["cause"] else None
    trials = found.get("trials") or []
    if found.get("weight"):
        cause = f"{cause}: one weight"
    if cause and found.get("with"):
        cause = f"{cause}; {found['with']}"
    if cause:
        right = wanted and re.search(wanted, cause)
        return ("named" if right else "FALSE"), cause
    near = f"({trials[0]['cause']} {trials[0]['nmse']:.1e})" if trials else ""
    ran = (found.get("precision") or {}).get("type", "")
    if ran and wanted and re.search(wanted, ran):
        return "precision", f"ran in {ran} {near}"
    if wanted is None:
        return "silent", near
    return ("hint" if re.search(wanted, f"{near} {found.get('worth_a_look') or ''}") else "no"), near


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mgpt")
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--only", choices=["logits", "hooks"])
    parser.add_argument("--set", type=int, action="append", help="1 to 10: only this set of cases")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the files")
    parser.add_argument("--double", type=int, help="1: float64 references, 0: float32; default: both, by case")
    args = parser.parse_intermixed_args()
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    torch.set_num_threads(1)
    counts = {"logits": {}, "hooks": {}}
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args.mgpt, args.keep or pathlib.Path(folder), args.double)
        bench.folder.mkdir(exist_ok=True)
        cases = [(i, case) for i, of in enumerate(SETS) for case in of]
        for number, (which_set, (label, family, kinds, change, wanted)) in enumerate(cases):
            if args.set and which_set + 1 not in args.set:
                continue
            if args.patterns and not any(fnmatch.fnmatch(label, p) or p == str(number) for p in args.patterns):
                continue
            for kind in kinds.split():
                try:
                    model, paths = bench.plant(number, family, kind, change)
                except Exception as error:  # a case that cannot be made is a row, too
                    print(f"{number:3} {label[:48]:48} {kind:4} cannot be made: {str(error)[:200]}", flush=True)
                    continue
                for i, (path, which) in enumerate(zip(paths, ("logits", "hooks"))):
                    if args.only and which != args.only:
                        continue
                    found, seconds, status = bench.explain(model, path)
                    word, said = judge(found, status, wanted[i] if isinstance(wanted, tuple) else wanted)
                    counts[which][word] = counts[which].get(word, 0) + 1
                    print(f"{number:3} {label[:48]:48} {kind:4} {which:6} {word:6} {seconds:5.1f} s  {said}",
                          flush=True)
    bad = 0
    for which, words in counts.items():
        print(which, *(f"{word} {n}" for word, n in sorted(words.items())))
        bad += words.get("FALSE", 0) + words.get("ERROR", 0) > 0
        bad += 20 * (words.get("no", 0) + words.get("hint", 0)) > sum(words.values())
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
