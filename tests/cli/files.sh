#!/bin/sh
# No command writes over a file that it reads, under any of its names, and an existing file is replaced only by one
# of its own kind.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
cd "$tmp" || exit 1

# keeps NAME CODE TEXT FILE COMMAND...: exit code and text on stderr, and FILE is as it was.
keeps()
{
    keeps_name=$1 want_code=$2 want_text=$3 victim=$4
    shift 4
    cp "$victim" victim.copy
    run "$@" <script.in
    check "$keeps_name" eval '[ $code -eq $want_code ] && cmp -s "$victim" victim.copy && one_line &&
        grep -qF -- "$want_text" err && [ -z "$(find . -name ".*.tmp")" ]'
}

cp "$names" own.gguf
ln own.gguf hard.gguf
ln -s own.gguf soft.gguf
for end in npz safetensors html; do
    ln own.gguf "hard.$end"
    ln -s own.gguf "soft.$end"
done
cp -r "$MGPT_SOURCE_ROOT/tests/golden/gpt2" hfdir
for file in v0.bin tokenizer.bin flat.json; do
    cp "$MGPT_SOURCE_ROOT/tests/fixtures/convert/$file" .
done
cp tokenizer.bin given.bin
printf 'ab\303\251\342\202\254\n' >chars.txt
echo anna >text.npz
python3 -c 'import zipfile; zipfile.ZipFile("model.npz", "w").writestr("wte.npy", b"\x93NUMPY\1\0")' || exit 1
printf '<!DOCTYPE html>\n<html lang="en">\n<head>\n' >page.html
echo 'a shopping list' >list.txt
: >script.in

# ---- inputs ----

input='is an input of this command'
for name in hard soft; do
    keeps "convert to $name" 2 'are the same file' own.gguf convert own.gguf $name.gguf
    for end in npz safetensors; do
        keeps "trace -o $name.$end" 2 "$input" own.gguf trace own.gguf -p a -o $name.$end
    done
    keeps "lab -o $name.html" 2 'is the model' own.gguf lab own.gguf -p a -o $name.html
    keeps "--history $name.gguf" 2 "$input" own.gguf repl own.gguf --history $name.gguf
    for line in "/save $name.gguf" "/a 0 0 -o $name.gguf" "/trace on * $name.npz"; do
        printf 'ann\n%s\n' "$line" >script.in
        keeps "repl: $line" 2 "$input" own.gguf repl own.gguf
    done
    : >script.in
done
keeps "trace -o the text" 2 "$input (text.npz)" text.npz trace own.gguf -f text.npz -o text.npz
cp own.gguf script.in
keeps "convert - to what stdin is" 2 "$input" script.in convert - script.in
: >script.in
for side in config.json model.safetensors; do
    keeps "convert hfdir to its $side" 2 "$input" hfdir/$side convert hfdir hfdir/$side
done
ln hfdir/model.safetensors elsewhere.gguf
keeps "convert hfdir to a hard link of its weights" 2 "$input" hfdir/model.safetensors convert hfdir elsewhere.gguf
keeps "convert v0.bin to its tokenizer" 2 "$input" tokenizer.bin convert v0.bin tokenizer.bin
keeps "convert to the given tokenizer" 2 "$input" given.bin convert v0.bin given.bin --tokenizer given.bin
keeps "convert to the characters" 2 "$input" chars.txt convert flat.json chars.txt --heads 4 --chars chars.txt

# ---- kinds ----

printf '# a script\necho yes\n' >list.sh
printf '# Title\n\n12 monkeys\n' >list.md
for file in list.txt list.sh list.md hfdir/config.json; do
    cp "$file" some.npz
    cp "$file" some.safetensors
    keeps "convert to $file" 3 'not a GGUF file' "$file" convert own.gguf "$file"
    keeps "imatrix to $file" 3 'not a GGUF file' "$file" imatrix own.gguf --ids 1 -o "$file"
    keeps "trace to $file as .npz" 3 'not a trace in .npz' some.npz trace own.gguf -p a -o some.npz
    keeps "trace to $file as .safetensors" 3 'not a trace in' some.safetensors trace own.gguf -p a -o some.safetensors
    keeps "lab to $file" 3 'not a page of mgpt lab' "$file" lab own.gguf -p a -o "$file"
    keeps "--history $file" 3 'not a history file' "$file" repl own.gguf --history "$file"
    printf 'ann\n/save %s\n' "$file" >script.in
    keeps "/save $file" 3 'not a session file' "$file" repl own.gguf
    printf 'ann\n/a 0 0 -o %s\n' "$file" >script.in
    keeps "-o $file in the repl" 3 'not a table' "$file" repl own.gguf
    : >script.in
done
keeps "trace to a checkpoint" 3 'not a trace in' hfdir/model.safetensors trace own.gguf -p a -o hfdir/model.safetensors
keeps "trace to another archive" 3 'not a trace in' model.npz trace own.gguf -p a -o model.npz
# A reference of the user's own: its first member is "tokens", as in a trace.
python3 - <<'END' || exit 1
import json, struct, zipfile
npy = b"\x93NUMPY\1\0" + struct.pack("<H", 118) + b"{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }".ljust(117) + b"\n"
with zipfile.ZipFile("mine.npz", "w") as z:
    z.writestr("tokens.npy", npy + struct.pack("<2q", 26, 0))
    z.comment = b"made for a paper"
head = json.dumps({"__metadata__": {"format": "pt"}, "tokens": {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]}},
                  separators=(",", ":")).encode()
open("mine.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + struct.pack("<2q", 26, 0))
END
printf '# measured on Monday\n# in the lab\n12\t13\n' >notes.txt
for end in npz safetensors; do
    keeps "trace to a reference in .$end" 3 "not a trace in .$end that mgpt wrote" mine.$end trace own.gguf -p a -o mine.$end
done
keeps "patch --npz to a reference" 3 'not a trace in .npz' mine.npz patch own.gguf --clean a --metric kl --mode zero --npz mine.npz
printf 'ann\n/a 0 0 -o notes.txt\n' >script.in
keeps "-o to notes" 3 'not a table' notes.txt repl own.gguf
: >script.in
keeps "generate --session to the model" 3 'not a session' own.gguf generate own.gguf -p a --session own.gguf
keeps "generate --session to a text" 3 'not a session' list.txt generate own.gguf -p a --session list.txt
keeps "lab to another page" 3 'not a page' page.html lab own.gguf -p a -o page.html

# Twice the same is the common case, and so is a name that mktemp made.
again()
{
    for _ in 1 2; do
        run "$@" <script.in
        [ $code -eq 0 ] || return 1
    done
}
for end in gguf npz safetensors html; do
    : >"again.$end"
done
check "convert twice" again convert own.gguf again.gguf
check "trace twice to .npz" again trace own.gguf -p a -o again.npz
check "trace twice to .safetensors" again trace own.gguf -p a -o again.safetensors
check "patch twice to .npz" again patch own.gguf --clean a --metric kl --mode zero --npz again.npz
check "lab twice" again lab own.gguf -p a -o again.html
printf 'ann\n/save again.session\n/load again.session\n/save again.session\n/a 0 0 -o again.txt\n/kv 0 0 -o again2.txt\n/lens -o again3.txt\n/w output.weight -o again4.txt\n' >script.in
check "the repl's files twice" eval 'again repl own.gguf && [ ! -s err ]'
check "all of them are there" eval '[ -s again.session ] && [ -s again.txt ] && [ -s again2.txt ] && [ -s again3.txt ] && [ -s again4.txt ]'

# ---- the sandbox (test_sandbox.c: what is possible inside) ----

if ! nm "$MGPT" 2>/dev/null | grep -q __gcov; then
    check "readers of strangers' files are in the sandbox" \
        eval 'python3 "$MGPT_SOURCE_ROOT/tests/cli/in_sandbox.py" "$MGPT" "$MGPT_SOURCE_ROOT" "$tmp" >out 2>err'
fi
# Links lead out of a checkpoint's folder where model hubs keep their files; a side file is named anywhere.
mkdir hub blobs
for file in hfdir/*; do
    cp "$file" blobs/
    ln -s "../blobs/${file##*/}" "hub/${file##*/}"
done
check "a checkpoint of links" again convert hub hub.gguf
mkdir elsewhere
cp given.bin elsewhere/
check "a tokenizer from elsewhere" again convert v0.bin given.gguf --tokenizer elsewhere/given.bin
ln -s elsewhere/linked.gguf linked.gguf
check "an output that is a link" eval 'again convert own.gguf linked.gguf && again trace own.gguf -p a -o elsewhere/t.npz'
check "a device as output" again convert own.gguf /dev/null

# ---- files without an end ----

# Read is what can fit the context, and little memory is taken.
endless()
{
    endless_name=$1 want_code=$2 want_text=$3
    shift 3
    code=0
    (ulimit -v 400000 && exec "$MGPT" "$@") </dev/zero >out 2>err || code=$?
    check "endless: $endless_name" eval '[ $code -eq $want_code ] && one_line && grep -qF -- "$want_text" err'
}
if ! nm "$MGPT" 2>/dev/null | grep -q __asan; then
    endless generate 4 'more than 85 bytes' generate own.gguf -f /dev/zero
    endless "generate -c" 4 'more than 25 bytes' generate own.gguf -f - -c 4
    endless trace 4 'more than 85 bytes' trace own.gguf -f - -o zero.npz
    endless lab 4 'more than 85 bytes' lab own.gguf -f /dev/zero -o zero.html
    endless score 4 'a line of more than 67108864' score own.gguf -f /dev/zero
    endless attend 4 'more than 33554432 bytes' attend -x /dev/zero
    endless "check --self" 2 'U+0000' check --self own.gguf -f /dev/zero
    endless "check of two" 2 'U+0000' check own.gguf own.gguf -f /dev/zero
fi
# At the limit a text still goes through, in bytes and in characters of several.
printf 'anna%.0s' 1 2 3 4 >full.txt
check "a text that is too long by a token" eval 'run generate own.gguf -f full.txt; [ $code -eq 4 ] && grep -q "17 tokens" err'
head -c 15 full.txt >fits.txt
check "a text that fits" eval 'run generate own.gguf -f fits.txt; [ $code -eq 0 ]'
for i in $(seq 400); do echo 'the king and the queen and the king and the queen, 1234567890'; done | tr -d '0-9' >long.txt
check "of a long text check takes the beginning" eval 'run check "$lines" "$lines" -f long.txt; [ $code -eq 0 ]'

finish
