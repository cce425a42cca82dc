#!/bin/sh
# kernels.h refuses the flags of -ffast-math that a macro tells. arithmetic.sh CC ROOT
set -eu
cc=$1 root=$2 failed=0

compiles() { # FLAG...
    echo '#include "kernels/kernels.h"' |
        $cc -std=gnu11 -fsyntax-only -I"$root/src" -I"$root/include" "$@" -x c - 2>"$log"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
compiles -O2 || { cat "$log"; exit 1; }
for flags in -ffast-math -Ofast -ffinite-math-only -freciprocal-math -fno-signed-zeros \
    '-fassociative-math -fno-signed-zeros -fno-trapping-math'; do
    # clang has no macro for some of them
    # shellcheck disable=SC2086
    told=$($cc $flags -dM -E -x c /dev/null 2>/dev/null |
        grep -E '__(FAST_MATH|ASSOCIATIVE_MATH|RECIPROCAL_MATH|NO_SIGNED_ZEROS)__|FINITE_MATH_ONLY__ 1' || true)
    [ -n "$told" ] || continue
    # shellcheck disable=SC2086
    if compiles $flags || ! grep -q 'arithmetic of IEEE 754' "$log"; then
        echo "not ok: kernels.h compiles with $flags"
        failed=1
    else
        echo "ok $flags"
    fi
done
exit $failed
