#!/bin/sh
# Every line that some runs of the commands print, most of them of models that differ: tables, places, causes, JSON; and a
# session of the repl with its commands that change something (views.sh has those that look). The text is said.out. After a
# wanted change:
#   MGPT_WRITE=1 MGPT=build/tools/mgpt MGPT_SOURCE_ROOT=$PWD sh tests/cli/said.sh
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
golden=$MGPT_SOURCE_ROOT/tests/golden

# altered NAME GOLDEN SED: a golden model whose configuration is changed.
altered()
{
    mkdir "$tmp/$1" && cp "$golden/$2"/*.safetensors "$tmp/$1"
    sed "$3" "$golden/$2/config.json" >"$tmp/$1/config.json"
    "$MGPT" convert "$tmp/$1" "$tmp/$1.gguf" --no-tokenizer 2>/dev/null
}

altered relu gpt2 's/gelu_new/relu/'
altered two gpt2 's/gelu_new/relu/; s/"layer_norm_epsilon": 1e-05/"layer_norm_epsilon": 0.5/'
altered heads llama 's/\("num_attention_heads": \)4/\12/; s/\("num_key_value_heads": \)2/\11/; s/\("head_dim": \)6/\112/'
altered theta qwen3 's/\("rope_theta": \)[0-9.]*/\1777.0/'
for name in gpt2 llama qwen3; do
    cp "$golden/$name/ref.npz" "$tmp/$name.npz"
done
cp "$names" "$MGPT_SOURCE_ROOT/weights/names.ref.json" "$tmp"
"$MGPT" convert "$golden/llama" "$tmp/llama.gguf" --no-tokenizer 2>/dev/null
"$MGPT" convert "$names" "$tmp/half.gguf" --type f16 2>/dev/null
printf 'anna\nabcdefghijklmnopqrstuvwxyz\n\nzq' >"$tmp/texts" # the last line has no end
printf '%s\n' '{"text": "anna", "id": 7}' '{"ids": [26, 0, 13]}' '{"context": "mar", "continuations": ["y", "ia"]}' \
    '{"context": "", "continuation": "al"}' '{"text": "A"}' >"$tmp/records"
printf '1 0 2\n0.5 1 0\n-1 2 1\n' >"$tmp/x"
python3 - "$tmp/up.npy" <<'END'
import struct, sys
header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 16), }".ljust(117) + '\n'
with open(sys.argv[1], 'wb') as file:
    file.write(b'\x93NUMPY\x01\x00' + struct.pack('<H', 118) + header.encode() + struct.pack('<16f', *((i * 5 % 7 - 3) / 2 for i in range(16))))
END

cd "$tmp" || exit 1
: >err
while IFS= read -r arguments; do
    echo "== $arguments"
    eval "\"\$MGPT\" $arguments" </dev/null 2>&1 && code=0 || code=$?
    echo "exit code $code"
done >printed <<'END'
check names.gguf names.ref.json --tol 1e-5 --tokens 2
check relu.gguf gpt2.npz --explain
check relu.gguf gpt2.npz --explain --json --tokens 3
check two.gguf gpt2.npz --explain --tokens 12
check heads.gguf llama.npz --explain --tokens 6
check theta.gguf qwen3.npz --explain --tokens 6
check theta.gguf qwen3.npz --explain --json --tokens 3
check half.gguf names.ref.json --explain --tokens 3
check half.gguf names.ref.json --explain --tokens 1 --json
check names.gguf half.gguf -p mary
check names.gguf half.gguf -p mary --tol f16 --json
score names.gguf -f texts --each
score names.gguf -f texts -c 8 --each --stride 3
score names.gguf -f texts --no-bos --no-end
score names.gguf -f records --json --top 2
score llama.gguf -f records --json
attend identity --causal --tau 0.1
attend -x x --wq flip --wk dim:2 --causal
attend -x x --wv negate --heads 3 --json
tokenize names.gguf -p mary
trace llama.gguf --list --hooks hook_embed
trace llama.gguf --list --hooks 'blocks.1.*_k,logits'
trace llama.gguf --list --hooks 'logits,blocks.2.*'
trace llama.gguf --list --json
patch names.gguf --clean emma --corrupt emna --metric 'a - n' --over resid_pre,z,pattern
patch names.gguf --clean emma --corrupt emna --metric logprob:n --over mlp_out,heads --json
patch llama.gguf --clean 3,1,4 --corrupt 3,2,4 --metric '5 - 6' --over attn_out,pattern --layers 1
patch names.gguf --clean emma --metric kl --over z --mode zero
patch names.gguf --clean emma --metric logprob:a --why
generate names.gguf --samples 3 --json --top 2 --seed 9
generate names.gguf -p an --choices na,nie,a --seed 4 --json
generate names.gguf -p ann -n 3 --temp 0 --bias n+2 --repeat-penalty 1.3
END
echo '== repl' >>printed
"$MGPT" repl names.gguf --width 80 <"$MGPT_SOURCE_ROOT/tests/cli/said.in" >>printed 2>&1
# Of numbers without meaning the size, of long ones the first digits; how many suspects there are.
sed -E 's/[0-9.]+e-1[2-9]/~0/g; s/([0-9]\.[0-9]{5})[0-9]+/\1/g; s/of [0-9]+ suspects/of N suspects/; s/"tried":[0-9]+/"tried":N/' printed >made
[ -z "${MGPT_WRITE-}" ] || cp made "$MGPT_SOURCE_ROOT/tests/cli/said.out"
diff "$MGPT_SOURCE_ROOT/tests/cli/said.out" made >out && code=0 || code=$?
check "what the runs print is said.out" [ "$code" -eq 0 ]
finish
