#!/bin/sh
# mgpt check: the verdict, its numbers, and references that cannot be used.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

json=$MGPT_SOURCE_ROOT/weights/names.ref.json
npz=$MGPT_SOURCE_ROOT/weights/shakespeare.ref.npz
halves=$(awk 'BEGIN { for (i = 0; i < 26; i++) printf "0.5," }') # all of a row but its last logit

# ---- the same ----

# float32 against float64 on values up to about 10: 1e-5 is some ten times what is seen.
runs "JSON: same" check "$names" "$json" --tol 1e-5
says "the verdict is said" "verdict     same"
says "... and the bounds" "bounds      max|diff| 1e-05"
check "a line per position" eval '[ "$(grep -c "^ *[0-9]* *[0-9]* .* same  " "$tmp/out")" -eq 52 ]'
check "the tokens that follow: all but the first of each sequence" grep -q "^perplexity .* (46 tokens)$" "$tmp/out"
runs "npz: same" check "$lines" "$npz"
says "--tokens limits the positions" "positions   5" check -m "$lines" "$npz" --isa scalar -t 2 --tokens 5

# ---- different ----

run check "$names" "$json" --tol 1e-9
check "beyond the tolerance: exit 1" [ "$code" -eq 1 ]
says "the verdict is said, and which bound is broken" "verdict     DIFFERENT (max|diff|)"
printf '{"input": [26], "logits": [[%s1e9]]}' "$halves" >"$tmp/far.json"
run check "$names" "$tmp/far.json"
check "far away: exit 1" [ "$code" -eq 1 ]
says "where" "at sequence 0, position 0, id 26"
says "another top token" "DIFFERENT <BOS>"

# A model of which one weight is NaN.
head -c 5000 "$names" >"$tmp/nan.gguf"
printf '\377\377\377\177' >>"$tmp/nan.gguf"
tail -c +5005 "$names" >>"$tmp/nan.gguf"
run check "$tmp/nan.gguf" "$json" --tol 1e30
check "NaN in ours: exit 1 at any tolerance" [ "$code" -eq 1 ]
says "NaN in ours: said" "not finite"

# What is not finite is shown as what the reference has.
printf '{"ids": [26, 0, 13], "top_logprobs": [null, {"0": -1.5, "13": -2.5}, {"13": -2}]}' >"$tmp/lp.json"
run check "$tmp/nan.gguf" "$tmp/lp.json"
check "NaN beside log-probabilities: called so" grep -q "^first bad .* log-probability of id .*: ours nan," "$tmp/out"

# ---- bounds ----

"$MGPT" convert "$lines" "$tmp/q8.gguf" --type Q8_0 >/dev/null 2>&1
run check "$tmp/q8.gguf" "$npz"
check "Q8_0 is not F32" [ "$code" -eq 1 ]
says "... by which bounds" "DIFFERENT (max/rms, NMSE, KL)"
run check "$tmp/q8.gguf" "$npz" --tol f16
check "... nor F16" [ "$code" -eq 1 ]
runs "--tol q8" check "$tmp/q8.gguf" "$npz" --tol q8
says "a bound of a preset changed" "DIFFERENT (NMSE)" check "$tmp/q8.gguf" "$npz" --tol q8 --max-nmse 1e-6
run check "$tmp/q8.gguf" "$npz" --max-kl 0.01
check "a bound alone is all there is" eval '[ $code -eq 0 ] && grep -qx "bounds      KL 0.01" "$tmp/out"'
check "100 columns" awk 'length($0) > 100 { exit 1 }' "$tmp/out"

# ---- a page to paste ----

runs "--report" check "$names" "$json" --tol 1e-5 --report "$tmp/page.md"
cp "$tmp/out" "$tmp/printed"
check "... prints what it prints without" eval '"$MGPT" check "$names" "$json" --tol 1e-5 | cmp -s - "$tmp/printed"'
check "... and has all of it" eval 'sed -n "s/^    //p" "$tmp/page.md" | grep -qx "verdict     same"'
check "... the verdict" eval 'head -1 "$tmp/page.md" | grep -qx "# mgpt check: the same"'
check "... the model" grep -q "^| model | microgpt, 1 layers, 16 wide, 4 heads" "$tmp/page.md"
check "... its hash" grep -q "18624 bytes, XXH64 03fcec1f5acdb44b" "$tmp/page.md"
"$MGPT" check "$names" "$tmp/far.json" --report "$tmp/a page.md" >/dev/null 2>&1
check "different: a page too" eval 'head -1 "$tmp/a page.md" | grep -qx "# mgpt check: DIFFERENT"'
check "... begins with the verdict, the first bad value of both sides and the command" \
    eval 'sed -n 3p "$tmp/a page.md" | grep -q "^    verdict  *DIFFERENT (" && sed -n 5p "$tmp/a page.md" | grep -q "^    to repeat   mgpt check " &&
    sed -n 4p "$tmp/a page.md" | grep -q "^    first bad   sequence 0, position 0, logit of id 26: ours -4.1836[0-9]*, reference 1e+09$"'
check "... with the command to repeat it" grep -qF -- "--report '$tmp/a page.md'" "$tmp/a page.md"
"$MGPT" check "$names" "$tmp/far.json" --report "$tmp/page.md" >/dev/null 2>&1
check "a page is replaced" eval 'head -1 "$tmp/page.md" | grep -qx "# mgpt check: DIFFERENT"'
runs "--report in HTML" check "$names" "$json" --report "$tmp/page.html"
check "... is HTML" eval 'head -1 "$tmp/page.html" | grep -qx "<!DOCTYPE html><!-- mgpt check -->" && grep -qx "<h1>mgpt check: the same</h1>" "$tmp/page.html"'
check "... with all that is printed, escaped" eval 'grep -qx "verdict     same" "$tmp/page.html" && grep -q "&#60;BOS&#62;" "$tmp/page.html" && ! grep -q "<BOS>" "$tmp/page.html"'
check "... and the facts" grep -q "^<tr><td>GGUF file<td>18624 bytes" "$tmp/page.html"
runs "... is replaced" check "$names" "$json" --report "$tmp/page.html"
runs "... also by the other ends of its name" check "$names" "$json" --report "$tmp/page.HTM"
check "... is HTML, too" eval 'head -1 "$tmp/page.HTM" | grep -qx "<!DOCTYPE html><!-- mgpt check -->"'
run check "$names" "$names" -p '' --report "$tmp/it's.md"
check "... what a shell would take apart is quoted" grep -qF -- "-p '' --report '$tmp/it'\\''s.md'" "$tmp/it's.md"
refuses "a name for what is not written" 2 "--json prints JSON" check "$names" "$json" --report "$tmp/r.json"
refuses "... and another" 2 "Markdown (.md) or HTML (.html)" check "$names" "$json" --report "$tmp/r.pdf"
"$MGPT" check "$names" "$json" --report "$tmp/$(printf 'a\363\240\201\201b').md" >/dev/null 2>&1
check "hidden characters in the command are shown as ?" grep -q "a?b.md" "$tmp"/a*b.md
cp "$tmp/far.json" "$tmp/far.txt"
refuses "another file is not" 3 "is not a page of check --report" check "$names" "$json" --report "$tmp/far.txt"
refuses "--json and --report" 2 "only one of them" check "$names" "$json" --json --report "$tmp/page.md"

# ---- tokens from outside, raw floats ----

printf '\0\0\0\0%.0s' $(seq 81) >"$tmp/zeros" # 3 rows of 27
run check "$names" "$tmp/zeros" --shape 3,27 -p an
check "raw floats with -p" eval '[ $code -eq 1 ] && grep -q "positions   3" "$tmp/out"'
run check "$names" "$tmp/zeros" --shape 3,27 --ids 26,0,13
check "raw floats with --ids" eval '[ $code -eq 1 ] && grep -q "positions   3" "$tmp/out"'
refuses "the shape must fit" 3 "324 bytes" check "$names" "$tmp/zeros" --shape 4,27 -p ann
for shape in 81 3,27,1 3,27,x 3,0 0,27; do
    refuses "a shape is two numbers, not $shape" 2 "two numbers" check "$names" "$tmp/zeros" --shape $shape -p an
done
refuses "ids that are none" 2 "byte 3" check "$names" "$tmp/zeros" --shape 3,27 --ids 26,x

# ---- JSON Lines ----

run check "$names" "$json" --json --tol 1e-5
check "json: a line per position and the verdict" eval '[ "$(wc -l <"$tmp/out")" -eq 53 ]'
check "json: the verdict is the last line" \
    eval 'tail -n 1 "$tmp/out" | grep -qF "\"verdict\":\"same\""'
run check "$tmp/nan.gguf" "$json" --json
check "json: NaN is null" grep -q '"max_abs":null' "$tmp/out"

# ---- references that cannot be used ----

refuses "another vocabulary: both numbers" 3 "65 logits a row, the model has 27" \
    check "$names" "$npz"
printf '{"input": [27], "logits": [[%s1]]}' "$halves" >"$tmp/range.json"
refuses "a token out of range" 3 "token 0 is 27, the model has ids 0 to 26" \
    check "$names" "$tmp/range.json"
printf '{"input": [0, 1], "logits": [[1, 2], [1]]}' >"$tmp/ragged.json"
refuses "a row of the wrong length" 3 "row 0 has 2 logits" check "$names" "$tmp/ragged.json"
head -c 300 "$json" >"$tmp/cut.json"
refuses "truncated JSON" 3 "bad JSON" check "$names" "$tmp/cut.json"
head -c 3000 "$npz" >"$tmp/cut.npz"
refuses "truncated npz" 3 "npz" check "$lines" "$tmp/cut.npz"
refuses "not a reference" 3 "expected .npz, .npy, .safetensors, JSON" check "$names" "$MGPT_SOURCE_ROOT/LICENSE"
refuses "no reference" 2 "MODEL REF" check "$names"
refuses "no such reference" 5 "No such file" check "$names" "$tmp/none.npz" --report "$tmp/none.md"
check "... and no page says it" [ ! -e "$tmp/none.md" ]
refuses "--ids with tokens in the file" 2 "tokens of its own" check "$lines" "$npz" --ids 1,2
run tokenize "$names" -p abcdefghijklmnopqr
ids=$(sed 's/ /, /g' "$tmp/out")
rows=$(awk -v row="[${halves}1]," 'BEGIN { for (i = 0; i < 18; i++) printf "%s", row }')
printf '{"input": [%s], "logits": [%s[%s1]]}' "$ids" "$rows" "$halves" >"$tmp/long.json"
refuses "longer than the context" 4 "19 tokens, but the context holds 16" \
    check "$names" "$tmp/long.json"
refuses "a tolerance below zero" 2 "from 0" check "$names" "$json" --tol -1
refuses "a tolerance that is not a number" 2 "from 0" check "$names" "$json" --tol nan

# ---- fields of a JSON reference that are not read ----

sed 's/"input": \[26\]/"input": [26], "hidden": 1/' "$MGPT_SOURCE_ROOT/weights/names.ref.json" >"$tmp/field.json"
run check "$names" "$tmp/field.json"
tells "an unknown field is said" 'sequence 0: field "hidden" is not read; the fields are input, logits'
check "... and the rest is compared" [ "$code" -eq 0 ]
run check "$names" "$MGPT_SOURCE_ROOT/weights/names.ref.json"
check "... and only then" [ ! -s "$tmp/err" ]

# ---- options of a reference only ----

for option in "--ids 1" "--shape 1,27" --explain; do
    # shellcheck disable=SC2086
    refuses "$option with two models" 2 "${option%% *} is not for two models" check "$names" "$names" $option
done
for option in "--ids 1" "--shape 1,27" --explain "--tol f16" "--max-nmse 1" "--max-kl 0"; do
    # shellcheck disable=SC2086
    refuses "$option with --self" 2 "${option%% *} is not for --self" check "$names" --self $option
done
refuses "-f with a reference" 2 "-f is the text of --self and of two models" check "$names" "$json" -f "$tmp/none"
refuses "--ids with -p" 2 "--ids and -p: only one of them" check "$names" "$json" --ids 1 -p a
refuses "an id beyond the vocabulary" 2 "--ids: token 1 is 27, the model has ids 0 to 26" check "$names" "$json" --ids 1,27

finish
