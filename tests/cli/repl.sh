#!/bin/sh
# mgpt repl through a pipe: one line, one action.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

# script LINES [MODEL] [COMMAND...]: lines (a format of printf) through the repl; then the command.
script()
{
    script_lines=$1 script_model=$names
    shift
    case ${1-} in *.gguf) script_model=$1 && shift ;; esac
    feed "$script_lines" repl "$script_model"
    [ $# -eq 0 ] || "$@"
}

# gives NAME EXPECTED: the last script printed exactly this, nothing on stderr, exit 0.
gives()
{
    printf '%s\n' "$2" >"$tmp/want"
    check "$1" eval '[ $code -eq 0 ] && cmp -s "$tmp/out" "$tmp/want" && [ ! -s "$tmp/err" ]'
}

# gives_out NAME EXPECTED: the same with something on stderr, and the exit code of a bad line.
gives_out()
{
    printf '%s\n' "$2" >"$tmp/want"
    check "$1" eval '[ $code -eq 2 ] && cmp -s "$tmp/out" "$tmp/want" && [ -s "$tmp/err" ]'
}

# tells NAME TEXT: the last script said this on stderr, and its exit code is not 0.
tells()
{
    tells_text=$2
    check "$1" eval '[ $code -ne 0 ] && grep -qF -- "$tells_text" "$tmp/err"'
}

# ---- feeding and stepping ----

script 'ann\n' gives "text is fed, BOS first" 'fed 4: <BOS> "a" "n" "n" (4 of 16)'
script 'a\nnn\n' gives "the next text goes on" 'fed 2: <BOS> "a" (2 of 16)
fed 2: "n" "n" (4 of 16)'
script '/ids 26, 0 13\n' gives "ids are fed as they are" 'fed 3: <BOS> "a" "n" (3 of 16)'
script '/g\n' gives "/g begins with BOS and ends at the end" 'alexin
drew 6, end of the text (7 of 16)'
script 'a\n/g 3\n' gives "/g N stops after N" 'fed 2: <BOS> "a" (2 of 16)
lex
drew 3 (5 of 16)'
script '/until x\n' gives "/until a text keeps the token that completes it" 'alex
drew 4 (5 of 16)'
script 'x\n/until ex\n' gives "... which must be drawn" 'fed 2: <BOS> "x" (2 of 16)
aniel
drew 5, end of the text (7 of 16)'
script '/until "\\u{6C}e"\n' gives "... in quotes, with escapes" 'ale
drew 3 (4 of 16)'
script '/until token x\n' gives "/until a token" 'alex
drew 4 (5 of 16)'
script '/until p < 0.2\n/top 1\n'
check "/until p: the likeliest token's at the stop, not before" eval \
    '[ "$(sed -n 2p "$tmp/out")" = "drew 1, p 0.1448 (2 of 16)" ] && grep -q "0.1448" "$tmp/out"'
script '/until p > 0.9\n' says "/until p above" "drew"
script '/until entropy>2.6\n/top 1\n' says "/until entropy" "drew 1, entropy 2.7442"
check "... is that of /top" eval '[ "$(sed -n "s/.*entropy \([0-9.]*\).*/\1/p" "$tmp/out" | uniq | wc -l)" -eq 1 ]'
script '/until entropy > 9\n' says "... that never comes" "end of the text"
script '/set temp 0\n/until entropy < x\n' tells "/until a bound that is no number" "entropy <: expected a number"
script '/until\n' tells "/until nothing" "until what?"
script 'a\n\n\n/s 2\n'
sed '1d; s/p 0\.[0-9]*/p/' "$tmp/out" >"$tmp/short"
printf '%4d: %6d  p  rank 1    "%s"\n' 2 11 l 3 4 e 4 23 x 5 8 i >"$tmp/want"
check "Enter and /s draw tokens" cmp -s "$tmp/short" "$tmp/want"
script 'alexin\n\n' says "an end token is shown" "<BOS>  the end, not kept"
script '/set regex [a-c]{3}\nxyz\n/s 2\n'
tail -n 2 "$tmp/out" >"$tmp/direct"
for back in '/reset' '/b 4' "/save $tmp/s\\n/load $tmp/s\\n/b 4"; do
    script "/set regex [a-c]{3}\\n/s 4\\n$back\\nxyz\\n/s 2\\n"
    tail -n 2 "$tmp/out" >"$tmp/back"
    check "a pattern is of the text that is drawn, after ${back%% *} too" cmp -s "$tmp/direct" "$tmp/back"
done
script '/s 3\n/reset\n/tokens\n' says "/reset forgets all" "0 of 16"
script 'anna\n/branch c\n/b 2\n/sw main\n/b 1\n/sw c\n/reset\n/branches\n' says "... and what was ahead, of this timeline alone" 'main         4 of 16, 1 ahead: <BOS> "a" "n" "n"'
says "... that of no other" '* c            0 of 16:'

# ---- back ----

script 'anna\n/top 3\n'
tail -n 5 "$tmp/out" >"$tmp/direct"
script 'annaxyz\n/b 3\n/top 3\n'
tail -n 5 "$tmp/out" >"$tmp/back"
check "/b gives the logits of before" cmp -s "$tmp/direct" "$tmp/back"
script 'an\n/b 3\n/tokens\n/g\n' says "/b to the beginning" "alexin"
script 'an\n/b 4\n/tokens\n' tells "/b too far" "back 4, but only 3 tokens are held"
says "... and nothing changed" "3 of 16"

script 'anna\n/b 3\n/tokens\n/goto 4\n/goto 6\n/b 2\nx\n/goto 5\n'
gives_out "/b and /goto keep the tokens ahead until others are fed" 'fed 5: <BOS> "a" "n" "n" "a" (5 of 16)
2 of 16, 3 ahead
 pos     id    logprob     drawn  rank  token
   0:     26                              <BOS>
   1:      0    -1.9816  1.000000     1  "a"
   2:     13                              "n"  ahead
   3:     13                              "n"  ahead
   4:      0                              "a"  ahead
2 of 16, 3 ahead
4 of 16, 1 ahead
2 of 16, 3 ahead
fed 1: "x" (3 of 16)'
check "/goto beyond the end says the range" eval '[ "$(cat "$tmp/err")" = \
"mgpt: position 6: expected 0 to 5
mgpt: position 5: expected 0 to 3" ]'

# ---- edits and branches ----

script 'amna\n/top 3\n'
tail -n 4 "$tmp/out" >"$tmp/direct"
script 'anna\n/edit 2 m\n/edit 2 "m"\n/top 3\n'
tail -n 4 "$tmp/out" >"$tmp/edited"
check "/edit gives the logits of the edited text" cmp -s "$tmp/direct" "$tmp/edited"
says "/edit says what has become of what" 'position 2: "n" is now "m"'
check "... and how the next token has changed" grep -q '^KL(before || after) 0\.[0-9]* nats$' "$tmp/out"
says "... or that it has not" "the next token's logits are the same, to the bit"
script 'amna\n/insert 2 ol\n/top 3\n'
tail -n 4 "$tmp/out" >"$tmp/edited"
says "/insert says what is new" 'position 2: "o" "l" are new'
script 'aolmna\n/top 3\n'
tail -n 4 "$tmp/out" >"$tmp/direct"
check "/insert gives the logits of the text with it" cmp -s "$tmp/direct" "$tmp/edited"
script 'axaolmna\n/delete 1 2\n/top 3\n'
says "/delete says what is gone" 'position 1: "a" "x" are gone'
tail -n 4 "$tmp/out" >"$tmp/edited"
check "/delete gives the logits of the text without it" cmp -s "$tmp/direct" "$tmp/edited"
script 'ab\n/delete 2\n/tokens\n' says "/delete the last token" '2 of 16'
script 'ab\n/delete 0 3\n/tokens\n' tells "/delete of all tokens is refused" "no token would be left"
says "... and nothing has changed" "3 of 16"
script 'ab\n/delete 1 3\n' tells "/delete beyond the end" "3 tokens from position 1 on, but 3 are held"
script 'abcdefghijklm\n/insert 3 xyz\n/tokens\n' tells "/insert beyond the context" "3 tokens more, but 2 of 16 positions are free"
says "... and nothing has changed" "14 of 16"
script 'abcdefghijklm\n/b 8\n/insert 1 nnnnnnnn\n/tokens\n' tells "... those ahead, which stay, fill it too" "8 tokens more, but 2 of 16 positions are free"
says "... and nothing has changed" "6 of 16, 8 ahead"
script 'ab\n/insert 1\n' tells "/insert without a text" "which text? /insert 1 TEXT"
script 'ab\n/insert 9 a\n' tells "/insert at a position that is not there" "expected 0 to 2"
script 'ann\n/branch x\n/b\nm\n/sw main\n/diff x\n/diff main\n/branches\n'
says "/diff tells where" 'first difference at position 3: main "n", x "m"'
says "/diff of equal timelines" 'the same 4 tokens'
says "/branches marks the current one" '* main         4 of 16: <BOS> "a" "n" "n"'
says "... and lists the others" '  x            4 of 16: <BOS> "a" "n" "m"'
script 'ann\n/branch x\n/branch x\n/branch a/b\n/sw y\n/sw\n/diff mian\n/branch\n'
tells "a branch that is there" "there is a timeline x already"
tells "a bad name" "found 'a/b'"
tells "a branch that is not there" "no timeline y"
tells "a misspelt branch" "no timeline mian, did you mean main?"
check "seven mistakes, six lines on stderr" [ "$(wc -l <"$tmp/err")" -eq 6 ]

# ---- ablations ----

script 'anna\n/ab 0.1 zero\n/scale mlp.0 0.5\n/ab\n/ab off\n/top 1\n'
cp "$tmp/out" "$tmp/edits"
check "/ab and /scale say what changes" eval '[ "$(grep -c "^KL(before || after)" "$tmp/out")" -eq 3 ]'
check "/ab lists" eval 'grep -qx "0.1 zero" "$tmp/out" && grep -qx "mlp.0 scale 0.5" "$tmp/out"'
script 'anna\n/top 1\n'
check "/ab off gives the logits of before" \
    eval '[ "$(tail -n 2 "$tmp/edits")" = "$(tail -n 2 "$tmp/out")" ]'
script '/ab 0.4 zero\n/ab 1.0 zero\n/ab mlp.1 zero\n/ab 0 zero\n/ab 0.1 none\n/ab 0.1 mean\n/scale 0.1\n/ab 0.1 off\n/ab off 0.1\n'
tells "a head out of range" "head 4: expected 0 to 3"
tells "a layer out of range" "layer 1: expected 0 to 0"
tells "no head at all" "expected a head L.H or mlp.L, found '0'"
tells "an unknown ablation" "expected zero, mean or off, found 'none'"
tells "a mean of nothing" "nothing to look at yet"
tells "a scale without a factor" "by which factor?"
tells "an edit that is not there" "there is no edit of it"
tells "off, and what is not read" "unexpected '0.1': /ab ["

# ---- sessions in files ----

script 'anna\n/branch x\n/b 1\n/ab 0.1 mean\n/set temp 1.5\n\n/save '"$tmp"'/s\n/set\n/top 3\n/branches\n'
sed -n '/^temp/,$p' "$tmp/out" >"$tmp/direct"
script '/load '"$tmp"'/s\n/set\n/top 3\n/branches\n'
sed -n '/^temp/,$p' "$tmp/out" >"$tmp/loaded"
check "/load brings all back" cmp -s "$tmp/direct" "$tmp/loaded"
script 'a\n/load '"$tmp"'/s\n/tokens\n' "$lines"
check "another model's session, both hashes" \
    grep -q 'made with the model of hash [0-9a-f]\{16\}, this one has [0-9a-f]\{16\}$' "$tmp/err"
says "... and nothing changed" "1 of 256"
script '/load '"$tmp"'/none\n/load\n/save\n/save '"$tmp"'/none/s\n/load '"$names"'\n/load /dev/zero\n'
check "six failures, six lines" [ "$(wc -l <"$tmp/err")" -eq 6 ]
feed "/load $tmp/s\n" repl "$names" --kv f16
tells "another type of cache" "start with --kv f32"
feed "anna\n/save $tmp/q8\n/top 3\n" repl "$names" --kv q8_0
grep -A3 '^ *1 ' "$tmp/out" >"$tmp/direct"
feed "/load $tmp/q8\n/top 3\n" repl "$names" --kv q8_0
grep -A3 '^ *1 ' "$tmp/out" >"$tmp/loaded"
feed "/set regex abc$(printf '|abc%.0s' $(seq 400))\n/save $tmp/long\n/set\n/set regex x|y\n/load $tmp/long\n/set\n" repl "$names"
check "a session with a pattern of 1603 bytes" eval '[ $code -eq 0 ] && [ "$(grep "^temp" "$tmp/out" | grep "regex abc" | uniq -c | sed "s/ *\([0-9]*\).*/\1/")" = 2 ]'
check "a session of a q8_0 cache" eval '[ -s "$tmp/direct" ] && cmp -s "$tmp/direct" "$tmp/loaded"'

# ---- traces ----

"$MGPT" trace "$names" -p anna -o "$tmp/want.npz" 2>"$tmp/err"
script 'anna\n/trace on * '"$tmp"'/off.npz\n/trace\n/trace off\n/trace off\n'
check "/trace off writes what mgpt trace does" cmp -s "$tmp/off.npz" "$tmp/want.npz"
says "... and ends it" "no trace is on"
script 'anna\n/trace on * '"$tmp"'/end.npz\n'
check "a trace that is on is written at the end" cmp -s "$tmp/end.npz" "$tmp/want.npz"
script 'anna\n/trace on * '"$tmp"'/quit.npz\n/quit\n' check "... and by /quit" cmp -s "$tmp/quit.npz" "$tmp/want.npz"
script 'anna\n/ab 0.1 zero\n/trace on * '"$tmp"'/edited.npz\n'
check "edits are in the trace" eval '[ -s "$tmp/edited.npz" ] && ! cmp -s "$tmp/edited.npz" "$tmp/want.npz"'
script '/trace on nothook '"$tmp"'/x.npz\n/trace on * x.txt\n/trace on\n/trace up\n/trace on * '"$tmp"'/no/x.npz\na\n'
check "five mistakes, five lines" [ "$(wc -l <"$tmp/err")" -eq 5 ]
script '/trace on * '"$tmp"'/x.npz\n' tells "a trace of nothing" "nothing to trace, the timeline is empty"

# ---- /patch and /why ----

"$MGPT" patch "$names" --clean olivia --corrupt elivia --metric 'n - a' --over resid_pre,z |
    sed -n '/^resid_pre/,$p' >"$tmp/want"
script 'elivia\n/branch clean\n/reset\nolivia\n/sw main\n/patch clean resid_pre,z n a\n/tokens\n' \
    check "/patch is mgpt patch" eval 'sed -n "/^resid_pre/,/^7 of/p" "$tmp/out" | sed "/^7 of/d;/<BOS> *26/d" >"$tmp/got";
        head -n "$(wc -l <"$tmp/want")" "$tmp/got" | cmp -s - "$tmp/want"'
"$MGPT" patch "$names" --clean elivia --metric 'n - a' --why | sed -n '/^tokens/,$p' >"$tmp/want"
script 'elivia\n/why n a\n' check "/why is mgpt patch --why" \
    eval 'sed -n "/^tokens/,\$p" "$tmp/out" | cmp -s - "$tmp/want"'
script 'anna\n/branch b\nx\n/patch main z\n' says "... of the tokens that both have" "the first 5 tokens of both"
script '/why\nann\n/branch b\n/patch c z\n/patch b zz\n/patch b\n/patch b z Q\n/ab 0.1 zero\n/why\n'
check "six mistakes, six lines" [ "$(wc -l <"$tmp/err")" -eq 6 ]

# ---- every example ----

# Each in a session of its own with a text, two timelines and a file.
printf "/help all\n" | "$MGPT" repl "$names" >"$tmp/list"
sed -n 's,^  \(/[a-z]*\).*,/help \1,p' "$tmp/list" | "$MGPT" repl "$names" >"$tmp/help" 2>"$tmp/err"
sed -n 's/^  example: //p' "$tmp/help" >"$tmp/examples"
check "every command has an example" \
    eval '[ "$(grep -c "^  /" "$tmp/list")" -ge 30 ] &&
        [ "$(grep -c "^  /" "$tmp/list")" -eq "$(grep -c "^  example: /" "$tmp/help")" ]'
while read -r line; do
    code=0
    { printf 'anna\n/branch try\nb\n/sw main\n/save names.session\n'; printf '%s\n' "$line"; } >"$tmp/in"
    (cd "$tmp" && "$MGPT" repl "$names" <"$tmp/in" >"$tmp/out" 2>"$tmp/err") || code=$?
    check "example: $line" eval '[ $code -eq 0 ] && [ ! -s "$tmp/err" ]'
done <"$tmp/examples"

# ---- names ----

# Each one-letter command has a long name, which does the same.
check "every one-letter command has a long name" eval '! grep -q "^  /[a-z] [^/]" "$tmp/list"'
for pair in s:step s:sample g:generate b:back p:probability a:attention h:heads v:value r:residual m:mlp w:weight; do
    arguments=$(sed -n "s,^/${pair%:*} ,,p; s,^/${pair%:*}\$,,p" "$tmp/examples")
    script "anna\n/${pair%:*} $arguments\n"
    cp "$tmp/out" "$tmp/short"
    script "anna\n/${pair#*:} $arguments\n"
    check "/${pair#*:} is /${pair%:*}" eval '[ ! -s "$tmp/err" ] && [ -s "$tmp/short" ] && cmp -s "$tmp/out" "$tmp/short"'
done
for line in quit exit /exit; do
    script "$line\nann\n"
    check "$line ends the session" eval '[ ! -s "$tmp/out" ] && [ ! -s "$tmp/err" ]'
done
script 'help\n?\n/?\n'
check "help, ? and /? are /help" eval '[ "$(grep -c "/help all" "$tmp/out")" -eq 3 ] && [ ! -s "$tmp/err" ]'
script '/attenton 0 0\n' tells "a near miss of a long name" "did you mean /attention?"
script '/feed quit\n' "$lines" says "/feed takes the word" 'fed '

# ---- looking ----

script 'ann\n/top 2\n' says "/top shows rank and id" "    1       0     "
check "/top ends with the entropy" \
    eval 'tail -n 1 "$tmp/out" | grep -q "^entropy [0-9.]* nats, [0-9.]* bits$"'
script 'ann\n/p a\n'
cp "$tmp/out" "$tmp/text"
script 'ann\n/p 0\n' check "/p takes text or id" cmp -s "$tmp/out" "$tmp/text"
script 'ann\n/p "a"\n' check "/p takes quoted text" cmp -s "$tmp/out" "$tmp/text"
script 'ann\n/p <BOS>\n' says "/p takes a control token" "<BOS>"
script 'ann\n/p an\n/p 99\n' tells "/p refuses two tokens" "this is 2 tokens"
tells "/p refuses an id out of range" "token 99: expected 0 to 26"
script 'ab\n/tokens\n' gives "/tokens" 'fed 3: <BOS> "a" "b" (3 of 16)
 pos     id    logprob     drawn  rank  token
   0:     26                              <BOS>
   1:      0    -1.9816  1.000000     1  "a"
   2:      1    -3.2115  0.000000     8  "b"
3 of 16'
script 'ab\n/tokens 2\n' says "/tokens K: the likeliest in its place" '"a"          0.138 "a"      0.093 "k"'
says "... and in the place of the last" '"b"          0.145 "l"      0.136 "n"'

# ---- settings ----

script '/set\n/set temp 0.5\n/set top-k 3\n/set seed 9\n/set\n'
gives "/set shows and changes" 'temp 0, top-k 0, top-p 1, min-p 0, seed 0
temp 0.5, top-k 3, top-p 1, min-p 0, seed 9'
script '/set temp 1\n/set seed 5\n/g\n/reset\n/g\n'
check "/reset begins the random numbers anew" \
    eval '[ "$(sed -n 1p "$tmp/out")" = "$(sed -n 3p "$tmp/out")" ]'
"$MGPT" generate "$names" --temp 1 -s 5 >"$tmp/want" 2>"$tmp/err"
check "the repl draws what \
    generate draws" eval '[ "$(sed -n 1p "$tmp/out")" = "$(cat "$tmp/want")" ]'
script '/set temp x\n/set heat 1\n/set top-p 2\n'
tells "a setting that is not a number" "temp: expected a number from 0 on, found 'x'"
tells "an unknown setting" "unknown setting 'heat'"
tells "a setting out of range" "top-p: expected a number from 0 to 1, found '2'"

# ---- errors end nothing ----

script '/tpo 3\nAnn\nannie\n' tells "a misspelt command" "unknown command /tpo, did you mean /top?"
tells "a character outside the vocabulary" "'A'"
check "... and the session goes on; the exit code is that of the first failure" \
    eval '[ $code -eq 2 ] && grep -qF "(6 of 16)" "$tmp/out"'
script 'abcdefghijklmnopqr\nabcdefghijklmno\n\n/b\n/p z\n'
tells "a text that does not fit" "19 tokens, but 16 of 16 positions are free"
tells "a full context" "the context is full (16 positions)"
says "/b works when it is full" "15 of 16"
script '/ids "a"b\n/tokens\n'
tells "letters after a quoted token are not dropped" 'character'
says "... and nothing is fed" "0 of 16"
script '/ids 27\n/ids xy\n/ids\n/s 0\n/s 1x\n'
check "five bad lines, five messages" eval '[ "$(wc -l <"$tmp/err")" -eq 5 ] && [ ! -s "$tmp/out" ]'
script '/g\n' "$lines" tells "nothing to continue without BOS" "type a text first"

# ends CODE SCRIPT: a script that is a pipe ends with the code of its first failure.
ends()
{
    script "$2"
    check "a script ends with $1: $(printf '%s' "$2" | tr '\n\\' '  ')" [ "$code" -eq "$1" ]
}
echo mine >"$tmp/mine"
ends 0 'ann\n/top 3\n'
ends 3 "ann\\n/save $tmp/mine\\n/nothing\\n"
ends 3 "/load $tmp/mine\\n"
ends 5 "/save $tmp/none/there\\n/top 3\\n"
ends 5 '/load /none/there\n'
ends 3 "ann\\n/a 0 0 -o $tmp/mine\\n/b 99\\n"
ends 5 "ann\\n/trace on * /none/there.npz\\nie\\n"
ends 2 '/nothing\n'
ends 2 'ann\n/edit 0 "Z"\n/top 3\n'
ends 2 'ann\n/branch b\nx\n/patch main zz\n'
ends 4 'abcdefghijklmnopqr\n'

# ---- numbers of a session file ----

printf 'ann\n/save %s\n' "$tmp/s" | "$MGPT" repl "$names" --rng python >"$tmp/out" 2>"$tmp/err"
# skipped NAME N TEXT: a session file that says to skip N words is refused with TEXT, or loaded and started anew.
skipped()
{
    sed "s/\"skip\":\"0\"/\"skip\":\"$2\"/" "$tmp/s" >"$tmp/t"
    printf '/load %s\n/reset\n' "$tmp/t" >"$tmp/in"
    code=0
    "$MGPT" repl "$names" --rng python <"$tmp/in" >"$tmp/out" 2>"$tmp/err" || code=$?
    want=$3 found=$(sed 's/.*: //' "$tmp/err")
    bad=$([ -z "$want" ] && echo 0 || echo 3)
    check "$1" eval '[ $code -eq $bad ] && ! cmp -s "$tmp/s" "$tmp/t" && [ "$found" = "$want" ]'
}
skipped "the most words to skip" 100000000 ''
skipped "one more" 100000001 'skip is above 100000000'
skipped "as many as took 50 s" 10000000000 'skip is above 100000000'

# ---- text ----

script '/feed A\\n\\tB\n' "$lines" tells "/feed takes escapes (no tab in this vocabulary)" "U+0009"
script '/feed A\\nB\n//\n/feed x\\q\n' "$lines" says "a line end is shown escaped" 'fed 3: "A" "\n" "B"'
tells "an unknown escape" 'a backslash begins one of'
tells "two slashes are a text" "'/'"
script 'ann\r\n' says "a Windows line end is dropped" 'fed 4'
script '/help\n/help top\n/help s\n/quit\nann\n' says "/help lists the commands" "/top [K]"
script '/help\n' check "... eight of them at first" [ "$(grep -c '^  /' "$tmp/out")" -eq 8 ]
says "... and says how to see the others" "/help all lists the others"
script '/help top\n/quit\n' says "/help COMMAND gives an example" "example: /top 3"
check "/quit ends the session" eval '! grep -q "^fed" "$tmp/out"'
refuses "an operand too many" 2 "unexpected argument" repl "$names" "$names"

finish
