#!/bin/sh
# What `ninja install` builds and installs: program, man pages, completions, libraries, header, mgpt.pc, and no test.
# mgpt.pc answers --cflags and --libs where nothing else that mgpt is built with has a .pc file. And what
# tools/start.sh and .ci/run print where packages are missing. The argument is the build folder.
set -eu
build=${1:?build folder}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
failed=0
check() { # WHAT COMMAND...
    what=$1
    shift
    if "$@"; then echo "ok $what"; else echo "not ok $what"; failed=1; fi
}

ninja -C "$build" -t query meson-internal__install >"$dir/asked"
ninja -C "$build" -t query all >>"$dir/asked"
check "ninja all and install build no test" eval '! grep -nE "tests?/|fuzz|-prereq" "$dir/asked"'

/usr/bin/meson install -C "$build" --no-rebuild --destdir "$dir/root" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
(cd "$dir/root" && find . ! -type d) | sed 's|.*/||; /^mgpt-.*\.1$/d' | LC_ALL=C sort >"$dir/got"
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$MGPT_SOURCE_ROOT/meson.build")
printf '%s\n' _mgpt libmgpt.a libmgpt.so libmgpt.so.0 "libmgpt.so.$version" mgpt mgpt mgpt.1 mgpt.fish mgpt.h mgpt.pc \
    mgptConfig.cmake mgptConfigVersion.cmake >"$dir/want"
check "these files and a man page for each command are installed" diff "$dir/want" "$dir/got"

check "the program and the man pages have the version of meson.build" eval '
    [ "$("$build/tools/mgpt" --version)" = "mgpt $version" ] &&
    grep -q "^.TH MGPT 1 .* \"mgpt $version\"$" "$(find "$dir/root" -name mgpt.1)"'
pc=$(dirname "$(find "$dir/root" -name mgpt.pc)")
export PKG_CONFIG_LIBDIR="$pc" PKG_CONFIG_SYSROOT_DIR="$dir/root"
check "--cflags needs no other .pc file" eval 'pkg-config --cflags mgpt | grep -q -- "-I.*/include"'
check "--libs is the library alone" eval 'pkg-config --libs mgpt | grep -qE "^-L[^ ]* -lmgpt *$"'
check "--static names what it is made of" eval 'pkg-config --static --libs mgpt | grep -q -- "-lmgpt -lpcre2-8 -lm -pthread"'
printf '#include <mgpt.h>\nint main(void) { mgpt_close(0); return 0; }\n' >"$dir/main.c"
for static in '' --static; do
    # shellcheck disable=SC2086,SC2046
    check "a program links ($static)" ${CC:-cc} "$dir/main.c" -o "$dir/main" $MGPT_CFLAGS \
        $(pkg-config --cflags --libs $static mgpt)
done

# ---- a program with names that the insides of the library have ----
cat >"$dir/names.c" <<'C'
#include <mgpt.h>
float norm(float x) { return x; }
int matmul = 7;
int gguf_free = 7;
void stbds_arrgrowf(void) {} /* an stb_ds of another version */
int main(int argc, char **argv)
{
    mgpt_error err;
    mgpt_model *model = mgpt_open(argv[argc - 1], NULL, &err);
    mgpt_session *session = model ? mgpt_session_new(model, NULL, &err) : NULL;
    int failed = !session || !mgpt_step(session, 0, &err) || matmul != 7 || norm(1) != 1;
    mgpt_session_free(session);
    mgpt_close(model);
    return failed;
}
C
# shellcheck disable=SC2086,SC2046
check "a program with its own norm, matmul and stb_ds links the static library" ${CC:-cc} "$dir/names.c" -o "$dir/names" \
    $MGPT_CFLAGS $(pkg-config --cflags mgpt) "$(find "$dir/root" -name libmgpt.a)" -lpcre2-8 -lm -pthread
check "and runs" "$dir/names" "$MGPT_SOURCE_ROOT/weights/names.gguf"

# ---- packages that are missing: every program the scripts call is a stub or a link ----
stub() { # NAME TEXT: a program
    printf '#!/bin/sh\n%s\n' "$2" >"$dir/bin/$1"
    chmod +x "$dir/bin/$1"
}
mkdir "$dir/bin"
for program in sh dirname grep; do ln -s "$(command -v $program)" "$dir/bin/$program"; done
fails() { # SCRIPT TEXT: exit code 1, and the last line of stderr has TEXT
    text=$2
    code=0
    PATH="$dir/bin" "${MGPT_SOURCE_ROOT:?}/$1" </dev/null 2>"$dir/err" >"$dir/out" || code=$?
    check "$1: $text" eval '[ $code -eq 1 ] && tail -n 1 "$dir/err" | grep -qF "$text" || { cat "$dir/err"; false; }'
}
ln -s "$(command -v sed)" "$dir/bin/sed"
names_packages() { # TEXT: without dpkg-query, the first line names what is to be installed
    PATH="$dir/bin" "$MGPT_SOURCE_ROOT/tools/start.sh" </dev/null 2>"$dir/err" >"$dir/out" || true
    text=$1
    check "start.sh elsewhere: $text" eval 'head -n 1 "$dir/err" | grep -qF "$text" || { cat "$dir/err"; false; }'
}
stub meson 'exit 1'
stub find 'exit 0'
names_packages 'install gcc, meson, ninja'
stub apk ''
names_packages 'if a part is missing: apk add build-base meson'
stub dpkg-query 'exit 1'
stub id 'echo 1000'
stub sudo 'exit 1'
fails tools/start.sh '(neither root nor sudo); as root: apt-get update && apt-get install gcc libc6-dev'
check "one line" [ "$(wc -l <"$dir/err")" -eq 1 ]
stub id 'echo 0'
stub apt-get 'echo "W: something" >&2; echo "E: no network" >&2; exit 100'
fails tools/start.sh '(apt-get: E: no network); as root: apt-get update && apt-get install gcc'
stub dpkg-query 'echo ok installed'
stub clang 'exit 0'
fails .ci/run 'clang-format is missing'
rm "$dir/bin/clang"
fails .ci/run 'clang is missing'
exit "$failed"
