"""mgpt by its command line. MGPT names the program."""
import os
import subprocess
import tempfile
import zipfile

from adapter import main, refuse_ways

MGPT = os.environ.get("MGPT", "mgpt")


def run(*words, text=None):
    done = subprocess.run([MGPT, *words], capture_output=True, input=text)
    if done.returncode:
        raise RuntimeError((done.stderr.decode().strip() or f"exit status {done.returncode}").splitlines()[-1])
    return done.stdout


def logits(model, ids, how):
    names = ["logits"]
    if how[:1] == ["--hooks"]:  # its trace shows the last norm with its gain
        names = how[1].replace(".hook_out", ".hook_normalized").split(",")
    else:
        refuse_ways(how)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "out.npz")
        if model.endswith(".pt"):  # what such a checkpoint does not say is as in nanoGPT
            run("convert", model, folder + "/model.gguf", "--assume", "nanogpt")
            model = folder + "/model.gguf"
        run("trace", model, "--ids", ",".join(map(str, ids)), "--kv", "f32", "--hooks", ",".join(names), "-o", file)
        with zipfile.ZipFile(file) as archive:
            arrays = [archive.read(name + ".npy") for name in names]
    return b"".join(npy[10 + int.from_bytes(npy[8:10], "little"):] for npy in arrays)


def tokens(model, texts):
    return [run("tokenize", model, "--no-bos", text=text.encode()).decode().split() for text in texts]


main(logits, tokens)
