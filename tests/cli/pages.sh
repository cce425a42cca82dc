#!/bin/sh
# Man pages and completions are what --help says, in the forms that mandoc, bash, zsh and fish take. The argument is the
# folder man1; the completions are next to it. cli/terminal.py uses those of bash.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
pages=${1:?folder man1}
folder=$(dirname "$pages")

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
# known COMMAND: bash, zsh and fish know each of its options.
known()
{
    "$MGPT" "$1" --help | sed -nE 's/^  (-.,|   ) (--[a-z-]+).*/\2/p' >"$tmp/want"
    sed -n "/^$1)/,/;;/p" "$folder/_mgpt" >"$tmp/zsh"
    grep "^    $1) options" "$folder/mgpt" >"$tmp/bash"
    grep "seen_subcommand_from $1\"" "$folder/mgpt.fish" >"$tmp/fish"
    [ -s "$tmp/want" ] && while read -r option; do
        grep -qe "$option[ ']" "$tmp/bash" && grep -qe "$option\[" "$tmp/zsh" && grep -qe "-l ${option#--} " "$tmp/fish" ||
            { echo "$option" >"$tmp/out"; return 1; }
    done <"$tmp/want"
}

for name in $commands; do
    check "bash, zsh and fish know the options of $name" known "$name"
done
# --ascii: what is pasted from a page into a shell is what --help has.
if command -v man >/dev/null; then
    MANWIDTH=200 man --ascii -l "$pages/mgpt-generate.1" >"$tmp/out" 2>"$tmp/err"
    check "a line of the page is a line of --help" grep -qF "generate names.gguf --rng python -s 42 --temp 0.5" "$tmp/out"
fi
check "bash takes its completions" lint bash -n "$folder/mgpt"
check "zsh takes its completions" lint zsh -n "$folder/_mgpt"
check "fish takes its completions" lint fish --no-execute "$folder/mgpt.fish"
finish
