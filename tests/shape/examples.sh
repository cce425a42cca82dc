#!/bin/sh
# The programs of tools/examples, built against an installation by cc, CMake and Meson, and run. The argument is the
# build folder.
set -eu
build=${1:?build folder}
source=${MGPT_SOURCE_ROOT:?}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
failed=0

# try WHAT TEXT COMMAND...: it succeeds, and its output has the text.
try()
{
    what=$1 text=$2
    shift 2
    if "$@" >"$dir/out" 2>&1 && { [ -z "$text" ] || grep -q "$text" "$dir/out"; }; then
        echo "ok $what"
    else
        echo "not ok $what"
        tail "$dir/out"
        failed=1
    fi
}

/usr/bin/meson install -C "$build" --no-rebuild --destdir "$dir/root" >"$dir/out" 2>&1 || { cat "$dir/out"; exit 1; }
cp -r "$source/tools/examples" "$dir/"
cd "$dir/examples"
PKG_CONFIG_LIBDIR=$(dirname "$(find "$dir/root" -name mgpt.pc)")
export PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR="$dir/root"
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_LIBDIR")
export LD_LIBRARY_PATH
names=$source/weights/names.gguf

# shellcheck disable=SC2046  # words
${CC:-cc} -std=c11 -Wall -Wextra -Werror cc/lens.c $(pkg-config --cflags --libs mgpt) -o cc/lens
try "lens, compiled by cc" '^after layer 0: [a-z]  *log p -' cc/lens "$names" olivi
if command -v cmake >/dev/null; then
    try "cmake finds mgpt, from where it was moved to" 'Build files' cmake -G Ninja -S cmake -B cmake/build \
        -Dmgpt_DIR="$LD_LIBRARY_PATH/cmake/mgpt"
    try "cmake builds surprise.c" Linking cmake --build cmake/build
    try "surprise" 'bits per token' cmake/build/surprise "$names" olivia
    sed -i 's/mgpt 0.2/mgpt 99/' cmake/CMakeLists.txt
    try "cmake refuses a version that is too old" 'with requested version "99"' \
        eval '! cmake -G Ninja -S cmake -B cmake/new -Dmgpt_DIR="$LD_LIBRARY_PATH/cmake/mgpt"'
else
    try "cmake is here, or need not be" '' [ -z "${MGPT_CI-}" ]
fi
try "meson finds mgpt" 'Found pkg-config' /usr/bin/meson setup meson/build meson
try "meson builds patch.c" Linking ninja -C meson/build
try "patch: a head is silenced" 'without layer 0 head 3: [+-]' meson/build/patch "$names" olivia
# Exits with 1 if a patched run is not the run that the patch is from.
try "patch: two texts" 'layer 0 position 1: log p' meson/build/patch "$names" olivia elivia
exit "$failed"
