#!/bin/sh
# A model whose layers are short convolutions (LFM2) through the commands: what looks at attention names the layer
# instead, and what keeps or shares the cache has the same bytes.
# shellcheck disable=SC2016,SC2154
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
cd "$tmp" || exit 1
golden=$MGPT_SOURCE_ROOT/tests/golden/lfm2
runs "converts" convert "$golden" lfm2.gguf --no-tokenizer

# ---- what is shown ----

says "info: floats of three convolutions, keys and values of one layer" '320 bytes per position' info lfm2.gguf
run trace lfm2.gguf --list
check "trace: C, B and x have all heads, and no scores" eval '
    grep -q "^blocks.0.attn.hook_k .*2, 10" out && grep -q "^blocks.1.attn.hook_k .*1, 10" out &&
    grep -q "^blocks.1.attn.hook_pattern" out && ! grep -q "^blocks.0.attn.hook_pattern" out'
for line in '/a 0 1' '/h 0' '/qk 0 1 2 1' '/v 0 0 -1'; do
    feed "/ids 1 2 3\n$line\n" repl lfm2.gguf
    tells "repl: $line" 'layer 0 is a short convolution of 3 tokens, which has no scores and weights'
done
feed '/ids 1 2 3\n/kv 3 0\n' repl lfm2.gguf
tells "repl: /kv 3 0" 'layer 3 is a short convolution, without keys and values'
feed '/ids 1 2 3\n/dla -1 3\n' repl lfm2.gguf
check "repl: what heads and MLPs add is the logit" eval '
    [ "$(sed -n "s/^sum *//p" out)" = "$(sed -n "s/^engine *//p" out)" ] && grep -q "^sum" out'
run lab lfm2.gguf --ids '1 2' --json -o lab.html
says "lab: the page is live" '"page":"live"'

# ---- patching ----

zero() { run patch lfm2.gguf --clean '1 2 3' --metric logprob:4 --mode zero --over "$@"; }
zero keys
tells "patch: keys of a convolution" '--over keys: the model has no blocks.0.attn.hook_attn_scores'
zero k
tells "patch: layers of two kinds" \
    '--over k: blocks.1.attn.hook_k is not as wide as in layer 0: choose --layers of one kind'
zero k,z --layers 0,2-3
check "patch: convolutions alone" [ "$code" -eq 0 ]
zero keys,values,k --layers 1
check "patch: attention alone" [ "$code" -eq 0 ]

# ---- the cache ----

for kv in f32 f16 q8_0; do
    says "check --self --kv $kv" 'one hash; numbers: hold' check --self lfm2.gguf --kv $kv -n 20
    want generate lfm2.gguf --ids '1 2 3 4' -n 30 --kv $kv
    equals "a session, $kv" generate lfm2.gguf --ids '1 2 3 4' -n 30 --kv $kv --session $kv
    want generate lfm2.gguf --ids '1 2 3 4 5' -n 20 --kv $kv
    equals "... from the file" generate lfm2.gguf --ids '1 2 3 4 5' -n 20 --kv $kv --session $kv
done
want generate lfm2.gguf --ids '1 2 3' -n 20 --samples 9 --seed 5 -t 1
equals "samples that share a prefix, two threads" generate lfm2.gguf --ids '1 2 3' -n 20 --samples 9 --seed 5 -t 2

# ---- causes ----

mkdir other
cp "$golden/model.safetensors" other
sed 's/"norm_eps": 1e-05/"norm_eps": 0.01/' "$golden/config.json" >other/config.json
run check other "$golden/ref.npz" --explain
check "check --explain: a cause in a convolution's layer" eval '
    grep -q "^shape of the error *layer 0 is a short convolution of 3 tokens: positions exclude no suspect" out &&
    grep -q "^cause  *epsilon of norms 1e-05" out'

finish
