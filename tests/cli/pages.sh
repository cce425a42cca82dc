#!/bin/sh
# Man pages and completions are what --help says, in the forms that mandoc, bash, zsh and fish take. The argument is the
# folder man1. cli/terminal.py uses the completions.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
pages=${1:?folder man1}

# lint PROGRAM ARGS...: the program, if it is installed (as tools/test.sh does), says nothing.
lint()
{
    command -v "$1" >/dev/null || { echo "# no $1 here"; [ -z "${MGPT_CI-}" ]; return; }
    "$@" >"$tmp/out" 2>"$tmp/err" && [ ! -s "$tmp/out" ] && [ ! -s "$tmp/err" ]
}

run --help
commands=$(sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$tmp/out")
check "a page for each command" eval '[ -s "$pages/mgpt.1" ] &&
    [ "$(for c in $commands; do ls "$pages/mgpt-$c.1"; done | wc -l)" -eq "$(echo "$commands" | wc -w)" ]'
for page in "$pages"/*.1; do
    check "mandoc: $(basename "$page")" lint mandoc -T lint "$page"
done
# completes WORD...: the candidates for the last one are the lines of want.
completes()
{
    "$MGPT" completions -- "$@" | cut -f 1 | LC_ALL=C sort >"$tmp/out"
    diff "$tmp/want" "$tmp/out"
}
for name in $commands; do
    "$MGPT" "$name" --help | sed -nE 'h; s/^  (-.,|   ) (--[a-z-]+).*/\2/p; g; s/.*; also (--[a-z-]+)$/\1/p' | LC_ALL=C sort >"$tmp/want"
    check "its options complete: $name" completes "$name" --
done
# Values come from the tables that the program reads them by.
run generate --isa list "$MGPT_SOURCE_ROOT/weights/names.gguf"
sed 's/.*which has //' "$tmp/err" | tr ' ' '\n' | LC_ALL=C sort >"$tmp/want"
check "instruction sets" completes generate --isa ""
check "... in bash, where = is a word" completes generate --isa =
check "... and has a beginning after it" completes generate --isa = ""
# --ascii: what is pasted from a page into a shell is what --help has.
if command -v man >/dev/null; then
    MANWIDTH=200 man --ascii -l "$pages/mgpt-generate.1" >"$tmp/out" 2>"$tmp/err"
    check "a line of the page is a line of --help" grep -qF "generate names.gguf --rng python -s 42 --temp 0.5" "$tmp/out"
fi
for shell in bash zsh fish; do
    "$MGPT" completions $shell >"$tmp/script"
    check "$shell takes its completions" lint $shell -n "$tmp/script"
done
refuses "another shell" 2 "expected bash, zsh or fish, found 'tcsh'" completions tcsh
finish
