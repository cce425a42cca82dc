#!/bin/sh
# Every kernel on aarch64 returns the bits of this machine: kernels_hash, cross-built and run under qemu,
# for scalar and NEON. The argument is the native kernels_hash. Without a cross compiler or qemu the test is skipped;
# .ci/run installs both and sets MGPT_CI: there it fails.
set -eu
native=$(realpath "${1:?native kernels_hash}")
cd "${MGPT_SOURCE_ROOT:-$(dirname "$0")/../..}"

for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v "$tool" >/dev/null || { echo "skipped: no $tool"; [ -z "${MGPT_CI-}" ] && exit 77 || exit 1; }
done
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
sources=$(ls src/kernels/*.c src/kernels/*/*.c | grep -v 'avx\|amx\|neon_dot')
compile() {
    aarch64-linux-gnu-gcc -std=c11 -D_POSIX_C_SOURCE=200809L -O3 -ffp-contract=off -fno-math-errno \
        -fno-trapping-math -fno-schedule-insns -Wall -Wextra -Werror -Isrc -Itests -Iinclude -DMGPT_NEON_DOT "$@"
}
compile -march=armv8.2-a+dotprod -c -o "$directory/dot.o" src/kernels/isa/int_neon_dot.c
# SOURCES is split into words on purpose.
# shellcheck disable=SC2086
compile -static -o "$directory/kernels_hash" tests/kernels/kernels_hash.c $sources "$directory/dot.o" -lm
"$native" scalar >"$directory/native"
for isa in scalar neon neon_dot; do
    qemu-aarch64 "$directory/kernels_hash" "$isa" >"$directory/$isa"
    diff "$directory/native" "$directory/$isa" ||
        { echo "not ok: $isa on aarch64 differs from this machine"; exit 1; }
    echo "ok $isa on aarch64: $(wc -l <"$directory/$isa") entries"
done
