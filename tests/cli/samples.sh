#!/bin/sh
# mgpt generate with several samples, and with exact speculation: the same bytes, however they are made.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

# equals after a command, of the same process.
equals_after()
{
    equals_name=$1 first=$2
    shift 2
    code=0
    (eval "$first" && exec "$MGPT" "$@") >"$tmp/out" 2>"$tmp/err" || code=$?
    check "$equals_name" eval '[ $code -eq 0 ] && cmp -s "$tmp/out" "$tmp/want"'
}

# ---- in a batch ----

want generate "$names" --samples 500 --batch 1
for batch in 1 2 7 64 600; do
    for threads in 1 2 3; do
        equals "names in batches of $batch, threads $threads" \
            generate "$names" --samples 500 --batch $batch -t $threads
    done
done
equals "... of the default size" generate "$names" --samples 500
# Where no thread can be started and nobody asked for any, one thread does the work.
if ! nm "$MGPT" 2>/dev/null | grep -q __[at]san &&
    echo 'int pthread_create(void) { return 11; }' | cc -shared -fPIC -x c -o "$tmp/none.so" - 2>"$tmp/err"; then
    equals_after "... without threads" 'export LD_PRELOAD="$tmp/none.so"' generate "$names" --samples 500
    equals_after "... of a thread" 'export LD_PRELOAD="$tmp/none.so"' generate "$names" --samples 500 -t 1
    code=0
    (export LD_PRELOAD="$tmp/none.so" && exec "$MGPT" generate "$names" --samples 500 -t 2) >"$tmp/out" 2>"$tmp/err" || code=$?
    check "... -t 2 is refused" eval '[ $code -eq 4 ] && grep -q "cannot start thread" "$tmp/err"'
fi
for i in 0 1 17 499; do
    run generate "$names" --first $i
    check "sample $i alone is sample $i of many" \
        eval '[ "$(cat "$tmp/out")" = "$(sed -n "$((i + 1))p" "$tmp/want")" ]'
done
sed -n '201,300p' "$tmp/want" >"$tmp/part" && mv "$tmp/part" "$tmp/want"
equals "--first goes on with a list" generate "$names" --first 200 --samples 100 --batch 9
check "samples differ" eval '[ "$(sort -u "$tmp/want" | wc -l)" -gt 60 ]'

# A block holds what fits into 64 MiB, and each thread has its part of it: 250,000 names take several.
want generate "$names" --temp 0.5 --samples 250000 -t 1
equals "250,000 names by two threads" generate "$names" --temp 0.5 --samples 250000 -t 2
if ! nm "$MGPT" 2>/dev/null | grep -q __asan; then
    # An address space with room for the stacks of some hundred threads (512 KiB each).
    equals_after "... by twelve, whose timelines have no threads of their own" \
        'export MALLOC_ARENA_MAX=1 && ulimit -v 400000' \
        generate "$names" --temp 0.5 --samples 250000 -t 12
fi
sed -n '249001,249100p' "$tmp/want" >"$tmp/part" && mv "$tmp/part" "$tmp/want"
equals "... of which 100 alone are the same" generate "$names" --temp 0.5 --samples 100 --first 249000
want generate "$names" --samples 600 -c 4 --json -t 1
equals "JSON of two threads" generate "$names" --samples 600 -c 4 --json -t 2
want generate "$names" --samples 600 -c 4 -t 1
full=$(grep -o "[0-9]* of 600 samples end there" "$tmp/err")
equals "samples that fill the context, by two threads" generate "$names" --samples 600 -c 4 -t 2
tells "... are counted" "${full:?}"

want generate "$lines" -p "ROMEO:" --samples 7 -n 60 --batch 1 --json
for options in "--batch 3" "--batch 7 -t 2" "--batch 64 --isa scalar" "--batch 5 --no-fused"; do
    # shellcheck disable=SC2086
    equals "a prompt, JSON, $options" generate "$lines" -p "ROMEO:" --samples 7 -n 60 --json $options
done
run generate "$lines" -p "ROMEO:" -n 60 --json --first 5
check "json: the index is the sample's number" eval '[ "$(cat "$tmp/out")" = "$(sed -n 6p "$tmp/want")" ]'
want generate "$names" --samples 40 -c 4 --batch 1
equals "the end of the context in a batch" generate "$names" --samples 40 -c 4 --batch 16
tells "... is counted as before" "of 40 samples end there"
run generate "$names" --samples 30 -n 0 -p an
check "-n 0 in a batch prints prompts" eval '[ "$(sort -u "$tmp/out")" = an ]'
want generate "$names" --samples 60 -n 3 --no-prompt -p an --batch 1
equals "-n, --no-prompt in a batch" generate "$names" --samples 60 -n 3 --no-prompt -p an
want generate "$names" --rng python --seed 42 --samples 20
equals "--rng python: one stream through all samples, for any batch" \
    generate "$names" --rng python --seed 42 --samples 20 --batch 8
refuses "... so there is no --first" 2 "--rng python" generate "$names" --rng python --first 3

{
    code=0
    "$MGPT" generate "$lines" -p A --samples 2000000000 --batch 8 2>"$tmp/err" || code=$?
    echo $code >"$tmp/code"
} | head -n 1 >"$tmp/out"
check "a batch whose reader goes ends quietly" \
    eval '[ "$(cat "$tmp/code")" -eq 5 ] && ! grep -q "cannot write" "$tmp/err"'

# ---- speculation: the text repeats itself, then the context ends ----

prompt='All: the king, the queen.
All: the king, the queen.
All:'
"$MGPT" convert "$lines" "$tmp/draft.gguf" --type q4_0 2>"$tmp/err"
for temperature in 0 0.3 0.8; do
    want generate "$lines" -p "$prompt" -n 400 --temp $temperature -s 5
    for options in "" "1 -t 2" "2" "=5 --isa scalar" "64 -t 2"; do
        # shellcheck disable=SC2086
        equals "--lookup $options, temperature $temperature" generate "$lines" -p "$prompt" \
            -n 400 --temp $temperature -s 5 --lookup$(case $options in =*) ;; *) echo " " ;; esac)$options
    done
    for options in "" "--lookup" "--lookup 3 -t 2" "--isa scalar"; do
        # shellcheck disable=SC2086
        equals "--draft $options, temperature $temperature" generate "$lines" -p "$prompt" \
            -n 400 --temp $temperature -s 5 --draft "$tmp/draft.gguf" $options
    done
done
tells "it says what came of it" "proposed tokens"
tells "... and where the text ends" "the context is full (256 positions)"
run generate "$lines" -p "$prompt" -n 150 --temp 0 --lookup
check "a repetitive text needs fewer passes than tokens" awk '
    /accepted/ { for (i = 1; i < NF; i++) if ($(i + 1) == "passes") passes = $i }
    END { exit !(passes > 0 && passes < 140) }' "$tmp/err"
for n in 0 1 2 3; do
    want generate "$lines" -p "$prompt" -n $n --temp 0
    equals "--lookup -n $n" generate "$lines" -p "$prompt" -n $n --temp 0 --lookup
done
want generate "$names" --samples 300 --temp 0.4
equals "--lookup with samples that end: one after the other" \
    generate "$names" --samples 300 --temp 0.4 --lookup
want generate "$names" --samples 30 --rng python -s 42
equals "--lookup with CPython's numbers" generate "$names" --samples 30 --rng python -s 42 --lookup 3
equals "--draft with CPython's numbers" generate "$names" --samples 30 --rng python -s 42 --draft "$names"
refuses "--draft with another vocabulary" 3 "$names: 27 logits a row, $lines has 65" \
    generate "$lines" -p a --draft "$names"
refuses "--draft with a file that is not a model" 3 "$tmp/want" generate "$names" --draft "$tmp/want"
refuses "--slide and --draft" 2 "--slide and --draft" generate "$names" --slide --draft "$names"
refuses "--chat and --draft" 2 "--chat goes with none" generate "$lines" --chat -p a --draft "$lines"
refuses "--lookup 0" 2 "from 1 to 64" generate "$names" --lookup 0
refuses "--lookup=x" 2 "whole number" generate "$names" --lookup=x
refuses "--chat and --lookup" 2 "--chat goes with none" generate "$lines" --chat -p a --lookup

finish
