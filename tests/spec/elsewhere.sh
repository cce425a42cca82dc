#!/bin/sh
# The bits of other machines: the reference program on all models, the conformance vectors, and the library as one
# file, compiled by every cross compiler that is found and run under qemu; the first two on WebAssembly, too. Each
# hash is that of this machine.
# Arguments: mgpt, spec_vectors, the folder of mgpt.c, libmgpt.a. 77 (skipped) when there is no cross compiler.
set -eu
mgpt=${1:?mgpt} vectors=${2:?spec_vectors} folder=${3:?folder of mgpt.c} library=${4:?libmgpt.a}
source=${MGPT_SOURCE_ROOT:?}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
machines=0
"$vectors" >"$dir/lines"
for name in llama gemma3; do "$mgpt" convert "$source/tests/golden/$name" "$dir/$name.gguf" 2>/dev/null; done
for type in q8_0 q4_0; do "$mgpt" convert "$source/weights/shakespeare.gguf" "$dir/$type.gguf" --type $type 2>/dev/null; done
hashes() { # COMMAND...: the hash of each model; under an emulator the levels are others, but not their bits
    "$@" "$source/weights/names.gguf" "$source/weights/shakespeare.gguf" "$dir"/*.gguf | cut -c 1-16 | uniq
}
# shellcheck disable=SC2046  # words
${CC:-cc} -I"$source/include" "$source/tests/shape/hashes.c" "$library" -o "$dir/here" $(pkg-config --libs libpcre2-8) -lm -pthread
hashes "$dir/here" >"$dir/want"
[ "$(wc -l <"$dir/want")" = 6 ] || { echo "not ok: models of this machine"; cat "$dir/want"; exit 1; }

# programs WHAT RUNNER...: the reference program and the vectors, compiled in $dir.
programs()
{
    what=$1
    shift
    python3 "$source/tests/spec/spec.py" "$mgpt" "$@" "$dir/pass" >"$dir/spec" || { cat "$dir/spec"; exit 1; }
    "$@" "$dir/vectors" | cmp - "$dir/lines"
    echo "ok $what: reference program, $(wc -l <"$dir/spec") models; $(wc -l <"$dir/lines") vectors"
}

# The compiler, qemu's name of the machine, Debian's of its packages, and whether its numbers are big-endian.
while read -r cross qemu debian big; do
    if ! command -v "$cross-gcc" >/dev/null || ! command -v "qemu-$qemu" >/dev/null; then
        echo "skipped $qemu: apt-get install gcc-$cross libc6-dev-$debian-cross qemu-user"
        continue
    fi
    exec 3<&0 </dev/null
    for file in pass vectors; do
        "$cross-gcc" -O2 -ffp-contract=off -static "$source/tests/spec/$file.c" -o "$dir/$file" -lm
    done
    programs "$qemu" "qemu-$qemu"
    if [ "$big" = big ]; then
        ! "$cross-gcc" -c "$folder/mgpt.c" -o "$dir/mgpt.o" 2>"$dir/err"
        grep -q 'mgpt needs a little-endian machine' "$dir/err"
        echo "ok $qemu: the library refuses big-endian machines"
    else
        "$cross-gcc" -O1 -DQUICK_TO_COMPILE -Wall -Wextra -Werror -static -I"$folder" "$source/tests/shape/hashes.c" "$folder/mgpt.c" \
            -o "$dir/there" -lm -lpthread
        hashes "qemu-$qemu" "$dir/there" >"$dir/got"
        diff "$dir/want" "$dir/got"
        echo "ok $qemu: library, $(wc -l <"$dir/got") models"
    fi
    exec 0<&3
    machines=$((machines + 1))
done <<'END'
aarch64-linux-gnu aarch64 arm64 little
arm-linux-gnueabihf arm armhf little
riscv64-linux-gnu riscv64 riscv64 little
powerpc64le-linux-gnu ppc64le ppc64el little
s390x-linux-gnu s390x s390x big
END

# wasi-libc's fmaf rounds twice where there are no rounding modes, which 21 vectors notice; fmaf.h has one that does not.
# The library on WebAssembly is the lab's module: lab/same_bits.js.
rm -f "$dir/pass" "$dir/vectors"
for file in pass vectors; do
    clang --target=wasm32-wasi -O2 -ffp-contract=off -include "$source/src/base/fmaf.h" \
        "$source/tests/spec/$file.c" -o "$dir/$file" -lm 2>"$dir/err" || break
done
if [ -e "$dir/vectors" ] && command -v node >/dev/null; then
    programs WebAssembly node --no-warnings "$source/tests/spec/wasi.js"
    machines=$((machines + 1))
else
    echo "skipped WebAssembly: apt-get install clang lld wasi-libc libclang-rt-dev-wasm32 nodejs"
fi
[ "$machines" -gt 0 ] || exit 77
