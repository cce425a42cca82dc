#!/bin/sh
# Golden models: every directory of tests/golden is converted as its program wrote it, and its logits are
# compared with those of the program (ref.npz). Prints a table.
# shellcheck disable=SC2016,SC2154
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
# shellcheck source=tests/cli/golden_models.sh
. "$MGPT_SOURCE_ROOT/tests/cli/golden_models.sh"

tolerance=1e-5 # float32 against float64 reaches 7e-6 (tests/golden/README.md)

# agrees DIRECTORY: converts and compares; leaves the largest difference in $difference.
agrees()
{
    difference=-
    golden_convert "$1" "$tmp/model.gguf" || return 1
    run check "$tmp/model.gguf" "$1/ref.npz" --tol f32
    [ "$code" -eq 0 ] || return 1
    run check "$tmp/model.gguf" "$1/ref.npz" --tol $tolerance --max-nmse 1e-10
    difference=$(sed -n 's/^max|diff| *\([^ ]*\).*/\1/p' "$tmp/out")
    [ "$code" -eq 0 ] && [ -n "$difference" ] && grep -q '^[0-9]* hooks agree' "$tmp/out"
}

for directory in "$golden"/*/; do
    directory=${directory%/}
    [ -f "$directory/ref.npz" ] || continue
    check "golden ${directory##*/}" agrees "$directory"
    printf '%-18s %-10s %s\n' "${directory##*/}" "$difference" \
        "$(sed -n 's/^verdict *//p' "$tmp/out")" >>"$tmp/table"
done
check "there are golden models" test "$number" -ge 10
sed 's/^/# /' "$tmp/table"
finish
