#!/bin/sh
# mgpt convert of PyTorch files and pickles as a user types it: the models of tests/fixtures/torch compute
# what their programs compute, what is inferred is said, what cannot be run is refused.
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

fixtures=$MGPT_SOURCE_ROOT/tests/fixtures/torch
mkdir "$tmp/work" && cd "$tmp/work" && cp -r "$fixtures"/* . || exit 1

# equal DIRECTORY FILE ARGS...: it computes what its program computed.
equal()
{
    equal_from=$1/$2 equal_ref=$1/ref.npz
    shift 2
    computes "$equal_ref" "$equal_from" "$@"
}

# said NAME TEXT: the last conversion noted it.
said()
{
    check "$1" grep -qF -- "$2" said
}

# ---- the models ----

equal nanogpt ckpt.pt --assume nanogpt
said "nanoGPT: which GELU is said" 'assumed: the activation of the MLP: gelu_erf (--assume nanogpt)'
said "what llama.cpp would do" \
    'llama.cpp ignores mgpt.activation and would run this file wrongly without an error'
run convert x.gguf y.gguf
check "of a copy, too" eval \
    '[ $code -eq 0 ] && [ "$(grep -c "llama.cpp ignores mgpt.activation and" "$tmp/err")" -eq 1 ]'
run convert nanogpt/ckpt.pt x.gguf --assume nanogpt
said "nanoGPT: the head is tied" 'inferred: the head is the token embedding (tied)'
said "nanoGPT: where the characters are from" 'inferred: the vocabulary is meta.pkl'
runs "nanoGPT: characters in, characters out" generate -m x.gguf -p 'abc' -n 4 --seed 1
equal nanogpt-nobias ckpt.pt --assume nanogpt
equal nanogpt-legacy ckpt.pt --assume nanogpt
equal build-nanogpt model.pt --assume nanogpt-2022
check "llama.cpp runs it, so nothing is said" eval '! grep -q llama.cpp said'
equal mingpt model.pt
said "minGPT: heads of config.json" 'inferred: n_head = 4 (from config.json)'
equal scratch model.pth --heads 2 --assume llms-from-scratch
equal scratch-bias model.pth --heads 2 --assume llms-from-scratch
cp "$MGPT_SOURCE_ROOT/tests/golden/llama/config.json" llama2c # of another model: the weights are wrapped
equal llama2c ckpt.pt
equal meta-llama consolidated.00.pth
said "Meta: the context is not in the file" 'inferred: context = 2048'
equal nanochat-2025 model_000010.pt
said "nanochat: its generation" 'inferred: nanochat of October 2025 to January 2026'
equal nanochat-2026-01 model_000010.pt
check "llama.cpp refuses it, so nothing is said" eval '! grep -q llama.cpp said'
said "nanochat: windows" 'inferred: short layers see 5 keys'
said "nanochat: padding of the vocabulary" 'the last 50 rows of the embedding are padding, left out'
equal microgpt state.pt --heads 2
equal microgpt lists.pkl
equal microgpt arrays2.pkl --heads 2
equal microgpt arrays5.pkl --heads 2
equal microgpt values.pkl --heads 2

for generation in 2026-02 2026-03 2026; do
    equal nanochat-$generation model_000010.pt
done
said "nanochat: smear" 'inferred: nanochat of March 2026 or later (smear, backout)'
run convert nanochat-2025 elsewhere.gguf
tells "a directory, and the tokenizer in a folder of its own" 'the tokenizer is tokenizer/tokenizer.pkl'
equal mingpt-2020 model.pt --heads 3
said "minGPT of 2020: its activation" 'inferred: activation = gelu_erf (minGPT of 2020'
equal slm4096 ckpt.pt
check "SLM 4096: its characters, nothing is ignored" eval '! grep -q "ignored:\|no vocabulary" said'
runs "SLM 4096: characters in, characters out" generate -m x.gguf -p 'abc' -n 4 --seed 1
equal ng-video-lecture model.pth --assume ng-video-lecture
said "ng-video-lecture: what was assumed" \
    'assumed: what the scores of attention are divided by: head (--assume ng-video-lecture)'
equal ng-video-lecture-2022 model.pth --assume ng-video-lecture-2022
equal ng-video-lecture-2022 model.pth --activation relu --pre-norm --qk-scale embd
equal ng-video-lecture-2022 model.pth --assume ng-video-lecture --qk-scale 0.759835686
said "and what llama.cpp would do" 'ignores attention.scale, mgpt.activation and would'

# ---- facts that are not in the file ----

# asks FILE TEXT...: exit 3, and the error and its list name each text.
asks()
{
    run convert "$1" no.gguf
    check "asks: $1" eval '[ $code -eq 3 ] && [ ! -e no.gguf ]'
    asks_of=$1
    shift
    for text; do
        check "asks: $asks_of: $text" grep -qF -- "$text" "$tmp/err"
    done
}

asks freecodecamp/model.pth 'not in the file: set --activation, --pre-norm or --post-norm, --qk-scale (--ask asks)' \
    '--post-norm (freecodecamp, gpt1, encoder-layer)' '--qk-scale embd (ng-video-lecture-2022)' '--assume PROGRAM'
asks rms-lecture/model.pth '--norm rms (llama)' '--eps X'
asks encoder-layer/model.pt '--causal' '--positions half (llama), --positions adjacent, '
asks rotated/model.pt '--rope BASE' '--positions half (llama)'
asks nanogpt/ckpt.pt 'not in the file: set --activation (--ask asks)' 'the names of nanogpt, and of copies that changed it: --assume nanogpt'
asks nanogpt-nobias/ckpt.pt 'not in the file: set --activation, --norm, --eps (--ask asks)'
asks scratch/model.pth 'set --heads, --activation, --pre-norm or --post-norm, --qk-scale' '--assume llms-from-scratch'
mkdir beside && cp ng-video-lecture/model.pth beside && echo '{"a": 0}' >beside/vocab.json
asks beside/model.pth 'not in the file: set --activation' \
    'and vocab.json needs merges.txt or vocab.bpe next to the input: neither is there; --no-tokenizer goes on without'
run convert beside/model.pth no.gguf --json
check "... in JSON, too" grep -q '"also": *"vocab.json needs merges.txt' "$tmp/out"
equal freecodecamp model.pth --assume freecodecamp
equal freecodecamp model.pth --activation relu --post-norm --qk-scale head
equal rms-lecture model.pth --assume ng-video-lecture-2022 --norm rms --eps 1.1920929e-07
equal encoder-layer model.pt --assume encoder-layer --positions sinusoidal --embedding-scale root
said "a vocabulary of words is left out" "no vocabulary: the file's is left out (vocabulary: entry 0"
equal no-projection model.pt --activation gelu_erf --pre-norm --qk-scale embd
said "heads without a projection" 'inferred: attention has no projection (none in the file): the identity'
said "a model without a last norm" 'inferred: no norm before the head (none in the file)'
equal rotated model.pt --assume llama --eps 1e-6
equal mlx weights.npz --heads 3 --assume ng-video-lecture
words='--heads 3 --activation gelu_erf --pre-norm --qk-scale head --rope 1e4'
# shellcheck disable=SC2086
equal own-words model.pt $words --positions adjacent --qkv heads
asks own-words/model.pt '--qkv heads' '--rope, --embedding-scale, --qkv (--ask asks)'
equal parameters model.pt --heads 3 --assume nanogpt --bare in-out
asks gated/model.pt '--gate first, --gate second'
equal gated model.pt --assume llama --eps 1e-6 --gate first
# A file that has characters of its own.
for own in ng-bigram/bigram.pt ng-bigram-embedded/bigram.pt slm4096/ckpt.pt; do
    denies 5 'side file nowhere.json: cannot open' $own no.gguf --tokenizer nowhere.json
done
denies 2 '--gate: expected first or second' gated/model.pt no.gguf --gate w1
asks parameters/model.pt '--bare out-in, --bare in-out'
denies 2 '--qkv: expected blocks or heads' own-words/model.pt no.gguf --qkv rows
denies 2 '--bare: expected out-in or in-out' parameters/model.pt no.gguf --bare in
for wrong in "own-words/model.pt $words --positions adjacent --qkv blocks" "own-words/model.pt $words --positions half --qkv heads" \
    'gated/model.pt --assume llama --eps 1e-6 --gate second' \
    'parameters/model.pt --heads 3 --assume nanogpt --bare out-in' 'nanogpt/ckpt.pt --assume nanogpt-2022' 'freecodecamp/model.pth --assume ng-video-lecture' 'no-projection/model.pt --assume nanogpt' \
    'rotated/model.pt --assume llama --eps 1e-6 --positions adjacent' \
    'encoder-layer/model.pt --assume encoder-layer --positions sinusoidal --embedding-scale none'; do
    # shellcheck disable=SC2086
    run convert $wrong wrong.gguf
    run check wrong.gguf "${wrong%%/*}/ref.npz"
    check "another answer computes something else: $wrong" [ "$code" -eq 1 ]
done
denies 2 '--assume: expected ng-video-lecture, ' --assume nobody freecodecamp/model.pth no.gguf
denies 2 'the norms of this file have biases' --norm rms --assume freecodecamp freecodecamp/model.pth no.gguf
denies 3 'no engine part for RMSNorm with post norms' --norm rms --eps 1e-5 --assume freecodecamp rms-lecture/model.pth no.gguf
denies 2 '--positions none: the file has the frequencies of a rotation' --positions none --assume llama \
    rotated/model.pt no.gguf
denies 3 'inv_freq: rotates other widths than heads of 12' --heads 2 --assume llama rotated/model.pt no.gguf
for idle in '--positions none' '--rope 1e4' '--context 3'; do
    # shellcheck disable=SC2086
    denies 2 "${idle%% *}: the model has a table of positions" $idle --assume freecodecamp freecodecamp/model.pth no.gguf
done
denies 2 '--rope: expected a number from 1 to 1e+12' --rope 0.5 --assume llama rotated/model.pt no.gguf
denies 2 'expected a number, nanochat' --qk-scale head nanochat-2025/model_000010.pt no.gguf
run generate freecodecamp/model.pth
check "every command asks" eval '[ $code -eq 3 ] && grep -qF "mgpt convert freecodecamp/model.pth model.gguf --assume PROGRAM" "$tmp/err"'

for factor in 0.02 1000; do
    runs "a factor of q and k of $factor" convert ng-video-lecture-2022/model.pth x.gguf --assume ng-video-lecture --qk-scale $factor
done
for factor in 0.019 1001 x; do
    denies 2 '--qk-scale: expected head, embd or a number from 0.02 to 1000' --qk-scale $factor ng-video-lecture-2022/model.pth no.gguf
done

# --text: the reading with the lower loss is proposed, none is chosen. The text is the model's own.
run convert freecodecamp/model.pth own.gguf --assume freecodecamp
"$MGPT" generate -m own.gguf -n 7 --temp 0.1 --seed 3 -p a >own.txt 2>/dev/null
run convert freecodecamp/model.pth no.gguf --text own.txt
check "--text: exit 3, nothing is written" eval '[ $code -eq 3 ] && [ ! -e no.gguf ]'
check "--text: the losses, lowest first" awk 'NR > 1 && $1 ~ /^[0-9.]+$/ { if ($1 + 0 < last) exit 1; last = $1; n++ } END { exit n < 8 }' "$tmp/out"
check "--text: the order of norms that the text is drawn with" eval 'sed -n 2p "$tmp/out" | grep -q -- --post-norm'
check "--text: says that nothing is chosen" grep -q 'nothing is chosen or written' "$tmp/err"
mv own.txt drawn.txt
printf 'abcdefghijk\303\251' >chars.txt
printf abcabdab >own.txt
losses=
for heads in 1 2 3; do # 4 heads would have 3 values each
    run convert mlx/weights.npz own.gguf --assume ng-video-lecture --chars chars.txt --heads $heads
    loss=$("$MGPT" score own.gguf -f own.txt 2>/dev/null | awk '/^nll\/token/ { printf "%10.4f", $2 }')
    losses="$losses$loss  --heads $heads,"
done
run convert mlx/weights.npz no.gguf --assume ng-video-lecture --chars chars.txt --text own.txt
check "--text: all numbers of heads, and the losses of mgpt score" [ "$(sed 1d "$tmp/out" | sort -k 3 | tr '\n' ,)" = "$losses" ]
awk 'BEGIN { printf "abcabdaba"; while (i++ < 1100) printf "\303\251" }' >long.txt # 8 tokens fit; byte 2048 is inside of a character
run convert mlx/weights.npz no.gguf --assume ng-video-lecture --chars chars.txt --text long.txt
check "--text: of a long text, what fits into the context" [ "$(sed 1d "$tmp/out" | sort -k 3 | tr '\n' ,)" = "$losses" ]
printf a >one.txt
denies 3 '--text: fewer than two tokens' mlx/weights.npz no.gguf --assume ng-video-lecture --chars chars.txt --text one.txt
denies 3 '--text: 1344 readings, expected up to 1000: give --heads, or others' own-words/model.pt no.gguf --text own.txt
losses=
words='--activation silu --pre-norm --qk-scale head --norm rms --positions half --embedding-scale none --chars chars.txt'
for numbers in '--eps 1e-5 --rope 10000' '--eps 1e-6 --rope 10000' '--eps 1.1920929e-07 --rope 10000'; do
    # shellcheck disable=SC2086
    run convert rotated/model.pt own.gguf $words $numbers
    losses="$losses$("$MGPT" score own.gguf -f own.txt 2>/dev/null | awk '/^nll\/token/ { printf "%10.4f", $2 }')  $numbers,"
done
# shellcheck disable=SC2086
run convert rotated/model.pt no.gguf $words --text own.txt
check "--text: numbers that the file lacks" [ "$(sed 1d "$tmp/out" | sort -k 3,3r | tr '\n' ,)" = "$(printf %s "$losses" | tr , '\n' | sort -k 3,3r | tr '\n' ,)" ]
# What is more than is shown is said with the highest loss.
# shellcheck disable=SC2086
most=$(for words in '--pre-norm --qk-scale head' '--pre-norm --qk-scale embd' '--post-norm --qk-scale head' '--post-norm --qk-scale embd'; do
    run convert freecodecamp/model.pth no.gguf --text drawn.txt $words
    sed 1d "$tmp/out"
done | sort -n | awk '{ most = $1 } END { print most }')
run convert freecodecamp/model.pth no.gguf --text drawn.txt
check "--text: the highest loss of all, $most" grep -q "^ *([0-9]* more, up to $most)$" "$tmp/out"
denies 3 "general.type is '', expected 'adapter'" freecodecamp/model.pth no.gguf --text drawn.txt --lora "$names"
denies 2 'nothing is open' nanogpt/ckpt.pt no.gguf --assume nanogpt --text own.txt
denies 3 '--text: the tokens are not known' no-projection/model.pt no.gguf --text own.txt

# --chars: nanoGPT without meta.pkl.
mkdir chars && cp nanogpt/ckpt.pt chars
python3 -c "
import pickle
print(''.join(pickle.load(open('nanogpt/meta.pkl', 'rb'))['itos'].values()), end='')" >letters.txt
run convert chars/ckpt.pt chars.gguf --chars letters.txt --assume nanogpt
check "--chars: nanoGPT without meta.pkl" [ "$code" -eq 0 ]
runs "... characters in, characters out" generate -m chars.gguf -p 'abc' -n 4 --seed 1
run generate --chars letters.txt chars/ckpt.pt
check "an option of convert leads there" grep -qF -- '--chars is an option of mgpt convert' "$tmp/err"
run generate --heads 2 chars/ckpt.pt
check "... and --heads" grep -qF -- '--heads is an option of mgpt convert' "$tmp/err"

equal ng-bigram bigram.pt
equal ng-bigram-embedded bigram.pt

# ---- LitGPT ----

for model in litgpt-llama litgpt-llama-old litgpt-neox; do
    equal $model ''
done
mkdir yaml && cp litgpt-llama/lit_model.pth yaml
denies 3 'side file model_config.yaml: not next to the input' yaml no.gguf
# config KEY VALUE: the LLaMA one with another value.
config()
{
    sed "s/^$1:.*/$1: $2/" litgpt-llama/model_config.yaml >yaml/model_config.yaml
}
config sliding_window_size 4
denies 3 'model_config.yaml: sliding_window_size: this value is not supported' yaml no.gguf
config rope_adjustments ''
sed -i 's/^rope_adjustments: */rope_adjustments:/' yaml/model_config.yaml
denies 3 'rope_adjustments: true is not supported' yaml no.gguf
config mlp_class_name LLaMAMoE
denies 3 'mlp_class_name is LLaMAMoE: only RMSNorm with' yaml no.gguf
config n_head 5
denies 3 'n_query_groups 2 does not divide n_head 5' yaml no.gguf
config n_head four
denies 3 'n_head: expected a whole number' yaml no.gguf
config n_layer 2
runs "LitGPT: a copy" convert yaml x.gguf

# ---- llm.c ----

cp -r "$MGPT_SOURCE_ROOT/tests/fixtures/llmc" .
for version in 1-f32 2-mixed 3-f32 4-mixed 5-bf16; do
    cp "llmc/ref-${version#*-}.npz" llmc/ref.npz
    equal llmc "v${version%-*}.bin"
done
said "llm.c: its tokenizer" 'vocabulary: 261 tokens of the tokenizer (tiktoken, splitting rule gpt-2)'
said "llm.c: padding" 'the last 3 rows of the embedding are padding, left out'
run tokenize x.gguf -p 'thing'
check "llm.c: merges follow from ranks" [ "$(cat "$tmp/out")" = "256 259" ]
tells "llm.c: no vocabulary" 'no vocabulary: the model will run on token ids only' convert llmc/v1.bin ids.gguf --no-tokenizer
head -c 4000 llmc/v1.bin >cut.bin
denies 3 'llm.c: the file has 4000 bytes, its header implies 7312' cut.bin no.gguf

# ---- directories ----

# directory NAME FILES...: makes it, of empty files.
directory()
{
    mkdir -p "$1"
    for file; do
        [ "$file" = "$1" ] || : >"$1/$file"
    done
}

equal meta-llama ''
mkdir alone && cp mingpt-2020/model.pt alone
run convert --heads 3 alone x.gguf
runs "a directory of one model" check x.gguf mingpt-2020/ref.npz --tol 1e-5
directory meta params.json consolidated.00.pth consolidated.01.pth
denies 3 "meta: is Meta's model in several parts" meta no.gguf
directory orbax _CHECKPOINT_METADATA _METADATA
denies 3 'orbax: is an orbax checkpoint (JAX)' orbax no.gguf
directory tf checkpoint model.ckpt.index model.ckpt.data-00000-of-00001 hparams.json
denies 3 'tf: is a TensorFlow checkpoint, which transformers no longer reads' tf no.gguf
directory flax config.json flax_model.msgpack
denies 3 "flax: is a model with Flax's msgpack, which transformers no longer reads" flax no.gguf
directory shard flax_model.msgpack.index.json flax_model-00001-of-00002.msgpack
denies 3 "shard: is a model with Flax's msgpack" shard no.gguf
directory saved saved_model.pb
denies 3 "saved: is TensorFlow's SavedModel" saved no.gguf
directory dcp .metadata __0_0.distcp
denies 3 'dcp: is a distributed checkpoint of PyTorch' dcp no.gguf
directory lora adapter_config.json adapter_model.safetensors
denies 3 'lora: is an adapter (LoRA)' lora no.gguf
directory keras config.json tf_model.h5
denies 3 "keras: is a model with TensorFlow's weights only" keras no.gguf
directory two a.pt b.PTH
denies 3 'two: is a directory of several models (a.pt, b.PTH): name one' two no.gguf
directory many e.pt d.pt c.pt b.pt a.pt g.pt f.pt
denies 3 'many: is a directory of several models (a.pt, b.pt): name one' many no.gguf
for pair in 'a b' 'c d' 'e f' 'g h' 'i j' 'k l' 'm n' 'o p'; do # in whatever order the file system names them
    directory "pair${pair% *}" "${pair% *}.pt" "${pair#* }.pt"
    denies 3 "is a directory of several models (${pair% *}.pt, ${pair#* }.pt): name one" "pair${pair% *}" no.gguf
done
mkdir rows && cp microgpt/lists.pkl rows/model.pkl && : >rows/checkpoint && : >rows/.metadata
runs "a directory of one pickle, with files of trainers" convert rows x.gguf
directory none tokenizer.json
denies 5 'none: is a directory without config.json' none no.gguf

# ---- files of others ----

# foreign NAME FORMAT: a file of these bytes and some more is refused as what it is.
foreign()
{
    { printf "$2" && head -c 300 /dev/zero; } >foreign
    denies 3 "this is $1" foreign no.gguf
}

# unknown BYTES: no program writes them.
unknown()
{
    { printf "$1" && head -c 300 /dev/zero; } >foreign
    denies 3 'not a checkpoint that mgpt reads' foreign no.gguf
}

foreign 'HDF5, as Keras' '\211HDF\r\n\032\n'
foreign 'ONNX' '\010\007\022\007pytorch\032\003'
foreign "TensorFlow's SavedModel" '\010\001\022\377\001\012'
foreign 'TensorFlow Lite' '\034\000\000\000TFL3'
foreign 'ggjt, older than GGUF' 'tjgg'
foreign 'a web page' '<!DOCTYPE html>'
foreign 'a pointer of Git LFS' 'version https://git-lfs.github.com/spec/v1'
foreign 'gzip' '\037\213\010'
foreign "llm.c's tokenizer" '\310\327\064\001'
unknown '\010\021\022\007pytorch\032\003' # ONNX of version 17
foreign 'ONNX' '\010\007\022\007py ~rch\032\003'
foreign 'ONNX' '\010\007\022\037a program whose name is so long\032\003'
unknown '\010\007\022\040a program whose name is so long \032\003'
unknown '\010\007\022\007pyt\037rch\032\003' # no text
unknown '\010\007\022\007pyt\177rch\032\003'
unknown '\010\007\022\007pytorch\031\003'
unknown '\010\002\022\377\001\012'
unknown '\201\246par\001ms\201'
foreign "Flax's msgpack" '\201\246params\303'
{ printf 'PK\003\004' && head -c 100 /dev/zero && printf 'model.weights.h5'; } >foreign
denies 3 'this is Keras (.keras)' foreign no.gguf
head -c 300 /dev/zero >foreign
printf '\127\373\200\213\044\165\107\333' >>foreign
denies 3 'this is a TensorFlow checkpoint' foreign no.gguf

# ---- checkpoints of other programs ----

equal lightning model.ckpt --assume nanogpt
equal fsdp model.ckpt --assume nanogpt

mkdir -p run/out data/made_up && cp nanogpt/ckpt.pt run/out && cp nanogpt/meta.pkl data/made_up
mkdir -p run/data && mv data/made_up run/data
mkdir elsewhere # where a sandbox for the output does not reach the input
run convert run/out/ckpt.pt elsewhere/x.gguf --assume nanogpt
tells "meta.pkl of the data set that the checkpoint names" 'the vocabulary is ../data/made_up/meta.pkl'
run convert --no-tokenizer nanogpt/ckpt.pt x.gguf --assume nanogpt
tells "--no-tokenizer" 'no vocabulary: the model will run on token ids only'
run convert --activation gelu_tanh --eps 1e-6 nanogpt/ckpt.pt x.gguf
check "--activation and --eps" eval '[ $code -eq 0 ] && ! grep -q "activation =\|eps =" "$tmp/err"'
runs "--tokenizer meta.pkl" convert --tokenizer nanogpt/meta.pkl mingpt/model.pt x.gguf
runs "its characters" generate -m x.gguf -p 'abc' -n 2 --seed 1

cp nanogpt/meta.pkl .
for named in 'a\001b:a_b' 'a\177b:a_b'; do
    file=$(printf "${named%:*}").pt
    cp nanogpt/ckpt.pt "$file"
    runs "a file called ${named%:*}.pt" convert "$file" x.gguf --assume nanogpt
    run info x.gguf
    says "... its model's name" "\"${named#*:}\""
done
cp nanogpt/ckpt.pt .pt
run convert .pt x.gguf --assume nanogpt
run info x.gguf
says "a name that begins with a dot has no ending" '".pt"'

# ---- what is refused ----

denies 3 'tensor v0_lambdas: nanochat value embeddings of 16 January 2026, without gates, are not supported' \
    nanochat-value-embeds/model_000001.pt no.gguf
denies 3 'the number of heads is not in the file (n_embd is 8): set it with --heads' scratch/model.pth no.gguf \
    --assume llms-from-scratch
mkdir bare && cp mingpt/model.pt bare && cp nanochat-2025/model_000010.pt bare
denies 2 '--ask needs a terminal' bare/model.pt no.gguf --ask
denies 2 '--ask and --text exclude each other' bare/model.pt no.gguf --ask --text own.txt
run convert bare/model.pt no.gguf
check "all open questions in one error" eval '[ $code -eq 3 ] && [ "$(grep -c . "$tmp/err")" -eq 5 ]'
check "... which names the options" grep -q 'not in the file: set --heads, --activation (--ask asks)' "$tmp/err"
check "... the answers, and who uses them" grep -qF -- '--activation relu (ng-video-lecture, ' "$tmp/err"
denies 3 'depend on it: set --heads N --rope BASE --softcap X' bare/model_000010.pt no.gguf
denies 3 'the number of heads is not in the file (n_embd is 12): set it with --heads' \
    mingpt-2020/model.pt no.gguf
denies 2 '2 heads are wanted, the file has 3' --heads 2 ng-video-lecture/model.pth no.gguf
denies 3 'n_head is 3, it must divide n_embd = 8' --heads 3 scratch/model.pth no.gguf
denies 2 '--rope does not apply to nanoGPT' --rope 5000 nanogpt/ckpt.pt no.gguf
denies 2 'activation gelu: expected one of relu' --activation gelu nanogpt/ckpt.pt no.gguf
denies 3 'not a name of a model that mgpt knows' views/views.pt no.gguf
cp nanogpt/meta.pkl scratch/meta.pkl
denies 3 'vocabulary of 12 entries, the model has 17 tokens' --heads 2 --assume llms-from-scratch scratch/model.pth no.gguf
printf '\200\002cos\nsystem\nX\007\000\000\000touch x\205R.' >evil.pkl
denies 3 'pickle: global os.system is not allowed (byte 2)' evil.pkl no.gguf
printf '\200\004\214\010builtins\214\004eval\223\214\0011\205R.' >evil.pkl
denies 3 'pickle: global builtins.eval is not allowed' evil.pkl no.gguf
check "nothing was run" [ ! -e x ]
head -c 9000 nanogpt/ckpt.pt >cut.pt
denies 3 'there is no end record' cut.pt no.gguf
head -c 3000 nanogpt-legacy/ckpt.pt >cut.pt
denies 3 'ends at byte 3000' cut.pt no.gguf
head -c 100 microgpt/values.pkl >cut.pkl
denies 3 'ends at byte 100' cut.pkl no.gguf

# ---- help ----

# An option is listed with a format exactly where the format takes it.
run convert --help
check "help: --softcap is nanochat's" grep -q '^  --softcap  *nanochat$' "$tmp/out"
check "help: --heads is nanoGPT's, too" grep -q '^  --heads  *nanoGPT, minGPT, ' "$tmp/out"
check "help: --raw" grep -q '^  --raw  *numbers without a header$' "$tmp/out"

finish
