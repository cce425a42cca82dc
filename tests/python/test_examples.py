"""tools/python/examples: two workers give the bytes of one process, and an interrupted run goes on."""
import json
import os
import shutil
import subprocess
import sys

import pytest

from mgpt._tool import PROGRAM


@pytest.fixture(scope="module")
def corpus(root, tmp_path_factory):
    """(model, records, what one process makes of them)."""
    folder = tmp_path_factory.mktemp("corpus")
    records, model = folder / "records.jsonl", root / "weights/names.gguf"
    rows = [{"id": i, "context": "an" * (i % 3), "continuation": "na" * (i % 4 + 1)} if i % 5 else {"id": i, "text": "anna"}
            for i in range(900)]
    records.write_text("".join(json.dumps(row) + "\n" for row in rows))
    whole = subprocess.run([PROGRAM, "score", model, "--json", "-f", records], capture_output=True, check=True).stdout
    return model, records, whole


def run(root, *words, **env):
    env = {**os.environ, "MGPT": str(PROGRAM), "PYSPARK_PYTHON": sys.executable, "RAY_AUTH_MODE": "disabled", **env}
    done = subprocess.run([str(word) for word in words], cwd=root / "tools/python/examples", env=env, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def check_resumed(again, out, whole):
    """The files are the whole. A missing one comes back, one that is there is not touched."""
    files = sorted(out.iterdir())
    assert len(files) > 2 and b"".join(f.read_bytes() for f in files) == whole
    files[0].write_bytes(b"kept\n")
    files[1].unlink()
    again()
    assert files[0].read_bytes() == b"kept\n"
    assert sorted(out.iterdir()) == files
    assert whole.endswith(b"".join(f.read_bytes() for f in files[1:]))


def test_parallel(root, corpus, tmp_path):
    if b"GNU parallel" not in subprocess.run("parallel --version", shell=True, capture_output=True).stdout:
        pytest.skip("no GNU parallel")
    model, records, whole = corpus

    def again():
        return run(root, "./parallel.sh", model, records, tmp_path / "out", 7, 2)

    assert again() == whole
    check_resumed(again, tmp_path / "out", whole)


def test_slurm_array(root, corpus, tmp_path):
    model, records, whole = corpus
    script = shutil.copy(root / "tools/python/examples/slurm.sh", tmp_path)  # as Slurm does

    def again():
        for task in range(1, 6):
            run(root, "sh", script, model, records, tmp_path / "out", SLURM_ARRAY_TASK_ID=str(task),
                SLURM_ARRAY_TASK_COUNT="5", SLURM_SUBMIT_DIR=str(root / "tools/python/examples"))

    again()
    check_resumed(again, tmp_path / "out", whole)


def test_failures_leave_no_shard(root, corpus, tmp_path):
    model, records, _ = corpus
    script = root / "tools/python/examples/score_shard.sh"
    env = {**os.environ, "MGPT": str(PROGRAM)}
    for m, r in ((tmp_path / "none.gguf", records), (model, tmp_path / "none.jsonl")):
        assert subprocess.run([script, m, r, tmp_path / "out", "1", "2"], env=env, stderr=subprocess.DEVNULL).returncode
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize("engine", ["spark", "ray"])
def test_engine(root, corpus, tmp_path, engine):
    pytest.importorskip("pyspark" if engine == "spark" else "ray")
    model, records, whole = corpus

    def again():
        return run(root, sys.executable, f"{engine}_score.py", model, records, tmp_path / "out", 0.01 if engine == "spark" else 4)

    again()
    check_resumed(again, tmp_path / "out", whole)


def test_completion(root, names, monkeypatch):
    """Chunks make the text of Model.generate, with a reason at their end."""
    monkeypatch.syspath_prepend(str(root / "tools/python/examples"))
    from completion import create_completion

    for options, reason in (({"max_tokens": 3}, "length"), ({"max_tokens": 99}, "stop"), ({"max_tokens": 99, "stop": ["a"], "seed": 4}, "stop"),
                            ({"max_tokens": 0}, "length"), ({"max_tokens": 2, "echo": True, "top_k": 5}, "length")):
        chunks = list(create_completion(names, "mar", stream=True, **options))
        given = {name: value for name, value in options.items() if name not in ("max_tokens", "echo")}
        want = ("mar" if "echo" in options else "") + "".join(names.generate("mar", options["max_tokens"], **given))
        assert "".join(c["choices"][0]["text"] for c in chunks) == want
        assert [c["choices"][0]["finish_reason"] for c in chunks] == [None] * (len(chunks) - 1) + [reason]
        whole = create_completion(names, "mar", **options)
        assert whole["choices"][0]["text"] == want and whole["choices"][0]["finish_reason"] == reason
        drawn = sum(p.token is not None for p in names.generate("mar", options["max_tokens"], logprobs=0, **given))
        assert whole["usage"] == {"prompt_tokens": 4, "completion_tokens": drawn, "total_tokens": 4 + drawn}
    text = run(root, sys.executable, "completion.py", root / "weights/names.gguf", "mar").decode()
    assert text == "".join(names.generate("mar", 100)) + "\n"
