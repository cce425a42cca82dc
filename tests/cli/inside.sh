#!/bin/sh
# mgpt check --self, --explain and two models, as a user types them.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

run check --self "$names" --tokens 6
check "--self: exit code 0" eval '[ $code -eq 0 ]'
check "--self: one hash in every line of the table" \
    eval '[ "$(grep -E "stepped|fed|tapped|synced|batch|forked" "$tmp/out" | awk "{ print \$NF }" | sort -u | wc -l)" -eq 1 ]'
check "--self: the verdict has it, too" eval 'tail -1 "$tmp/out" | grep -q "one hash; numbers: hold"'
says "--self of the whole context" 092da0f84bfcf144 check --self "$names"
run check --self "$names" --tokens 6 --json
check "--self --json: the verdict" eval 'tail -1 "$tmp/out" | grep -q "\"verdict\":\"same\""'
{ head -c 5000 "$names" && printf '\377\377\377\177' && tail -c +5005 "$names"; } >"$tmp/nan.gguf"
for json in "" --json; do
    # shellcheck disable=SC2086
    run check --self "$tmp/nan.gguf" --tokens 2 $json
    check "--self of a weight that is NaN: exit 1 $json" eval '[ $code -eq 1 ] && tail -1 "$tmp/out" | grep -qi different'
done
run check --self "$names" -p mary
check "--self -p: the text's tokens" eval '[ $code -eq 0 ] && tail -1 "$tmp/out" | grep -q " 5 tokens"'
run check --self "$names" more.npz
check "--self takes no reference" eval '[ $code -eq 2 ]'
run check --self "$names" --tokens 1000
check "--self: more tokens than the context" eval '[ $code -eq 4 ]'
run check --self "$names" --tokens 6 --kv q8_0
check "--self --kv q8_0: one hash" eval '[ $code -eq 0 ] && tail -1 "$tmp/out" | grep -q "^42d21b00377e00d2 .*one hash"'

# ---- records ----

record=$tmp/record.json
runs "--attest" check --self "$names" -p mary --attest "$record" --isa scalar
hash=$(tail -1 "$tmp/out" | cut -c 1-16)
check "... the record has the hash" grep -qF "\"logits\":\"$hash\"" "$record"
check "... and its instruction set once" grep -qE '"isa": ?\["scalar"\]' "$record"
run check --attested "$record" "$names"
check "--attested: the same on every instruction set" \
    eval '[ $code -eq 0 ] && tail -1 "$tmp/out" | grep -q "^$hash  attested by $("$MGPT" --version | head -1 | cut -d" " -f 1,2), .* [0-9].*: the same"'
sed 's/"mgpt":"[^"]*"/"mgpt":"\\u001b~"/; s/"mgpt": "[^"]*"/"mgpt": "\\u001b~"/' "$record" >"$tmp/named.json"
says "a name with what no terminal should get" "attested by mgpt ?~" check --attested "$tmp/named.json" "$names" --isa scalar
check "... with the tokens of the record" eval 'tail -2 "$tmp/out" | head -1 | grep -q " 5 tokens"'
sed "s/$hash/0123456789abcdef/" "$record" >"$tmp/other.json"
run check --attested "$tmp/other.json" "$names" --isa scalar --json
check "another hash: exit 1" \
    eval '[ $code -eq 1 ] && tail -1 "$tmp/out" | grep -q "\"attested\":\"different\",\"hash\":\"0123456789abcdef\""'
refuses "the record of another model" 3 "made with the model of hash" check --attested "$record" "$lines"
sed 's/"spec":2/"spec":3/' "$record" >"$tmp/newer.json"
refuses "a newer specification" 3 "version 3 of the specification" check --attested "$tmp/newer.json" "$names"
sed 's/"spec":2/"spec":1/' "$record" >"$tmp/older.json"
refuses "an older one" 3 "version 1 of the specification" check --attested "$tmp/older.json" "$names"
for key in xxh64 logits; do
    sed "s/\"$key\"/\"other\"/" "$record" >"$tmp/lacks.json"
    refuses "a record without $key" 3 "lacks the hash of the model or of the logits" check --attested "$tmp/lacks.json" "$names"
done
for version in 0 2; do
    sed "s/\"version\":1/\"version\":$version/" "$record" >"$tmp/format.json"
    refuses "a record of version $version" 3 "has version $version, expected 1" check --attested "$tmp/format.json" "$names"
done
head -c 100 "$record" >"$tmp/short.json"
refuses "a damaged record" 3 "is not a record of check --attest" check --attested "$tmp/short.json" "$names"
for token in 27 999; do # names.gguf has 27 tokens and 16 positions
    sed "s/\"tokens\":\[[0-9]*/\"tokens\":[$token/" "$record" >"$tmp/far.json"
    refuses "token $token, which the model lacks" 3 "5 tokens up to $token do not fit" check --attested "$tmp/far.json" "$names"
done
sed 's/"tokens":\[[^]]*\]/"tokens":[26,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]/' "$record" >"$tmp/long.json"
refuses "17 tokens in 16 positions" 3 "17 tokens up to 26 do not fit" check --attested "$tmp/long.json" "$names"
sed 's/,15\]/]/' "$tmp/long.json" >"$tmp/full.json"
run check --attested "$tmp/full.json" "$names" --isa scalar
check "16 of them fit" eval '[ $code -eq 1 ] && tail -2 "$tmp/out" | head -1 | grep -q " 16 tokens"'
refuses "--attested and --kv" 2 "the record says" check --attested "$record" "$names" --kv f16
refuses "--attested and -p" 2 "has the tokens" check --attested "$record" "$names" -p anna
refuses "--attested and -f" 2 "has the tokens" check --attested "$record" "$names" -f "$record"
refuses "--self and --check-finite" 2 "only one of them" check --self "$names" --check-finite
refuses "--attest without --self" 2 "--attest is for --self" check "$names" "$names" --attest "$tmp/r.json"
cp "$names" "$tmp/own.gguf"
refuses "the model as record" 2 "is an input" check --self "$tmp/own.gguf" --attest "$tmp/own.gguf"

run check --self "$tmp/none.gguf"
check "--self: no such file" eval '[ $code -eq 5 ]'

run check "$names" "$names"
check "a model and itself are the same" eval '[ $code -eq 0 ] && grep -q "^verdict *same" "$tmp/out"'
"$MGPT" convert "$names" "$tmp/half.gguf" --type f16 2>/dev/null
run check "$names" "$tmp/half.gguf" -p mary
check "f32 and f16 differ for the bounds of f32" eval '[ $code -eq 1 ]'
run check "$names" "$tmp/half.gguf" -p mary --tol f16
check "... and are the same for those of f16" eval '[ $code -eq 0 ]'
run check "$names" "$names" -p mary --kv q8_0
check "keys and values of 8 bits are compared with f32" \
    eval '[ $code -eq 1 ] && grep -q "^perplexity .* in the reference, .* here" "$tmp/out"'
run check "$names" "$names" -p mary --kv q8_0 --tol q8
check "... and are the same for the bounds of q8" eval '[ $code -eq 0 ]'
run check "$names" "$MGPT_SOURCE_ROOT/weights/shakespeare.gguf"
check "two vocabularies are refused" eval '[ $code -eq 3 ]'
# The same model, whose file says that it adds no BOS; and with an EOS that is no token.
python3 - "$names" "$tmp/no_bos.gguf" "$tmp/no_eos.gguf" <<'END'
import sys
bytes = open(sys.argv[1], 'rb').read()
key = b'tokenizer.ggml.add_bos_token\x07\0\0\0'
assert bytes.count(key + b'\1') == 1
open(sys.argv[2], 'wb').write(bytes.replace(key + b'\1', key + b'\0'))
key = b'tokenizer.ggml.eos_token_id\x04\0\0\0'
open(sys.argv[3], 'wb').write(bytes.replace(key + b'\x1a', key + b'\x63'))
END
run check "$tmp/no_eos.gguf" "$tmp/no_eos.gguf" -p mary
tells "an EOS that is no token is said" "no_eos.gguf: ignored: tokenizer.ggml.eos_token_id is 99: no such token"
run check "$tmp/no_bos.gguf" "$tmp/no_bos.gguf" -p mary
check "two models that add no BOS: the text alone" eval '[ $code -eq 0 ] && grep -q "^positions *4$" "$tmp/out"'
run check --self "$tmp/no_bos.gguf" -p mary
check "--self, too" eval '[ $code -eq 0 ] && tail -1 "$tmp/out" | grep -q " 4 tokens"'

# The activation is ReLU; a file that says otherwise.
ref=$MGPT_SOURCE_ROOT/weights/names.ref.json
run check "$names" "$ref" --explain
check "--explain without a difference has nothing to say" \
    eval '[ $code -eq 0 ] && ! grep -q "^cause" "$tmp/out"'

# A Llama converted with half its heads. Its reference has layers' ends, and the attention of four heads.
golden=$MGPT_SOURCE_ROOT/tests/golden/llama
mkdir "$tmp/heads" && cp "$golden"/*.safetensors "$tmp/heads"
sed 's/\("num_attention_heads": \)4/\12/; s/\("num_key_value_heads": \)2/\11/
    s/\("head_dim": \)6/\112/' "$golden/config.json" >"$tmp/heads/config.json"
"$MGPT" convert "$tmp/heads" "$tmp/heads.gguf" --no-tokenizer 2>/dev/null
run check "$tmp/heads.gguf" "$golden/ref.npz" --explain
check "--explain: the number of heads" \
    eval '[ $code -eq 1 ] && grep -q "^cause  *4 heads (2 KV) of width 6, not 2 heads (1 KV) of width 12" "$tmp/out"'
check "... the layer that was recorded at its ends only" eval 'grep -q "^ *layer 0, attention or MLP$" "$tmp/out"'
run check "$tmp/heads.gguf" "$golden/ref.npz" --explain --report "$tmp/heads.md"
check "... in the page's summary: the first bad value of both sides, and the cause" \
    eval 'sed "/^| | |/,\$d" "$tmp/heads.md" >"$tmp/summary" &&
    grep -q "position 0, token (none), index 1: ours -4.7108[0-9]*, reference 0.0900[0-9]*$" "$tmp/summary" &&
    grep -q "^    cause  *4 heads" "$tmp/summary" && grep -q "^    to repeat   mgpt check" "$tmp/summary"'
check "... attention of other heads is not compared" \
    eval 'grep -q "^heads  *4 in the reference.s attention, which is not compared; the model has 2" "$tmp/out"'

# ---- a hint is not a cause; precision ----

# rounded BITS: the reference's logits with that many bits after the point.
rounded()
{
    python3 - "$MGPT_SOURCE_ROOT/weights/names.ref.json" "$1" <<'END' >"$tmp/short.json"
import json, struct, sys
keep = 23 - int(sys.argv[2])
def short(x):
    bits = struct.unpack('<I', struct.pack('<f', x))[0] + (1 << keep >> 1) - 1
    return struct.unpack('<f', struct.pack('<I', bits >> keep << keep))[0]
for sequence in json.load(open(sys.argv[1])):
    print(json.dumps({"input": sequence["input"], "logits": [[short(x) for x in row] for row in sequence["logits"]]}))
END
}
rounded 7
run check "$names" "$tmp/short.json" --explain --report "$tmp/page.md"
check "logits of bfloat16 are said to be" \
    eval '[ $code -eq 1 ] && grep -q "^precision  *your reference seems to have run in bfloat16 (its logits are such numbers):" "$tmp/out"'
check "... and the line that runs it again" grep -q "^run it again in float64  *model = model.double()" "$tmp/out"
check "... in the page too" grep -q "^    run it again in float64" "$tmp/page.md"
check "... nothing else is named" eval '! grep -q "^cause" "$tmp/out"'
run check "$names" "$tmp/short.json" --explain --json
check "--json: precision" eval 'tail -1 "$tmp/out" | grep -q "\"cause\":null.*\"precision\":{\"type\":\"bfloat16\",\"stored\":true,\"fits\":true"'
run check "$tmp/half.gguf" "$ref" --explain
check "weights in f16: said so, and no cause" \
    eval '[ $code -eq 1 ] && grep -q "^precision  *the file.s weights are float16 numbers, the reference.s may not be" "$tmp/out" &&
    ! grep -q "your reference may have" "$tmp/out" && grep -q "^cause  *none of" "$tmp/out"'
run check "$golden" "$golden/ref.npz" --explain --tol f32
check "a healthy model: nothing is named" eval '[ $code -eq 0 ] && ! grep -q "^cause\|^hint\|^precision" "$tmp/out"'

# ---- layers with other numbers of heads ----

laguna=$MGPT_SOURCE_ROOT/tests/golden/laguna # four heads in layers 0 and 4, six in the others
"$MGPT" trace "$laguna" --ids "1 2 3 4 5" --kv f32 -o "$tmp/laguna.npz" >/dev/null 2>&1
hooks=$("$MGPT" trace "$laguna" --list 2>/dev/null | grep -c "^blocks\|^hook\|^ln_final")
run check "$laguna" "$tmp/laguna.npz"
check "patterns of all layers are compared" \
    eval '[ $code -eq 0 ] && grep -q "^$hooks hooks agree at 5 positions" "$tmp/out" && ! grep -q "^heads" "$tmp/out"'
run check "$laguna" "$tmp/laguna.npz" -n 3
check "... as far as -n goes" \
    eval '[ $code -eq 0 ] && grep -q "^$hooks hooks agree at 3 positions" "$tmp/out" && ! grep -q "^heads" "$tmp/out"'
says "info: the fewest heads and the most" "heads 4 to 6 of 8 (2 for keys and values)" info "$laguna"

# Ctrl-C: with weights in 8 bits nothing is found, which takes a minute. The signal is sent once the verdict is
# there: causes are tried from then on.
"$MGPT" convert "$lines" "$tmp/q8.gguf" --type Q8_0 >/dev/null 2>&1
interrupted 'grep -q "^verdict" "$tmp/out"' check "$tmp/q8.gguf" "$MGPT_SOURCE_ROOT/weights/shakespeare.ref.npz" --explain
check "Ctrl-C: exit 130" [ "$code" -eq 130 ]
check "... and what is known so far" \
    eval 'grep -q "^cause  *interrupted: so far none of [0-9]* suspects" "$tmp/out" && grep -q "^verdict  *DIFFERENT" "$tmp/out"'
finish
