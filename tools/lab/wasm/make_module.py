"""Compiles the engine for lab pages to WebAssembly with Debian 12's clang.

usage: make_module.py write|compare SOURCE.c...

write replaces tools/lab/wasm/module.wasm, the copy that the build embeds, and inside.txt: the Debian
packages of which parts are inside, with versions, for the SBOM. compare makes both again and compares them with the copies,
byte for byte. The bytes depend on the sources and the version of clang only: no
file name, time or symbol name gets into the module. The copy is of clang 14.0.6 (Debian 12). Another clang cannot
write them; compare then puts its module into pages and runs tests/lab/same_bits.js, which compares the results. For
that it needs the programs in the environment: MGPT and MGPT_LAB_NATIVE.

Exit codes: 0 ok, 1 a source does not compile, 77 (Meson: skipped) the tools are missing or the copy is stale.
With MGPT_CI=1, which tools/test.sh and .ci/run set, 77 is 1. Elsewhere a change of src/ may wait for its module:
one commit with a new copy is enough for many.
"""
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '..'))
from embed import packed  # noqa: E402

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), '../../..'))
COPIES = 'tools/lab/wasm'  # in ROOT, where everything runs
PACKAGES = 'clang lld wasi-libc libclang-rt-dev-wasm32'
CLANG = '14.0.6'  # another version gives other bytes
INSIDE = ['wasi-libc', 'libclang-rt-14-dev-wasm32']  # what clang links

TARGET = ['--target=wasm32-wasi', '--sysroot=/usr']
COMPILE = TARGET + [
    '-std=c11', '-D_POSIX_C_SOURCE=200809L', '-msimd128', '-ffp-contract=off', '-fno-math-errno',
    '-fno-trapping-math', '-ffunction-sections', '-fdata-sections', '-fvisibility=hidden', '-Wall', '-Wextra',
    '-Werror', '-DISA=wasm', '-DFUSED_LEVELS=LEVEL(wasm)', '-DMGPT_NO_GRIDS', '-include', 'src/base/fmaf.h',
    '-Iinclude', '-Isrc', '-Itools', '-isystem', '/usr/include/stb', '-c']
LINK = TARGET + [
    '-mexec-model=reactor', '-Wl,--gc-sections', '-Wl,--strip-all', '-Wl,--stack-first',
    '-Wl,-z,stack-size=262144', '-Wl,--max-memory=4294967296']


def find_clang():
    """A clang that links for wasm32-wasi, or None: the headers, libc and the compiler's run time must be there."""
    for name in ('clang-14', 'clang'):
        probe = b'#include <stdlib.h>\nint main(void) { return malloc(1) == NULL; }\n'
        if shutil.which(name) and subprocess.run([name, *TARGET, '-x', 'c', '-', '-o', '/dev/null'], input=probe,
                                                 stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return name
    return None


def run(command):
    if subprocess.run(command, check=False).returncode != 0:
        sys.exit('make_module.py: failed: ' + ' '.join(command))


def make(clang, sources, folder):
    """Compiles and links the module; returns its path. Kernels are built for speed, the rest to be small. ccache is not asked:
    it has given an older object once."""
    def compile_one(source):
        name = os.path.basename(source)
        to = f'{folder}/{name}.o'
        fast = source.startswith(('src/kernels/isa/', 'src/kernels/spec/', 'src/page/')) or name in ('fma.c', 'isa_wasm.c')
        small = [] if name == 'fused_isa.c' else ['-DISA_SMALL']
        run([clang, *COMPILE, '-O2' if fast else '-Oz', *small, '-o', to, source])
        return to

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sources))
    run([clang, *LINK, '-o', f'{folder}/module.wasm', *objects])
    return f'{folder}/module.wasm'


def write_versions(folder):
    """The path of a file with a line for each package of INSIDE, as dpkg has it: NAME VERSION"""
    path = f'{folder}/inside.txt'
    with open(path, 'wb') as file:
        subprocess.run(['dpkg-query', '-W', '-f', '${Package} ${Version}\n', *INSIDE], stdout=file, check=True)
    return path


def read(path):
    with open(path, 'rb') as file:
        return file.read()


def copy_of(made):
    return f'{COPIES}/{os.path.basename(made)}'


def compare(made):
    copy, same = copy_of(made), read(made) == read(copy_of(made))
    print(f'{copy} is what the sources give' if same else
          f'{copy} differs from what the sources give: run `ninja -C build lab-module`, commit the file')
    return same


def compare_results(module, folder):
    """The exit code of same_bits.js on pages with this module."""
    programs = [os.environ.get(name) for name in ('MGPT', 'MGPT_LAB_NATIVE')]
    if not all(programs):
        sys.exit('make_module.py: MGPT and MGPT_LAB_NATIVE name no programs to compare with')
    with open(f'{folder}/packed', 'wb') as file:
        file.write(packed(read(module)))
    return subprocess.run(['sh', 'tests/lab/node.sh', 'tests/lab/same_bits.js', *programs, ROOT], check=False,
                          env={**os.environ, 'MGPT_MODULE': f'{folder}/packed'}).returncode


def main():
    what, *sources = sys.argv[1:]
    sources = [os.path.relpath(os.path.realpath(source), ROOT) for source in sources]
    os.chdir(ROOT)
    clang = find_clang()
    failed = 1 if what == 'write' or os.environ.get('MGPT_CI') else 77
    if not clang:
        print(f'make_module.py: no compiler for WebAssembly; on Debian 12: apt-get install {PACKAGES}')
        return failed
    version = subprocess.run([clang, '--version'], stdout=subprocess.PIPE, check=True, text=True).stdout
    if CLANG not in version:
        print(f'make_module.py: the copy is of clang {CLANG} (Debian 12), found', version.split('\n')[0])
        if what == 'write':
            return failed
    with tempfile.TemporaryDirectory() as folder:
        module = make(clang, sources, folder)
        if CLANG not in version:
            return compare_results(module, folder)
        made = [module, write_versions(folder)]
        if what == 'compare':
            return 0 if all([compare(path) for path in made]) else failed
        for path in made:
            shutil.copyfile(path, copy_of(path))
            print(f'{copy_of(path)}: {os.path.getsize(path)} bytes')
    return 0


if __name__ == '__main__':
    sys.exit(main())
