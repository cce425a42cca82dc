#!/bin/sh
# mgpt generate: what it prints, when it stops, and how it fails.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

# ---- the right text, by the float64 reference and CPython's random (see cli_names.py) ----

sed -n "s/^python$tab//p" "$vectors/cli_names.txt" >"$tmp/python"
run generate "$names" --rng python --seed 42 --rng-skip 1000 --temp 0.5 --samples 20
check "20 samples are CPython's" cmp -s "$tmp/out" "$tmp/python"

grep "^greedy" "$vectors/cli_names.txt" >"$tmp/greedy"
while IFS= read -r line; do
    rest=${line#greedy"$tab"}
    prompt=${rest%%"$tab"*}
    prints "greedy after '$prompt'" "$prompt${rest#*"$tab"}" \
        generate -m "$names" --temp 0 -p "$prompt"
    prints "greedy after '$prompt', the continuation only" "${rest#*"$tab"}" \
        generate -m "$names" --temp 0 -p "$prompt" --no-prompt
done <"$tmp/greedy"

shared=$MGPT_SOURCE_ROOT/../shared/cases/microgpt-3d
if [ -f "$shared/ref_generate.json" ]; then
    run convert "$shared/microgpt-weights.json" "$tmp/m.gguf"
    sed -n '/"karpathy_20_names"/,/^ }/s/^   "\([a-z]*\)",\{0,1\}$/\1/p' \
        "$shared/ref_generate.json" >"$tmp/published"
    run generate "$tmp/m.gguf" --rng python -s 42 --rng-skip 53020 --temp 0.5 --samples 20
    check "microgpt's 20 published names" cmp -s "$tmp/out" "$tmp/published"
fi

# ---- the same bytes ----

want generate "$names" -s 5
equals "the least of --samples, the most of -n" generate "$names" -s 5 --samples 1 -n 2147483647
run generate "$names" --samples 50
cp "$tmp/out" "$tmp/first"
run generate "$names" --samples 50 -s 0 -t 2 --isa scalar
check "same seed, other threads and kernels: same bytes" cmp -s "$tmp/out" "$tmp/first"
run generate "$names" --samples 50 -s 1
check "another seed: other bytes" eval '! cmp -s "$tmp/out" "$tmp/first"'
run generate "$names" --samples 50 --top-k 1
uniq "$tmp/out" >"$tmp/one"
run generate "$names" --temp 0
check "top-k 1 is greedy" cmp -s "$tmp/out" "$tmp/one"

# ---- where the prompt comes from ----

run generate "$lines" -p "ROMEO:
But" -n 40 --temp 0
cp "$tmp/out" "$tmp/want"
printf 'ROMEO:\nBut\n' >"$tmp/prompt"
equals "-f drops one line end" generate "$lines" -f "$tmp/prompt" -n 40 --temp 0
"$MGPT" generate "$lines" -f - -n 40 --temp 0 <"$tmp/prompt" >"$tmp/out" 2>"$tmp/err"
check "-f - reads stdin" cmp -s "$tmp/out" "$tmp/want"
run generate "$lines" --temp 0 -n 0 -p "ROMEO:"
check "-n 0 prints the prompt" eval '[ "$(cat "$tmp/out")" = ROMEO: ]'
run generate "$lines" --temp 0 -n 7 -p "ROMEO:" --no-prompt
check "-n 7 draws seven characters" eval '[ "$(wc -c <"$tmp/out")" -eq 8 ]'

# ---- the end of the context ----

run generate "$names" --temp 0 -c 5
check "context full: exit 0" eval '[ $code -eq 0 ] && [ "$(cat "$tmp/out")" = alexi ]'
tells "context full: said on stderr" "the context is full (5 positions)"
tells "context full in several samples: counted" "4 of 4 samples end there" generate "$names" -c 3 --samples 4
refuses "prompt too long: both numbers" 4 "19 tokens, but the context holds 16" \
    generate "$names" -p abcdefghijklmnopqr

# ---- JSON Lines ----

prints "json" '{"index":0,"text":"alexin","tokens":[26,0,11,4,23,8,13],"finish_reason":"stop"}' \
    generate "$names" --temp 0 --json
prints "json: cut by -n" '{"index":0,"text":"lex","tokens":[11,4,23],"finish_reason":"length"}' \
    generate "$names" -p a -n 3 --temp 0 --json --no-prompt
says "json: the end of the context" '"text":"alexi","tokens":[26,0,11,4,23,8],"finish_reason":"length"}' \
    generate "$names" --temp 0 -c 5 --json
run generate "$names" --json --samples 3
check "json: a line per sample" eval '[ "$(wc -l <"$tmp/out")" -eq 3 ]'

run generate "$names" --json --samples 20 -s 2 --top-k 5
cp "$tmp/out" "$tmp/want"
run generate "$names" --json --samples 20 -s 2 --top-k 5 --top 2
sed 's/,"logprobs":.*/}/' "$tmp/out" >"$tmp/cut"
check "json --top: the same texts" cmp -s "$tmp/cut" "$tmp/want"
says "... with the likeliest of each place" '"top_logprobs":[[{"id":0,"token":"a","logprob":-1.98160980311255' \
    generate "$names" --json --top 1 -n 1
says "json --top 0: without them" '"draw_probs":[1.0,1.0]}}' generate "$names" --json --top 0 -n 2 --temp 0
says "... of no token" '"logprobs":{"ids":[],"tokens":[],"token_logprobs":[],"draw_probs":[]}}' \
    generate "$names" --json --top 3 -n 0
refuses "--top without --json" 2 "--top goes with --json" generate "$names" --top 3

# ---- failures ----

refuses "a character outside the vocabulary" 2 "'A'" generate "$names" -p annA
tells "... where" "byte 3"
tells "... and what the vocabulary is" "a-z"
refuses "no BOS and no prompt" 2 "no BOS" generate "$lines"
refuses "no such file" 5 "No such file" generate "$tmp/none.gguf"
mkdir "$tmp/no model"
refuses "a directory" 5 "directory" generate "$tmp/no model"
refuses "no such prompt file" 5 "No such file" generate "$names" -f "$tmp/none"
refuses "not a model" 3 "GGUF" generate "$MGPT_SOURCE_ROOT/LICENSE"
head -c 9000 "$names" >"$tmp/cut.gguf"
refuses "a truncated model" 3 "byte" generate "$tmp/cut.gguf"
refuses "-p and -f" 2 "exclude" generate "$names" -p a -f "$tmp/prompt"
refuses "an unknown generator" 2 "splitmix or python" generate "$names" --rng mersenne
refuses "--rng-skip without python" 2 "--rng python" generate "$names" --rng-skip 5
refuses "a context beyond the model's" 2 "16" generate "$names" -c 17
refuses "an unknown instruction set" 2 "vliw" generate "$names" --isa vliw

# ---- a prompt from a pipe, or as ids ----

prints "names: -p ann" "$("$MGPT" generate "$names" --temp 0 -p ann)" generate "$names" --temp 0 --ids 26,0,13,13
for given in 'printf ann' 'echo ann' 'sleep 1.5; echo ann'; do
    sh -c "$given" | "$MGPT" generate "$names" --temp 0 >"$tmp/out" 2>"$tmp/err"
    check "$given | generate" eval '[ "$(cat "$tmp/out")" = "$("$MGPT" generate "$names" --temp 0 -p ann)" ]'
done
tells "a pipe that keeps the user waiting is said" "waiting for a text on stdin"
echo ann >"$tmp/ann"
"$MGPT" generate "$names" --temp 0 <"$tmp/ann" >"$tmp/out" 2>"$tmp/err"
check "generate <file" eval 'grep -q "^ann" "$tmp/out" && [ ! -s "$tmp/err" ]'
empty=$("$MGPT" generate "$names" --temp 0 </dev/null)
echo ann | "$MGPT" generate "$names" --temp 0 -p '' >"$tmp/out" 2>"$tmp/err"
check "-p '' is a prompt: the pipe is not read" [ "$(cat "$tmp/out")" = "$empty" ]
: >"$tmp/nothing"
for closed in '</dev/null' '<&-' '<"$tmp/nothing"'; do
    eval '"$MGPT" generate "$names" --temp 0 '"$closed"' >"$tmp/out" 2>"$tmp/err"'
    check "generate $closed: no prompt" eval '[ "$(cat "$tmp/out")" = "$empty" ] && [ ! -s "$tmp/err" ]'
done
"$MGPT" convert "$MGPT_SOURCE_ROOT/tests/golden/gpt2" "$tmp/ids.gguf" 2>"$tmp/err"
run generate "$tmp/ids.gguf" --ids 1,2 -n 3 --temp 0
check "a model without vocabulary: ids in, ids out" grep -Eq '^1 2( [0-9]+){3}$' "$tmp/out"
run generate "$tmp/ids.gguf" --ids 1,2 -n 3 --samples 40 --batch 1
check "... each sample on its line" [ "$(grep -Ec '^1 2( [0-9]+){3}$' "$tmp/out")" -eq 40 ]
run generate "$tmp/ids.gguf" --ids 1,2 -n 3 --samples 3 --lookup 4
check "... also one after the other" [ "$(grep -Ec '^1 2( [0-9]+){3}$' "$tmp/out")" -eq 3 ]
run generate "$tmp/ids.gguf" --ids 1,2 -n 3 --temp 0 --samples 2 --no-prompt --json
check "... as JSON, without text" eval '[ "$(grep -c "\"text\":\"\",\"tokens\":\[[0-9]" "$tmp/out")" -eq 2 ]'
refuses "... a text is refused" 2 "no vocabulary: give the tokens as --ids" generate "$tmp/ids.gguf" -p a
refuses "no ids" 2 "--ids is empty" generate "$names" --ids ''
refuses "ids and a text" 2 "one of -p, -f, --ids" generate "$names" --ids 1 -p a

# ---- stdout that fails, a reader that goes, Ctrl-C ----

if [ -c /dev/full ]; then
    code=0
    "$MGPT" generate "$names" >/dev/full 2>"$tmp/err" || code=$?
    check "stdout full: exit 5" [ "$code" -eq 5 ]
    tells "stdout full: said" "cannot write to stdout"
fi
code=0
"$MGPT" generate "$names" >&- 2>"$tmp/err" || code=$?
check "stdout closed: exit 5" [ "$code" -eq 5 ]
{
    code=0
    "$MGPT" generate "$names" --samples 2000000000 2>"$tmp/err" || code=$?
    echo $code >"$tmp/code"
} | head -n 1 >"$tmp/out"
check "a reader that goes ends it quietly" \
    eval '[ "$(cat "$tmp/code")" -eq 5 ] && [ ! -s "$tmp/err" ]'

interrupted '[ -s "$tmp/out" ]' generate "$names" --samples 2000000000
check "Ctrl-C: exit 130" [ "$code" -eq 130 ]
check "Ctrl-C: the last line is whole" eval '[ -z "$(tail -c 1 "$tmp/out")" ]'

# ---- ids that end generation ----

mkdir "$tmp/qwen" && cp "$MGPT_SOURCE_ROOT"/tests/golden/qwen3/* "$tmp/qwen" || exit 1
letters=$(awk 'BEGIN { for (i = 0; i < 26; i++) printf("%s\"%c\":%d", i ? "," : "", 97 + i, i) }')
cat >"$tmp/qwen/tokenizer.json" <<END
{"added_tokens":[{"id":26,"content":"<m>","special":true},{"id":27,"content":"<s>","special":true}],"normalizer":null,
 "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"type":"BPE","vocab":{$letters},"merges":[]},
 "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<m>"}},{"SpecialToken":{"id":"<s>"}},
 {"Sequence":{"id":"A"}}]}}
END
rm -f "$tmp/qwen/generation_config.json"
runs "two tokens before a text" convert "$tmp/qwen" "$tmp/front.gguf"
prints "... are there" "26 27 0 1" tokenize "$tmp/front.gguf" -p ab
run generate "$tmp/front.gguf" --temp 0 -n 8 -p y --json
tokens=$(sed 's/.*"tokens":\[//; s/\].*//' "$tmp/out")
check "... and begin the prompt" eval '[ "${tokens#26,27,24,}" != "$tokens" ]'
third=$(echo "$tokens" | cut -d, -f6)
before=$(echo "$tokens" | cut -d, -f4-5)
case ,$before, in *,$third,*) check "the third new token is a new one" false ;; esac
printf '{"eos_token_id":[25,24,%s]}' "$third" >"$tmp/qwen/generation_config.json"
runs "the third end id" convert "$tmp/qwen" "$tmp/ends.gguf"
run generate "$tmp/ends.gguf" --temp 0 -n 8 -p y --json
says "... ends generation" "\"tokens\":[26,27,24,$before],\"finish_reason\":\"stop\""
run info "$tmp/ends.gguf"
says "info shows all ends" "ends, too        $third "
says "info shows the tokens in front" "adds several tokens in front"
run info "$tmp/ends.gguf" --json
says "info --json: ends" "\"ends\":["

# ---- escapes ----

want generate "$lines" -p "To
be" -n 9
equals "-e: a line end in a prompt" generate "$lines" -e -p 'To\nbe' -n 9
equals "--escapes, as a code point" generate "$lines" --escapes -p 'To\u{A}\x62e' -n 9
refuses "-e: an unknown escape" 2 "a backslash begins" generate "$lines" -e -p 'To\be'
refuses "-e without -p" 2 "-e goes with -p" generate "$lines" -e --ids 1,2
refuses "without -e a backslash is a character" 2 "U+005C" generate "$lines" -p 'To\nbe'

finish
