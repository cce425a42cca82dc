#!/bin/sh
# mgpt convert as a user types it: every layout, every option, every error line, exit codes, atomicity.
# That the tensors are right to the bit is tested in tests/tools/convert/test_convert.c.
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

mkdir "$tmp/work" && cd "$tmp/work" || exit 1
fixtures=$MGPT_SOURCE_ROOT/tests/fixtures/convert
cp "$fixtures"/*.json "$fixtures"/*.bin . || exit 1
cp flat.json silent.json # says nothing about heads
for layout in flat state_dict shaped nested tied; do
    sed 's/^{/{"n_head":4,/' "$fixtures/$layout.json" >$layout.json
done

# convert CODE ARGS...: runs it; is this the exit code?
convert()
{
    want_code=$1
    shift
    run convert "$@"
    [ "$code" -eq "$want_code" ]
}

# notes TEXT ARGS...: success, and TEXT in a line on stderr.
notes()
{
    check "convert: $*" noted "$@"
}

noted()
{
    text=$1
    shift
    convert 0 "$@" && grep -qF -- "$text" "$tmp/err" && [ ! -s "$tmp/out" ]
}

# plans TEXT ARGS...: TEXT in the plan of a dry run.
plans()
{
    check "convert --dry-run: $*" planned "$@"
}

planned()
{
    text=$1
    shift
    convert 0 --dry-run "$@" && grep -qF -- "$text" "$tmp/out"
}

# as NAME FILE ARGS...: converts a copy of FILE that is called NAME, so that general.name is equal.
as()
{
    mkdir -p renamed
    cp "$2" "renamed/$1"
    as_name=renamed/$1 as_file=$2
    shift 2
    check "convert $as_file $*" convert 0 "$as_name" x.gguf "$@"
}

# same A B NAME: equal files.
same()
{
    check "$3" cmp -s "$1" "$2"
}

# ---- layouts: the same weights in each, so the same file where the same is stated ----

notes 'wrote flat.gguf: 436 weights, F32, 4 kB' flat.json flat.gguf
for space in '\n' '\r\n' '\t ' '\r' '\n\n \t\r\n'; do
    { printf '%b' "$space"; cat flat.json; } >"$tmp/spaces"
    as flat.json "$tmp/spaces"
    same flat.gguf x.gguf "JSON after spaces '$space' gives the file that flat.json gives"
done
notes 'wrote x.gguf: 4192 weights, F32, 19 kB' "$names" x.gguf
notes 'wrote x.gguf: 1115904 weights, F16, 2.2 MB' "$lines" x.gguf
notes "inferred: activation = relu (the program's; set it with --activation)" flat.json x.gguf
notes "inferred: eps = 1e-05 (the program's; set it with --eps)" flat.json x.gguf
denies 3 'not in the file, and the logits depend on it: set --heads N' silent.json no.gguf
for layout in state_dict shaped nested; do
    as flat.json $layout.json
    same flat.gguf x.gguf "$layout.json gives the file that flat.json gives"
done
check "convert --heads 2" convert 0 --heads 2 flat.json two.gguf
for layout in wrapped params; do
    as flat.json $layout.json
    same two.gguf x.gguf "$layout.json, which states n_head, gives the file that --heads 2 gives"
done
printf 'ab\303\251\342\202\254\n' >chars.txt
as flat.json matrices.json --chars chars.txt --heads 4
same flat.gguf x.gguf "matrices.json with --chars gives the file that flat.json gives"
as flat.json list.json --chars chars.txt --heads 4 --embd 4 --layers 2 --context 3
same flat.gguf x.gguf "list.json with sizes and --chars gives the file that flat.json gives"
notes 'inferred: vocab_size = 5 (from the 436 numbers)' list.json x.gguf --heads 4 --embd 4 --layers 2 --context 3
notes 'inferred: block_size = 3 (from the 436' list.json x.gguf --heads 4 --embd 4 --layers 2 --vocab-size 5
notes 'no vocabulary in the file' list.json x.gguf --heads 4 --embd 4 --layers 2 --vocab-size 5
notes 'inferred: BOS = 4 (the id after the characters' state_dict.json x.gguf
denies 3 'set --activation NAME (relu, relu2, ...)' first.json no.gguf
notes 'inferred: no lm_head, so the head is wte (tied)' tied.json x.gguf
notes 'ignored: dropout (a number)' wrapped.json x.gguf
notes 'inferred: the matrices are wte, wpe, lm_head' matrices.json x.gguf --heads 4
printf 'ba\n \303\251\342\202\254a \nab\n' >corpus.txt
notes 'vocabulary: the 4 characters of the lines of corpus.txt, sorted' flat.json x.gguf --chars corpus.txt

# The published sizes need no options: with E 16, L 1, T 16, 4192 numbers make V 27.
awk 'BEGIN { printf "[0.5"; for (i = 1; i < 4192; i++) printf ",%d", i % 7; print "]" }' >names.json
notes 'inferred: vocab_size = 27 (from the 4192 numbers)' names.json x.gguf
notes "inferred: n_head = 4 (the published program's; set it with --heads)" names.json x.gguf
notes 'inferred: vocabulary = a to z' names.json x.gguf
notes 'inferred: BOS = 26' names.json x.gguf
sed 's/^.0.5,/[/' names.json >less.json
denies 3 '4191 numbers do not fit n_embd 16, n_layer 1' less.json no.gguf

# ---- dialect ----

plans 'relu, norm after the embedding, no norm before the head' flat.json
plans 'relu2, no norm after the embedding, norm before the head' flat.json --activation relu2 \
    --no-embedding-norm --final-norm
plans 'norm eps 0.001' --eps 1e-3 flat.json
plans '2 layers, 4 wide, 2 heads of 2, mlp 16' --heads 2 flat.json
plans '5 tokens (gpt2), logits 5, BOS 1' --bos 1 state_dict.json
plans 'blk.1.ffn_up.weight          F16   [4, 16]' --type f16 flat.json
plans 'position_embd.weight         F32   [4, 3]' --type f16 flat.json
plans 'format         llama2.c .bin version 0' v0.bin
plans '2 layers, 4 wide, 2 heads of 2 (1 for keys and values), mlp 6' v1.bin
plans 'output.weight' v1-own-head.bin
plans 'llama2.c .bin version 2 (int8)' v2.bin
check "a dry run writes nothing" eval 'convert 0 --dry-run flat.json never.gguf && [ ! -e never.gguf ]'
convert 0 flat.json x.gguf
grep -v ': wrote ' "$tmp/err" >said
convert 0 --dry-run flat.json
check "... and says what was inferred" eval '[ -s said ] && cmp -s said "$tmp/err"'

run convert --help
check "--help: which formats an option applies to, in a column" awk '
    /^formats that/ { n = 1; next } n { n++; bad += substr($0, 24, 2) !~ /^ [^ ]$/ } END { exit bad || n < 30 }' "$tmp/out"

# ---- llama2.c ----

notes 'wrote v0.gguf: 288 weights, F32' v0.bin v0.gguf
notes 'inferred: the tokenizer is tokenizer.bin (next to the input' v0.bin x.gguf
cp tokenizer.bin tok7.bin
notes 'inferred: the tokenizer is tok7.bin (next to the input' v0.bin x.gguf
same v0.gguf x.gguf "tokN.bin is found first"
mkdir away && mv tok7.bin tokenizer.bin away
denies 3 'neither tok7.bin nor tokenizer.bin is next to it' v0.bin no.gguf
as v0.bin v1.bin --tokenizer away/tok7.bin
same v0.gguf x.gguf "version 1 gives the file that version 0 gives"
notes 'no vocabulary: the model will run on token ids only' --no-tokenizer v0.bin x.gguf
denies 5 'side file away/none.bin: cannot open' v0.bin no.gguf --tokenizer away/none.bin
head -c 60 away/tok7.bin >short.bin
denies 3 'tokenizer short.bin: token ' v0.bin no.gguf --tokenizer short.bin
denies 3 'tokenizer v1.bin: token ' v0.bin no.gguf --tokenizer v1.bin
head -c 1000 v0.bin >cut.bin
denies 3 'expected 1220 bytes, found 1000' cut.bin no.gguf
head -c 100 v1.bin >cut.bin
denies 3 'the file ends at byte 100 inside its header' cut.bin no.gguf

# ---- GGUF ----

check "convert flat.gguf" convert 0 flat.gguf copy.gguf
same flat.gguf copy.gguf "GGUF to GGUF without --type changes nothing"
notes 'wrote half.gguf: 436 weights, F16' --type f16 flat.gguf half.gguf
as flat.json flat.json --type F16
same half.gguf x.gguf "in two steps or in one: the same F16 file"
notes 'wrote x.gguf: 436 weights, BF16' --type bf16 flat.gguf x.gguf
notes 'token_embd.weight: 2 values are too large for F16 and became infinite' --type f16 flat.gguf x.gguf
notes 'token_embd.weight: 2 of 20 values are NaN or infinite' --type f32 half.gguf x.gguf
check "... which F16 does not lose again" eval 'convert 0 --type f16 x.gguf y.gguf && ! grep -q "too large" "$tmp/err"'
denies 2 '--heads does not apply to GGUF' --heads 2 flat.gguf no.gguf
head -c 200 flat.gguf >cut.gguf
denies 3 'cut.gguf: ' cut.gguf no.gguf

# ---- writing ----

check "convert flat.json again" convert 0 flat.json again.gguf
same flat.gguf again.gguf "converting twice gives equal bytes"
check "from stdin" eval 'convert 0 - x.gguf <flat.json'
echo old >old.gguf
check "onto an existing file" convert 0 flat.json old.gguf
same flat.gguf old.gguf "OUT is replaced"
echo old >old.gguf
echo '{"wte":[[1,2]]}' >lonely.json
denies 3 'tensor wpe: missing' lonely.json old.gguf
check "a refused input leaves OUT as it was" [ "$(cat old.gguf)" = old ]
denies 2 'flat.gguf and ./flat.gguf are the same file' flat.gguf ./flat.gguf
ln -s flat.gguf link.gguf
denies 2 'are the same file' flat.gguf link.gguf
same copy.gguf flat.gguf "and the file is as it was"
denies 5 'mgpt: nowhere/no.gguf: cannot create' flat.json nowhere/no.gguf
denies 5 'is a directory' flat.json away
check "no temporary files are left" [ -z "$(find . -name '*.tmp')" ]
check "OUT may be /dev/null" convert 0 flat.json /dev/null
check "... and the size is that of the weights" grep -qF 'wrote /dev/null: 436 weights, F32, 2 kB' "$tmp/err"

# ---- bad input and usage ----

denies 5 'none.json: cannot open' none.json no.gguf
denies 5 'away: is a directory' away no.gguf
: >empty
denies 3 'empty: the file is empty' empty no.gguf
echo 'hello, world' >hello
denies 3 'not a checkpoint that mgpt reads (first bytes 68 65 6c 6c 6f 2c 20 77): ' hello no.gguf
denies 3 'flat.json: n_head is 3, it must divide n_embd = 4' --heads 3 flat.json no.gguf
denies 3 'n_embd is stated as 5, the tensors say 4' --embd 5 flat.json no.gguf
denies 3 'chars.txt: 4 different characters, the model has 27 tokens' --chars chars.txt names.json no.gguf
denies 5 'side file none.txt: cannot open' --chars none.txt flat.json no.gguf
denies 3 'BOS id is 9, the model has 5 tokens' --bos 9 flat.json no.gguf
denies 2 'activation gelu: expected one of relu relu2' --activation gelu flat.json no.gguf
echo '{"wte": [[0.5, NaN]]}' >nan.json
denies 3 'NaN or Infinity is not JSON (Python writes it)' nan.json no.gguf
sed 's/"wpe"/"rms_x":[1,2,3,4],"wpe"/' flat.json >fork.json
denies 3 'tensor rms_x: no microgpt has it' fork.json no.gguf
sed 's/"layer1.mlp_fc2"/"layer1.mlp_gate"/' flat.json >fork.json
denies 3 'tensor layer0.mlp_gate: missing (a later layer has one)' fork.json no.gguf
sed 's/"wpe":\[\[/"wpe":[[0.25,/' flat.json >ragged.json
denies 3 'tensor wpe: row 1 has 4 numbers, row 0 has 5' ragged.json no.gguf
head -c 2000 flat.json >cut.json
denies 3 'JSON: line 1 column' cut.json no.gguf
denies 2 '--type: IQ4_NL cannot be written; f32 f16 q4_0' --type iq4_nl flat.json no.gguf
denies 2 "q4_k q5_k q6_k bf16 or keep, found 'int3'" --type int3 flat.json no.gguf
denies 2 'unknown option --head, did you mean --heads?' --head 2 flat.json no.gguf
denies 2 '--eps: expected a number from 0 to 1' --eps nan flat.json no.gguf
denies 2 'OUT is missing (or --dry-run)' flat.json
denies 2 'OUT must be a file' flat.json -
check "no operands" convert 2
check "--help" eval 'convert 0 --help && grep -q "^usage: mgpt convert" "$tmp/out"'
check "--help: model types" grep -q "^  gpt2 openai-gpt gpt_neo .* xglm ctrl llama$" "$tmp/out"
check "--help: model types with other parts" grep -q "^  gemma4 gemma4_unified gemma3 " "$tmp/out"

# ---- real files, where they are ----

shared=$MGPT_SOURCE_ROOT/../shared/cases
if [ -d "$shared" ]; then
    notes '4192 weights, F32' "$shared/microgpt-3d/microgpt-weights.json" names.gguf
    # float32 against the site's float64 logits: its own tolerance
    run check names.gguf "$shared/microgpt-3d/python_groundtruth.json" --tol 1e-5
    check "the published microgpt has the published logits" [ "$code" -eq 0 ]
    notes 'the tokenizer is tok512.bin' "$shared/stories260K/stories260K.bin" stories.gguf
    run generate -m stories.gguf -p 'Once upon a time' -n 16 --temp 0
    says "stories260K tells its story" 'Once upon a time, there was a little girl named Lily'
else
    echo "# skipped: no ../shared/cases"
fi

finish
