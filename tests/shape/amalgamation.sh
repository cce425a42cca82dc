#!/bin/sh
# mgpt.c: compiles without a warning into a program with the bits of the library on every instruction set of this
# machine, defines no name but mgpt_*, and refuses a BPE vocabulary where it has no PCRE2.
# Arguments: the folder of mgpt.c, libmgpt.a, and `quick` (one compiler, kernels in many calls) or `all` (minutes).
set -eu
folder=${1:?folder of mgpt.c} library=${2:?libmgpt.a} how=${3:?quick or all}
source=${MGPT_SOURCE_ROOT:?} mgpt=${MGPT:?path of the binary}
hashes=$source/tests/shape/hashes.c
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
failed=0
check() { # WHAT COMMAND...
    what=$1
    shift
    if "$@"; then echo "ok $what"; else echo "not ok $what"; failed=1; fi
}

cp "$source/weights/names.gguf" "$dir/f32.gguf"
cp "$source/weights/shakespeare.gguf" "$dir/f16.gguf"
for type in q8_0 q4_0; do
    "$mgpt" convert "$dir/f16.gguf" "$dir/$type.gguf" --type $type 2>/dev/null
done
"$mgpt" convert "$source/tests/fixtures/llmc/v3.bin" "$dir/bpe" --tokenizer "$source/tests/fixtures/llmc/gpt2_tokenizer.bin" \
    2>/dev/null
# shellcheck disable=SC2086,SC2046  # words
${CC:-cc} -I"$source/include" "$hashes" "$library" -o "$dir/hashes" $(pkg-config --libs libpcre2-8) -lm -pthread
"$dir/hashes" "$dir"/*.gguf >"$dir/want"
check "mgpt check --self has the same hash" eval '"$mgpt" check --self "$dir/f32.gguf" |
    grep -q "^$("$dir/hashes" "$dir/f32.gguf" | sed -n "1s/ .*//p") "'

# Under an emulator the instruction sets are others: each model has one hash.
same_bits() {
    $run "$dir/one" "$dir"/*.gguf >"$dir/got" || return 1
    [ -z "$run" ] || for file in want got; do cut -c 1-16 "$dir/$file" | uniq >"$dir/cut" && mv "$dir/cut" "$dir/$file"; done
    diff "$dir/want" "$dir/got"
}

# compile COMPILER...: mgpt.o, of the file at once, or of $parts that are compiled at the same time and joined.
compile() {
    for part in ${parts:-0}; do
        "$@" -Wall -Wextra "-DMGPT_PART=$part" -c "$folder/mgpt.c" -o "$dir/mgpt$part.o" 2>"$dir/err$part" &
    done
    wait
    cat "$dir"/err* >"$dir/err"
    [ ! -s "$dir/err" ] || { head "$dir/err"; return 1; }
    "$@" -r -nostdlib "$dir"/mgpt?.o -o "$dir/mgpt.o"
}

# amalgamated NAME COMPILER...: $run runs the program.
amalgamated() {
    name=$1
    shift
    compiler=$* # words
    rm -f "$dir"/mgpt*.o "$dir"/err*
    check "$name: no warning" compile "$@"
    check "$name: no name but mgpt_*" eval '! nm -g --defined-only "$dir/mgpt.o" | grep -v " mgpt_"'
    # shellcheck disable=SC2086
    check "$name: needs libm and threads" $compiler -I"$folder" "$hashes" "$dir/mgpt.o" -o "$dir/one" -lm -lpthread
    check "$name: the bits of the library" same_bits
    check "$name: a BPE vocabulary needs PCRE2" eval '! $run "$dir/one" "$dir/bpe" >"$dir/got" &&
        grep -q "bpe: a BPE vocabulary needs PCRE2: compile mgpt.c with -DMGPT_PCRE2" "$dir/got"'
}

run='' parts=''
if [ "$how" = quick ]; then
    # shellcheck disable=SC2086
    amalgamated "${CC:-cc}" ${CC:-cc} -O1 -DQUICK_TO_COMPILE
    exit "$failed"
fi
for cc in gcc clang; do
    parts=''
    [ $cc = clang ] || parts='1 2 3 4' # gcc has compiled the whole in `quick`
    ! command -v $cc >/dev/null || amalgamated $cc $cc -O2
done
parts=''
if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null; then
    run=qemu-aarch64
    amalgamated aarch64 aarch64-linux-gnu-gcc -O2 -static
fi
exit "$failed"
