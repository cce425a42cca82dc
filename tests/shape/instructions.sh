#!/bin/sh
# Instructions per token of the canonical microgpt, the whole loop of `mgpt generate` with sampling: a
# regression test of what a step costs that no load of the machine disturbs. Two lengths of run, so that
# opening cancels out; a byte of output is a token (a character, or the line end of a name's end).
#
# Counted with AVX2, because valgrind does not know AVX-512. The limit is about a tenth above what was
# measured with gcc 12 -O3; it holds for optimised builds only. Without valgrind or AVX2: skipped.
set -eu
limit=${1:?most instructions per token}
command -v valgrind >/dev/null || { echo "skipped: no valgrind"; exit 77; }
grep -qw avx2 /proc/cpuinfo || { echo "skipped: no AVX2"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# run SAMPLES: prints the instructions executed and the bytes written.
run() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "${MGPT:?}" generate \
        "${MGPT_SOURCE_ROOT:?}/weights/names.gguf" --isa avx2 -t 1 -s 1 --temp 0.5 --samples "$1" \
        2>"$tmp/log" >"$tmp/out" || { cat "$tmp/log"; exit 1; }
    echo "$(sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$tmp/log") $(wc -c <"$tmp/out")"
}

# shellcheck disable=SC2046  # two numbers each
set -- "$limit" $(run 200) $(run 2200)
each=$((($4 - $2) / ($5 - $3)))
echo "$each instructions per token, allowed are $1"
[ "$each" -le "$1" ]
