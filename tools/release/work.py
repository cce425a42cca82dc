"""Where a release is made, and with what: the same for each artefact."""
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*words, env=None, cwd=None):
    """Runs a program; what it prints is seen only if it fails."""
    done = subprocess.run([str(w) for w in words], env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.stderr.write(done.stdout)
        sys.exit(f"release: {' '.join(map(str, words))}: exit code {done.returncode}")
    return done.stdout


def git(*words):
    """What git prints, or "" where this is no clone, or another user's."""
    done = subprocess.run(["git", "-C", ROOT, *words], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


class Work:
    def __init__(self, folder, version, compiler):
        self.folder = folder / "release"  # the result
        self.out = folder / "release-work"  # the result while it is made
        self.build = folder.with_name(folder.name + "-release")  # a build with the options of a package
        self.version = version
        self.commit = git("rev-parse", "HEAD")
        self.epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct") or 0)
        if not self.epoch:
            sys.exit("release: git has no commit to take the time from: give SOURCE_DATE_EPOCH, in seconds")
        self.changed = git("status", "--porcelain", "--untracked-files=no")
        self.address = os.environ.get("MGPT_ADDRESS", "")
        self.lab_address = os.environ.get("MGPT_LAB_ADDRESS", "")
        # What a user has set for other builds is not for this one.
        kept = {name: value for name, value in os.environ.items() if not name.endswith("FLAGS") and not name.startswith("MESON")}
        self.env = {**kept, "SOURCE_DATE_EPOCH": str(self.epoch), "CC": " ".join(compiler)}
        self.cross_env = {name: value for name, value in self.env.items() if name != "CC"}

    def date_time(self):
        """For zip."""
        return time.gmtime(self.epoch)[:6]

    def prepare(self):
        if self.changed:
            print(f"release: {len(self.changed.splitlines())} files are not as in the commit", file=sys.stderr)
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        if not (self.build / "build.ninja").exists():
            utf8proc = self.static_pkg_config()
            run("meson", "setup", self.build, ROOT, "--prefix=/usr", f"--libdir=lib/{multiarch()}", "--buildtype=release",
                env={**self.env, "PKG_CONFIG_PATH": str(utf8proc)})

    def for_aarch64(self):
        """A build by Debian's cross compiler with its packages for arm64, configured once."""
        root = self.build.with_name(self.build.name + "-aarch64-root")
        build = self.build.with_name(self.build.name + "-aarch64")
        run(ROOT / "tools/release/aarch64_root.sh", root)
        self.configure_cross(build, root / "aarch64-linux-gnu.ini")
        return build

    def for_windows(self):
        """A build by MinGW-w64 with the sources of Debian's PCRE2, configured once."""
        deps = self.build.with_name(self.build.name + "-windows-deps")
        build = self.build.with_name(self.build.name + "-windows")
        run(ROOT / "tools/windows/deps.sh", deps)
        (deps / "deps.ini").write_text(f"[properties]\npkg_config_libdir = '{deps}/lib/pkgconfig'\n")
        self.configure_cross(build, ROOT / "tools/windows/windows.ini", deps / "deps.ini")
        return build

    def configure_cross(self, build, *files):
        if not (build / "build.ninja").exists():
            run("meson", "setup", build, ROOT, *(f"--cross-file={file}" for file in files), "--buildtype=release", env=self.cross_env)

    def static_pkg_config(self):
        """A folder with a .pc file that links utf8proc statically: Debian 12 and 13 have different versions of its ABI,
        and one package is for both."""
        folder = self.build.with_name(self.build.name + "-pkgconfig")
        folder.mkdir(exist_ok=True, parents=True)
        version = run("pkg-config", "--modversion", "libutf8proc").strip()
        archive = Path(run("pkg-config", "--variable=libdir", "libutf8proc").strip()) / "libutf8proc.a"
        if not archive.exists():
            sys.exit(f"release: {archive}: missing; as root: apt-get install libutf8proc-dev")
        (folder / "libutf8proc.pc").write_text(f"Name: libutf8proc\nDescription: static\nVersion: {version}\nLibs: {archive}\nCflags:\n")
        return folder


def multiarch():
    """x86_64-linux-gnu"""
    return run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").strip()
