#!/bin/sh
# The engine and its commands without the importer and the laboratory: they build where jansson, utf8proc and
# zlib are hidden from meson, link PCRE2 and libedit, and the tools that are there pass their tests. The library is that
# of the whole build, whose tests run once.
set -eu
source=${MGPT_SOURCE_ROOT:?}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
mkdir "$dir/pc"
for name in libpcre2-8 libedit libbsd libbsd-overlay libmd ncurses tinfo cmocka stb; do
    file=$(pkg-config --variable=pcfiledir "$name" 2>/dev/null)/$name.pc
    [ ! -f "$file" ] || ln -s "$file" "$dir/pc/"
done
PKG_CONFIG_LIBDIR=$dir/pc meson setup "$dir/build" "$source" -Dconvert=disabled -Dlab=disabled >"$dir/log" 2>&1 ||
    { cat "$dir/log"; exit 1; }
ninja -C "$dir/build" >"$dir/log" 2>&1 || { tail -n 40 "$dir/log"; exit 1; }
mgpt=$dir/build/tools/mgpt

# refuses STATUS WORDS COMMAND...: one line with the words, and that exit code.
refuses() {
    wanted=$1 words=$2
    shift 2
    status=0
    line=$("$@" 2>&1) || status=$?
    if [ "$status" != "$wanted" ] || ! printf '%s\n' "$line" | grep -q "$words" || [ "$(printf '%s\n' "$line" | wc -l)" != 1 ]; then
        echo "not ok: $* says '$line' ($status), expected $words ($wanted)"
        exit 1
    fi
    echo "ok $words"
}

if ldd "$mgpt" | grep -E 'jansson|utf8proc|libz\.'; then
    echo "not ok: mgpt links the above"
    exit 1
fi
echo "ok mgpt links neither jansson nor utf8proc, zlib"
cd "$source"
refuses 2 'convert is not in this build (meson setup -Dconvert=enabled)' "$mgpt" convert x y
refuses 2 'lab is not in this build (meson setup -Dlab=enabled)' "$mgpt" help lab
refuses 2 'patch is not in this build (meson setup -Dlab=enabled)' "$mgpt" patch --help
refuses 3 'not GGUF, and this build has no converter (-Dconvert=enabled; on Windows use WSL)' "$mgpt" info tests/golden/apertus
refuses 3 'this build has no converter, which reads them' "$mgpt" check weights/names.gguf tests/golden/apertus/model.safetensors
if "$mgpt" --help | grep -E '^  (convert|lab|patch) ' || "$mgpt" info --help | grep -e --lora || ls "$dir"/build/tools/install/man1/*-lab.1 2>/dev/null; then
    echo "not ok: the above is of what this build leaves out"
    exit 1
fi
echo "ok help and man pages have no command that is left out"
meson test -C "$dir/build" --no-suite unit >"$dir/log" 2>&1 || { grep -vE ' OK ' "$dir/log"; exit 1; }
grep -E '^Ok:' "$dir/log"
