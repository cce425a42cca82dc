#!/bin/sh
# Numbers at the edge, on the command line: weights that are not numbers, all logits equal, temperatures
# and filters at both ends, --check-finite in every command that has it, and the context that slides.
# shellcheck disable=SC2016,SC2059  # conditions are evaluated by check; formats are bytes and lines
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

# poison FILE TENSOR VALUE BYTES: names.gguf with one float of a tensor replaced (octal, little-endian).
poison()
{
    [ -f "$1" ] || cp "$names" "$1"
    chmod u+w "$1"
    at=$("$MGPT" info "$names" --tensors | sed -n "s/^$2 .* at \([0-9]*\)$/\1/p")
    printf "$4" | dd of="$1" bs=1 seek=$((at + 4 * $3)) conv=notrunc 2>/dev/null
}

# fill FILE TENSOR COUNT BYTES: the same for the first COUNT floats.
fill()
{
    i=0 all=
    while [ $i -lt "$3" ]; do
        all=$all$4 i=$((i + 1))
    done
    poison "$1" "$2" 0 "$all"
}

nan='\000\000\300\177' inf='\000\000\200\177' minus_inf='\000\000\200\377' tiny='\001\000\000\000'
zero='\000\000\000\000'

poison "$tmp/v.gguf" blk.0.attn_v.weight 80 "$nan" # row 5: head 1, value 1
poison "$tmp/k.gguf" blk.0.attn_k.weight 0 "$inf"
poison "$tmp/down.gguf" blk.0.ffn_down.weight 192 "$nan" # row 3
poison "$tmp/out.gguf" output.weight 192 "$minus_inf" # row 12
poison "$tmp/a.gguf" token_embd.weight 2 "$nan" # of "a"
fill "$tmp/large.gguf" blk.0.ffn_down.weight 64 '\245\324\150\123' # 1e12
fill "$tmp/equal.gguf" output.weight 432 "$zero"
fill "$tmp/nans.gguf" output.weight 432 "$nan"
fill "$tmp/tiny.gguf" blk.0.attn_v.weight 256 "$tiny"

# ---- --check-finite: nothing changes where all is well ----

printf 'anna\nolivia\nemma\nabcdefghijklmnop\n' >"$tmp/texts"
run generate "$names" --samples 9
cp "$tmp/out" "$tmp/plain"
run generate "$names" --samples 9 --check-finite
check "generate: the same bytes" eval '[ $code -eq 0 ] && cmp -s "$tmp/out" "$tmp/plain"'
run generate "$names" --samples 9 --check-finite --lookup
check "generate --lookup: the same bytes" eval '[ $code -eq 0 ] && cmp -s "$tmp/out" "$tmp/plain"'
run score "$names" -f "$tmp/texts" --each
cp "$tmp/out" "$tmp/plain"
run score "$names" -f "$tmp/texts" --each --check-finite
check "score: the same bytes" eval '[ $code -eq 0 ] && cmp -s "$tmp/out" "$tmp/plain"'
run trace "$names" -p anna -o "$tmp/plain.npz"
run trace "$names" -p anna -o "$tmp/checked.npz" --check-finite
check "trace: the same bytes" eval '[ $code -eq 0 ] && cmp -s "$tmp/plain.npz" "$tmp/checked.npz"'
runs "check: the same verdict" check "$names" "$MGPT_SOURCE_ROOT/weights/names.ref.json" --tol 1e-5 --check-finite
printf 'anna\n/top 3\n\n/a 0 1\n/ab 0.1 zero\n/lens\n/dla\n' >"$tmp/script"
"$MGPT" repl "$names" <"$tmp/script" >"$tmp/plain" 2>&1
run repl "$names" --check-finite <"$tmp/script"
check "repl: the same bytes" eval '[ $code -eq 0 ] && cmp -s "$tmp/out" "$tmp/plain"'
runs "subnormal weights are numbers" generate "$tmp/tiny.gguf" --samples 3 --check-finite

# ---- ... and where it is not, one line says where ----

refuses "generate: head, position and value" 3 \
    "mgpt: $tmp/v.gguf: blocks.0.attn.hook_v, head 1, position 0, value 1: nan, expected a finite number" \
    generate "$tmp/v.gguf" --check-finite
refuses "generate --samples" 3 "blocks.0.attn.hook_v, head 1, position 0" \
    generate "$tmp/v.gguf" --check-finite --samples 60
refuses "generate --json: no half object" 3 "logits, position 0, id 12: " \
    generate "$tmp/out.gguf" --check-finite --json
refuses "generate --json --lookup" 3 "blocks.0.attn.hook_k, head 0, position 0, value 0: " \
    generate "$tmp/k.gguf" --check-finite --json --lookup
run generate "$tmp/a.gguf" -p bb --check-finite --temp 0 -n 12 --top-k 1
refuses "a token's own row: its position" 3 "hook_embed, position 2, value 2: nan" \
    generate "$tmp/a.gguf" -p ba --check-finite
run generate "$tmp/a.gguf" -p b --check-finite --samples 60 -s 3
check "in the middle of a text: whole lines, one message" \
    eval '[ $code -eq 3 ] && one_line && [ -z "$(tail -c 1 "$tmp/out")" ]'
tells "... and where" "hook_embed, position "
refuses "score, texts side by side" 3 "blocks.0.hook_mlp_out, position 0, value 3: nan" \
    score "$tmp/down.gguf" -f "$tmp/texts" --check-finite
refuses "score: the logits themselves are looked at" 3 "nan, expected a finite number" score "$tmp/down.gguf" -f "$tmp/texts"
printf 'annannannanna\n' >"$tmp/one"
refuses "score, one text" 3 "blocks.0.hook_mlp_out, position 0, value 3: nan" \
    score "$tmp/down.gguf" -f "$tmp/one" --check-finite
run trace "$tmp/v.gguf" -p anna -o "$tmp/none.npz" --check-finite
check "trace: exit 3, no file" \
    eval '[ $code -eq 3 ] && [ ! -e "$tmp/none.npz" ] && ! ls "$tmp" | grep -q "none.npz"'
tells "trace: where" "blocks.0.attn.hook_v, head 1, position 0, value 1: nan"
cp "$tmp/plain.npz" "$tmp/kept.npz"
run trace "$tmp/v.gguf" -p anna -o "$tmp/kept.npz" --hooks logits --check-finite
check "trace: the file of before is kept" cmp -s "$tmp/kept.npz" "$tmp/plain.npz"
run check "$tmp/v.gguf" "$MGPT_SOURCE_ROOT/weights/names.ref.json" --check-finite
check "check: exit 3, not 1" [ "$code" -eq 3 ]
tells "check: where" "blocks.0.attn.hook_v, head 1, position 0, value 1: nan"
# A second model of a command is looked at as the first is: MODEL's TEXT is what --check-finite finds in it.
while read -r model found; do
    run check "$names" "$tmp/$model.gguf" -p anna --check-finite
    check "check of two models: $model.gguf is the second" eval '[ $code -eq 3 ] && one_line'
    tells "... which one" "$model.gguf: $found"
    for line in '/top 3' '/diff' '/branch b\n/diff main'; do
        feed "anna\n/with $tmp/$model.gguf\n$line\n" repl "$names" --check-finite
        check "repl: /${line##*/} with $model.gguf" eval '[ $code -eq 3 ] && one_line'
        tells "... where" "$tmp/$model.gguf: $found"
    done
done <<'END'
v blocks.0.attn.hook_v, head 1, position 0, value 1: nan
k blocks.0.attn.hook_k, head 0, position 0, value 0: -inf
down blocks.0.hook_mlp_out, position 0, value 3: nan
out logits, position 0, id 12: inf
END
refuses "check --self has sessions of its own" 2 "--check-finite" \
    check --self "$names" --check-finite
feed 'anna\n/scale mlp.0 1e30\nb\n/tokens\n' repl "$tmp/large.gguf" --check-finite
check "repl: exit 3 at the end" [ "$code" -eq 3 ]
tells "repl: an edit that gives infinity is told" ", expected a finite number"
says "repl: the session goes on as it was" '"n"'
feed 'anna\n' repl "$tmp/v.gguf" --check-finite
check "repl: one line, exit 3" eval '[ $code -eq 3 ] && one_line && [ ! -s "$tmp/out" ]'

# ---- drawing from extreme logits ----

# in_range: the last run's JSON has ids 0 to 26 only.
in_range()
{
    [ "$code" -eq 0 ] && sed 's/.*"tokens":\[\([0-9,]*\)\].*/\1/' "$tmp/out" | tr , '\n' |
        awk '$1 != "" && ($1 < 0 || $1 > 26) { bad = 1 } END { exit bad }'
}
for model in "$names" "$tmp/equal.gguf" "$tmp/tiny.gguf"; do
    for options in "--temp 0" "--temp 1e-30" "--temp 1e30" "--top-k 1" "--top-k 28" "--top-k 2147483647" \
        "--top-p 0" "--top-p 1" "--top-p 1e-30" "--min-p 1" "--temp 1e30 --top-k 28 --top-p 0.5 --min-p 1"; do
        # shellcheck disable=SC2086  # several words
        run generate "$model" --samples 4 --json $options
        check "$(basename "$model") $options" in_range
    done
done
for options in "--temp 0" "--top-k 1" "--temp 1e30 --top-k 1" "--top-p 1e-30" "--temp 0 --top-k 28"; do
    # shellcheck disable=SC2086
    prints "all equal, $options: the lowest id" aaaaaa generate "$tmp/equal.gguf" -n 6 $options
    # shellcheck disable=SC2086
    feed 'zz\n/top 2\n\n' repl "$tmp/equal.gguf" $options
    check "... in the repl" eval '[ $code -eq 0 ] && grep -q "^   3: *0 " "$tmp/out"'
done
run generate "$tmp/equal.gguf" --temp 1e30 --samples 40
check "all equal, no filter: every letter may come" \
    eval '[ $(tr -d "\n" <"$tmp/out" | fold -w 1 | sort -u | wc -l) -gt 20 ]'
for script in 'anna\n/top 27\n\n/p a\n' 'b\n/generate 5\n/lens\n'; do
    feed "$script" repl "$tmp/equal.gguf"
    check "repl on equal.gguf" [ "$code" -eq 0 ]
done

# ---- logits that are not numbers: one line and exit 3, without --check-finite too ----

no_numbers() # of the last run
{
    [ "$code" -eq 3 ] && one_line && grep -q -- "--check-finite finds where" "$tmp/err"
}
for model in nans out v k; do
    for options in "" "--samples 60" "--lookup" "--json" "--temp 0"; do
        # shellcheck disable=SC2086  # several words
        run generate "$tmp/$model.gguf" $options
        check "generate $model.gguf $options: refused" no_numbers
    done
    for texts in texts one; do
        run score "$tmp/$model.gguf" -f "$tmp/$texts"
        check "score $model.gguf, $texts: refused" no_numbers
        check "... no perplexity" eval '! grep -q perplexity "$tmp/out"'
    done
    feed 'anna\n/top\n' repl "$tmp/$model.gguf"
    check "repl on $model.gguf: refused at the end" [ "$code" -eq 3 ]
    tells "... with the reason" "--check-finite finds where"
    check "... and shows no nan" eval '! grep -q nan "$tmp/out"'
done
refuses "the position and the id" 3 "logits after position 0, id 12: " generate "$tmp/out.gguf"
refuses "a token's own row" 3 "logits after position 2, id 0: nan, expected a finite number" \
    generate "$tmp/a.gguf" -p ba
printf 'bbbbb\n' >"$tmp/last"
runs "score: a row that no text uses does not matter" score "$tmp/a.gguf" -f "$tmp/last"
runs "trace still shows them" trace "$tmp/v.gguf" -p anna -o "$tmp/shown.npz"

# ---- --slide ----

text=ROMEO:
drawn=0
while [ $drawn -lt 40 ]; do # what nanoGPT does, one fresh process per token
    last=$(printf '%s.' "$text" | tail -c 17)
    printf '%s\n' "${last%.}" >"$tmp/window"
    "$MGPT" generate "$lines" -f "$tmp/window" -c 16 -n 1 --temp 0 --no-prompt >"$tmp/next" 2>"$tmp/err"
    next=$(cat "$tmp/next"; echo .)
    text=$text${next%??}
    drawn=$((drawn + 1))
done
printf '%s\n' "$text" >"$tmp/want"
run generate "$lines" -c 16 -p "ROMEO:" --temp 0 -n 40 --slide
check "--slide is a window recomputed for each token" eval '[ $code -eq 0 ] && [ ! -s "$tmp/err" ] &&
    cmp -s "$tmp/out" "$tmp/want"'
want generate "$lines" -c 256 -p "ROMEO:" -n 30 --slide
equals "before the context is full it changes nothing" generate "$lines" -p "ROMEO:" -n 30
want generate "$names" -c 6 --slide --samples 12 -n 20 --batch 1
equals "sample N is the same in any batch" generate "$names" -c 6 --slide --samples 12 -n 20 --batch 5 -t 2
run generate "$names" -c 6 --slide --first 7 -n 20
check "... and alone" eval '[ "$(cat "$tmp/out")" = "$(sed -n 8p "$tmp/want")" ]'
want generate "$lines" -c 4 -p "What is" --temp 0 -n 9 --slide --no-prompt
run generate "$lines" -c 4 -p "t is" --temp 0 -n 9 --slide --no-prompt
check "a prompt beyond the context is cropped as well" eval '[ $code -eq 0 ] && cmp -s "$tmp/out" "$tmp/want"'
run generate "$lines" -c 1 -p "R" --temp 0 -n 5 --slide --check-finite
check "a context of one position" eval '[ $code -eq 0 ] && [ $(wc -c <"$tmp/out") -eq 7 ]'
refuses "--slide with --lookup" 2 "--slide and --lookup" generate "$names" --slide --lookup
refuses "--slide with --chat" 2 "--slide" generate "$names" --slide --chat -p x

finish
