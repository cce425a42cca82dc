#!/bin/sh
# mgpt as a Meson subproject of another program, the README's.
set -eu
source=${MGPT_SOURCE_ROOT:?}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
mkdir -p "$dir/subprojects/mgpt"
for part in LICENSE include meson.build src; do
    cp -r "$source/$part" "$dir/subprojects/mgpt/"
done
awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$source/README.md" \
    >"$dir/main.c"
cat >"$dir/meson.build" <<'MESON'
project('user', 'c')
executable('user', 'main.c', dependencies: dependency('mgpt', fallback: 'mgpt'))
MESON
# The macro leaves the fused step as calls: the same bits, a minute less.
/usr/bin/meson setup -Dc_args=-DQUICK_TO_COMPILE "$dir/build" "$dir" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
ninja -C "$dir/build" user >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
name=$("$dir/build/user" "$source/weights/names.gguf")
case $name in
*[!a-z]* | '') echo "not ok: printed '$name'"; exit 1 ;;
esac
echo "ok 1 a program with mgpt as a subproject prints '$name'"
