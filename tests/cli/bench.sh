#!/bin/sh
# mgpt bench: what its reports hold, comparing, refusals. No duration is asserted.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

# fields FILE PATTERN N: every line of the file that begins so has N words.
fields()
{
    awk -v p="$2" -v n="$3" '$0 ~ "^" p { found = 1; if (NF != n) bad = 1 }
        END { exit bad || !found }' "$1"
}

# shares FILE: there are shares of the machine's limits, and all are below 50: one that was divided wrongly is not.
shares()
{
    grep -o '"share_of_[a-z]*":[^,}]*' "$1" | awk -F: '$2 <= 0 || $2 >= 50 { bad = 1 } END { exit bad || !NR }'
}

# ---- the table ----

run bench "$names" -r 1 -t 1,2 -b 1,3 -g 20
check "table: exit 0, nothing on stderr" eval '[ $code -eq 0 ] && [ ! -s "$tmp/err" ]'
for line in machine model opened 'read 0.01638 MB' 'read from DRAM' 'pp8 ' 'pp8 @ d8' 'tg8 ' \
    'tg8 @ d8' 'tg8 x3' 'gen20 ' 'gen20 x3'; do
    check "table: $line" grep -q "^$line" "$tmp/out"
done
check "table: each test with both numbers of threads" \
    eval '[ "$(grep -c "^tg8 x3 *[12] " "$tmp/out")" -eq 2 ]'
check "table: nine columns" fields "$tmp/out" 'tg8  ' 9
check "table: no test of a depth beyond the first in a batch" \
    eval '! grep -q "@ d8 x3" "$tmp/out"'
check "table: every speed is positive" \
    awk '/^(pp|tg|gen)[0-9]+ +[12] / { if ($3 <= 0) bad = 1 } END { exit bad }' "$tmp/out"
run bench "$names" -r 2 -p 0 -g 0 -n 3,5 -d 2
check "table: only what was asked" eval \
    '[ "$(grep -c "^tg[35] @ d2" "$tmp/out")" -eq 2 ] && ! grep -qE "^(pp|gen)[0-9]" "$tmp/out"'
run bench "$names" -r 1 --isa scalar -t 1 --kv f16
check "table: with a chosen instruction set" grep -q "isa scalar" "$tmp/out"
check "... and halves for keys and values" grep -q "0.064 kB per position" "$tmp/out"
run bench "$names" -r 1 -t 1 -n 3 -g 0 --kv q8_0
check "... and blocks, 4 values padded to 32" grep -q "0.288 kB per position" "$tmp/out"
refuses "an unknown type lists all" 2 "expected f32, f16 or q8_0, found 'q4_0'" bench "$names" --kv q4_0

"$MGPT" convert "$MGPT_SOURCE_ROOT/weights/shakespeare.gguf" "$tmp/q8.gguf" --type q8_0 2>/dev/null
run bench "$tmp/q8.gguf" -r 1 -t 1 -p 0 -g 0 -n 1 -d 0
check "reading: a small model does not measure" grep -qx 'reading  \*0, not measured' "$tmp/out"
run bench "$tmp/q8.gguf" -r 1 -t 1 -p 0 -g 0 -n 1 -d 0 --isa scalar:1 --json
check "reading: --isa NAME:N" grep -q '"streaming":{"number":1,"fixed":true,"measured":\[\]}' "$tmp/out"

cp -r "$MGPT_SOURCE_ROOT/tests/golden/llama" "$tmp/short" && sed -i 's/"max_position_embeddings": [0-9]*/"max_position_embeddings": 1/' "$tmp/short/config.json"
run bench "$tmp/short" -r 1 -t 1 -g 0
check "table: a context of one position" eval '[ $code -eq 0 ] && grep -q "^tg1  *1 " "$tmp/out" && ! grep -q " @ d" "$tmp/out"'

# ---- JSON ----

run bench "$names" -r 2 -t 1 -b 1,2 --json
cp "$tmp/out" "$tmp/ours"
check "json: exit 0, nothing on stderr" eval '[ $code -eq 0 ] && [ ! -s "$tmp/err" ]'
check "json: one object a line" eval '! grep -qv "^{\"kind\":\"[a-z]*\",.*}\$" "$tmp/ours"'
for kind in model limit prefill decode generate; do
    check "json: $kind" grep -q "^{\"kind\":\"$kind\"" "$tmp/ours"
done
check "json: llama-bench's names" grep -q '"n_prompt":0,"n_gen":8,"n_depth":8,"n_threads":1' "$tmp/ours"
check "json: shares of the limits" shares "$tmp/ours"
check "json: two samples" grep -q '"samples_ts":\[[0-9.e+]*,[0-9.e+]*\]' "$tmp/ours"

# ---- side by side ----

tests=$(grep -c '"samples_ts"' "$tmp/ours")
run bench --from "$tmp/ours" --vs "$tmp/ours"
check "--vs itself: every test once, all ratios 1" \
    eval '[ $code -eq 0 ] && [ "$(grep -c " 1\.000  " "$tmp/out")" -eq "$tests" ]'

cat >"$tmp/llama" <<'END'
[
  {"build_number": 5163, "model_type": "llama 110M Q8_0", "model_n_params": 4192, "n_threads": 1,
   "flash_attn": true, "n_prompt": 8, "n_gen": 0, "n_depth": 0, "avg_ts": 100.0,
   "samples_ts": [ 50, 200, 250 ] },
  {"model_type": "llama 110M Q8_0", "n_threads": 1, "n_prompt": 0, "n_gen": 8, "n_depth": 8,
   "avg_ts": 40.0},
  {"model_type": "llama 110M Q8_0", "n_threads": 7, "n_prompt": 0, "n_gen": 8, "avg_ts": 1},
  {"model_type": "llama 110M Q8_0", "n_threads": 1, "n_prompt": 8, "n_gen": 8, "avg_ts": 1}
]
END
printf '%s\n' '{"kind":"limit","limit":"read"}' \
    '{"kind":"prefill","model_type":"m","n_prompt":8,"n_gen":0,"n_threads":1,"avg_ts":300}' \
    '{"kind":"decode","model_type":"m","n_gen":8,"n_depth":8,"n_threads":1,"avg_ts":100}' \
    '{"kind":"generate","model_type":"m","n_gen":8,"n_depth":8,"n_threads":1,"avg_ts":1}' >"$tmp/mine"
run bench --from "$tmp/mine" --vs "$tmp/llama"
check "--vs: two tests match" eval '[ $code -eq 0 ] && [ "$(grep -c "^[pt][pg]8" "$tmp/out")" -eq 2 ]'
check "--vs: the median of the samples counts" \
    grep -qE '^pp8 +1 +300\.0 +200\.0 +1\.500  llama 110M Q8_0 fa$' "$tmp/out"
check "--vs: the mean where there are none" \
    grep -qE '^tg8 @ d8 +1 +100\.0 +40\.0 +2\.500  llama' "$tmp/out"
printf '%s' '{"n_prompt":8,"n_gen":8,"test":"tg8@pp8","n_threads":1,"avg_ts":80}' \
    '{"n_gen":8,"n_depth":8,"n_threads":1,"avg_ts":50}' >"$tmp/depth"
cat "$tmp/llama" "$tmp/depth" >"$tmp/joined"
run bench --from "$tmp/mine" --vs - --json <"$tmp/joined"
cat >"$tmp/want" <<'END'
1.5 200
1.25 80
2 50
2.5 40
END
sed -n 's/.*"theirs_ts":\([0-9]*\)[.0]*,"ratio":\([0-9.]*\),.*/\2 \1/p' "$tmp/out" |
    sed 's/\.0 / /' >"$tmp/got"
check "--vs: joined files from stdin, fastest first, json" cmp -s "$tmp/got" "$tmp/want"
run bench "$names" -r 1 -t 1 -d 0 --vs "$tmp/llama"
check "--vs with a measurement: ours divided by theirs" awk \
    '/^test/ { n++ } n == 2 && /^pp8/ { found = 1; r = $3 / $4; if ($5 < r * 0.99 || $5 > r * 1.01) bad = 1 }
    END { exit bad || !found }' "$tmp/out"
printf '{"n_gen":8,"n_threads":99,"avg_ts":1}' >"$tmp/other"
run bench --from "$tmp/mine" --vs "$tmp/other"
check "--vs without a match: said" \
    eval '[ $code -eq 0 ] && one_line && grep -q "none of its 1 results" "$tmp/err"'

# ---- kernels ----

run bench --kernels silu -r 1
check "--kernels: exit 0" eval '[ $code -eq 0 ] && [ ! -s "$tmp/err" ]'
check "--kernels: the scalar ISA level" grep -qE '^scalar +silu +4096 values +[0-9.]+ ' "$tmp/out"
check "--kernels: one entry an ISA level" eval '[ "$(grep -c " silu " "$tmp/out")" -eq \
    "$(awk "/ silu / { seen[\$1] = 1 } END { n = 0; for (i in seen) n++; print n }" "$tmp/out")" ]'
run bench --kernels 'scores F' -r 1 --json --isa scalar
check "--kernels --json" eval '[ $code -eq 0 ] && [ "$(grep -c \
    "^{\"kind\":\"kernel\",\"isa\":\"scalar\",.*\"share_of_peak\":.*}\$" "$tmp/out")" -eq 4 ]'
check "--kernels: bytes are read for one query" eval '[ "$(grep -c "1 query,.*\"gb_per_s\":.*\"share_of_read\":" "$tmp/out")" -eq 2 ]'
check "--kernels: shares of the limits" shares "$tmp/out"
run bench --kernels 'mix F16' -r 1 --isa scalar
check "--kernels: values, of one query and of several" eval '[ $code -eq 0 ] && [ "$(grep -c "^scalar .*quer" "$tmp/out")" -eq 2 ]'
run bench --kernels 'pack F16' -r 1 --isa scalar
check "--kernels: only what has the word" eval '[ "$(grep -c "^scalar " "$tmp/out")" -eq 1 ]'
run bench --kernels 'pack Q8_0' -r 1 --isa scalar --json
check "--kernels: packing reads the file's bytes, 34 for 32 values" awk -F'"seconds":|,"spread"|"gb_per_s":|}' \
    '{ n = $2 * $4 * 1e9 / (1024 * 1024); exit n < 1.062 || n > 1.063 }' "$tmp/out"

# ---- refusals ----

refuses "no model" 2 "which model" bench
refuses "an unknown option: suggestion" 2 "unknown option --dpeth, did you mean --depth?" \
    bench "$names" --dpeth 1
for value in x '' 1,,2 1, ,1 '1 ,2' 1.5 -1 0x1 1000001 99999999999999999999; do
    refuses "-p '$value'" 2 "whole numbers from 0 to 1000000" bench "$names" -p "$value"
done
refuses "a list that is too long" 2 "up to 16" \
    bench "$names" -t 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1
refuses "no threads" 2 "from 1 to 256" bench "$names" -t 0
refuses "nothing fits" 4 "the context holds 16" bench "$names" -n 9 -p 9 -g 0 -d 8
refuses "nothing asked" 4 "nothing to measure" bench "$names" -n 0 -p 0 -g 0
refuses "--from alone" 2 "--from goes with --vs" bench --from "$tmp/mine"
refuses "--from and a model" 2 "no model is run" bench "$names" --from "$tmp/mine" --vs "$tmp/mine"
refuses "--kernels and a comparison" 2 "--kernels" bench --kernels --vs "$tmp/mine"
refuses "--kernels of an unknown set" 2 "vliw" bench --kernels --isa vliw
refuses "an unknown instruction set" 2 "vliw" bench "$names" --isa vliw
refuses "an unknown way to read" 2 "scalar:4" bench "$names" --isa scalar:4
refuses "not a model" 3 "GGUF" bench "$MGPT_SOURCE_ROOT/LICENSE"
refuses "no such file to compare with" 5 "No such file" bench "$names" --vs "$tmp/none"
for bad in '' '[]' '[1]' 'hello' '[{"n_gen":8,"avg_ts":1}' '{"n_gen":8.5,"avg_ts":1}' \
    '{"n_gen":-8,"avg_ts":1}' '{"n_gen":8}' '{"n_gen":8,"avg_ts":-1}' '{"n_gen":8,"avg_ts":"1"}' \
    '{"n_gen":99999999999,"avg_ts":1}' '{"a":1}' '{"kind":"limit"}' '{"n_gen":8,"samples_ts":[1,"2"]}'; do
    printf '%s' "$bad" >"$tmp/bad"
    refuses "--vs '$bad'" 3 "$tmp/bad: " bench "$names" --vs "$tmp/bad"
done
head -c 200 /dev/zero >"$tmp/bad"
refuses "--vs bytes" 3 "$tmp/bad: " bench "$names" --vs "$tmp/bad"

finish
