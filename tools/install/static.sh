#!/bin/sh
# static.sh LIBRARY OUT CC...: libmgpt.a as it is installed: one object in which only the names of mgpt.h are global, so
# that a program may have a norm or a matmul of its own.
set -eu
library=${1:?static library} out=${2:?output}
shift 2
object=${out%.a}.o
"$@" -r -nostdlib -o "$object" -Wl,--whole-archive "$library" -Wl,--no-whole-archive
"$("$@" -print-prog-name=objcopy)" --localize-hidden "$object"
rm -f "$out"
"$("$@" -print-prog-name=ar)" rcsD "$out" "$object"
