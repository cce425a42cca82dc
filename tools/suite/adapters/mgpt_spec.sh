#!/bin/sh
# mgpt's specification as a program, tests/spec/pass.c; SPEC_PASS is what it was compiled to (build/tests/spec_pass).
# suite.py run DIR --engine 'sh mgpt_spec.sh {model} {ids} {out} {how}' --format gguf
[ $# -eq 3 ] || { echo "no such way: $4" >&2; exit 3; }
# shellcheck disable=SC2046
exec "${SPEC_PASS:-spec_pass}" -o "$3" "$1" $(cat "$2")
