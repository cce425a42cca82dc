#!/bin/sh
# mgpt convert --type with quantised types: which tensors get which, what the file says of itself.
# That the bytes are right is tested in tests/dtype/test_dtype.c; what is computed with them by group types of tools/suite.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
npz=$MGPT_SOURCE_ROOT/weights/shakespeare.ref.npz
cd "$tmp" || exit 1

# converts ARGS...: success.
converts()
{
    run convert "$@"
    [ "$code" -eq 0 ]
}

# number_of KEY FILE: the value of a u32 entry; nothing when the entry is absent or of another type.
number_of()
{
    at=$(grep -abo "$1" "$2" | head -n 1 | cut -d: -f1)
    [ -n "$at" ] && od -An -tu4 -j $((at + ${#1})) -N 8 "$2" | awk '$1 == 4 { print $2 }'
}

# states FILE FILE_TYPE: general.file_type, and the version that quantised files must have.
states()
{
    [ "$(number_of general.file_type "$1")" = "$2" ] &&
        [ "$(number_of general.quantization_version "$1")" = 2 ]
}

# planned TYPE TENSOR: the last dry run gives this tensor this type.
planned()
{
    check "$2 is $1" grep -q "^$2 *$1 " "$tmp/out"
}

# ---- rows of 128 and 352: shakespeare.gguf and its float64 logits ----

# tries TYPE FILE_TYPE BYTES KL: converts, and compares. BYTES is what the weights must take; the header
# and padding add less than 8 kB. KL: twice to three times the mean that was seen; wrong nibbles or
# scales give a mean above 1.
tries()
{
    quantised=$1.gguf most=$4
    check "--type $1" converts --type "$1" "$lines" "$quantised"
    size=$(wc -c <"$quantised")
    check "$1: $size bytes, of which $3 are weights" \
        [ "$size" -gt "$3" -a "$size" -lt $(($3 + 8192)) ]
    check "$1: file type $2, quantisation version 2" states "$quantised" "$2"
    run check "$quantised" "$npz" --tol 100
    kl=$(awk '/^mean KL/ { print $3 }' "$tmp/out")
    check "$1: mean KL $kl, at most $most" \
        awk -v x="$kl" -v most="$most" 'BEGIN { exit !(x > 0 && x <= most) }'
    run generate -m "$quantised" -p 'ROMEO:' -n 40 --temp 0
    check "$1: generates" eval '[ $code -eq 0 ] && [ "$(wc -c <"$tmp/out")" -ge 40 ]'
}

# 1,114,240 values in matrices, of which the embedding has 65 rows of 128; 13 vectors of 128 in F32
blocks=$((1114240 / 32)) embedding=$((65 * 128 / 32)) vectors_bytes=$((13 * 128 * 4))
tries q8_0 7 $((blocks * 34 + vectors_bytes)) 4e-4
tries q4_0 2 $((blocks * 18 + vectors_bytes)) 0.02
tries q4_1 3 $((blocks * 20 + vectors_bytes)) 0.025
tries q5_0 8 $((blocks * 22 + vectors_bytes)) 0.01
tries q5_1 9 $((blocks * 24 + vectors_bytes)) 0.006
# No row is a multiple of 256: Q5_0, with the embedding in Q8_0; all in Q8_0.
tries q4_k 8 $(((blocks - embedding) * 22 + embedding * 34 + vectors_bytes)) 0.006
tries q6_k 7 $((blocks * 34 + vectors_bytes)) 4e-4

run convert --type q4_k "$lines" x.gguf
tells "a note says what took the place of Q4_K" \
    '43 tensors have rows that do not fit Q4_K: token_embd.weight, rows of 128, is written as Q8_0'
check "as it is" converts q4_0.gguf x.gguf
check "without --type a quantised file is copied" cmp -s q4_0.gguf x.gguf
check "q8_0 to f32" converts --type f32 q8_0.gguf plain.gguf
check "and back" converts --type q8_0 plain.gguf x.gguf
check "the largest value of a block is 127 steps, so Q8_0 is found again" cmp -s q8_0.gguf x.gguf

# A file that does not say its type.
python3 - "$MGPT_SOURCE_ROOT/tests/cli" plain.gguf <<'END'
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from malformed_gguf import Gguf
g = Gguf(open(sys.argv[2], "rb").read())
g.keys.remove(g.key("file_type"))
open("untyped.gguf", "wb").write(g.bytes())
END
check "q8_0 of a file without a type" converts --type q8_0 untyped.gguf x.gguf
check "... states it" states x.gguf 7

# ---- short rows: F16 ----

run convert --dry-run --type q4_0 "$names" # rows of 16, and of 64
planned F16 blk.0.attn_q.weight
planned Q4_0 blk.0.ffn_down.weight
sed "s/^{/{\"n_head\":4,/" "$MGPT_SOURCE_ROOT/tests/fixtures/convert/flat.json" >flat.json # rows of 4 and 16
check "rows of 4: --type q4_0" converts --type q4_0 flat.json x.gguf
check "rows of 4: --type f16" converts --type f16 flat.json half.gguf
check "are the same file" cmp -s x.gguf half.gguf
check "without a quantisation version" \
    eval '[ -z "$(number_of general.quantization_version x.gguf)" ]'

# ---- rows of 256 and 1024: a microgpt of random weights ----

printf 'abcdefgh' >chars.txt
awk 'BEGIN { s = 1; printf "["
    for (i = 0; i < 2 * 9 * 256 + 8 * 256 + 12 * 65536; i++) {
        s = s * 16807 % 2147483647
        printf "%s%.4f", i ? "," : "", (s % 2001 - 1000) / 10000
    }
    print "]" }' >wide.json
check "a wide model" \
    converts wide.json wide.gguf --chars chars.txt --heads 4 --embd 256 --layers 1 --context 8
run convert --dry-run --type q4_k wide.gguf
planned Q6_K token_embd.weight
planned F32 position_embd.weight
planned Q6_K output.weight
planned Q4_K blk.0.attn_q.weight
planned Q4_K blk.0.ffn_down.weight
for type in q4_k:14 q6_k:18; do
    name=${type%:*}
    check "wide: --type $name" converts --type "$name" wide.gguf "wide-$name.gguf"
    check "wide: nothing is replaced" eval '! grep -q "do not fit" "$tmp/err" && grep -q ", [4-6][0-9][0-9] kB$" "$tmp/err"'
    check "wide: file type ${type#*:}, quantisation version 2" states "wide-$name.gguf" "${type#*:}"
    runs "wide: $name generates" generate -m "wide-$name.gguf" -n 6 --temp 0
done
for type in q2_k:10 q3_k:12 q5_k:16 q4_k_m:15 q3_k_l:13; do
    name=${type%:*}
    check "wide: --type $name" converts --type "$name" wide.gguf "wide-$name.gguf"
    check "wide: file type ${type#*:}" states "wide-$name.gguf" "${type#*:}"
    runs "wide: $name generates" generate -m "wide-$name.gguf" -n 6 --temp 0
done

check "a plan needs no importance" converts --dry-run --type q2_k_s wide.gguf

# ---- types by name ----

run convert --dry-run --type q4_k_m --type-of 'ffn_(up|down)=q8_0' --type-of '^output=q5_k' --type-of ffn_down=q2_k wide.gguf
planned Q8_0 blk.0.ffn_down.weight # the first pattern that is found
planned Q8_0 blk.0.ffn_up.weight
planned Q5_K output.weight
planned Q4_K token_embd.weight
planned Q4_K blk.0.attn_output.weight
planned F32 position_embd.weight
check "--type-of alone" converts --type-of 'attn_(?=q)=q8_0' wide.gguf x.gguf
run info x.gguf --tensors
check "changes those, and no other" eval '[ "$(grep -c " Q8_0 " "$tmp/out")" = 1 ] && grep -q "^blk.0.attn_k.weight *F32 " "$tmp/out"'
check "it says what the blocks are" states x.gguf 0
check "the same with --json" eval 'run convert --json --type-of attn_q=q8_0 wide.gguf x.gguf; grep -q "\"blk.0.attn_q.weight\", *\"type\": *\"Q8_0\"" "$tmp/out"'
refuses "a pattern without a match" 2 "no matrix has 'attn_x' in its name; there are token_embd attn_q attn_k attn_v attn_output ffn_up ffn_down output" \
    convert --type-of attn_x=q8_0 wide.gguf no.gguf
refuses "a pattern of a vector" 2 "no matrix has 'position' in its name" convert --type-of position=q8_0 wide.gguf no.gguf
refuses "a pattern that is none" 3 '--type-of: ' convert --type-of 'attn_(=q8_0' wide.gguf no.gguf
for text in attn_q attn_q= =q8_0 attn_q=q9 attn_q=iq4_nl; do
    refuses "--type-of $text" 2 '--type-of: expected PATTERN=TYPE' convert --type-of "$text" wide.gguf no.gguf
done
long="attn_q|$(printf %0248d 0)" # 255 bytes, the most
check "a long pattern" converts --type-of "$long=q8_0" wide.gguf x.gguf
check "a byte more" eval 'run convert --type-of "${long}0=q8_0" wide.gguf no.gguf; [ $code -eq 2 ] && grep -q "expected PATTERN=TYPE" "$tmp/err"'
check "no file" eval '[ ! -e no.gguf ]'

# A weight that is NaN: it cannot be kept, so it is reported.
size=$(wc -c <wide.gguf)
head -c $((size - 4000)) wide.gguf >nan.gguf
printf '\000\000\300\177' >>nan.gguf
tail -c 3996 wide.gguf >>nan.gguf
# What stays F32: the scores of experts, convolutions, norms with a row for each head.
for tensor in qwen3_moe:blk.0.ffn_gate_inp.weight lfm2:blk.0.shortconv.conv.weight cohere:blk.0.attn_q_norm.weight; do
    run convert --no-tokenizer --type f16 "$MGPT_SOURCE_ROOT/tests/golden/${tensor%%:*}" x.gguf
    run info x.gguf --tensors
    check "${tensor#*:} stays F32" eval 'grep -q "^${tensor#*:} *F32 " "$tmp/out" && grep -q " F16 " "$tmp/out"'
done
# MXFP4, which is read but never made, is kept as it is, and copied.
oss=$MGPT_SOURCE_ROOT/tests/golden/gpt_oss_mxfp4
check "experts in MXFP4" converts --no-tokenizer "$oss" oss.gguf
run info oss.gguf --tensors
check "are kept so" eval '[ "$(grep -c "_exps.weight *MXFP4 " "$tmp/out")" = 3 ]'
check "their biases stay F32" converts --no-tokenizer --type f16 "$oss" x.gguf
run info x.gguf --tensors
check "with --type f16" eval '[ "$(grep -c "_exps.bias *F32 " "$tmp/out")" = 3 ]'
runs "they compute what transformers does, with integer activations" check oss.gguf "$oss/ref.npz" --tol q8
check "a copy" converts oss.gguf copy.gguf
check "is the same file" cmp oss.gguf copy.gguf
cp -r "$oss" high && chmod -R u+w high && python3 - high/model.safetensors <<'END'
import json, sys
data = bytearray(open(sys.argv[1], "rb").read())
n = int.from_bytes(data[:8], "little")
data[8 + n + json.loads(data[8:8 + n])["model.layers.0.mlp.experts.down_proj_scales"]["data_offsets"][0]] = 255
open(sys.argv[1], "wb").write(data)
END
check "a scale of 2^128 in a block that is kept" converts --no-tokenizer high x.gguf
tells "... is told" 'blk.0.ffn_down_exps.weight: 26 of 6144 values are NaN or infinite'
check "NaN among the weights" converts --type q4_k nan.gguf x.gguf
tells "is told" 'output.weight: 1 of 2304 values are NaN or infinite'

finish
