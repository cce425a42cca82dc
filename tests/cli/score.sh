#!/bin/sh
# mgpt score --json: records, their numbers, bad lines in their places, shards.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

# field NAME: the number called so in every record on stdin, one a line.
field()
{
    sed -n 's/.*"'"$1"'":\([^,}]*\).*/\1/p'
}

"$MGPT" generate "$names" --samples 60 | grep . >"$tmp/words"
awk '{ printf "{\"id\": %d, \"text\": \"%s\"}\n", NR, $0 }' "$tmp/words" >"$tmp/in.jsonl"
run score "$names" -f "$tmp/in.jsonl" --json
cp "$tmp/out" "$tmp/whole"
check "a record per line, nothing else" eval '[ $code -eq 0 ] && [ ! -s "$tmp/err" ] &&
    [ "$(wc -l <"$tmp/out")" -eq "$(wc -l <"$tmp/words")" ]'
field id <"$tmp/whole" >"$tmp/ids"
check "in their order" eval 'awk "{ print NR }" "$tmp/words" | cmp -s - "$tmp/ids"'

# The numbers are those of --each, to the last digit.
run score "$names" -f "$tmp/words"
check "texts begin new words" grep -qx "words  *$(wc -w <"$tmp/words")" "$tmp/out"
run score "$names" -f "$tmp/words" --each
grep "$tab" "$tmp/out" >"$tmp/each"
field sum_logprob <"$tmp/whole" | sed 's/^-//' >"$tmp/sums"
check "sum_logprob: the same numbers" eval 'cut -f 1 "$tmp/each" | paste - "$tmp/sums" |
    awk "{ n++; bad += \$1 + 0 != \$2 + 0 } END { exit bad || !n }"'
field n_tokens <"$tmp/whole" >"$tmp/counts"
check "n_tokens: the same" eval 'cut -f 2 "$tmp/each" | cmp -s - "$tmp/counts"'
# Sums of printed numbers: each is off by an ulp at most.
check "perplexity and token_logprobs belong to the sum" awk '
    { match($0, /"token_logprobs":\[null,[^]]*/); n = split(substr($0, RSTART + 23, RLENGTH - 23), p, ",")
      sum = 0; for (i = 1; i <= n; i++) sum += p[i]
      match($0, /"sum_logprob":[^,]*/); want = substr($0, RSTART + 14, RLENGTH - 14)
      match($0, /"perplexity":[^,]*/); perplexity = substr($0, RSTART + 13, RLENGTH - 13)
      d = sum - want; e = exp(-sum / n) / perplexity - 1; lines++
      bad += !(d < 1e-9 && d > -1e-9 && e < 1e-9 && e > -1e-9) } END { exit bad || !lines }' "$tmp/whole"

# ---- shards ----

split -l 7 "$tmp/in.jsonl" "$tmp/shard."
for shard in "$tmp"/shard.*; do
    "$MGPT" score "$names" -f - --json <"$shard" || echo bad
done >"$tmp/joined" 2>"$tmp/err"
check "shards put together are the whole" cmp -s "$tmp/joined" "$tmp/whole"
if command -v parallel >/dev/null && parallel --version 2>/dev/null | grep -q '^GNU parallel'; then
    parallel --will-cite --pipe -k -N 9 "$MGPT" score "$names" -f - --json \
        <"$tmp/in.jsonl" >"$tmp/out" 2>"$tmp/err"
    check "GNU parallel gives the same bytes" cmp -s "$tmp/out" "$tmp/whole"
else
    echo "# no GNU parallel here: shards by split only"
fi
: >"$tmp/empty"
run score "$names" -f "$tmp/empty" --json
check "an empty shard is not an error" eval '[ $code -eq 0 ] && [ ! -s "$tmp/out" ] && [ ! -s "$tmp/err" ]'

# ---- bad lines ----

printf '%s\n' '{"id": "a", "text": "anna"}' '{"id": "b", "text": "ann3"}' 'no JSON' '' '[1]' \
    '{"id": 7}' '{"id": [1], "text": 5}' '{"text": "a", "text": "b"}' \
    '{"id": null, "text": "abcdefghijklmnopqrstuvwxyz"}' '{"text": ""}' >"$tmp/bad.jsonl"
printf '{"text": "\377"}\n{"text": "a\\u0000b"}\n' >>"$tmp/bad.jsonl"
run score "$names" -f "$tmp/bad.jsonl" --json
check "bad lines: exit 3 at the end" [ "$code" -eq 3 ]
check "... a record each all the same" [ "$(wc -l <"$tmp/out")" -eq 11 ]
check "... in their places, with the number of the line where they have no id" eval \
    '[ "$(field line <"$tmp/out" | tr "\n" " ")" = "3 5 8 11 12 " ]'
check "... with the id where there is one" eval 'sed -n 2p "$tmp/out" | grep -q "^{\"id\":\"b\",\"error\""'
says "... saying why: a character" "character '3' (U+0033) at byte 3"
says "... saying why: JSON" '"error":"bad JSON'
says "... saying why: no text" "expected an object with a string called text"
tells "... counted, the first with its reason" "8 of 11 lines could not be scored; line 2: character '3'"
says "a text of several windows says so" '"windows":2'
says "any id comes back" '{"id":null,"n_tokens":27'
says "one that just fits does not" '{"n_tokens":16,"sum_logprob"' score "$names" --json -f - <<END
{"text": "abcdefghijklmno"}
END
check "... nor is it counted" eval '[ ! -s "$tmp/err" ] && ! grep -q windows "$tmp/out"'

printf '%s\n' '{"text": "anna"}' '{"text": "anna", "prompt": "b", "id": 5}' >"$tmp/field.jsonl"
run score "$names" -f "$tmp/field.jsonl" --json
check "a field that is not read: exit 3" [ "$code" -eq 3 ]
tells "... with the line and the fields there are" \
    'line 2: unknown field "prompt": the fields of a record are id, text, ids, context, continuation and continuations'
says "... in its place" '{"id":5,"error":"unknown field'

for n in 100000 100001; do
    awk -v n=$n 'BEGIN { printf "{\"context\":\"a\",\"continuations\":[\"b\""; while (--n) printf ",\"b\""; print "]}" }' >"$tmp/many.jsonl"
    run score "$names" -f "$tmp/many.jsonl" --json
    check "$n continuations" [ "$code" -eq $((n > 100000 ? 3 : 0)) ]
done
tells "... are too many" 'continuations: 100001, at most 100000 in a record'

# ---- half a character, and control tokens ----

printf '{"text": "\\u00e9"}\n' >"$tmp/accent.jsonl"
golden=$MGPT_SOURCE_ROOT/tests/fixtures/torch/nanogpt
"$MGPT" convert "$golden/ckpt.pt" "$tmp/tiny.gguf" --assume nanogpt >"$tmp/out" 2>"$tmp/err"
printf '%s\n' '{"ids":[26,0,13,13,0,26]}' '{"text":"anna"}' '{"ids":[1,2,3]}' '{"ids":[]}' >"$tmp/ids.jsonl"
run score "$names" -f "$tmp/ids.jsonl" --json
check "ids are scored as the text that has them" eval '[ $code -eq 0 ] && [ "$(sed -n 1p "$tmp/out")" = "$(sed -n 2p "$tmp/out")" ]'
check "... without BOS and end" eval 'sed -n 3p "$tmp/out" | grep -q "\"n_tokens\":2,.*\"ids\":\[1,2,3\].*null,-"'
check "... none" eval 'sed -n 4p "$tmp/out" | grep -q "\"n_tokens\":0"'
for bad in '[27]' '[0,-1]' '[1.5]' '["a"]'; do
    printf '{"ids":%s}\n' "$bad" >"$tmp/ids.jsonl"
    says "ids $bad are refused in their place" "expected whole numbers from 0 to 26" score "$names" -f "$tmp/ids.jsonl" --json
done
printf '{"ids":[1],"text":"a"}\n' >"$tmp/ids.jsonl"
says "ids and a text" "one of text, ids" score "$names" -f "$tmp/ids.jsonl" --json

run score "$tmp/tiny.gguf" -f "$tmp/accent.jsonl" --json
check "a text of one token: nothing to score, no numbers made up" eval '[ $code -eq 0 ] &&
    grep -qF "\"n_tokens\":0,\"sum_logprob\":0.0,\"perplexity\":null" "$tmp/out"'

# ---- the output is a reference ----

run score "$names" -f "$tmp/in.jsonl" --json --top 5 --no-end
cp "$tmp/out" "$tmp/reference.jsonl"
# The log-probabilities are ours: nothing differs but the rounding of log(sum exp) in another order.
runs "check accepts it as a reference" check "$names" "$tmp/reference.jsonl" --tol 1e-12 --max-kl 1e-12
says "... and its next tokens" "perplexity"
sed 's/"logprob":-1\./"logprob":-1.5/' "$tmp/reference.jsonl" >"$tmp/wrong.jsonl"
run check "$names" "$tmp/wrong.jsonl" --tol 1e-3
check "... and sees a changed one" [ "$code" -eq 1 ]

refuses "--top without --json" 2 "--top is for --json" score "$names" -f "$tmp/words" --top 3
refuses "--each with --json" 2 "only one" score "$names" -f "$tmp/words" --each --json

# ---- keys and values of another type ----

# Every thread's session has the type that was asked for, whatever a text is scored by.
printf 'Nurse, come hither\nO Romeo, Romeo!\nwherefore art thou Romeo?\nGood night\n' >"$tmp/four"
awk '{ printf "{\"text\": \"%s\"}\n{\"context\": \"%s\", \"continuation\": \" and so on\"}\n", $0, $0 }' "$tmp/four" >"$tmp/records"
for how in "-f $tmp/four --each" "-f $tmp/records --json" "-f $tmp/four --window 16"; do
    # shellcheck disable=SC2086
    run score "$lines" $how --kv f32 -t 1
    cp "$tmp/out" "$tmp/f32"
    for kv in f16 q8_0; do
        # shellcheck disable=SC2086
        run score "$lines" $how --kv $kv -t 1
        cp "$tmp/out" "$tmp/want"
        check "--kv $kv ${how#* * }: other numbers than f32" eval '! cmp -s "$tmp/want" "$tmp/f32"'
        for t in 2 3; do
            # shellcheck disable=SC2086
            equals "... and the same on $t threads" score "$lines" $how --kv $kv -t $t
        done
    done
done

finish
