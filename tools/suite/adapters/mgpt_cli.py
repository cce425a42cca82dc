"""mgpt by its command line. MGPT names the program."""
import os
import subprocess
import tempfile
import zipfile

from adapter import main, refuse_ways

MGPT = os.environ.get("MGPT", "mgpt")


def logits(model, ids, how):
    refuse_ways(how)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "out.npz")
        words = [MGPT, "trace", model, "--ids", ",".join(map(str, ids)), "--kv", "f32", "--hooks", "logits", "-o", file]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError((done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1])
        with zipfile.ZipFile(file) as archive:
            npy = archive.read("logits.npy")
    return npy[10 + int.from_bytes(npy[8:10], "little"):]


main(logits)
