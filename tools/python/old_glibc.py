"""Lets the wheel run with glibc 2.28 although it is linked here: old_glibc.py FOLDER CC...

Writes libc.so, libm.so, libpthread.so and libdl.so into FOLDER: libraries to link with, without code. Each has the symbols of this
machine's glibc that 2.28 has, with the newest version up to 2.28 as the default. What became part of libc.so.6 in 2.34 is in
its former library. Functions that 2.28 has as inline calls of others (stat) are in a small static library. A symbol that glibc
2.28 lacks is an undefined reference when the wheel is linked, so what links runs there.
"""

import re
import subprocess
import sys
from pathlib import Path

OLDEST = (2, 28)
MOVED = (2, 34)  # libpthread, libdl, librt and libutil became part of libc
FORMER = {"libpthread.so.0": re.compile(r"(pthread|sem)_|__pthread_"), "libdl.so.2": re.compile(r"dl(open|close|sym|addr|error|info|vsym|mopen|addr1)$")}
SYMBOL = re.compile(r"^\s*\d+: [0-9a-f]+ +(\d+) (FUNC|OBJECT|IFUNC) +(?:GLOBAL|WEAK) +DEFAULT +\d+ (\w+)@@?GLIBC_([0-9.]+)", re.M)

# Functions of newer headers, by those that 2.28 has. The version of struct stat: 0, on x86-64 1.
INSTEAD = r"""
#include <stdarg.h>
#ifdef __x86_64__
enum { STAT = 1 };
#else
enum { STAT = 0 };
#endif
struct stat;
int __xstat(int, const char *, struct stat *), __lxstat(int, const char *, struct stat *), __fxstat(int, int, struct stat *);
int __fxstatat(int, int, const char *, struct stat *, int);
#define HIDDEN __attribute__((visibility("hidden")))
HIDDEN int stat(const char *p, struct stat *s) { return __xstat(STAT, p, s); }
HIDDEN int stat64(const char *p, struct stat *s) { return __xstat(STAT, p, s); }
HIDDEN int lstat(const char *p, struct stat *s) { return __lxstat(STAT, p, s); }
HIDDEN int lstat64(const char *p, struct stat *s) { return __lxstat(STAT, p, s); }
HIDDEN int fstat(int f, struct stat *s) { return __fxstat(STAT, f, s); }
HIDDEN int fstat64(int f, struct stat *s) { return __fxstat(STAT, f, s); }
HIDDEN int fstatat(int d, const char *p, struct stat *s, int a) { return __fxstatat(STAT, d, p, s, a); }
HIDDEN int fstatat64(int d, const char *p, struct stat *s, int a) { return __fxstatat(STAT, d, p, s, a); }
#define NUMBER(type, name, letter) \
    type name(const letter *, letter **, int); \
    HIDDEN type __isoc23_##name(const letter *s, letter **e, int b) { return name(s, e, b); }
NUMBER(long, strtol, char)
NUMBER(long long, strtoll, char)
NUMBER(unsigned long, strtoul, char)
NUMBER(unsigned long long, strtoull, char)
NUMBER(long, wcstol, __WCHAR_TYPE__)
NUMBER(long long, wcstoll, __WCHAR_TYPE__)
NUMBER(unsigned long, wcstoul, __WCHAR_TYPE__)
NUMBER(unsigned long long, wcstoull, __WCHAR_TYPE__)
int vsscanf(const char *, const char *, va_list);
HIDDEN int __isoc23_sscanf(const char *s, const char *f, ...)
{
    va_list list;
    va_start(list, f);
    int n = vsscanf(s, f, list);
    va_end(list);
    return n;
}
"""

# The start files of 2.34 leave constructors to libc.so.6, those before ran them: passed as init, as then, both versions do.
START = """
typedef void function(int, char **, char **);
extern function *__init_array_start[] __attribute__((visibility("hidden"))), *__init_array_end[] __attribute__((visibility("hidden")));
int given_start(int (*)(int, char **, char **), int, char **, function *, void (*)(void), void (*)(void), void *);
__asm__(".symver given_start,__libc_start_main@GLIBC_VERSION");
void _init(void);
static void init(int n, char **arguments, char **environment)
{
    _init();
    for (function **f = __init_array_start; f < __init_array_end; f++)
        (*f)(n, arguments, environment);
}
__attribute__((visibility("hidden"))) int __libc_start_main(int (*main)(int, char **, char **), int n, char **arguments, function *old_init,
                                                            void (*fini)(void), void (*loader_fini)(void), void *stack)
{
    return given_start(main, n, arguments, old_init ? old_init : init, fini, loader_fini, stack);
}
"""


def version_of(text):
    return tuple(int(part) for part in text.split("."))


def symbols(library):
    """{name: [(version, its text, type, size)]} of a library, oldest version first."""
    table = subprocess.run(["readelf", "--dyn-syms", "-W", library], capture_output=True, text=True, check=True).stdout
    found = {}
    for size, kind, name, version in SYMBOL.findall(table):
        found.setdefault(name, []).append((version_of(version), version, kind, int(size)))
    return {name: sorted(versions) for name, versions in found.items()}


def parts(found, library):
    """{file name: {symbol: (version's text, type, size)}}: what OLDEST has of a library, in the libraries of that time."""
    files = {}
    for name, versions in found.items():
        old = [v for v in versions if v[0] <= OLDEST]
        if not old:
            continue
        former = [file for file, names in FORMER.items() if names.match(name)] if versions[-1][0] == MOVED else []
        if versions[-1][0] == MOVED and not former and name != "__libc_start_main":
            continue  # of librt, libutil or libanl
        files.setdefault((former or [library])[0], {})[name] = old[-1][1:]
    return files


def write_stub(folder, file, names, cc):
    """A shared library of symbols with their versions and no code."""
    lines, versions = [".text"], sorted({version for version, _, _ in names.values()}, key=version_of)
    for number, (name, (version, kind, size)) in enumerate(sorted(names.items())):
        lines += [f".globl s{number}", f".type s{number}, %{'object' if kind == 'OBJECT' else 'function'}",
                  f".size s{number}, {size}", f"s{number}: .skip {max(size, 1) if kind == 'OBJECT' else 1}",
                  f".symver s{number}, {name}@@GLIBC_{version}"]
    script = "".join(f"GLIBC_{version} {{ }};\n" for version in versions)
    # The first node hides the names s0, s1, ...
    script = script.replace("{ }", "{ local: s[0-9]*; }", 1)
    (folder / "stub.s").write_text("\n".join(lines) + "\n")
    (folder / "stub.map").write_text(script)
    subprocess.run([*cc, "-shared", "-nostdlib", f"-Wl,-soname,{file}", f"-Wl,--version-script={folder / 'stub.map'}", "-o",
                    folder / file, folder / "stub.s"], check=True)


def main(folder, *cc):
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)

    def said(argument):
        return subprocess.run([*cc, argument], capture_output=True, text=True, check=True).stdout.strip()
    files = {}
    for library in ("libc.so.6", "libm.so.6"):
        for file, names in parts(symbols(said(f"-print-file-name={library}")), library).items():
            files.setdefault(file, {}).update(names)
    if "pthread_create" not in files.get("libpthread.so.0", {}):
        return print("glibc is older than 2.34, in which libpthread became part of libc: the wheel asks for the symbols of this one")
    for file, names in files.items():
        write_stub(folder, file, names, cc)
    (folder / "libinstead.a").unlink(missing_ok=True)
    for name, text in ("instead", INSTEAD), ("start", START.replace("VERSION", files["libc.so.6"]["__libc_start_main"][0])):
        (folder / f"{name}.c").write_text(text)
        subprocess.run([*cc, "-O2", "-fPIC", "-fno-stack-protector", "-ffreestanding", "-w", "-c", "-o", folder / f"{name}.o", folder / f"{name}.c"], check=True)
        subprocess.run([said("-print-prog-name=ar"), "rcsD", folder / "libinstead.a", folder / f"{name}.o"], check=True)
    wanted = subprocess.run(["readelf", "-dW", said("-print-file-name=libc.so.6")], capture_output=True, text=True, check=True).stdout
    loader = said("-print-file-name=" + re.search(r"ld-linux[-\w]*\.so\.\d", wanted).group())
    (folder / "libc.so").write_text(f"GROUP ( {folder}/libinstead.a {folder}/libc.so.6 {said('-print-file-name=libc_nonshared.a')} "
                                    f"AS_NEEDED ( {folder}/libpthread.so.0 {folder}/libdl.so.2 {loader} ) )\n")
    (folder / "libm.so").write_text(f"INPUT ( {folder}/libm.so.6 )\n")
    for file in FORMER:
        (folder / file[:-2]).write_text(f"INPUT ( AS_NEEDED ( {folder / file} ) )\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
