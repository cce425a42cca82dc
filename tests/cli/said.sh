#!/bin/sh
# Every line that some runs of the commands print or write, most of them of models that differ: tables, places, causes, JSON,
# numbers; and sessions of the repl (views.sh has those that look). said.runs has the runs: every option of these commands
# is in one of them, and every command of the repl in a session. The text is said.out. After a wanted change:
#   MGPT_WRITE=1 MGPT=build/tools/mgpt MGPT_SOURCE_ROOT=$PWD sh tests/cli/said.sh
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
golden=$MGPT_SOURCE_ROOT/tests/golden
here=$MGPT_SOURCE_ROOT/tests/cli

# altered NAME GOLDEN SED: a golden model whose configuration is changed.
altered()
{
    mkdir "$tmp/$1" && cp "$golden/$2"/*.safetensors "$tmp/$1"
    sed "$3" "$golden/$2/config.json" >"$tmp/$1/config.json"
    "$MGPT" convert "$tmp/$1" "$tmp/$1.gguf" --no-tokenizer 2>/dev/null
}

show()
{
    python3 "$here/said.py" show "$@"
}

# A terminal's escapes in letters.
visible()
{
    sed "s/$(printf '\033')/^/g"
}

# Without what depends on the machine: compilers, versions, where rounding is largest.
stages()
{
    sed -E 's/^((blocks|hook|ln|logits)[^ ]* ).*\[.*/\1/; s/"by":.*\}/"by":BY/; s/by mgpt [^:]*:/by BY:/; s/^(.*(version|machine|compiler|command).*)[:|].*/\1/; s/[0-9.]+, (gcc|clang) .*/BY/; s/XXH64 [0-9a-f]+/XXH64/'
}

altered relu gpt2 's/gelu_new/relu/'
altered two gpt2 's/gelu_new/relu/; s/"layer_norm_epsilon": 1e-05/"layer_norm_epsilon": 0.5/'
altered heads llama 's/\("num_attention_heads": \)4/\12/; s/\("num_key_value_heads": \)2/\11/; s/\("head_dim": \)6/\112/'
altered theta qwen3 's/\("rope_theta": \)[0-9.]*/\1777.0/'
for name in gpt2 llama qwen3; do
    cp "$golden/$name/ref.npz" "$tmp/$name.npz"
done
cp "$names" "$MGPT_SOURCE_ROOT/weights/names.ref.json" "$here/said.in" "$tmp"
cp "$MGPT_SOURCE_ROOT/weights/shakespeare.gguf" "$tmp/lines.gguf"
cp "$MGPT_SOURCE_ROOT"/weights/names-steps/step-0[01]?00.gguf "$tmp"
cp "$MGPT_SOURCE_ROOT/tests/fixtures/lora/llama/ref.npz" "$tmp/adapted.npz"
cp -r "$MGPT_SOURCE_ROOT/tests/fixtures/lora/llama" "$tmp/adapter"
"$MGPT" convert "$golden/llama" "$tmp/llama.gguf" --no-tokenizer 2>/dev/null
"$MGPT" convert "$names" "$tmp/half.gguf" --type f16 2>/dev/null
printf 'anna\nabcdefghijklmnopqrstuvwxyz\n\nzq' >"$tmp/texts" # the last line has no end
printf 'mar' >"$tmp/one" && printf 'anna\nella\nmary\n' >"$tmp/words"
printf '%s\n' '{"text": "anna", "id": 7}' '{"ids": [26, 0, 13]}' '{"context": "mar", "continuations": ["y", "ia"]}' \
    '{"context": "", "continuation": "al"}' '' '{"text": "A"}' >"$tmp/records"
printf '%s\n' '{"ids": [3, 1, 4, 1, 5]}' '{"ids": [2]}' >"$tmp/ids"
printf '%s\n' '{"prompt": "an", "id": "x", "n": 3, "seed": 5}' '{"ids": [26, 4], "temperature": 1.5, "top_k": 3, "stop": ["l"]}' \
    '{"prompt": "el", "min_p": 0.2, "top_p": 0.7, "ignore_end": true, "n": 9}' '' '{"prompt": "A"}' \
    '{"prompt": "ma", "choices": ["ry", "x"]}' >"$tmp/prompts"
printf '%s\n' '{"type": ["boolean", "null"]}' >"$tmp/schema"
printf '1 0 2\n0.5 1 0\n-1 2 1\n' >"$tmp/x" && printf '1 0 2 1 -1 3\n0.5 1 0 2 2 1\n-1 2 1 0 1 1\n' >"$tmp/wide"
printf 'emma\nanna\nella\n' >"$tmp/clean" && printf 'emna\nanma\nelna\n' >"$tmp/corrupt" && printf 'a - n\nlogprob:a\nkl\n' >"$tmp/metrics"
python3 "$here/said.py" make "$tmp"
"$MGPT" convert "$tmp/chat" "$tmp/chat.gguf" 2>/dev/null

cd "$tmp" || exit 1
: >err
while IFS= read -r arguments; do
    case $arguments in '#'*) continue ;; esac
    echo "== $arguments"
    eval "\"\$MGPT\" $arguments" </dev/null 2>&1 && code=0 || code=$?
    echo "exit code $code"
done <"$here/said.runs" >printed
# Of numbers without meaning the size, of long ones the first digits; how many suspects there are.
sed -E 's/[0-9.]+e-1[2-9]/~0/g; s/([0-9]\.[0-9]{5})[0-9]+/\1/g; s/of [0-9]+ suspects/of N suspects/; s/"tried":[0-9]+/"tried":N/
    s/(html","page":"[a-z]*","bytes":)[0-9]+/\1N/' printed >made
[ -z "${MGPT_WRITE-}" ] || cp made "$here/said.out"
diff "$here/said.out" made >out && code=0 || code=$?
check "what the runs print is said.out" [ "$code" -eq 0 ]
python3 "$here/said.py" missing "$MGPT" "$here" >out
check "every option and every command of the repl is in a run" [ ! -s out ]
finish
