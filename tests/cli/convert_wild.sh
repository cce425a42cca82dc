#!/bin/sh
# mgpt convert on microgpt as people keep it: every file of tests/fixtures/wild gives the file that the
# JSON of the same weights gives; forks compute what float64 computes; what is wrong is refused.
# That the tensors are right to the bit is tested in tests/tools/convert/test_convert_wild.c.
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

mkdir "$tmp/work" "$tmp/work/in" && cd "$tmp/work" || exit 1
wild=$MGPT_SOURCE_ROOT/tests/fixtures/wild
cp "$wild"/* . || exit 1
printf 'ab\303\251\342\202\254\n' >chars.txt
cp "$MGPT_SOURCE_ROOT/tests/fixtures/convert/flat.json" in/x || exit 1
sizes='--embd 4 --layers 2 --context 3 --heads 4'
fork='--activation silu --eps 1e-5 --positions half --rope 10000'


# gives WANT FILE ARGS...: converting a copy of FILE called x (general.name) gives the file WANT.
gives()
{
    check "convert $*" gave "$@"
}

gave()
{
    gave_want=$1
    cp "$2" in/x
    shift 2
    run convert in/x x.gguf "$@" && [ "$code" -eq 0 ] && cmp -s x.gguf "$gave_want"
}

# ---- the same weights, the same file ----

check "convert flat.json --heads 4" eval 'run convert in/x four.gguf --heads 4 && [ $code -eq 0 ]'
check "convert flat.json --heads 2" eval 'run convert in/x two.gguf --heads 2 && [ $code -eq 0 ]'
gives four.gguf values.pkl --heads 4 --chars chars.txt
gives two.gguf wrapped.pkl
gives four.gguf rows.pkl --heads 4
gives four.gguf itos.pkl --heads 4
gives two.gguf params.pkl
gives four.gguf matrices.pkl --heads 4 --chars chars.txt
gives two.gguf arrays.pkl --chars chars.txt
gives two.gguf arrays2.pkl --chars chars.txt
gives four.gguf object.npy --heads 4 --chars chars.txt
gives four.gguf stored.npz --heads 4 --chars chars.txt
gives two.gguf deflated.npz
gives two.gguf wrapped.npz
gives four.gguf positional.npz --heads 4 --chars chars.txt
gives two.gguf params.npz --chars chars.txt
gives two.gguf base64.json
gives two.gguf nout.json
for file in flat32.npy 'flat64.npy --head-last' 'raw.f32 --raw f32' 'raw.f64 --raw f64 --head-last' \
    microgpt-c.model microgpt-c.float microgpt-c.ckpt; do
    # shellcheck disable=SC2086
    gives four.gguf $file $sizes --chars chars.txt
done

# ---- what is said ----

tells_of()
{
    text=$1
    shift
    run convert --dry-run "$@"
    check "convert --dry-run: $*" eval '[ $code -eq 0 ] && cat "$tmp/out" "$tmp/err" | grep -qF -- "$text"'
}

tells_of 'inferred: the matrices are wte, wpe, lm_head, then' matrices.pkl --heads 4
tells_of 'inferred: the numbers are float32' microgpt-c.float --embd 4 --layers 2 --context 3 --heads 4
tells_of 'inferred: block_size = 3 (from the 436 numbers)' microgpt-c.model --embd 4 --layers 2 --heads 4
tells_of 'ignored: losses (a list)' wrapped.pkl
tells_of 'ignored: steps (element type <i8)' deflated.npz
tells_of 'format         microgpt-bin version 1' microgpt.bin
tells_of 'format         microgpt-c checkpoint' microgpt-c.ckpt --embd 4 --layers 2 --heads 4
tells_of 'format         microgpt .npz' stored.npz --heads 4
# shellcheck disable=SC2086
tells_of 'architecture   llama' rotated.json $fork
tells_of 'architecture   microgpt' rotated.json --positions none --activation silu --eps 1e-5
# shellcheck disable=SC2086
tells_of 'rope base 500000 on 4 of each head' rotated.json $fork --rope 500000
tells_of 'no norm after the embedding, norm before the head' gains.json --activation relu --eps 1e-5
tells_of 'norm after the embedding, norm before the head' gains.json --embedding-norm \
    --activation relu --eps 1e-5

# ---- forks compute what their programs do ----

computes gains.ref.json gains.json --activation relu --eps 1e-5
# shellcheck disable=SC2086
computes rotated.ref.json rotated.json $fork
# shellcheck disable=SC2086
computes rotated.ref.json rotated.npz $fork
run convert rotated.json adjacent.gguf --positions adjacent --activation silu --eps 1e-5 --rope 1e4
check "other pairs compute something else" eval 'run check adjacent.gguf rotated.ref.json && [ $code -eq 1 ]'

# ---- shapes whose facts are in objects next to the tensors: no options ----

shapes=$MGPT_SOURCE_ROOT/tests/fixtures/shapes
for shape in "$shapes"/*.ref.json; do
    name=${shape%.ref.json}
    for file in "$name.json" "$name.safetensors"; do
        set -- "$shape" "$file"
        [ "${name##*/}" != nanogpt ] || set -- "$@" --assume nanogpt
        [ ! -e "$file" ] || computes "$@"
    done
done

# __metadata__ holds texts: one that begins as JSON need not be any.
python3 - "$shapes/nanogpt.safetensors" noted.safetensors <<'EOF' || exit 1
import json, struct, sys
data = open(sys.argv[1], "rb").read()
n, = struct.unpack_from("<Q", data)
header = json.loads(data[8:8 + n])
header.setdefault("__metadata__", {}).update(note="{not JSON", list="[1, 2]")
text = json.dumps(header).encode()
open(sys.argv[2], "wb").write(struct.pack("<Q", len(text)) + text + data[8 + n:])
EOF
computes "$shapes/nanogpt.ref.json" noted.safetensors --assume nanogpt
mkdir beside && cp noted.safetensors beside && echo '{"n_head": 2' >beside/config.json
denies 3 'side file config.json: not a JSON object' beside/noted.safetensors no.gguf

# ---- what is refused ----

eye='[[1,0],[0,1]]'
echo "{\"wte\":$eye,\"n_head\":1,\"layers\":[{\"wq\":$eye,\"wk\":$eye,\"wv\":$eye,\"wo\":$eye,\"fc1\":$eye,\"fc2\":$eye}]}" >nowhere.json

denies 3 'numbers do not fit n_embd 16, n_layer 1' flat32.npy no.gguf
denies 3 '(they are not in the file)' microgpt-c.model no.gguf
denies 2 "--raw: expected f32, f64 or f16, found 'q4'" --raw q4 raw.f32 no.gguf
denies 2 '--tokenizer does not apply to numbers without a header' --raw f32 raw.f32 no.gguf --tokenizer chars.txt
denies 3 'tensor wpe: missing (say --positions' nowhere.json no.gguf
denies 2 '--positions does not apply to GGUF' four.gguf no.gguf --positions half
denies 2 '--positions: expected half, adjacent or none' rotated.json no.gguf --positions spiral
denies 3 'tensor layer0.mlp_gate: missing' nowhere.json no.gguf --positions half --rope 1e4
tells_of 'architecture   microgpt' nowhere.json --positions none --activation relu --eps 1e-5
head -c 3000 stored.npz >cut.npz
denies 3 'zip: there is no end record' cut.npz no.gguf
head -c 700 flat32.npy >cut.npy
denies 3 'the header says 1744 bytes of data, 572 are there' cut.npy no.gguf
head -c 9000 values.pkl >cut.pkl
denies 3 'pickle' cut.pkl no.gguf
printf '\200\004cos\nsystem\n\214\007echo hi\205R.' >evil.pkl
denies 3 'os.system' evil.pkl no.gguf
printf '\200\004N.' >none.pkl
denies 3 'a pickle of None: not a microgpt' none.pkl no.gguf
# the last bytes of the first entry's data: only its checksum can tell
cp stored.npz broken.npz
printf '\377' | dd of=broken.npz bs=1 seek=200 conv=notrunc 2>/dev/null
denies 3 'zip: wte.npy: its checksum is' broken.npz no.gguf --heads 4

finish
