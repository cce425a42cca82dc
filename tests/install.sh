#!/bin/sh
# What `ninja install` builds and installs: program, libraries, header, mgpt.pc, and no test. mgpt.pc answers
# --cflags and --libs where nothing else that mgpt is built with has a .pc file. The argument is the build folder.
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
(cd "$dir/root" && find . ! -type d) | sed 's|.*/||' | LC_ALL=C sort >"$dir/got"
printf '%s\n' libmgpt.a libmgpt.so libmgpt.so.0 libmgpt.so.0.1.0 mgpt mgpt.h mgpt.pc >"$dir/want"
check "seven files are installed" diff "$dir/want" "$dir/got"

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
exit "$failed"
