#!/bin/sh
# Golden models: every directory of tests/golden is converted as its program wrote it, and its logits are
# compared with those of the program (ref.npz). Prints a table.
#
# A directory holds config.json and safetensors, or one checkpoint file. A file named `options` holds what
# to tell mgpt convert (one line); without a vocabulary in the directory --no-tokenizer is said.
# shellcheck source=tests/cli/lib.sh disable=SC2016,SC2154
case $MGPT in /*) ;; *) MGPT=$PWD/$MGPT ;; esac
MGPT_SOURCE_ROOT=$(cd "$MGPT_SOURCE_ROOT" && pwd)
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

golden=$MGPT_SOURCE_ROOT/tests/golden
tolerance=1e-5 # float32 against float64 reaches 7e-6 (tests/golden/README.md)

# input DIRECTORY: what mgpt convert is given; a directory where that is enough.
input()
{
    if [ -f "$1/config.json" ]; then
        echo "$1"
        return
    fi
    for file in "$1"/*.pt "$1"/*.pth "$1"/*.bin "$1"/*.safetensors "$1"/*.json "$1"/*.npz "$1"/*.pkl; do
        case ${file##*/} in ref.npz | meta* | tokenizer* | vocab*) continue ;; esac
        [ -f "$file" ] && echo "$file" && return
    done
}

# told DIRECTORY: the options for it.
told()
{
    if [ -f "$1/options" ]; then
        cat "$1/options"
        return
    fi
    for file in "$1"/tokenizer* "$1"/vocab* "$1"/meta.pkl; do
        [ -f "$file" ] && return
    done
    [ -f "$1/config.json" ] && echo --no-tokenizer
}

# agrees DIRECTORY: converts and compares; leaves the largest difference in $difference.
agrees()
{
    difference=-
    # shellcheck disable=SC2046
    run convert "$(input "$1")" "$tmp/model.gguf" $(told "$1") && [ "$code" -eq 0 ] || return 1
    run check "$tmp/model.gguf" "$1/ref.npz" --tol f32
    [ "$code" -eq 0 ] || return 1
    run check "$tmp/model.gguf" "$1/ref.npz" --tol $tolerance --max-nmse 1e-10
    difference=$(sed -n 's/^max|diff| *\([^ ]*\).*/\1/p' "$tmp/out")
    [ "$code" -eq 0 ] && [ -n "$difference" ]
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
