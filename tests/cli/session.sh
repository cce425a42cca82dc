#!/bin/sh
# mgpt generate --session: the same bytes, a text that goes on, and files that do not fit.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
cd "$tmp" || exit 1
exec </dev/null
prompt='ROMEO:
But soft, what light'

# ---- the same bytes, with what the file has ----

# same NAME FILE ARGS...: with --session FILE what there is without; FILE is there afterwards.
noted='proposed tokens\|the context is full'
same()
{
    same_name=$1 state=$2
    shift 2
    want generate "$@"
    run generate "$@" --session "$state"
    check "$same_name" eval '[ $code -eq 0 ] && cmp -s out want && ! grep -qv "$noted" err && [ -s "$state" ]'
}

same "no file" s "$lines" -p "$prompt" -n 50
same "the same again" s "$lines" -p "$prompt" -n 50
same "another seed" s "$lines" -p "$prompt" -n 50 -s 7
same "a longer prompt" s "$lines" -p "$prompt from" -n 30 --temp 0
same "a shorter one" s "$lines" -p "ROMEO:" -n 30
same "another text" s "$lines" -p "KING" -n 30
same "one that ends in the middle of the last" s "$lines" -p "KING HENRY" -n 0
same "other threads and kernels" s "$lines" -p "KING HENRY" -n 30 -t 2 --isa scalar
same "--lookup" s "$lines" -p "$prompt $prompt" -n 60 --temp 0 --lookup
same "... and once more" s "$lines" -p "$prompt $prompt" -n 60 --temp 0 --lookup
same "--json" s "$lines" -p "$prompt" -n 5 --json
same "samples that share the prompt" many "$lines" -p "$prompt" -n 20 --samples 5
same "... from the file" many "$lines" -p "$prompt" -n 20 --samples 9 -s 1
same "... one after the other" many "$lines" -p "$prompt" -n 20 --samples 3 --rng python
same "half precision" half "$lines" -p "$prompt" -n 20 --kv f16
same "... from the file" half "$lines" -p "$prompt and" -n 20 --kv f16
same "a model of 16 positions" full "$names" -p ann
same "... to the end of its context" short "$names" -p ann --temp 0 -c 6
same "... and again" short "$names" -p ann --temp 0 -c 6
: >empty
same "a file that mktemp made" empty "$names" -p ann

# ---- a text that goes on ----

printf '%s' "$prompt" >prompt
want generate "$lines" -f prompt -n 60 --temp 0
for option in "" --lookup "--draft $lines"; do
    rm -f on
    # shellcheck disable=SC2086
    run generate "$lines" -f prompt -n 20 --temp 0 $option --session on
    # shellcheck disable=SC2086
    run generate "$lines" -n 20 --temp 0 $option --session on
    # shellcheck disable=SC2086
    equals "three runs are one $option" generate "$lines" -n 20 --temp 0 $option --session on
done
# Drawn at random: the numbers go on, too; -s and a prompt begin anew.
for options in "-s 5" "-s 5 --rng python" "--lookup --temp 0.3"; do
    rm -f drawn
    # shellcheck disable=SC2086
    want generate "$lines" -f prompt -n 60 $options
    # shellcheck disable=SC2086
    run generate "$lines" -f prompt -n 20 $options --session drawn
    # shellcheck disable=SC2086
    run generate "$lines" -n 20 ${options#-s 5} --session drawn
    cp drawn drawn2
    # shellcheck disable=SC2086
    equals "three runs are one, drawn with $options" generate "$lines" -n 20 ${options#-s 5} --session drawn
done
cp drawn2 drawn
"$MGPT" generate "$lines" -n 20 -s 5 --session drawn >restart
cp drawn2 drawn
"$MGPT" generate "$lines" -n 20 -s 5 --session drawn >restart2
cp drawn2 drawn
"$MGPT" generate "$lines" -n 20 --session drawn >goes_on
check "-s begins anew" eval 'cmp -s restart restart2 && ! cmp -s restart goes_on'
rm -f stopped
want generate "$lines" -f prompt -n 26 --temp 0
run generate "$lines" -f prompt -n 40 --temp 0 --stop th --session stopped
equals "a stop text ends a run, the next goes on after it" generate "$lines" -n 20 --temp 0 --session stopped
rm -f one
want generate "$lines" -f prompt -n 3 --temp 0
for run in first second; do
    run generate "$lines" $([ $run = second ] || echo -f prompt) -n 1 --temp 0 --session one
done
equals "a token a run" generate "$lines" -n 1 --temp 0 --session one
want generate "$lines" -p "ROMEO:" -n 20 --temp 0
run generate "$lines" -p "ROMEO:" -n 0 --session one
equals "a prompt that is a part of the text in the file takes its place" generate "$lines" -n 20 --temp 0 --session one
run generate "$lines" -n 20 --temp 0 --session on
want generate "$lines" -p "$prompt" -n 83 --temp 0 --no-prompt
tail -c 4 want >last
run generate "$lines" -n 3 --temp 0 --session on --no-prompt
check "--no-prompt: what is new" cmp -s out last
run generate "$names" --temp 0 --session ends
want generate "$names" --temp 0
run generate "$names" --temp 0 --session ends
check "a text that has ended stays as it is" cmp -s out want
check "... and says so" grep -q 'ends: the text has ended, nothing is drawn: --ignore-end goes on' err
rm -f ends
run generate "$names" --temp 1 -s 5 -p an --session ends
cp out want
cp ends ends.copy
for options in "" "-s 9" "--samples 1 -n 3"; do
    # shellcheck disable=SC2086
    run generate "$names" --temp 1 $options --session ends
    check "... with other numbers, too: $options" eval 'cmp -s out want && cmp -s ends ends.copy'
done
run generate "$names" --temp 1 --samples 3 --session ends
check "... in samples" eval '[ "$(sort -u out)" = "$(cat want)" ] && cmp -s ends ends.copy'
run generate "$names" --temp 1 --ignore-end -n 3 --session ends
check "--ignore-end goes on" eval '[ "$(wc -c <out)" -gt "$(wc -c <want)" ] && [ ! -s err ]'

# ---- when the file is written ----

run generate "$lines" -p "$prompt" -n 5 --session w
before=$(ls -i w)
run generate "$lines" -p "$prompt" -n 5 --session w
check "the same text is not written again" [ "$before" = "$(ls -i w)" ]
chmod a-w w
cp w w.copy
same "a file without write permission" w "$lines" -p "$prompt who goes there" -n 20
check "... is only read" cmp -s w w.copy
check "nothing else is left" eval '[ -z "$(find . -name ".*")" ] || [ "$(find . -name ".*")" = . ]'

# ---- what is refused; nothing is lost ----

# keeps NAME CODE TEXT ARGS...: generate ARGS --session bad is refused, and bad is as it was.
keeps()
{
    keeps_name=$1 keeps_code=$2 keeps_text=$3
    shift 3
    cp bad bad.copy
    refuses "$keeps_name" "$keeps_code" "$keeps_text" generate "$@" --session bad
    check "... and nothing is lost" cmp -s bad bad.copy
}

# put AT BYTES: into bad, a copy of w.
put()
{
    rm -f bad
    cp w bad && chmod u+w bad
    # shellcheck disable=SC2059
    printf "$2" | dd of=bad bs=1 seek="$1" conv=notrunc 2>/dev/null
}

put 8 '\004'
keeps "newer" 3 "bad: is a session of format 4, this program reads formats 1 to 3 (byte 8)" "$lines" -p a
put 33 '\001'
keeps "a damaged head" 3 "is a damaged session" "$lines" -p a
put 5000 '\001\002\003\004'
keeps "damaged keys" 3 "is a damaged session: the hash of its" "$lines" -p a
put 0 m
head -c 5000 w >bad
keeps "cut" 3 "but the file has 5000" "$lines" -p a
cp w.copy bad
keeps "another model" 3 "is a session of a model of" "$names" -p a
sed 's/anna/annb/' "$names" >other.gguf # of the same size
printf '\001' | dd of=other.gguf bs=1 seek=$(($(wc -c <other.gguf) - 9)) conv=notrunc 2>/dev/null
cp full bad
keeps "another model of the same size" 3 "of another model: the hash of its file differs" other.gguf -p a
cp w.copy bad
keeps "other keys and values" 3 "keys and values F32, here they are F16" "$lines" --kv f16 -p a
keeps "a context that is too short" 4 "tokens, the context holds 10" "$lines" -c 10 -p a
printf 'ann\n/save bad\n' >script
rm -f bad
"$MGPT" repl "$names" <script >out 2>err
keeps "a session of the repl" 3 "does not begin with 'mgptsess'" "$names" -p a
echo 'a shopping list' >bad
keeps "a list" 3 "is not a session" "$lines" -p a
refuses "a folder that is not there" 5 "cannot create" generate "$lines" -p a --session none/s
refuses "a folder" 5 "is a directory" generate "$lines" -p a --session .
refuses "--slide" 2 "--slide and --session" generate "$lines" -p a --slide --session s
refuses "a model that is a session" 3 "this is a session of mgpt generate" info s
refuses "an output that is one" 3 "exists and is not a GGUF file" convert "$names" s

finish
