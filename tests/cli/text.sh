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
refuses "one model" 2 "unexpected argument 'x'" tokenize "$names" x -p a
LC_ALL=C sed 's/microgpt/macrogpt/g' "$names" >"$tmp/unknown.gguf"
prints "the vocabulary of a model that cannot run" "26 0" tokenize "$tmp/unknown.gguf" -p a
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

# Many short texts run in one batch, long and single ones alone: the numbers are the same.
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
# Texts that begin as others do, are others' beginnings or the same, dealt to threads; tokens of texts beyond a key of the sort.
awk 'NR <= 40 { for (n = 1; n <= length($0); n++) print substr($0, 1, n); print $0 "abcdefghijklmnop"; print $0 "abcdefghijklmnoq" }' \
    "$tmp/many" >"$tmp/begin"
while IFS= read -r line; do
    printf '%s\n' "$line" | "$MGPT" score "$names" -f - --each -t 1 | head -n 1
done <"$tmp/begin" >"$tmp/alone"
for threads in 1 2 7; do
    run score "$names" -f "$tmp/begin" --each -t $threads
    sed '/^texts /,$d' "$tmp/out" >"$tmp/together"
    check "texts that share beginnings, $threads threads" cmp -s "$tmp/alone" "$tmp/together"
done
"$MGPT" generate "$lines" -p A --samples 12 -n 240 | sed 's/^.\{20\}$/&\n/' | grep . >"$tmp/mixed"
while IFS= read -r line; do
    printf '%s\n' "$line" | "$MGPT" score "$lines" -f - --each 2>/dev/null | head -n 1
done <"$tmp/mixed" >"$tmp/alone"
run score "$lines" -f "$tmp/mixed" --each
sed '/^texts /,$d' "$tmp/out" >"$tmp/together"
check "short and long texts together" cmp -s "$tmp/alone" "$tmp/together"
run score "$lines" -f "$tmp/mixed" --each -t 3
sed '/^texts /,$d' "$tmp/out" >"$tmp/together"
check "... dealt to three threads" cmp -s "$tmp/alone" "$tmp/together"

echo abcdefghijklmnopqrstuvwxyz >"$tmp/long"
says "a text longer than the context is scored whole (rolling.py)" "tokens      27" score "$names" -f "$tmp/long"
says "... and that is said" "windows     2 of 16 tokens, stride 16"
printf 'anna\nann3\n' >"$tmp/bad"
run score "$names" -f "$tmp/bad"
check "a character outside the vocabulary: exit 2" [ "$code" -eq 2 ]
tells "... in which line" "line 2"
: >"$tmp/empty"
refuses "nothing to score" 2 "nothing to score" score "$names" -f "$tmp/empty"
refuses "no texts" 2 "-f FILE" score "$names"

# ---- info ----

# informs NAME OMITTED ARGS...: mgpt info prints the lines of stdin, and those of this machine or that begin with OMITTED.
informs()
{
    informs_name=$1 omitted=$2
    shift 2
    run info "$@"
    grep -v "^kernels \\|^threads \\|^$omitted" "$tmp/out" >"$tmp/lines"
    check "$informs_name" cmp -s "$tmp/lines" -
}

informs "info" - "$names" --tensors <<'END'
architecture     microgpt
name             "names"
parameters       4,192
weights          F32
shape            layers 1, width 16, heads 4 of 4, mlp 64
dialect          rmsnorm eps 1e-05, relu, own head, positions learned
context          16 positions
vocabulary       char, 27 tokens, logits 27, adds BOS
BOS              26 <BOS>
EOS              26 <BOS>
file             18,624 bytes
read per token   14,464 bytes of weights
KV cache         128 bytes per position

token_embd.weight                F32    [16, 27] 1728 bytes at 1856
position_embd.weight             F32    [16, 16] 1024 bytes at 3584
blk.0.attn_q.weight              F32    [16, 16] 1024 bytes at 4608
blk.0.attn_k.weight              F32    [16, 16] 1024 bytes at 5632
blk.0.attn_v.weight              F32    [16, 16] 1024 bytes at 6656
blk.0.attn_output.weight         F32    [16, 16] 1024 bytes at 7680
blk.0.ffn_up.weight              F32    [16, 64] 4096 bytes at 8704
blk.0.ffn_down.weight            F32    [64, 16] 4096 bytes at 12800
output.weight                    F32    [16, 27] 1728 bytes at 16896
END
informs "info of a mixture" "file " "$MGPT_SOURCE_ROOT/tests/golden/mixtral" <<'END'
architecture     llama
name             "mixtral"
parameters       14,820
weights          F32
shape            layers 2, width 20, heads 2 of 10 (1 for keys and values), mlp 18, experts 2 of 5
dialect          rmsnorm eps 1e-05, gated silu, own head, rope base 1e+06
context          64 positions
vocabulary       none, 33 tokens, logits 33
BOS              none
EOS              none
read per token   51,536 bytes of weights
KV cache         160 bytes per position
END
says "info --tensors: three dimensions" "[20, 18, 5] 7200 bytes at " info "$MGPT_SOURCE_ROOT/tests/golden/mixtral" --tensors
refuses "info: one model" 2 "unexpected argument 'x'" info "$names" x
run info "$names"
check "info: the kernels and the threads" eval 'grep -q "^kernels  *[a-z]" "$tmp/out" && grep -q "^threads  *[1-9]" "$tmp/out"'
run info "$names" --json --tensors
check "info --json is one line" eval '[ "$(wc -l <"$tmp/out")" -eq 1 ]'
says "info --json: numbers" '"n_params":4192'
python3 - "$names" "$tmp/name.gguf" <<'END'
import sys
bytes, key = open(sys.argv[1], 'rb').read(), b'general.name\x08\0\0\0\x05\0\0\0\0\0\0\0'
assert bytes.count(key + b'names') == 1
open(sys.argv[2], 'wb').write(bytes.replace(key + b'names', key + b'n\xffmes'))
END
refuses "info --json: a name that is not UTF-8" 3 "cannot be written as JSON" info "$tmp/name.gguf" --json
sizes='"n_vocab":33,"n_tokens":33,"n_ctx":64,"n_embd":24,"n_layer":2,"n_head":4,"n_head_kv":2,"head_dim":6,"n_ff":28'
says "info --json: sizes" "$sizes,\"n_expert\":0" info --json "$MGPT_SOURCE_ROOT/tests/golden/llama"
says "info --json: experts" '"n_expert":5,"n_expert_used":2' info --json "$MGPT_SOURCE_ROOT/tests/golden/mixtral"
run info "$names" --json --tensors
says "info --json: tensors" '{"name":"output.weight","type":"F32","shape":[16,27]'

finish
