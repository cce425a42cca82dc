#!/bin/sh
# mgpt lab as a user types it: what is in the page, how large it is, that nothing in it comes alive that is
# not meant to, and what is refused. What the engine in it computes: tests/lab.
# shellcheck disable=SC2016,SC2034,SC2154  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
cd "$tmp" || exit 1

run lab "$names" -p anna -o lab.html
check "a page: exit code 0, nothing on stdout" eval '[ $code -eq 0 ] && [ ! -s out ]'
check "it is live: the build has the engine for pages" grep -q 'lab.html: live, ' err
check "under 340 kB with model and engine" [ "$(wc -c <lab.html)" -lt 340000 ]
cp lab.html first.html
run lab -m "$names" -p anna -o lab.html
check "the same bytes again, over the old page" cmp -s lab.html first.html

# A block's characters as bytes, unpacked: the format of tools/lab/page_out.h.
characters='
import gzip, lzma, sys
digits = [(60 if c == 33 else c) - 35 for c in sys.stdin.buffer.read().strip()]
numbers = [a + 91 * b for a, b in zip(digits[::2], digits[1::2])]
n_bits = 13 * len(numbers) + 6 * (len(digits) % 2)
words = "".join(format(n, "013b")[::-1] for n in numbers) + "".join(format(n, "06b")[::-1] for n in digits[2 * len(numbers):])
packed = bytes(int(words[i:i + 8][::-1], 2) for i in range(0, n_bits // 8 * 8, 8))
sys.stdout.buffer.write((gzip if packed[0] == 31 else lzma).decompress(packed))
'
# block ID FILE: what a block of a page holds, unpacked.
block()
{
    sed -n 's|^.*<script type="application/octet-stream" id="'"$1"'">\([^<]*\)</script>.*$|\1|p' "$2" |
        python3 -c "$characters"
}

block mgpt-about lab.html >about
says_about()
{
    check "the page knows $1" grep -qF -- "$2" about
}
says_about "the model" '"arch":"microgpt"'
says_about "its sizes" '"layers":1,"heads":4,"kv_heads":4,"d_model":16'
says_about "the prompt" '"tokens":[26,0,13,13,0]'
says_about "every tensor" '"tensors":{"token_embd.weight":["F32",16,27],"position_embd.weight":["F32",16,16],'
says_about "every hook" '"name":"blocks.0.attn.hook_pattern","point":11,"layer":0,"dims":[4,0,0]'
block mgpt-model lab.html >model
check "the weights are the file's bytes" cmp -s model "$names"
block mgpt-module lab.html >module
check "the engine is the repository's module" cmp -s module "$MGPT_SOURCE_ROOT/tools/lab/wasm/module.wasm"
# Who wrote what is in the module: what its linker takes from (clang -Wl,--trace).
for holder in 'the mgpt authors' 'Sean Barrett' 'wasi-libc contributors' 'Rich Felker' 'Arm Limited' 'Valentin Ochs' \
    'Nuxi' 'Doug Lea' 'LLVM Project' 'Permission is hereby granted' 'Redistributions in binary form'; do
    check "licences: $holder" grep -qF "$holder" lab.html
done

# ---- in a frame ----

run lab "$names" -p anna --embed --at '#view=attention&head=2' -o frame.html
check "a page for a frame" eval '[ $code -eq 0 ] && grep -q "id=\"mgpt-embed\"" frame.html'
check "the address that it opens with" [ "$(block mgpt-at frame.html)" = 'view=attention&head=2' ]
check "other pages have neither" eval '! grep -qE "id=.mgpt-(embed|at)" lab.html'
run lab "$names" --at attention -o lab2.html
check "an address that names nothing is refused" eval '[ $code -eq 2 ] && [ ! -e lab2.html ] &&
    grep -qF "found '\''attention'\''" err'

# ---- the steps of a training ----

steps="$MGPT_SOURCE_ROOT/weights/names-steps"
run lab "$steps"/*.gguf -p anna --held "$steps/held.txt" --texts "$steps/texts.txt" -o story.html
check "a page of 16 steps, under 500 kB" eval '[ $code -eq 0 ] && [ "$(wc -c <story.html)" -lt 500000 ]'
run lab "$steps/step-00100.gguf" "$steps/step-00000.gguf" "$steps/step-20000.gguf" -o three.html
block mgpt-about three.html >about
check "three, in the order of their steps, on no text" python3 -c '
import json
story = json.load(open("about"))["story"]
assert [s["step"] for s in story["steps"]] == [0, 100, 20000] and story["letters"] is None and story["held"] == story["texts"] == 0
assert all(s["loss"] is None and len(s["texts"]) == 8 for s in story["steps"])'
block mgpt-model three.html >model
check "the model is the last step" cmp -s model "$steps/step-20000.gguf"
block mgpt-steps three.html >xored
check "the others are XORed with the one after them" python3 -c '
import sys
first, second, last = (open(f, "rb").read() for f in sys.argv[1:])
xor = lambda a, b: bytes(x ^ y for x, y in zip(a, b))
assert open("xored", "rb").read() == xor(second, last) + xor(first, second)' "$steps/step-00000.gguf" "$steps/step-00100.gguf" "$steps/step-20000.gguf"
refuses_story()
{
    says=$1 want=$2
    shift 2
    run lab "$@" -o refused.html
    check "refused: $says" eval '[ $code -eq $want ] && [ ! -e refused.html ] && grep -qF -- "$says" err'
}
cp "$names" names-7.gguf
cp "$steps/step-00100.gguf" other-100.gguf
refuses_story "token_embd.weight is not as in" 3 names-7.gguf "$steps/step-00100.gguf"
refuses_story "both are of step 100" 2 other-100.gguf "$steps/step-00100.gguf"
mkdir run-5 && cp "$names" run-5/names.gguf
refuses_story "which step of training?" 2 run-5/names.gguf "$steps/step-00100.gguf"
runs "a step of another type" convert "$steps/step-00000.gguf" wide-7.gguf --type f32
refuses_story "wide-7.gguf: token_embd.weight is not as in" 3 wide-7.gguf "$steps/step-00100.gguf"
refuses_story "--static: with one model only" 2 "$steps/step-00000.gguf" "$steps/step-00100.gguf" --static -p anna
refuses_story "--lora: with one model only" 2 "$steps/step-00000.gguf" "$steps/step-00100.gguf" --lora adapter.gguf -p anna
for option in --held --texts; do
    refuses_story "--held and --texts go with several models" 2 "$names" "$option" "$steps/held.txt"
done
refuses_story "several models make a live page: the model has 0.0 MB" 4 "$steps/step-00000.gguf" "$steps/step-00100.gguf" --max 0.001 -p anna
refuses_story "the 2 models have 0.0 MB, a live page takes up to 0.02 (--max)" 4 "$steps/step-00000.gguf" "$steps/step-00100.gguf" --max 0.02
printf 'anna\n\nBob\n' >held
refuses_story "held: line 3: character 'B'" 2 "$steps/step-00000.gguf" "$steps/step-00100.gguf" --held held
shakespeare="$MGPT_SOURCE_ROOT/weights/shakespeare.gguf"
cp "$shakespeare" shakespeare-9.gguf
refuses_story "is not as in" 3 shakespeare-9.gguf "$steps/step-00100.gguf"
cp "$shakespeare" shakespeare-8.gguf && run lab shakespeare-9.gguf shakespeare-8.gguf -p "ROMEO:" -o long.html
block mgpt-about long.html >about
run generate "$shakespeare" -p "ROMEO:" --samples 8 --seed 5 --temp 0.6 -n 48 --json
check "texts of 48 tokens after the prompt: those of mgpt generate" python3 -c '
import json
wrote = [json.loads(line)["text"] for line in open("out")]
for step in json.load(open("about"))["story"]["steps"]:
    assert ["ROMEO:" + text for text, _ in step["texts"]] == wrote'

# ---- what sites show of a link ----

run lab "$names" -p anna --title "a \"b\" <c$(printf '\342\200\213')" --about 'x & "y"' --picture 'https://a/"b.png' -o card.html
check "--title, --about and --picture are in the head" eval 'sed -n "/^<title>/,/^<.head>/p" card.html >top && diff - top <<END
<title>a &quot;b&quot; &lt;c?</title>
<meta property="og:type" content="website">
<meta property="og:title" content="a &quot;b&quot; &lt;c?">
<meta name="description" content="x &amp; &quot;y&quot;">
<meta property="og:description" content="x &amp; &quot;y&quot;">
<meta property="og:image" content="https://a/&quot;b.png">
<meta name="twitter:card" content="summary_large_image">
</head>
END'
check "without them the title names the model, and there is no card" eval '! sed "/^<.head>/q" lab.html | grep -qE "og:|twitter" &&
    grep -qxF "<title>names · mgpt lab</title>" lab.html'

# ---- the policy ----

# hash_of TAG: of the one element without attributes, as a browser hashes what is between the tags.
hash_of()
{
    awk -v RS='\001' -v tag="$1" '{ from = index($0, "<" tag ">") + length(tag) + 2
        rest = substr($0, from); printf "%s", substr(rest, 1, index(rest, "</" tag ">") - 1) }' lab.html |
        sha256sum | cut -d" " -f1 | sed 's/../\\x&/g' | xargs -0 printf '%b' | head -c 32 | base64
}

policy=$(sed -n 's/.*http-equiv="Content-Security-Policy" content="\([^"]*\)".*/\1/p' lab.html)
check "nothing is allowed that is not named" eval 'case $policy in "default-src '\''none'\''; "*) ;; *) false ;; esac'
check "no network, no eval, nothing inline without a hash" eval '! printf "%s" "$policy" |
    sed "s/; worker-src blob:;/;/" | grep -qE "http|unsafe-inline|[^-]unsafe-eval|data:|blob:|\*|connect-src"'
check "the script has the policy's hash" eval 'case $policy in *"script-src '\''sha256-$(hash_of script)'\''"*) ;; *) false ;; esac'
packed_hash=$(block mgpt-style lab.html | sha256sum | cut -d" " -f1 | sed 's/../\\x&/g' | xargs -0 printf '%b' | head -c 32 | base64)
check "so has the style" eval 'case $policy in *"style-src '\''sha256-$packed_hash'\''"*) ;; *) false ;; esac'
check "one script that runs, no handler, no address" eval '[ "$(grep -c "<script>" lab.html)" -eq 1 ] &&
    ! grep -qE "<[a-z][^>]* (on[a-z]+|src|href=.[^#])" lab.html'

# ---- hostile texts ----

override=$(printf '\342\200\256')
escape=$(printf '\033')
cat >hostile.json <<EOF
{"config": {"n_embd": 4, "n_head": 1, "block_size": 4, "vocab_size": 6, "n_layer": 0},
 "vocab": ["<", "\u202e", "\u001b", "\"", "&"], "bos": 5,
 "wte": [[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1],[1,1,0,0],[0,1,1,0]],
 "wpe": [[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]],
 "lm_head": [[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1],[1,1,0,0],[0,1,1,0]]}
EOF
runs "a model whose tokens are markup and controls" convert hostile.json hostile.gguf
# The title is its path: one that ends the element, turns the writing and sends an escape.
directory="$tmp/</title><script>alert(1)<"
mkdir -p "$directory"
cp hostile.gguf "$directory/script>$override$escape.gguf"
sed 's/"&"/"%"/' hostile.json >other.json
runs "one of another vocabulary" convert other.json other-1.gguf
cp hostile.gguf hostile-2.gguf
refuses_story "token 4 has another text than in" 3 other-1.gguf hostile-2.gguf
sed 's/"n_head": 1/"n_head": 2/' hostile.json >heads.json
runs "one of other heads" convert heads.json heads-1.gguf
refuses_story "the architecture is not as in" 3 heads-1.gguf hostile-2.gguf
runs "it makes a page" lab "$directory/script>$override$escape.gguf" -p "<$override\"" -o hostile.html
check "no token and no name is markup in it" eval '[ "$(grep -c "<script>" hostile.html)" -eq 1 ] &&
    ! grep -q "alert(1)<" hostile.html && ! grep -qF "$override" hostile.html && ! grep -qF "$escape" hostile.html'
block mgpt-about hostile.html >about
says_about "what is dangerous as an escape" '"pieces":["<","\\u{202E}","\\u{1B}","\\\"","&","<BOS>"]'
says_about "its bytes as numbers" '"bytes":["<","\u00E2\u0080\u00AE","\u001B","\"","&",""]'

# ---- recorded ----

runs "--static" lab "$names" -p anna --static -o static.html
tells "says so" "static.html: recorded, "
tells "and why" "5 tokens: it was asked for with --static"
block mgpt-about static.html >about
says_about "that it is not live" '"live":false'
check "no weights in it" eval '! grep -q "id=\"mgpt-model\"" static.html'
run trace "$names" -p anna --hooks logits -o logits.npz
block mgpt-trace static.html | tail -c $((5 * 27 * 4)) >logits
hex()
{
    od -An -v -tx1 "$1" | tr -d ' \n'
}
check "its values are the trace's" eval '[ "$(wc -c <logits)" -eq 540 ] &&
    case $(hex logits.npz) in *"$(hex logits)"*) ;; *) false ;; esac'
# After each token: the lens of three residuals, whose last is the logits; the parts of the first choice, and of what came.
check "so are what it says of them" python3 -c '
import json, math, struct
about, numbers = json.load(open("about")), struct.unpack("<135f", open("logits", "rb").read())
tokens = about["tokens"]
assert len(about["lens"]) == len(about["dla"]) == len(tokens)
for pos, (lens, parts) in enumerate(zip(about["lens"], about["dla"])):
    logits = numbers[27 * pos : 27 * pos + 27]
    ids = sorted(range(27), key=lambda i: -logits[i])
    assert len(lens) == 3 and lens[2]["ids"] == ids
    assert all(math.isclose(v, logits[i], rel_tol=1e-8) for v, i in zip(lens[2]["values"], ids))
    for row in lens:
        assert math.isclose(row["logsum"], math.log(sum(math.exp(v) for v in row["values"])), rel_tol=1e-6)
    said = ids[:1] + [t for t in tokens[pos + 1 : pos + 2] if t != ids[0]]
    assert [p["token"] for p in parts] == said
    for p in parts:
        assert len(p["parts"]) == 10 and abs(p["parts"][0] - sum(p["parts"][1:])) < 1e-6
        assert abs(p["parts"][0] - logits[p["token"]]) < 1e-5'
run lab "$lines" -p "ROMEO:" --max 2 -o big.html
check "above --max: recorded" eval '[ $code -eq 0 ] && grep -q "recorded, " err'
tells "the sizes are told" "the model has 2.2 MB, a live page takes up to 2 (--max)"
python3 - "$MGPT_SOURCE_ROOT" <<'END'
import sys
sys.path.insert(0, sys.argv[1] + "/tests/fuzz")
import tiny_models
models = dict(tiny_models.gguf_models(sys.argv[1]))
for name, kind in ("grid", "iq2_s"), ("four", "iq4_nl"):
    open(name + ".gguf", "wb").write(models["llama-" + kind])
END
run lab four.gguf --json -o four.html
says "a type of four bits is live, without a prompt, too" '"page":"live"'
run lab grid.gguf --ids 0,1 -o grid.html
check "a type that pages cannot read: recorded" eval '[ $code -eq 0 ] && grep -q "recorded, " err'
tells "and why" "pages cannot read IQ2_S: convert the model with --type f16"
cat >unigram.json <<'END'
{"pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": true},
 "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], ["\u2581", -2.0], ["a", -1.0], ["\u2581a", -1.5]]}}
END
run convert "$MGPT_SOURCE_ROOT/tests/golden/llama" unigram.gguf --tokenizer unigram.json
run tokenize unigram.gguf -p "a aa x"
check "ids of a Unigram vocabulary" eval '[ "$(cat out)" = "3 3 2 1 0" ]'
run lab unigram.gguf -p "a aa" -o unigram.html
check "a vocabulary that pages do not run: recorded" eval '[ $code -eq 0 ] && grep -q "recorded, " err'
tells "and why" "pages do not split texts as this model does"
cat >steps.json <<'END'
{"pre_tokenizer": {"type": "Digits", "individual_digits": true},
 "model": {"type": "BPE", "vocab": {"a": 0, "aa": 1, "x": 2}, "merges": ["a a"]}}
END
run convert "$MGPT_SOURCE_ROOT/tests/golden/llama" steps.gguf --tokenizer steps.json
run lab steps.gguf -p "aa" -o steps.html
check "a vocabulary with steps of its own: recorded" eval '[ $code -eq 0 ] && grep -q "recorded, " err'
cat >words.json <<'END'
{"pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
 "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2]},
 "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
           "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##b": 4, "ab": 5}}}
END
run convert "$MGPT_SOURCE_ROOT/tests/golden/llama" words.gguf --tokenizer words.json
run tokenize words.gguf -p "a ab abb aba"
check "ids of a WordPiece vocabulary" eval '[ "$(cat out)" = "1 3 5 5 4 0 2" ]'
run lab words.gguf -p "a ab" -o words.html
check "a vocabulary of words: recorded" eval '[ $code -eq 0 ] && grep -q "recorded, " err'
tells "and why" "pages do not split texts as this model does"

# ---- refused ----

rm -f lab.html
refuses "no output" 2 "-o lab.html" lab "$names"
cp "$names" own.gguf
refuses "the model itself as output" 2 "own.gguf is the model" lab own.gguf -p a -o ./own.gguf
echo "my notes" >notes.html
refuses "a file of the user's as output" 3 "notes.html: exists and is not a page" lab "$names" -p a -o notes.html
check "the model is whole" cmp -s own.gguf "$names"
refuses "no model" 2 "which model?" lab -o lab.html
refuses "no such file" 5 "cannot open" lab none.gguf -o lab.html
printf 'GGUFx' >bad.gguf
refuses "no model in the file" 3 "bad.gguf" lab bad.gguf -o lab.html
refuses "a character that the vocabulary lacks" 2 "'A' (U+0041) at byte 0" lab "$names" -p Anna -o lab.html
refuses "an id that is out of range" 2 "the model has ids 0 to 26" lab "$names" --ids 27 -o lab.html
refuses "longer than the context" 4 "the context holds 16" lab "$names" -p abcdefghijklmnop -o lab.html
refuses "two prompts" 2 "one of -p, -f, --ids" lab "$names" -p a --ids 1 -o lab.html
refuses "a recorded page without a prompt" 2 "needs a prompt" lab "$names" --static -o lab.html
refuses "--max: no number" 2 "--max" lab "$names" --max many -o lab.html
refuses "a misspelt option" 2 "did you mean" lab "$names" --statc -o lab.html
refuses "no such directory" 5 "none/lab.html: cannot create" lab "$names" -p a -o none/lab.html
check "nothing was written" [ ! -e lab.html ]
check "and nothing is left over" eval '[ -z "$(find . -name ".*.tmp")" ]'
if [ -w /dev/full ]; then
    refuses "no room on the disk" 5 "/dev/full: cannot write" lab "$names" -p a -o /dev/full
fi
run convert "$MGPT_SOURCE_ROOT/tests/golden/mixtral" mixtral.gguf --no-tokenizer
run lab mixtral.gguf --ids '1 2' --json -o m.html
says "a mixture of experts is live" '"page":"live"'
says "help" "usage: mgpt lab" lab --help

finish
