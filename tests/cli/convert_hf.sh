#!/bin/sh
# Hugging Face directories: each file of a directory may be the input; error lines and exit codes. What the golden models
# compute is in tools/suite, and in trace.sh.
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

golden=$MGPT_SOURCE_ROOT/tests/golden
mkdir "$tmp/work" && cd "$tmp/work" || exit 1

# converts CODE TEXT ARGS...: this exit code, TEXT on stderr, nothing on stdout.
converts()
{
    want_code=$1 text=$2
    shift 2
    run convert --no-tokenizer "$@"
    [ "$code" -eq "$want_code" ] && grep -qF -- "$text" "$tmp/err" && [ ! -s "$tmp/out" ]
}

# What differs from the architecture's usual is written, also a false.
cp -r "$golden/qwen3_moe" other && sed 's/"norm_topk_prob": true/"norm_topk_prob": false/' "$golden/qwen3_moe/config.json" >other/config.json
check "qwen3_moe without norm_topk_prob" converts 0 'wrote other.gguf' other other.gguf
run check other.gguf "$golden/qwen3_moe/ref.npz"
check "... is another model" [ "$code" -eq 1 ]

# ---- the same tensors as MLX saves them (fixtures/mlx/make_mlx.py) ----

for name in llama smollm2_bf16; do
    cp -R "$MGPT_SOURCE_ROOT/tests/fixtures/mlx/$name" .
    check "$name: weights.npz in a directory" converts 0 'wrote mlx.gguf' "$name" mlx.gguf
    check "$name" converts 0 'wrote plain.gguf' "$golden/$name" plain.gguf
    check "$name: the file is that of its safetensors" cmp -s mlx.gguf plain.gguf
    check "$name: by its file" converts 0 'wrote mlx.gguf' "$name/weights.npz" mlx.gguf
    check "$name: the same file" cmp -s mlx.gguf plain.gguf
done
check "options of a microgpt" converts 2 '--heads does not apply to Hugging Face .npz' llama/weights.npz no.gguf --heads 4

# ---- quantised ----

# bits FILE: the hash of its logits.
bits() { "$MGPT" check --self "$1" | tail -n 1 | cut -d' ' -f1; }

# exact NAME TYPES: as floats, its weights are those of NAME/plain, bit by bit; kept as they are, too.
exact()
{
    rm -rf a b *.gguf
    mkdir a b && cp -R "$golden/$1" a/model && cp -R "$golden/$1/plain" b/model
    converts 0 'wrote floats.gguf' a/model floats.gguf --type f32 &&
        converts 0 'wrote plain.gguf' b/model plain.gguf --type f32 && cmp floats.gguf plain.gguf || return 1
    converts 0 "matrices have the exact values as $2" a/model kept.gguf || return 1
    run convert kept.gguf kept32.gguf --type f32
    [ -n "$(bits plain.gguf)" ] && [ "$(bits kept32.gguf)" = "$(bits plain.gguf)" ]
}
check "GPTQ, symmetric" exact gptq_sym "7 Q4_0"
check "GPTQ, activation order: some matrices have no blocks" exact gptq_order "2 F32, 5 Q5_0"
check "GPTQ, version 2, 3 bits, a group per row" exact gptq_v2 "7 Q4_0"
check "GPTQ, 8 bits" exact gptq_8bit "7 Q8_0"
check "AWQ" exact awq "7 Q5_0"
# Zeros of 4: values reach 11, which 4 bits around 0 do not.
cp -R "$golden/gptq_sym" low
python3 - low/model.safetensors <<'END'
import json, struct, sys
d = bytearray(open(sys.argv[1], "rb").read())
n, = struct.unpack_from("<Q", d)
for name, t in json.loads(d[8:8 + n]).items():
    if name.endswith("qzeros"):
        a, b = t["data_offsets"]
        d[8 + n + a:8 + n + b] = b"\x33" * (b - a)
open(sys.argv[1], "wb").write(d)
END
check "GPTQ, zeros below the middle" converts 0 'matrices have the exact values as 7 Q5_0' low kept.gguf
run convert low floats.gguf --no-tokenizer --type f32
run convert kept.gguf kept32.gguf --type f32
check "... which have the values of floats" [ "$(bits kept32.gguf)" = "$(bits floats.gguf)" ]
check "MLX, 2 to 8 bits" exact mlx "2 F32, 6 Q4_1, 1 Q5_1"
check "FP8, blocks that do not fit, and one for all" exact fp8 "7 F32"
check "compressed-tensors: words, bytes and FP8; groups, zeros, an order of columns" exact compressed "7 F32"
check "bitsandbytes: NF4 with nested scales, FP4, INT8" exact bitsandbytes "7 F32"
check "NVFP4, of ModelOpt and of compressed-tensors" exact nvfp4 "7 F32"
check "HQQ: 1 to 8 bits, groups of rows and of columns" exact hqq "7 F32"
rm -rf a b *.gguf

# ---- one model, many names ----

copy() { rm -rf "$2" && cp -R "$golden/$1" "$2"; }
same() { check "$3" cmp -s "$1" "$2"; }

copy llama tiny && touch tiny/tf_model.h5 tiny/flax_model.msgpack # as many models have
check "a directory" converts 0 'wrote a.gguf' tiny a.gguf
for input in tiny/ ./tiny tiny//config.json tiny/config.json tiny/model.safetensors "$PWD/tiny"; do
    check "convert $input" converts 0 'wrote b.gguf' "$input" b.gguf
    same a.gguf b.gguf "$input gives the file that tiny gives"
done
(cd tiny && "$MGPT" convert --no-tokenizer . ../b.gguf 2>"$tmp/err")
same a.gguf b.gguf ". gives the file that its name gives"
sed -i '1s/{/{"a": "\\"[{\\\\",/; s/"model_type":/"model_type"\n :/' tiny/config.json
check "config.json with quotes in a text and a space before a colon" converts 0 'wrote b.gguf' tiny b.gguf
same a.gguf b.gguf "... is the same model"
run info -m a.gguf
check "the name of the directory is the name of the model" grep -q '^name *"tiny"' "$tmp/out"
copy llama .tiny
check "a hidden directory" converts 0 'wrote b.gguf' .tiny b.gguf
run info -m b.gguf
check "... does not name the model" grep -q '^name *"config"' "$tmp/out"

# A text whose tree takes more memory than it may have: refused where it does, after the 24 bytes of the first line.
mkdir many
awk 'BEGIN { printf "{\"model_type\": \"llama\",\n\"a\": ["; for (i = 0; i < 900000; i++) printf "[],"; print "[]]}" }' >many/config.json
run convert many no.gguf
check "a config.json of too many values: where" eval '[ $code -eq 3 ] && [ "$(sed -n \
    "s/.*: line 2 column \([0-9]*\): too many values for a text of this size (byte \([0-9]*\))$/\2 - \1/p" "$tmp/err" | xargs expr)" = 24 ]'

# Keys of our own are named where llama.cpp would read the file without them, not where it refuses the tokenizer.
cat >digits.json <<'END'
{"pre_tokenizer": {"type": "Digits", "individual_digits": true},
 "model": {"type": "BPE", "vocab": {"a": 0, "aa": 1, "x": 2}, "merges": ["a a"]}}
END
run convert "$golden/llama" a.gguf --tokenizer digits.json
check "a tokenizer with steps of its own: nothing about llama.cpp" eval '[ $code -eq 0 ] && ! grep -q llama.cpp "$tmp/err"'
run convert a.gguf b.gguf
check "... of a copy, too" eval '[ $code -eq 0 ] && ! grep -q llama.cpp "$tmp/err"'

cat >nfc.json <<'END'
{"normalizer": {"type": "NFC"}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
 "model": {"type": "BPE", "vocab": {"a": 0, "aa": 1, "x": 2}, "merges": ["a a"]}}
END
for input in "$golden/llama --tokenizer nfc.json" a.gguf; do # llama.cpp never normalises
    # shellcheck disable=SC2086
    run convert $input copy.gguf
    check "what llama.cpp ignores, without normalisation" grep -q 'llama.cpp ignores mgpt.tokenizer.drops_unknown and' "$tmp/err"
    mv copy.gguf a.gguf
done

copy olmo3 olmo
check "OLMo 3" converts 0 'wrote a.gguf' olmo a.gguf
check "llama.cpp's view of its rope bases" grep -q 'llama.cpp ignores rope.freq_base_swa and' "$tmp/err"
sed -i '/"layer_types"/,/\],/d' olmo/config.json
check "every fourth layer sees everything" converts 0 'wrote b.gguf' olmo b.gguf
same a.gguf b.gguf "as layer_types says"
sed -i '0,/"rope_type": "default"/s//"rope_type": "yarn", "factor": 8/' olmo/config.json
check "YaRN" converts 3 'original_max_position_embeddings: missing' olmo no.gguf

copy phi3_longrope long
check "LongRoPE for short texts" converts 0 "context 32 of 64, with LongRoPE's factors for short texts" long a.gguf
check "LongRoPE for long texts" converts 0 "wrote b.gguf" long b.gguf --context 64
run info -m b.gguf
check "the context that was asked for" grep -q '^context *64' "$tmp/out"
check "no more than the model's" converts 3 '--context 65: the model has 64 positions' long no.gguf --context 65

run convert --dry-run --no-tokenizer "$golden/gemma3"
check "the plan names the window" grep -q ', window 9$' "$tmp/out"
check "... and the width of heads" grep -q ' 14 wide, 2 heads of 8 (1 ' "$tmp/out"

copy llama scaled
sed -i 's/"rope_type": "default"/"rope_type": "linear", "factor": 4/' scaled/config.json
check "linear rope" converts 0 'wrote b.gguf' scaled b.gguf
for key in scaling.type.*linear scaling.factor; do
    check "rope.$key is written" grep -aq "llama.rope.$key" b.gguf
done

copy qwen2_sharded sharded
check "shards" converts 0 'wrote a.gguf' sharded a.gguf
check "their index" converts 0 'wrote b.gguf' sharded/model.safetensors.index.json b.gguf
same a.gguf b.gguf "the index gives the file that the directory gives"
check "one shard alone" converts 3 'missing' sharded/model-00001-of-00002.safetensors no.gguf

# ---- PyTorch's files ----

# as_torch FILE: FILE.safetensors becomes FILE.bin.
as_torch()
{
    python3 "$MGPT_SOURCE_ROOT/tests/cli/make_torch.py" "$1.safetensors" "$1.bin" && rm "$1.safetensors"
}

copy gpt2 torch
check "safetensors" converts 0 'wrote a.gguf' torch a.gguf
as_torch torch/model && mv torch/model.bin torch/pytorch_model.bin
for input in torch torch/config.json torch/pytorch_model.bin; do
    check "convert $input" converts 0 'wrote b.gguf' "$input" b.gguf
    same a.gguf b.gguf "$input gives the file that safetensors give"
done
run convert --dry-run --no-tokenizer torch/pytorch_model.bin
check "the format of pytorch_model.bin" grep -q '^format *Hugging Face gpt2' "$tmp/out"
copy gpt2 unnamed && rm unnamed/model.safetensors
python3 -c 'import pickle; pickle.dump({5: [1.0]}, open("unnamed/pytorch_model.bin", "wb"), protocol=2)'
check "a state that cannot be read" converts 3 'its name is not text' unnamed no.gguf
sed -i 's/"n_head": 3/"n_head": 5/' torch/config.json
check "config.json counts" converts 3 'n_head 5 does not divide n_embd 18' torch/pytorch_model.bin no.gguf
head -c 20000 torch/pytorch_model.bin >cut && mv cut torch/pytorch_model.bin
sed -i 's/"n_head": 5/"n_head": 3/' torch/config.json
check "a short file of PyTorch" converts 3 'pytorch_model.bin: zip: there is no end record' torch no.gguf
copy qwen2_sharded torch && touch torch/tf_model.h5 # alone that would be refused
check "shards" converts 0 'wrote a.gguf' torch a.gguf
for shard in 1 2; do
    as_torch torch/model-0000$shard-of-00002
done
sed 's/\.safetensors/.bin/' torch/model.safetensors.index.json >torch/pytorch_model.bin.index.json
rm torch/model.safetensors.index.json
check "shards of PyTorch" converts 0 'wrote b.gguf' torch b.gguf
same a.gguf b.gguf "shards of PyTorch give the file that safetensors give"

run convert --dry-run --no-tokenizer tiny
check "the plan names the format" grep -q '^format *Hugging Face llama' "$tmp/out"
check "and the tensors" grep -q '^blk.0.attn_q.weight *F32 *\[24, 24\]' "$tmp/out"
check "q8_0" converts 0 'wrote q.gguf' --type q8_0 tiny q.gguf

# ---- what is refused ----

copy llama bad
rm bad/config.json
check "no config.json" converts 3 'side file config.json' bad/model.safetensors no.gguf
check "a directory without it" converts 3 'side file config.json' bad no.gguf
rm bad/model.safetensors
check "a directory without anything" converts 5 'bad: is a directory without config.json' bad no.gguf
copy llama bad
rm bad/model.safetensors
check "no weights" converts 3 'looked for model.safetensors, pytorch_model.bin' bad no.gguf
copy qwen2_sharded bad
rm bad/model-00002-of-00002.safetensors
check "a missing shard" converts 3 'side file model-00002-of-00002.safetensors' bad no.gguf
copy llama bad
sed 's/"hidden_act": "silu"/"hidden_act": "tanh"/' tiny/config.json >bad/config.json
check "an activation" converts 3 'hidden_act: tanh is not supported' bad no.gguf
check "an option of another format" converts 2 '--heads does not apply to Hugging Face' \
    --heads 2 tiny no.gguf
check "an option of another format, by the weights" converts 2 '--heads does not apply to Hugging Face' \
    --heads 2 tiny/model.safetensors no.gguf
mkdir none && printf '\002\000\000\000\000\000\000\000{}' >none/model.safetensors
check "no tensors and no config.json" converts 3 'side file config.json' none/model.safetensors no.gguf
copy llama bad
head -c 4000 tiny/model.safetensors >bad/model.safetensors
check "a short file" converts 3 'the file has' bad/model.safetensors no.gguf
check "nothing was written" [ ! -e no.gguf ]

mkdir large
{ sed '$ s/}$//' tiny/config.json; printf ', "padding": "'; head -c 1100000 /dev/zero | tr '\0' y; printf '"}'; } >large/config.json
cp tiny/model.safetensors large/
check "a config.json of more than 1 MiB" converts 0 'wrote large.gguf: 9192 weights' large/config.json large.gguf

finish
