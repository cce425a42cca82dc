#!/bin/sh
# mgpt tokenize, score and info.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

# ---- tokenize ----

prints "ids on one line, BOS first" "26 0 13 13 0" tokenize "$names" -p anna
prints "--no-bos" "0 13 13 0" tokenize "$names" -p anna --no-bos
prints "an empty text" "26" tokenize "$names" -p ''
prints "--pieces" "26$tab<BOS>
0$tab\"a\"" tokenize "$names" -p a --pieces
prints "--special, and no second BOS" "26 0" tokenize "$names" -p '<BOS>a' --special
refuses "without it, control tokens are text" 2 "'<'" tokenize "$names" -p '<BOS>a'
run tokenize "$names" --decode -p "26 0, 13,13 0
"
check "--decode" eval '[ "$(cat "$tmp/out")" = anna ]'
refuses "--decode: an id out of range" 2 "token 27" tokenize "$names" --decode -p "27"
refuses "--decode: not a number" 2 "byte 0" tokenize "$names" --decode -p "x"
printf 'To be,\n\nor not\n' >"$tmp/text"
run tokenize "$lines" -f "$tmp/text"
"$MGPT" tokenize "$lines" --decode <"$tmp/out" >"$tmp/back" 2>"$tmp/err"
check "every byte of a file counts, and comes back" cmp -s "$tmp/text" "$tmp/back"
says "a line end is shown escaped" '"\n"' tokenize "$lines" -f "$tmp/text" --pieces

# ---- score: by the float64 reference (see cli_names.py) ----

grep '^nll' "$vectors/cli_names.txt" | cut -f 2 >"$tmp/words"
run score "$names" -f "$tmp/words" --each
grep '^nll' "$vectors/cli_names.txt" >"$tmp/want"
# float32 logits: a token's log-probability is off by about 1e-6, a word of 12 by less than 1e-4.
check "each text, within 1e-4 of float64" awk -F"$tab" '
    NR == FNR { tokens[$2] = $3; nll[$2] = $4; next }
    NF == 3 { n++; d = $1 - nll[$3]; if (d < -1e-4 || d > 1e-4 || $2 != tokens[$3]) bad = 1 }
    END { exit bad || n != 4 }' "$tmp/want" "$tmp/out"
says "the number of tokens" "tokens      24"
check "perplexity is exp of the mean" awk '
    $1 == "nll/token" { mean = $2 } $1 == "perplexity" { d = $2 / exp(mean) - 1 }
    END { exit !(d < 1e-9 && d > -1e-9 && mean > 0) }' "$tmp/out"
cp "$tmp/out" "$tmp/plain"
{ cat "$tmp/words"; printf '\n\n'; } | sed 's/$/\r/' >"$tmp/dos"
run score "$names" -f "$tmp/dos" --each
check "Windows line ends and empty lines change nothing" cmp -s "$tmp/out" "$tmp/plain"
"$MGPT" score "$names" -f - --each <"$tmp/words" >"$tmp/out" 2>"$tmp/err"
check "from stdin" cmp -s "$tmp/out" "$tmp/plain"

# Many short texts are stepped side by side, long ones and single ones are fed: the same numbers.
"$MGPT" generate "$names" --samples 300 | grep . >"$tmp/many"
while IFS= read -r line; do
    printf '%s\n' "$line" | "$MGPT" score "$names" -f - --each | head -n 1
done <"$tmp/many" >"$tmp/alone"
run score "$names" -f "$tmp/many" --each
sed '/^texts /,$d' "$tmp/out" >"$tmp/together"
check "each of many texts has the number that it has alone" cmp -s "$tmp/alone" "$tmp/together"
cp "$tmp/out" "$tmp/plain"
run score "$names" -f "$tmp/many" --each -t 2 --isa scalar
check "... whatever threads and kernels" cmp -s "$tmp/out" "$tmp/plain"
"$MGPT" generate "$lines" -p A --samples 12 -n 240 | sed 's/^.\{20\}$/&\n/' | grep . >"$tmp/mixed"
while IFS= read -r line; do
    printf '%s\n' "$line" | "$MGPT" score "$lines" -f - --each 2>/dev/null | head -n 1
done <"$tmp/mixed" >"$tmp/alone"
run score "$lines" -f "$tmp/mixed" --each
sed '/^texts /,$d' "$tmp/out" >"$tmp/together"
check "short and long texts together" cmp -s "$tmp/alone" "$tmp/together"

echo abcdefghijklmnopqrstuvwxyz >"$tmp/long"
says "a long text is cut to the context" "tokens      16" score "$names" -f "$tmp/long"
tells "... and that is said" "1 of 1 texts are longer than the context of 16"
printf 'anna\nann3\n' >"$tmp/bad"
run score "$names" -f "$tmp/bad"
check "a character outside the vocabulary: exit 2" [ "$code" -eq 2 ]
tells "... in which line" "line 2"
: >"$tmp/empty"
refuses "nothing to score" 2 "nothing to score" score "$names" -f "$tmp/empty"
refuses "no texts" 2 "-f FILE" score "$names"

# ---- info ----

says "info: the architecture" "microgpt" info "$names"
says "info: the parameters" "4,192"
says "info --tensors" "blk.0.ffn_up.weight" info "$names" --tensors
run info "$names" --json --tensors
check "info --json is one line" eval '[ "$(wc -l <"$tmp/out")" -eq 1 ]'
says "info --json: numbers" '"n_params":4192'
sizes='"n_vocab":33,"n_tokens":33,"n_ctx":64,"n_embd":24,"n_layer":2,"n_head":4,"n_head_kv":2,"head_dim":6,"n_ff":28'
says "info --json: sizes" "$sizes,\"n_expert\":0" info --json "$MGPT_SOURCE_ROOT/tests/golden/llama"
says "info --json: experts" '"n_expert":5,"n_expert_used":2' info --json "$MGPT_SOURCE_ROOT/tests/golden/mixtral"
run info "$names" --json --tensors
says "info --json: tensors" '{"name":"output.weight","type":"F32","shape":[16,27]'

finish
