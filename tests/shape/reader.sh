#!/bin/sh
# A reader joins what README.md shows: the program is saved as main.c, and README's command compiles it with mgpt.c, with
# each compiler that is here. The program prints the same name each time.
# The arguments are the folder of mgpt.c and mgpt.h, and compilers (gcc and clang if none is named).
set -eu
folder=${1:?folder of mgpt.c}
source=${MGPT_SOURCE_ROOT:?}
shift
[ $# -gt 0 ] || set -- gcc clang
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$source/README.md" >"$dir/main.c"
command=$(sed -n 's/.*`\(cc [^`]*mgpt\.c[^`]*\)`.*/\1/p' "$source/README.md")
case $command in 'cc -O2 '*) ;; *) echo "not ok: README.md has no command for main.c and mgpt.c"; exit 1 ;; esac
mkdir -p "$dir/build/tools/amalgamation"
cp "$folder/mgpt.c" "$folder/mgpt.h" "$dir/build/tools/amalgamation/"
cd "$dir"
want='' tried=0
for compiler; do
    command -v "$compiler" >/dev/null || { echo "# no $compiler here"; continue; }
    rm -f a.out
    sh -c "$compiler ${command#cc }" || { echo "not ok $compiler: $command"; exit 1; }
    name=$(./a.out "$source/weights/names.gguf")
    case $name in *[!a-z]* | '') echo "not ok $compiler: printed '$name'"; exit 1 ;; esac
    [ "${want:=$name}" = "$name" ] || { echo "not ok $compiler: printed '$name', others '$want'"; exit 1; }
    echo "ok $compiler: $command, prints '$name'"
    tried=$((tried + 1))
done
[ "$tried" -gt 0 ] || { echo "not ok: no compiler of $*"; exit 1; }
