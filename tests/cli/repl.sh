#!/bin/sh
# mgpt repl through a pipe: one line, one action.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

# script LINES [MODEL]: lines (a format of printf) through the repl.
script()
{
    # shellcheck disable=SC2059
    printf "$1" >"$tmp/in"
    code=0
    "$MGPT" repl "${2:-$names}" <"$tmp/in" >"$tmp/out" 2>"$tmp/err" || code=$?
}

# gives NAME EXPECTED: the last script printed exactly this, nothing on stderr, exit 0.
gives()
{
    printf '%s\n' "$2" >"$tmp/want"
    check "$1" eval '[ $code -eq 0 ] && cmp -s "$tmp/out" "$tmp/want" && [ ! -s "$tmp/err" ]'
}

# ---- feeding and stepping ----

script 'ann\n'
gives "text is fed, BOS first" 'fed 4: <BOS> "a" "n" "n" (4 of 16)'
script 'a\nnn\n'
gives "the next text goes on" 'fed 2: <BOS> "a" (2 of 16)
fed 2: "n" "n" (4 of 16)'
script '/ids 26, 0 13\n'
gives "ids are fed as they are" 'fed 3: <BOS> "a" "n" (3 of 16)'
script '/g\n'
gives "/g begins with BOS and ends at the end" 'alexin
drew 6, end of the text (7 of 16)'
script 'a\n/g 3\n'
gives "/g N stops after N" 'fed 2: <BOS> "a" (2 of 16)
lex
drew 3 (5 of 16)'
script 'a\n\n\n/s 2\n'
sed '1d; s/p 0\.[0-9]*/p/' "$tmp/out" >"$tmp/short"
printf '%4d: %6d  p  rank 1    "%s"\n' 2 11 l 3 4 e 4 23 x 5 8 i >"$tmp/want"
check "Enter and /s draw tokens" cmp -s "$tmp/short" "$tmp/want"
script 'alexin\n\n'
says "an end token is shown" "<BOS>  end of the text, not kept"
script '/s 3\n/reset\n/tokens\n'
says "/reset forgets all" "0 of 16"

# ---- back ----

script 'anna\n/top 3\n'
tail -n 5 "$tmp/out" >"$tmp/direct"
script 'annaxyz\n/b 3\n/top 3\n'
tail -n 5 "$tmp/out" >"$tmp/back"
check "/b gives the logits of before" cmp -s "$tmp/direct" "$tmp/back"
script 'an\n/b 3\n/tokens\n/g\n'
says "/b to the beginning" "alexin"
script 'an\n/b 4\n/tokens\n'
tells "/b too far" "back 4, but only 3 tokens are held"
says "... and nothing changed" "3 of 16"

# ---- looking ----

script 'ann\n/top 2\n'
says "/top shows rank and id" "    1       0     "
check "/top ends with the entropy" \
    eval 'tail -n 1 "$tmp/out" | grep -q "^entropy [0-9.]* nats, [0-9.]* bits$"'
script 'ann\n/p a\n'
cp "$tmp/out" "$tmp/text"
script 'ann\n/p 0\n'
check "/p takes text or id" cmp -s "$tmp/out" "$tmp/text"
script 'ann\n/p "a"\n'
check "/p takes quoted text" cmp -s "$tmp/out" "$tmp/text"
script 'ann\n/p <BOS>\n'
says "/p takes a control token" "<BOS>"
script 'ann\n/p an\n/p 99\n'
tells "/p refuses two tokens" "this is 2 tokens"
tells "/p refuses an id out of range" "token 99, the model has 0 to 26"
script 'ab\n/tokens\n'
gives "/tokens" 'fed 3: <BOS> "a" "b" (3 of 16)
   0:     26  <BOS>
   1:      0  "a"
   2:      1  "b"
3 of 16'

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
tells "a setting that is no number" "temp: expected a number from 0 on, found 'x'"
tells "an unknown setting" "unknown setting 'heat'"
tells "a setting out of range" "top-p: expected a number from 0 to 1, found '2'"

# ---- errors end nothing ----

script '/tpo 3\nAnn\nannie\n'
tells "a misspelt command" "unknown command /tpo, did you mean /top?"
tells "a character outside the vocabulary" "'A'"
check "... and the session goes on, exit 0" \
    eval '[ $code -eq 0 ] && grep -qF "(6 of 16)" "$tmp/out"'
script 'abcdefghijklmnopqr\nabcdefghijklmno\n\n/b\n/p z\n'
tells "a text that does not fit" "19 tokens, but 16 of 16 positions are free"
tells "a full context" "the context is full (16 positions)"
says "/b works when it is full" "15 of 16"
script '/ids 27\n/ids x\n/ids\n/s 0\n/s 1x\n'
check "five bad lines, five messages" eval '[ "$(wc -l <"$tmp/err")" -eq 5 ] && [ ! -s "$tmp/out" ]'
script '/g\n' "$lines"
tells "nothing to continue without BOS" "type a text first"

# ---- text ----

script '/feed A\\n\\tB\n' "$lines"
tells "/feed takes escapes (no tab in this vocabulary)" "U+0009"
script '/feed A\\nB\n//\n/feed x\\q\n' "$lines"
says "a line end is shown escaped" 'fed 3: "A" "\n" "B"'
tells "an unknown escape" 'a backslash begins one of'
tells "two slashes are a text" "'/'"
script 'ann\r\n'
says "a Windows line end is dropped" 'fed 4'
script '/help\n/help top\n/help s\n/quit\nann\n'
says "/help lists the commands" "/top [K]"
says "/help COMMAND gives an example" "example: /top 3"
check "/quit ends the session" eval '! grep -q fed "$tmp/out"'
refuses "an operand too many" 2 "unexpected argument" repl "$names" "$names"

finish
