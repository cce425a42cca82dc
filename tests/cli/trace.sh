#!/bin/sh
# mgpt trace as a user types it: what is in the file, against PyTorch and against other options;
# what is refused. $1 is npz_compare.
# shellcheck disable=SC2016,SC2034
case $1 in /*) compare=$1 ;; *) compare=$PWD/$1 ;; esac
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
cd "$tmp" || exit 1

# ---- what is in the file ----

run trace "$names" -p anna -o a.npz
check "a trace: exit code 0, nothing on stdout" eval '[ $code -eq 0 ] && [ ! -s out ]'
tells "the size is told" "a.npz: 5 tokens, 19 hooks, $(wc -c <a.npz) bytes"
check "the same tokens as mgpt generate" [ "$("$compare" a.npz)" = 26,0,13,13,0 ]

# same NAME A B: two traces hold the same names and numbers.
same()
{
    "$compare" "$2" "$3" >out 2>err && "$compare" "$3" "$2" >other &&
        [ "$(wc -l <out)" -eq "$(wc -l <other)" ] && awk '$2 != 0 { exit 1 }' out
    report "$1" $?
}

run trace "$names" -p anna -o b.npz
check "the same trace, the same bytes" cmp -s a.npz b.npz
run trace "$names" --ids '26, 0 13,13,0' -o b.npz -t 2 --isa scalar
check "from ids, other threads and kernels: the same bytes" cmp -s a.npz b.npz
printf 'anna\n' >text
run trace -m "$names" -f text -o b.npz
check "from a file: the same bytes" cmp -s a.npz b.npz

text=$(printf 'Before we proceed any further, hear me speak.\nAll: Speak, speak.\n%.0s' 1 2 3)
run trace "$lines" -p "$text" -o long.npz
run trace "$lines" -p "$text" -o again.npz --isa scalar -t 2
check "a text of several chunks: the same bytes" cmp -s long.npz again.npz

run trace "$names" -p anna --hooks 'blocks.*.attn.hook_pattern,logits' -o some.npz
check "chosen hooks" eval '"$compare" some.npz a.npz >out && [ "$(wc -l <out)" -eq 3 ] &&
    awk "\$2 != 0 { exit 1 }" out'
check "chosen hooks and nothing else" eval '"$compare" some.npz some.npz >out &&
    printf "%s\n" tokens.npy blocks.0.attn.hook_pattern.npy logits.npy >want &&
    cut -d" " -f3 out | cmp -s want -'
run trace "$names" -p anna --type f16 -o half.1.npz
# Rounding to a half changes a number by 2^-11 of it at most: NMSE below 2^-22.
check "halves: rounded, and no more than that" eval '[ "$(wc -c <half.1.npz)" -lt "$(wc -c <a.npz)" ] &&
    "$compare" a.npz half.1.npz >out && [ "$(wc -l <out)" -eq 20 ] && awk "\$1 > 2.4e-7 { exit 1 }" out'

run trace "$names" --list
check "--list" eval '[ $code -eq 0 ] && [ ! -s err ] && [ "$(wc -l <out)" -eq 19 ] &&
    grep -qx "blocks.0.attn.hook_pattern *\[4, T, T\]" out && grep -qx "logits *\[T, 27\]" out'
prints "--list of some" 'blocks.0.attn.hook_q             [T, 4, 4]' trace "$names" --list --hooks '*hook_q'

# ---- against PyTorch ----

# agrees NAME: every tensor of a golden reference, in mgpt check and in a trace; packed weights are run as floats. float32
# against float64: differences of 1e-6 of a number give an NMSE of 1e-12; two more orders for what several layers add.
# The other golden models are in group hooks of tools/suite.
agrees()
{
    set -- "$MGPT_SOURCE_ROOT/tests/golden/$1"
    # shellcheck disable=SC2046
    run convert "$1" model.gguf $(cat "$1/options" 2>err || echo --no-tokenizer)
    [ "$code" -eq 0 ] || return 1
    run check model.gguf "$1/ref.npz" --tol f32 --max-nmse 1e-10
    [ "$code" -eq 0 ] && grep -q '^[0-9]* hooks agree' out || return 1
    run trace model.gguf --ids "$("$compare" "$1/ref.npz")" -o golden.npz
    [ "$code" -eq 0 ] && "$compare" "$1/ref.npz" golden.npz >out 2>err || return 1
    [ "$(wc -l <out)" -ge 3 ] && awk '!($1 <= 1e-10) { exit 1 }' out
}

for name in llama smollm3 awq gptq_8bit gptq_order gptq_sym gptq_v2 mlx; do
    check "golden $name" agrees "$name"
done

shared=$MGPT_SOURCE_ROOT/../shared/cases/microgpt-3d
if [ -f "$shared/ref_captures_anna.json" ]; then
    run convert "$shared/microgpt-weights.json" canonical.gguf
    run trace canonical.gguf --ids 26,0,13,13,0 -o anna.npz
    "$compare" "$shared/ref_captures_anna.json" anna.npz >out 2>err
    check "every capture of the canonical microgpt" eval '[ "$(wc -l <out)" -eq 16 ] &&
        awk "!(\$2 <= 1e-5) { exit 1 }" out'
else
    echo "# skipped: no captures of the canonical microgpt"
fi

# ---- refused ----

nothing_left()
{
    [ ! -e bad.npz ] && [ -z "$(find . -name '*.tmp')" ]
}

refuses "no output" 2 'where to? Give -o FILE.npz' trace "$names" -p anna
refuses "no text" 2 'Give one of -p, -f, --ids' trace "$names" -o bad.npz
refuses "two texts" 2 'Give one of -p, -f, --ids' trace "$names" -p a --ids 1 -o bad.npz
refuses "an ending that is neither" 2 'ends in .npz or .safetensors' trace "$names" -p a -o bad.zip
refuses "a type that is neither" 2 "expected f32 or f16, found 'f64'" trace "$names" -p a -o bad.npz --type f64
refuses "--list of a text" 2 'goes with --hooks only' trace "$names" --list -p a
refuses "a hook that is misspelt" 2 "did you mean 'blocks.*.attn.hook_pattern'" \
    trace "$names" -p a -o bad.npz --hooks 'blocks.*.attn.hook_patern'
refuses "a hook without its block" 2 "did you mean 'blocks.*.hook_resid_pre'" \
    trace "$names" --list --hooks hook_resid_pre
refuses "a layer that is not there" 2 "no hook is called 'blocks.1.hook_resid_pre'" \
    trace "$names" --list --hooks blocks.1.hook_resid_pre
refuses "an id that is none" 2 'expected a number at byte 3' trace "$names" --ids 26,x -o bad.npz
refuses "an id out of range" 2 'token 1 is 27, the model has ids 0 to 26' trace "$names" --ids 0,27 -o bad.npz
refuses "no ids" 2 'nothing to trace' trace "$names" --ids '' -o bad.npz
refuses "a character that the vocabulary lacks" 2 'prompt' trace "$names" -p 'A' -o bad.npz
refuses "a text longer than the context" 4 '17 tokens, but the context holds 16' \
    trace "$names" -p abcdefghijklmnop -o bad.npz
refuses "a file that is not a model" 3 'text: ' trace text -p a -o bad.npz
check "nothing is left of what was refused" nothing_left

# tries NAME CODE TEXT ARGS...: refused after the size was told.
tries()
{
    tries_name=$1 want_code=$2 want_text=$3
    shift 3
    run trace "$names" -p anna "$@"
    check "$tries_name" eval '[ $code -eq $want_code ] && [ ! -s out ] && [ "$(wc -l <err)" -eq 2 ] &&
        grep -qF -- "$want_text" err && nothing_left'
}

tries "no such directory" 5 'cannot create' -o missing/bad.npz
ln -s /dev/null null.npz
tries "a device" 5 'not a regular file' -o null.npz
# Above the limit on the size of a file the system sends a signal; where it is ignored, the write fails.
code=0
(trap '' XFSZ; ulimit -f 1; exec "$MGPT" trace "$lines" -p "$text" -o bad.npz) >out 2>err || code=$?
check "no room: told before anything runs" eval '[ $code -eq 5 ] && nothing_left &&
    grep -q "bad.npz: cannot reserve: .* for [0-9]* bytes" err'

cp a.npz old.npz
"$MGPT" trace "$lines" -p "$text" -o old.npz >out 2>err &
pid=$!
kill -INT $pid 2>/dev/null
code=0
wait $pid || code=$?
# Too fast to be caught it is finished; otherwise the old file is as it was.
check "interrupted: nothing is left behind" eval '[ -z "$(find . -name "*.tmp")" ] &&
    if [ $code -eq 0 ]; then cmp -s old.npz long.npz; else cmp -s old.npz a.npz; fi'
finish
