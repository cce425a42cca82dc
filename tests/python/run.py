"""Installs the wheel into a folder of its own and runs pytest on this folder.

run.py BUILD VERSION LIBRARY PROGRAM ROWS [pytest's arguments]. The interpreter is that of a virtual environment below
the build folder, which gets numpy and pytest from PyPI once.
Without them the test is skipped with the reason, or fails where CI has promised a network (MGPT_CI). MGPT_PYTHON names
an interpreter that has them, and what else the tests of suite "torch" want.
"""
import fcntl
import os
import pathlib
import subprocess
import sys
import tempfile
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tools/python"))
sys.dont_write_bytecode = True
import backend  # noqa: E402

NEEDED = "import numpy, pytest"
os.environ.pop("LD_LIBRARY_PATH", None)  # Meson's: the wheel's files must find each other by themselves


def quiet(*words):
    return subprocess.run(words, capture_output=True, text=True)


def missing(why):
    """The exit code of a test that cannot run."""
    print("skipped:", why)
    return 1 if os.environ.get("MGPT_CI") else 77


def environment(folder):
    """The environment's interpreter, or a line that says why there is none. One process makes it, the others wait."""
    with open(folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return ready_environment(folder)


def ready_environment(folder):
    python = folder / "bin/python"
    if quiet(python, "-c", NEEDED).returncode == 0 if python.exists() else False:
        return python, ""
    try:
        venv.create(folder, clear=True, with_pip=True)
    except (Exception, SystemExit) as failed:
        return None, f"python3 -m venv: {failed} (Debian: apt-get install python3-venv)"
    done = quiet(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "numpy", "pytest")
    if done.returncode:
        return None, "pip cannot download numpy and pytest: " + (done.stderr.strip() or "no message").splitlines()[-1]
    return python, ""


def main(build, version, *rest):
    build, end = pathlib.Path(build).resolve(), rest.index("--")
    parts, pytest = rest[:end], rest[end + 1:]
    named = os.environ.get("MGPT_PYTHON")
    with tempfile.TemporaryDirectory() as folder:
        wheel = backend.write_wheel(folder, version, *parts)
        python, why = (named, "") if named else environment(build / "python-venv")
        if why:
            return missing(why)
        site = pathlib.Path(folder) / "site"
        done = quiet(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--disable-pip-version-check",
                     "--target", str(site), wheel)
        if done.returncode:
            print(done.stderr)
            return 1
        env = {"PYTHONPATH": str(site), "MGPT_WHEEL": str(wheel), "MGPT_BUILD": str(build), "MGPT_SOURCE_ROOT": str(ROOT)}
        return subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(pytest or [HERE])],
                              cwd=folder, env={**os.environ, **env, "PYTHONDONTWRITEBYTECODE": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
