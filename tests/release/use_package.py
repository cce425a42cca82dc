"""Uses the package as a reader of its README does, and prints what must be the same on every machine.

usage: use_package.py SITE MODEL FOLDER      SITE: where the wheel was unpacked; FOLDER: for files
"""
import hashlib
import os
import sys

site, path, folder = sys.argv[1:]
sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # whatever the system has
sys.path.insert(0, site)
import mgpt  # noqa: E402
import numpy as np  # noqa: E402


def bits(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def inside(model):
    logits, cache = model.run_with_cache("anna")
    for name in sorted(cache):
        print(name, cache[name].shape, bits(cache[name]))
    hook = ("blocks.0.attn.hook_z", lambda z, hook: z.__setitem__((0, slice(None), 3), 0))
    print("without head 3", bits(model.run_with_hooks("anna", [hook])))
    print("patched", bits(model.patch("anna", "emma", lambda logits: float(logits[0, -1, 0]), "z")["z"].values))
    lens = model.lens("anna")
    print("lens", lens.names, lens.tokens.tolist(), lens.ranks.tolist(), [[f"{p:.9f}" for p in row] for row in lens.logprobs])
    return logits


def sessions(model, logits):
    """A session kept in a file whose name is of several alphabets."""
    session = model.session()
    session.feed(model.encode("anna"))
    assert np.array_equal(session.logits, logits[0, -1])
    kept = os.path.join(folder, "sitzung ß 日本.mgpt")
    session.save(kept)
    other = model.session()
    other.load(kept)
    print("kept", os.path.getsize(kept), bits(other.logits), [name for name in os.listdir(folder) if name.endswith(".tmp")])


def main():
    model = mgpt.Model(path)
    print("mgpt", mgpt.__version__, model.info.n_layer, model.info.n_vocab)
    logits = inside(model)
    sessions(model, logits)
    print("".join(model.generate("a", temperature=0.5, seed=42)))
    print(f"{model.score(['anna', 'emma'])[1].sum_logprob:.9f}")
    parts = model.attribution("anna")  # the program does this
    print(parts.what, parts.heads.tolist(), parts.mlps.tolist(), parts.total)
    try:
        mgpt.Model(os.path.join(folder, "fehlt ä.gguf")).info
    except mgpt.Error as failed:
        print(str(failed).replace(folder, "FOLDER").replace("\\", "/"))


main()
