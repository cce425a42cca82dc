#!/bin/sh
# Machines on which logits would silently be others do not compile: big-endian ones, and those that
# compute floats in wider registers (x87). The compiler is told that this machine is one of them.
set -eu
cd "${MGPT_SOURCE_ROOT:-$(dirname "$0")/../..}"
failed=0

compile() # FLAG...
{
    echo '#include "kernels/kernels.h"' | ${CC:-cc} -std=c11 -w "$@" -Isrc -Iinclude -fsyntax-only -x c - 2>&1
}

refuses() # WHAT MESSAGE FLAG...
{
    what=$1 message=$2
    shift 2
    if ! compile "$@" | grep -q "error.*$message"; then
        echo "not ok $what compiles"
        failed=1
    else
        echo "ok $what"
    fi
}

compile || { echo "not ok: this machine does not compile"; exit 1; }
refuses "big-endian" "little-endian" -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__
refuses "x87" "mfpmath=sse" -U__FLT_EVAL_METHOD__ -D__FLT_EVAL_METHOD__=2
refuses "doubles for floats" "mfpmath=sse" -U__FLT_EVAL_METHOD__ -D__FLT_EVAL_METHOD__=1
exit $failed
