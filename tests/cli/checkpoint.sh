#!/bin/sh
# Commands that are given a checkpoint of another program as the model: the results are those of the GGUF file
# that `mgpt convert` makes of it.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

torch=$MGPT_SOURCE_ROOT/tests/fixtures/torch
golden=$MGPT_SOURCE_ROOT/tests/golden
code=0
mkdir "$tmp/work" && cd "$tmp/work" || exit 1
cp -r "$torch/slm4096" "$torch/scratch" "$golden/qwen3" .
cp "$MGPT_SOURCE_ROOT/tests/fixtures/convert/v0.bin" "$MGPT_SOURCE_ROOT/tests/fixtures/convert/tokenizer.bin" .
cp "$MGPT_SOURCE_ROOT/tests/fixtures/wild/params.npz" .
sed 's/^{/{"n_head":4,/' "$MGPT_SOURCE_ROOT/tests/fixtures/convert/flat.json" >"it's flat.json"
printf 'ab\nba\n' >texts

# both COMMAND: a line of shell, run with $M the checkpoint and then the GGUF file. Both print the same and write
# the same files (named result.*); with the checkpoint one line on stderr says what was done.
both()
{
    for M in "$checkpoint" "$made"; do
        rm -f result.*
        code=0
        eval "$1" >"$tmp/out" 2>"$tmp/err" || code=$?
        echo "exit code $code" | cat "$tmp/out" - result.* >"$tmp/seen.$M_is" 2>"$tmp/none"
        [ "$M_is" = gguf ] || cp "$tmp/err" "$tmp/err.checkpoint"
        M_is=gguf
    done
    M_is=checkpoint
    check "$checkpoint: $1" eval 'cmp -s "$tmp/seen.checkpoint" "$tmp/seen.gguf" && [ $code -eq 0 ] &&
        [ "$(grep -c "converted in memory" "$tmp/err.checkpoint")" -eq 1 ]'
}
M_is=checkpoint

# convert CHECKPOINT: by the command that the line on stderr names; sets $made.
convert()
{
    checkpoint=$1
    run info "$checkpoint"
    line=$(sed -n 's/^mgpt: .*(mgpt \(convert .*\.gguf.*\) keeps the result)$/\1/p' "$tmp/err")
    made=$(eval "printf '%s\n' $line" | tail -n 1)
    eval "run $line"
    check "$checkpoint: the line names the command that keeps the result" \
        eval '[ $code -eq 0 ] && [ -f "$made" ]'
}

for name in slm4096/ckpt.pt qwen3 qwen3/model.safetensors v0.bin "it's flat.json" params.npz; do
    convert "$name"
    both '"$MGPT" info --tensors "$M"'
    both '"$MGPT" check --self --tokens 3 "$M"'
    both '"$MGPT" generate --ids 1,2 -n 3 --temp 0 "$M"'
    both '"$MGPT" trace --ids 1,2 -o result.npz "$M"'
done
convert slm4096/ckpt.pt
both 'printf "/ids 0 1\n/save result.session\n/reset\n/load result.session\n/tokens\n" | "$MGPT" repl "$M"'
both '"$MGPT" lab --ids 1,2 --static -o result.html "$M"'
both '"$MGPT" lab -o result.html "$M"'
both 'tr b a <texts | "$MGPT" score -f - "$M"'
both '"$MGPT" tokenize -p a "$M"'
both '"$MGPT" bench -n 2 -p 2 -r 1 --json "$M" | cut -c 1-20'

# ---- references stay references ----

runs "check: the model is converted, the reference is not" check slm4096/ckpt.pt slm4096/ref.npz
tells "... and it is said" "slm4096/ckpt.pt: GPT-2 in other names (PyTorch zip), converted in memory"
runs "check: a model that is GGUF second" check slm4096/ckpt.pt ckpt.gguf -p a

# ---- what cannot be converted without an option ----

run generate scratch/model.pth
check "an option is needed: exit 3" [ "$code" -eq 3 ]
tells "... the command is named" "mgpt convert scratch/model.pth model.gguf --heads N --assume PROGRAM"
tells "... after the reason" "not in the file: set --heads, --activation, "
runs "... and works" convert scratch/model.pth model.gguf --heads 2 --assume llms-from-scratch
tells "every note of the conversion is printed" "inferred: embedding_norm = true (default" generate "it's flat.json" -n 1
cp "$MGPT_SOURCE_ROOT/tests/fixtures/wild/gains.json" .
run generate gains.json
tells "all options that are needed are named" "mgpt convert gains.json gains.gguf --activation NAME --eps X"
mkdir empty
refuses "a directory without a model" 5 "empty: is a directory without config.json" generate empty
refuses "a file of no format" 3 "texts: not a checkpoint that mgpt reads" generate texts
refuses "no such file" 5 "missing.pt: cannot open" generate missing.pt
: >nothing
refuses "an empty file" 3 "nothing: " generate nothing

finish
