#!/bin/sh
# mgpt score --json: contexts with continuations. Their tokens, numbers, sharing, order, bad records.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

# pair CONTEXT CONTINUATION: a record. sum: the first sum_logprob of the last run.
pair()
{
    printf '{"context": "%s", "continuation": "%s"}\n' "$1" "$2"
}

sum()
{
    sed -n 's/.*"sum_logprob":\([^,]*\).*/\1/p' "$tmp/out" | sed -n 1p
}

# score MODEL ARGS...: the records on stdin, as JSON Lines.
score()
{
    run score "$@" --json -f -
}

# same NAME CONTEXT CONTINUATION CONTEXT CONTINUATION ARGS...: the model in $model gives both the same numbers.
same()
{
    same_name=$1
    { pair "$2" "$3"; pair "$4" "$5"; } >"$tmp/in"
    shift 5
    score "$model" "$@" <"$tmp/in"
    check "$same_name" eval '[ $code -eq 0 ] && [ "$(grep -c sum_logprob "$tmp/out")" -eq 2 ] &&
        [ "$(sed "s/,\"truncated\":true//" "$tmp/out" | sort -u | wc -l)" -eq 1 ]'
}

# ---- numbers ----

# A text cut into context and continuation anywhere: the continuation has the text's own numbers.
"$MGPT" generate "$lines" -p "ROMEO:" -n 90 --seed 3 | tr '\n' ' ' | tr -d "'" >"$tmp/text"
awk '{ printf "{\"text\": \"%s\"}\n", $0
       for (i = 1; i < length($0) - 1; i += 7)
           if (substr($0, i, 1) != " ")
               printf "{\"context\": \"%s\", \"continuation\": \"%s\"}\n", substr($0, 1, i), substr($0, i + 1) }
    ' "$tmp/text" >"$tmp/cuts"
run score "$lines" --json --top 1 -f "$tmp/cuts"
sed 's/.*"token_logprobs":\[\([^]]*\).*/\1/' "$tmp/out" >"$tmp/values"
check "a continuation has the numbers of the whole text" awk -F , '
    NR == 1 { n = split($0, want, ","); next }
    { for (i = 0; i < NF; i++) bad += $(NF - i) != want[n - i]; lines++ }
    END { exit bad || lines < 8 }' "$tmp/values"
run score "$lines" --json -f "$tmp/cuts"
sed '1d' "$tmp/out" >"$tmp/pairs"
check "... and their sum" eval 'sed 1d "$tmp/values" | paste - "$tmp/pairs" | awk "
    { n = split(\$1, p, \",\"); sum = 0; for (i = 1; i <= n; i++) sum += p[i]
      split(\$0, q, \"\\\"sum_logprob\\\":\"); d = sum - (q[2] + 0); bad += d * d > 1e-18
      bad += index(\$0, \"\\\"n_tokens\\\":\" n \",\") == 0 } END { exit bad || NR < 8 }"'

greedy=$("$MGPT" generate "$names" -p ma --temp 0)
{ pair ma "${greedy#ma}"; pair ma "${greedy#ma}zz"; pair ma "z${greedy#ma}"; } >"$tmp/in"
score "$names" <"$tmp/in"
check "is_greedy" eval '[ "$(sed "s/.*greedy\":\([a-z]*\).*/\1/" "$tmp/out" | tr "\n" " ")" = "true false false " ]'

# ---- any order, any sharing, any shards ----

"$MGPT" generate "$names" --samples 300 | grep '.....' >"$tmp/words"
awk '{ for (i = 1; i < 4; i++)
           printf "{\"id\": \"%d.%d\", \"context\": \"%s\", \"continuation\": \"%s\"}\n", NR, i, substr($0, 1, i), substr($0, i + 1) }
    ' "$tmp/words" >"$tmp/records"
want score "$names" --json -f "$tmp/records" -t 1
cp "$tmp/want" "$tmp/whole"
equals "the same bytes with 2 threads and on plain C" score "$names" --json -f "$tmp/records" -t 2 --isa scalar --no-fused
sort "$tmp/records" >"$tmp/sorted"
run score "$names" --json -f "$tmp/sorted"
check "in another order" eval 'sort "$tmp/whole" >"$tmp/want"; sort "$tmp/out" | cmp -s - "$tmp/want"'
split -l 37 "$tmp/records" "$tmp/shard."
for shard in "$tmp"/shard.*; do
    "$MGPT" score "$names" -f "$shard" --json || echo bad
done >"$tmp/joined" 2>"$tmp/err"
check "in shards" cmp -s "$tmp/joined" "$tmp/whole"

printf '{"id": 1, "context": "an", "continuations": ["na", "n", "drew"]}\n' >"$tmp/in"
score "$names" <"$tmp/in"
sed 's/.*\[\(.*\)\].*/\1/; s/},/}\n/g' "$tmp/out" >"$tmp/list"
{ pair an na; pair an n; pair an drew; } >"$tmp/in"
score "$names" <"$tmp/in"
check "continuations: a list of the same records" cmp -s "$tmp/list" "$tmp/out"

# ---- tokens: lm-evaluation-harness's rules ----

model=$lines
same "spaces at the context's end begin the continuation" 'ROMEO: ' I ROMEO: ' I'
{ pair '' abc; pair '  ' abc; } >"$tmp/in"
score "$lines" <"$tmp/in"
says "an empty context without BOS and EOS" "an empty context, and the model has no BOS or EOS"
check "... or one of spaces" [ "$(grep -c 'an empty context' "$tmp/out")" -eq 2 ]
model=$names
pair '' anna >"$tmp/in"
score "$names" <"$tmp/in"
empty=$(sum)
score "$names" --no-end --top 1 <<'END'
{"text": "anna"}
END
check "an empty context is BOS: the continuation has the numbers of the text" [ "$(sum)" = "$empty" ]
# A BOS that is token 0, and not EOS: of "a" the model gives other numbers than of <BOS>.
python3 - "$names" "$tmp/bos0.gguf" <<'END'
import struct, sys
bytes, key = open(sys.argv[1], 'rb').read(), b'tokenizer.ggml.bos_token_id' + struct.pack('<I', 4)
assert bytes.count(key + struct.pack('<I', 26)) == 1
open(sys.argv[2], 'wb').write(bytes.replace(key + struct.pack('<I', 26), key + struct.pack('<I', 0)))
END
{ pair '' nna; pair a nna; } | "$MGPT" score "$tmp/bos0.gguf" --no-bos --json -f - >"$tmp/out" 2>"$tmp/err"
check "... also where BOS is token 0" eval '[ "$(wc -l <"$tmp/out")" -eq 2 ] && [ "$(sort -u "$tmp/out" | wc -l)" -eq 1 ]'
same "what does not fit is cut from the left" abcdefghijklmnop qrst defghijklmnop qrst --no-bos
check "... with truncated" eval 'sed -n 1p "$tmp/out" | grep -q truncated && sed -n 2p "$tmp/out" | grep -qv truncated'
tells "... and counted" "1 of 2 contexts do not fit the model's 16 positions with their continuations"
pair a abcdefghijklmnopqrst >"$tmp/in"
score "$names" <"$tmp/in"
says "a continuation that does not fit" "the continuation has 20 tokens, the model's context holds 16"

# A tokenizer that merges over the boundary and puts BOS in front.
"$MGPT" convert "$MGPT_SOURCE_ROOT/tests/fixtures/torch/nanochat-2025" "$tmp/bpe.gguf" >"$tmp/out" 2>"$tmp/err"
model=$tmp/bpe.gguf
pair t 'he n' >"$tmp/in"
score "$model" --top 1 <"$tmp/in"
says "the continuation is what both together have after as many tokens as the context has" '"tokens":[" ","n"]'
merged=$(sed 's/.*"token_logprobs":\[\([^]]*\).*/\1/' "$tmp/out")
score "$model" --top 1 --no-end <<'END'
{"text": "t n"}
END
check "... which are the context's own, not the first of both" grep -qF -- ",$merged]" "$tmp/out"
pair th e >"$tmp/in"
score "$model" <"$tmp/in"
says "no token of its own" "the continuation has no token of its own: context and continuation are 2 tokens, the context alone 2"
same "BOS that is spelt out is not put twice" 'then' n '<|bos|>then' n
score "$model" --no-bos <"$tmp/in"
check "... and --no-bos leaves it out" [ "$(sort -u "$tmp/out" | wc -l)" -eq 2 ]
model=$tmp/eos.gguf
python3 -c 'import sys
data, key = open(sys.argv[1], "rb").read(), b"add_eos_token\7\0\0\0"
open(sys.argv[2], "wb").write(data.replace(key + b"\0", key + b"\1"))' "$tmp/bpe.gguf" "$model"
same "... nor is EOS, where BOS is the context" '' n '<|bos|>' n
model=$tmp/bpe.gguf
same "spaces are Unicode's" 'then\u3000\u00a0\n' n 'then' '\u3000\u00a0\nn'

# ---- bad records ----

cat >"$tmp/bad" <<'END'
{"id": 1, "context": "a", "continuation": ""}
{"id": 2, "context": "a", "continuations": ["b", 5]}
{"id": 3, "context": "a", "continuations": []}
{"id": 4, "context": "a", "continuations": "b"}
{"id": 5, "context": "a"}
{"id": 6, "continuation": "a"}
{"id": 7, "context": 4, "continuation": "a"}
{"id": 8, "context": "a", "continuation": "b", "continuations": ["a"]}
{"id": 9, "context": "a", "text": "b"}
{"id": 10, "context": "a", "continuation": "b", "x": 1}
{"id": 11, "context": "a", "continuation": []}
{"id": 12, "context": "a", "continuation": ["b", "c"]}
{"id": 13, "context": "A", "continuation": "b"}
{"id": 14, "context": "a", "continuation": "b"}
END
run score "$names" --json -f "$tmp/bad"
sed 's/^{"id":[0-9]*,"error":"\(.*\)"}$/\1/' "$tmp/out" >"$tmp/list"
cat >"$tmp/want" <<'END'
continuation 1: expected a string that is not empty
continuation 2: expected a string that is not empty
continuations: expected an array of strings, one at least
continuations: expected an array of strings, one at least
expected one of continuation and continuations with the context
expected a string called context with the continuation
expected a string called context with the continuation
expected one of continuation and continuations with the context
a record has one of text, ids, and context with continuations
unknown field \"x\": the fields of a record are id, text, ids, context, continuation and continuations
continuation: expected a string; an array is called continuations
continuation: expected a string; an array is called continuations
END
check "bad records: one line each" eval 'head -n 12 "$tmp/list" | cmp -s - "$tmp/want"'
check "... a character that the vocabulary lacks" eval 'sed -n 13p "$tmp/out" | grep -q "character .A."'
sed 's/"id": [0-9]*, //' "$tmp/bad" | "$MGPT" score "$names" --json -f - >"$tmp/nameless"
check "... whose line is named where it has no id" eval 'sed -n 5p "$tmp/nameless" | grep -q "\"line\":5}"'
check "... exit 3, and the good one is scored" eval '[ $code -eq 3 ] && sed -n 14p "$tmp/out" | grep -q is_greedy'
{ printf '{"context": "a", "continuations": ["b"'; yes ',"b"' | head -n 100000 | tr -d '\n'; echo ']}'; } >"$tmp/many"
run score "$names" --json -f "$tmp/many"
check "... of too many continuations" eval '[ $code -eq 3 ] && grep -q "continuations: 100001, at most 100000 in a" "$tmp/out"'

# ---- spaces at the end of a context: those of Python's str.isspace ----

cp -r "$MGPT_SOURCE_ROOT/tests/golden/llama" "$tmp/spaces" && cd "$tmp" || exit 1
python3 - <<'END'
import json
spaces = [chr(c) for c in range(0x3001) if chr(c).isspace()]
shown = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
letters = {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in shown)}
used = sorted({b for c in spaces + ["a", "b", "\u0080"] for b in c.encode()})
assert len(used) == 33, len(used)
json.dump({"normalizer": None, "added_tokens": [], "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
           "model": {"type": "BPE", "vocab": {letters[b]: i for i, b in enumerate(used)}, "merges": []}}, open("spaces/tokenizer.json", "w"))
with open("spaces.jsonl", "w") as out:
    for c in [*spaces, "\u0080"]:
        for context, continuation in (("a" + c, "aa"), ("a", c + "aa")):
            print(json.dumps({"id": ord(c), "context": context, "continuation": continuation}), file=out)
END
run convert spaces spaces.gguf
run score spaces.gguf --json -f spaces.jsonl
check "spaces are moved to the continuation" eval '[ $code -eq 0 ] && python3 -c "
import json
rows = [json.loads(line) for line in open(\"out\")]
assert len(rows) == 60
for a, b in zip(rows[::2], rows[1::2]):
    assert (a == b) == (a[\"id\"] != 0x80) and b[\"n_tokens\"] == 2 + len(chr(b[\"id\"]).encode()), (a, b)"'

finish
