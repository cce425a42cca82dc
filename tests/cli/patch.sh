#!/bin/sh
# mgpt patch as a user types it: the tables, JSON, what is refused, Ctrl-C. Its values are tested by
# patch.py and tools/patch.
# shellcheck disable=SC2016,SC2034,SC2154
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
cd "$tmp" || exit 1

# ---- tables ----

cat >want <<'END'
metric               "n - a"
clean        4.3790  <BOS> "o" "l" "i" "v" "i" "a"
corrupt      4.3778  <BOS> "e" "l" "i" "v" "i" "a"

resid_pre, change of the metric with the value of the clean run
layer \ token    0 <BO~  1 "e"  2 "l"  3 "i"  4 "v"  5 "i"  6 "a"
0                0.0000 0.0012 0.0000 0.0000 0.0000 0.0000 0.0000
scale 0.0000  ..::-==++*##%%@ 0.0012
strongest:
  0 at 1 "e"  +0.0012
END
run patch "$names" --clean olivia --corrupt elivia --metric 'n - a' --width 80
check "the tables" eval '[ $code -eq 0 ] && cmp -s out want && [ ! -s err ]'
run patch "$names" --clean olivia --corrupt elivia --metric '\x6E - \u{000061}' --width 80
check "tokens by their codes" eval 'tail -n +2 out >one && tail -n +2 want | cmp -s - one'
says "a head has a row" '0.1               0.0000 -1.3782' \
    patch "$names" --clean olivia --metric logprob:n --over z --mode zero --positions 5-6
says "keys are left out in every mode" 'keys, change of the metric, left out' \
    patch "$names" --clean ann --corrupt ana --metric kl --over keys
says "more heads than lines: the strongest position of each" 'zero at the strongest position' \
    patch "$names" --clean ann --metric logprob:a --over v --mode zero --layers 0,0,0,0,0,0,0,0,0,0,0,0,0
check "... which may be below 0 and before others" grep -qx '0  *-0.7517 -0.0454  0.0658 -0.1060' "$tmp/out"

# ---- JSON ----

run patch "$names" --clean olivia --corrupt elivia --metric 'n - a' --over k,mlp_out --heads 1,3 --json
check "--json" python3 -c '
import json
r = json.load(open("out"))
assert list(r) == ["model", "metric", "mode", "into", "clean", "corrupt", "grids"], list(r)
assert r["clean"]["tokens"] == [26, 14, 11, 8, 21, 8, 0]
k, mlp = r["grids"]
assert k["over"] == "k" and k["heads"] == [1, 3] and mlp["over"] == "mlp_out" and "heads" not in mlp
assert len(k["values"]) == 1 and len(k["values"][0]) == 2 and len(k["values"][0][1]) == 7
assert k["values"][0][0][0] == r["corrupt"]["value"] != k["values"][0][1][1]
assert mlp["values"][0][6] != r["corrupt"]["value"]'
cp out want
for option in "-t 2" "--isa scalar" "--no-fused" "--check-finite"; do
    # shellcheck disable=SC2086
    equals "$option changes nothing" patch "$names" --clean olivia --corrupt elivia --metric 'n - a' \
        --over k,mlp_out --heads 1,3 --json $option
done
equals "the prompts' roles exchanged" patch "$names" --clean olivia --corrupt elivia --metric 'n - a' \
    --over k,mlp_out --heads 1,3 --json --into corrupt
run patch "$names" --clean olivia --corrupt elivia --metric kl --into clean --json
says "... into the clean run" '"into":"clean","clean":{"tokens":[26,14,11,8,21,8,0],"value":0.0}'

# ---- why ----

run patch "$names" --clean ann --metric logprob:a --why
check "--why" eval '[ $code -eq 0 ] && grep -qx "       1    -*[0-9.]*  \"a\"" out && [ "$(grep -c "less that" out)" -eq 4 ]'
says "... of segments that the user chooses" '       1     0.1998  "a" "n"' \
    patch "$names" --clean anna --metric logprob:a --why --segments 1,3 --over segments
run patch "$names" --clean abcdefghijklmn --metric kl --why --over segments --json
check "... 12 segments of a long prompt" eval '[ $code -eq 0 ] && [ "$(grep -o "\"shapley\"" out | wc -l)" -eq 12 ]'
says "... of BOS alone" '       0    -0.3510  <BOS>' patch "$names" --clean '' --metric kl --why --over tokens,segments
want patch "$lines" --clean 'ROMEO: I' --metric kl --why --over tokens,segments --segments 3
"$MGPT" patch "$lines" --clean 'ROMEO: I' --metric kl --why --over heads,segments,keys,tokens --segments 3 |
    head -n "$(wc -l <want)" >out
check "... each part by itself is the same" cmp -s out want
run patch "$names" --clean anna --metric kl --why --segments 2 --over segments,tokens,heads --json
check "... as JSON" python3 -c '
import json
r = json.load(open("out"))
assert len(r["without_token"]) == 5 and len(r["coalitions"]) == 4 and r["coalitions"][3] == 0
assert [(s["first"], s["end"]) for s in r["segments"]] == [(1, 3), (3, 5)]
assert abs(sum(s["shapley"] for s in r["segments"]) + r["coalitions"][0]) < 1e-12
assert "positions" not in r["grids"][0] and len(r["grids"][0]["values"][0]) == 4'

# ---- files ----

run patch "$names" --clean 'ab' --corrupt 'ac' --metric 'n - a' --over z,mlp_out --json
cp out z.json
run patch "$names" --clean 'ab' --corrupt 'ac' --metric 'n - a' --over z,mlp_out --npz z.npz
check "--npz has the numbers of --json" python3 -c '
import json, struct, zipfile
r, z = json.load(open("z.json")), zipfile.ZipFile("z.npz")
assert z.testzip() is None
def read(name, letter):
    data = z.read(name + ".npy")
    n = 10 + struct.unpack_from("<H", data, 8)[0]
    return data[:n].decode("latin-1"), list(struct.unpack("<%d%s" % ((len(data) - n) // 8, letter), data[n:]))
head, values = read("z", "d")
assert "(1, 4, 3)" in head and "<f8" in head, head
assert values == [x for h in r["grids"][0]["values"][0] for x in h]
assert "(1, 3)" in read("mlp_out", "d")[0]
assert read("z.heads", "q")[1] == [0, 1, 2, 3] and read("tokens", "q")[1] == r["corrupt"]["tokens"]
assert all(read(run, "d")[1] == [r[run]["value"]] and read(run + "_tokens", "q")[1] == r[run]["tokens"] for run in ("clean", "corrupt"))'
run patch "$names" --clean ab --metric kl --why --npz why.npz
"$MGPT" patch "$names" --clean ab --metric kl --why --json >why.json
check "... of --why" eval '[ $code -eq 0 ] && python3 -c "
import json, struct, zipfile
z, r = zipfile.ZipFile(\"why.npz\"), json.load(open(\"why.json\"))
assert {\"heads.npy\", \"keys.positions.npy\"} <= set(z.namelist())
for name, want in {\"shapley\": [s[\"shapley\"] for s in r[\"segments\"]], \"coalitions\": r[\"coalitions\"], \"without_token\": r[\"without_token\"]}.items():
    assert struct.unpack(\"<%dd\" % len(want), z.read(name + \".npy\")[-8 * len(want):]) == tuple(want), name"'
run patch "$names" --clean ab --corrupt ac --metric 'a - b' --over z,resid_pre --positions 1-2 --mode zero --html z.html
check "--html: a page that needs nothing" eval '[ $code -eq 0 ] && [ ! -s out ] && head -c 15 z.html | grep -qx "<!DOCTYPE html>" &&
    ! grep -qE "https?:|src=|<script" z.html'
check "... for phones, light and dark themes: below zero is blue, above is rust" eval 'grep -q "name=viewport" z.html &&
    [ "$(grep -oE "\.c(0|16|32)\{background:#[0-9a-f]{6}" z.html | cut -d# -f2 | tr "\n" " ")" = "123f73 f3f1ec 6f2d06 b5dafb 22242b ffd2a6 " ] &&
    grep -q "@media(prefers-color-scheme:dark)" z.html'
cat >want <<'END'
<pre>clean       -0.5848  &#60;BOS&#62; &#34;a&#34; &#34;b&#34;</pre>
<pre>corrupt      3.8742  &#60;BOS&#62; &#34;a&#34; &#34;c&#34;</pre>
<h2>z</h2><p>change of the metric, mode zero
<table><tr><th>colours<td class=c0>-1.016<td class=c4>-0.762<td class=c8>-0.508<td class=c12>-0.254<td class=c16>0.000<td class=c20>0.254<td class=c24>0.508<td class=c28>0.762<td class=c32>1.016</table>
<table><tr><th>head<th>1 &#34;a&#34;<th>2 &#34;b&#34;
<tr><th>0.0<td class=c16>0.000<td class=c17>0.083
<tr><th>0.1<td class=c16>0.000<td class=c20>0.262
<tr><th>0.2<td class=c16>0.000<td class=c32>1.016
<tr><th>0.3<td class=c16>0.000<td class=c19>0.185</table>
<h2>resid_pre</h2><p>change of the metric, mode zero
<table><tr><th>colours<td class=c0>-10.141<td class=c4>-7.606<td class=c8>-5.070<td class=c12>-2.535<td class=c16>0.000<td class=c20>2.535<td class=c24>5.070<td class=c28>7.606<td class=c32>10.141</table>
<table><tr><th>layer<th>1 &#34;a&#34;<th>2 &#34;b&#34;
<tr><th>0<td class=c14>-1.027<td class=c32>10.141</table>
END
check "... of the prompts and the numbers of the tables" eval 'sed -n "s/.*<pre>/<pre>/; /^<pre>/,\$p" z.html | cmp -s - want'
run patch "$names" --clean ab --metric kl --why --over tokens,segments,heads --html z.html
cat >want <<'END'
<h2>tokens</h2><p>metric less that without
<table><tr><th>0 &#60;BOS&#62;<td>-1.4664
<tr><th>1 &#34;a&#34;<td>-2.1528
<tr><th>2 &#34;b&#34;<td>-0.8032
</table><h2>segments</h2><p>Shapley values
<table><tr><th>&#34;a&#34;<td>-1.2579
<tr><th>&#34;b&#34;<td>0.0918
</table>
<h2>heads</h2><p>metric less that without
<table><tr><th>colours<td class=c0>-0.566<td class=c4>-0.424<td class=c8>-0.283<td class=c12>-0.141<td class=c16>0.000<td class=c20>0.141<td class=c24>0.283<td class=c28>0.424<td class=c32>0.566</table>
<table><tr><th>head<th>all positions
<tr><th>0.0<td class=c10>-0.203
<tr><th>0.1<td class=c13>-0.096
<tr><th>0.2<td class=c0>-0.566
<tr><th>0.3<td class=c7>-0.319</table>
END
check "... --why in place of one" eval '[ $code -eq 0 ] && sed -n "/<h2>tokens/,\$p" z.html | cmp -s - want'
echo mine >other
refuses "a file of another kind" 3 'not a page of mgpt patch' patch "$names" --clean a --metric kl --mode zero --html other
refuses "... and for --npz" 3 'not a trace in .npz' patch "$names" --clean a --metric kl --mode zero --npz other
check "it stays" [ "$(cat other)" = mine ]

# ---- refused ----

bad() # NAME TEXT ARGS...
{
    bad_name=$1 bad_text=$2
    shift 2
    refuses "$bad_name" 2 "$bad_text" patch "$names" "$@"
}

bad "no prompt" 'Give --clean TEXT' --metric kl
bad "no second prompt" 'Give --corrupt TEXT' --clean a --metric kl
bad "no metric" 'Give --metric' --clean a --corrupt b
bad "different lengths" '--clean has 4 tokens and --corrupt 3: expected the same number' \
    --clean ann --corrupt an --metric kl
bad "a character that the vocabulary lacks" "--corrupt: character 'B'" --clean a --corrupt B --metric kl
bad "a metric that is none" "expected 'A - B', logprob:TOKEN or kl, found 'ab'" \
    --clean a --corrupt b --metric ab
bad "a metric of two tokens" "'ab' is 2 tokens, expected one" --clean a --corrupt b --metric 'ab - n'
bad "a token that is none" "'Q' is not a token of the model" --clean a --corrupt b --metric logprob:Q
bad "an empty token" "'' is not a token of the model" --clean a --corrupt b --metric logprob:
bad "a point that is misspelt" "did you mean 'resid_pre'?" --clean a --corrupt b --metric kl \
    --over z,resid_prex
bad "a layer that is not there" '--layers: expected numbers from 0 to 0' --clean a --corrupt b \
    --metric kl --layers 1
bad "a head that is not there" '--heads: expected numbers from 0 to 3' --clean a --corrupt b \
    --metric kl --over z --heads 2-4
bad "a mode that is none" "expected patch, zero, mean or scale:X, found 'scale:'" --clean a \
    --metric kl --mode scale:
bad "the mean of rows of different lengths" 'rows of pattern' --clean a --metric kl --over pattern \
    --mode mean
bad "a run that is none" "expected clean or corrupt, found 'x'" --clean a --corrupt b --metric kl \
    --into x
bad "--why with a mode" 'only one of them' --clean a --metric kl --why --mode zero
bad "a screen that is none" "--screen: expected truecolor, 256 or plain, found 'x'" --clean a --metric kl --mode zero --screen x
bad "two forms" 'only one of them' --clean a --metric kl --mode zero --json --html x
bad "segments without --why" 'goes with --why' --clean a --corrupt b --metric kl --segments 2
for cut in 0 5 x 2,3 1,1 1,3,2 -1; do
    bad "--segments $cut" '1 to 4 segments' --clean anna --metric kl --why "--segments=$cut"
done
bad "a part of --why without it" "no point is called 'segments'" --clean a --corrupt b --metric kl \
    --over segments
refuses "longer than the context" 4 '--clean: 17 tokens' patch "$names" --clean abcdefghijklmnop \
    --corrupt abcdefghijklmnop --metric kl
run convert "$MGPT_SOURCE_ROOT/tests/golden/gpt_neox" neox.gguf
refuses "a hook that the model lacks" 2 'the model has no blocks.0.hook_resid_mid' \
    patch neox.gguf --clean 1,2 --corrupt 1,3 --metric kl --over resid_mid
python3 -Bc 'import sys
sys.path.insert(0, sys.argv[1])
from large_vocab import llama_vocab, write
write(llama_vocab(300), "flat.gguf")' "$MGPT_SOURCE_ROOT/tests/cli"
refuses "a model without layers" 2 '--over resid_pre: the model has no layers' patch flat.gguf --clean a --metric kl --mode zero
refuses "an id in the metric" 2 "--metric: '999' is not a token of the model" patch neox.gguf --clean 1,2 --metric '1 - 999' --mode zero
refuses "ids out of range" 2 '--clean: token 1 is 999' patch neox.gguf --clean 1,999 --metric kl --mode zero

# ---- Ctrl-C ----

text=$(printf 'Before we proceed any further, hear me speak. %.0s' 1 2 3 4)
# interrupted_after SECONDS: 0 where part of the grid was known.
interrupted_after()
{
    "$MGPT" patch "$lines" --clean "$text" --metric logprob:a --mode zero --over z,q,k,v,pattern --json >out 2>err &
    pid=$!
    sleep $1
    kill -INT $pid
    code=0
    wait $pid || code=$?
    [ $code -eq 130 ] && grep -q null out && python3 -c "
import json
g = json.load(open('out'))['grids'][0]['values'][0][0]
assert g[0] is None and g[-1] is not None" 2>/dev/null
}
# When the first value is known depends on the machine.
caught()
{
    for after in 0.1 0.3 1 3 10 30; do
        ! interrupted_after $after || return 0
    done
    return 1
}
check "interrupted: what is known is printed" caught
finish
