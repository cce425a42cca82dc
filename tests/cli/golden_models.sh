# shellcheck shell=sh disable=SC2034,SC2154
# Golden models, for the tests that convert them (sourced after lib.sh).
#
# A directory of tests/golden holds config.json and safetensors, or one checkpoint file. A file named `options`
# holds what to tell mgpt convert (one line); without a vocabulary in the directory --no-tokenizer is said.
golden=$MGPT_SOURCE_ROOT/tests/golden

# golden_input DIRECTORY: what mgpt convert is given; a directory where that is enough.
golden_input()
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

# golden_told DIRECTORY: the options for it.
golden_told()
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

# golden_convert DIRECTORY FILE
golden_convert()
{
    # shellcheck disable=SC2046
    run convert "$(golden_input "$1")" "$2" $(golden_told "$1") && [ "$code" -eq 0 ]
}
