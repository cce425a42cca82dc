#!/bin/sh
# An #include in src/ never points up a floor, architectures have names only up to binding, and the
# library calls nothing that prints, exits, aborts, or reads the environment. The floors are those of the list in src/meson.build.
set -eu
src=${MGPT_SOURCE_ROOT:?}/src
lib=${1:?library to look into}
bad=0

floor_of() {
    case $1 in
    ck | cursor | error | file | mem | mem_pages | outfile | pool | stb | utf8) echo 0 ;;
    dmath | dtype* | kernels* | page) echo 1 ;;
    gguf*) echo 2 ;;
    tok*) echo 3 ;;
    arch | bind | hyper* | model | narrow | pack) echo 4 ;;
    attend | forward | kv | linear | narrow_run | sample | session | step | stream | taps | verbs) echo 5 ;;
    *) echo none ;;
    esac
}

for file in "$src"/*.[ch]; do
    name=$(basename "$file")
    from=$(floor_of "${name%.*}")
    [ "$from" != none ] || { echo "not ok: $name is on no floor"; bad=1; continue; }
    for header in $(sed -n 's/^#include "\(.*\)"$/\1/p' "$file"); do
        [ "$header" != mgpt.h ] || continue
        to=$(floor_of "${header%.*}")
        [ "$to" != none ] && [ "$to" -le "$from" ] ||
            { echo "not ok: $name (floor $from) includes $header (floor $to)"; bad=1; }
    done
done
[ "$bad" = 0 ] && echo "ok 1 no include points up"

# Architectures are rows of a table: behind binding nothing asks which one it is, in no file of floor 5.
for file in "$src"/*.[ch]; do
    name=$(basename "$file")
    [ "$(floor_of "${name%.*}")" = 5 ] || continue
    if grep -nE 'ARCH_[A-Z0-9]+|arch->(bit|name)|arch_(find|row)' "$file" /dev/null; then
        echo "not ok: $name asks for an architecture"
        bad=1
    fi
done
[ "$bad" = 0 ] && echo "ok 2 nothing above binding knows an architecture by name"

# Commands open files through tools/files.c, which knows what may not be written over. The others have asked
# it before, or read their own kind (session and history files), or nothing of the user's.
if grep -rnE '(^|[^>_a-z])(file_open|file_open_partly|outfile_open|gguf_create|fopen|creat|open|openat)\(' \
    "$MGPT_SOURCE_ROOT/tools" --include='*.c' |
    grep -vE '/((files|sandbox|cli|main|line|repl_load|trace_file|write|bench_machine|system)\.c:|reference\.c:.*open\(ref)'; then
    echo "not ok: the lines above open files past tools/files.c"
    bad=1
else
    echo "ok 3 tools open files through files.c"
fi

# Undefined symbols only: what the library asks of others.
if nm "$lib" | grep -E ' U (_*(printf|fprintf|vfprintf|snprintf|vsnprintf|puts|exit|_exit|abort|__assert_fail|getenv|setlocale|signal|sigaction))(_chk)?$'; then
    echo "not ok: the library calls the above"
    bad=1
else
    echo "ok 4 the library has no side effects"
fi

# Writable data, but for what stb_ds brings (the seed of hash maps, which the library does not use) and
# the sanitizers'. Tables of constants with pointers are in .data.rel.ro, which is read-only at run time.
if objdump -t "$lib" | awk '($3 == "O" || $2 == "O") && / \.(data|bss)\t/ { print $NF }' |
    grep -vE '^(stbds_hash_seed$|_*(asan|ubsan|odr_asan|llvm|sancov|gcov)|\.L|Lubsan|\*\.L)'; then
    echo "not ok: the library has the globals above"
    bad=1
else
    echo "ok 5 the library has no globals"
fi
exit "$bad"
