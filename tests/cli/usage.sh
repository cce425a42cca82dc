#!/bin/sh
# What all commands share: help, options, suggestions, versions.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

# ---- help ----

run
check "no arguments: usage on stderr, exit 2" eval '[ $code -eq 2 ] && [ ! -s "$tmp/out" ]'
tells "... it lists the commands" "generate"
run --help
check "--help: on stdout, exit 0" eval '[ $code -eq 0 ] && [ ! -s "$tmp/err" ]'
says "... with the exit codes" "exit codes: 0 ok"
run --version
check "--version" grep -q '^mgpt [0-9]*\.[0-9]*\.[0-9]*$' "$tmp/out"
# The number of titles in the list of options, of options but --quiet and --help, of those before any title.
count_groups()
{
    awk '/^options:$/ { on = 1; next } on && !NF { exit } on && /^ [a-z].*:$/ { titles++; next }
         on { options++; if (!titles) alone++ } END { print titles + 0, options - 2, alone + 0 }' "$tmp/out"
}
# More than 12 options are in groups, each of them in one; the most used come first and are at most ten.
grouped()
{
    # shellcheck disable=SC2046
    set -- $(count_groups)
    if [ "$2" -le 12 ]; then
        [ "$1" -eq 0 ]
    else
        [ "$1" -ge 4 ] && [ "$3" -eq 0 ] && [ "$(grep -E "^ [a-z].*:$" "$tmp/out" | head -n 1)" = " most used:" ] &&
            [ "$(awk '/^ [a-z].*:$/ { n++ } n == 1' "$tmp/out" | grep -c -- --)" -le 10 ]
    fi
}
commands="generate repl check trace patch attend lab score imatrix tokenize info convert bench"
for command in $commands; do
    run "$command" --help
    check "$command --help: exit 0, nothing on stderr" eval '[ $code -eq 0 ] && [ ! -s "$tmp/err" ]'
    says "$command --help: usage" "usage: mgpt $command"
    check "$command --help: an example" grep -q 'example' "$tmp/out"
    says "$command --help: the exit codes" "exit codes"
    check "$command --help: at most 100 columns" eval '! grep -q "^.\{101\}" "$tmp/out"'
    check "$command --help: options in groups" grouped
    runs "$command -h is --help" "$command" -h --nonsense
    run "$command"
    check "$command without operands: exit 2, one line" eval '[ $code -eq 2 ] && one_line'
done

for command in attend bench check completions convert generate imatrix info lab patch repl score tokenize trace; do
    "$MGPT" "$command" --help | sed -n "/^exit codes/,/^\$/s/^./$command: &/p"
done >"$tmp/exits"
check "exit codes of all commands are those of exits.txt" diff "$tmp/exits" "$MGPT_SOURCE_ROOT/tests/cli/exits.txt"

# The examples of --help, where none of their files is: no word of them is wrong usage. Nothing is measured.
mkdir "$tmp/empty"
for command in $commands; do
    "$MGPT" "$command" --help | awk '/^$/ { on = 0 } /^  ? ?mgpt|^  [a-z]/ && on { print line; line = "" } on { line = line $0 } /^examples:/ { on = 1 } END { print line }' |
        sed -n 's/^.*[|] mgpt/ mgpt/; s/   (.*//; s/[<>][a-z.]*//g; s/[*]\.gguf/step-1.gguf step-2.gguf/; /--kernels/d; s/^.* *mgpt / /p'
done >"$tmp/examples"
check "each command has examples" [ "$(wc -l <"$tmp/examples")" -ge 40 ]
while read -r line; do
    (cd "$tmp/empty" && eval "\"\$MGPT\" $line" </dev/null >"$tmp/out" 2>"$tmp/err")
    code=$?
    check "an example: $line" eval '[ $code -ne 2 ]'
done <"$tmp/examples"

# ---- commands and options that do not exist ----

refuses "an unknown command" 2 "did you mean 'generate'" generat
refuses "a command like no other" 2 "unknown command 'xyzzy'" xyzzy
refuses "an unknown option: suggestion" 2 "unknown option --tmep, did you mean --temp?" \
    generate "$names" --tmep 1
refuses "an option like no other" 2 "unknown option --frobnicate" generate "$names" --frobnicate
refuses "two of three letters are another word" 2 "unknown option --abc (" generate "$names" --abc
run generate --help
check "generate --help: the titles of groups" eval '
    [ "$(grep -E "^ [a-z]" "$tmp/out" | tr -d "\n")" = \
        " most used: model: text: choosing tokens: speed and memory: looking: every command:" ]'
refuses "a value does not hide it" 2 "unknown option --topk, did you mean --top-k?" \
    generate "$names" --topk=5
refuses "an unknown letter" 2 "unknown option -z" generate "$names" -z
refuses "an abbreviation is not an option" 2 "unknown option --sampl, did you mean --samples?" \
    generate "$names" --sampl 2
refuses "not even a single-letter one" 2 "unknown option --m" generate --m "$names"
refuses "one dash for two" 2 "unknown option -temp, did you mean --temp?" generate "$names" -temp 1

for command in $commands completions; do
    refuses "${command%?} is near $command" 2 "did you mean '$command'?" "${command%?}"
done
refuses "another program's word for a command" 2 "did you mean 'generate --chat'" chat
refuses "a file is not a command" 2 "is a file, expected a command: mgpt generate" "$names"
refuses "another program's word for an option" 2 "did you mean --temp?" generate "$names" --temperature 1
refuses "... as llama.cpp says it" 2 "did you mean --session?" generate "$names" --prompt-cache x
refuses "... which the command does not have" 2 "unknown option --temperature (see" info "$names" --temperature 1
while read -r theirs ours command; do
    # shellcheck disable=SC2086
    refuses "... --$theirs" 2 "unknown option --$theirs, did you mean --$ours?" $command --$theirs 1
done <<'END'
prompt-cache session generate
n-predict tokens generate
max-tokens tokens generate
max-new-tokens tokens generate
num-samples samples generate
n tokens generate
context ctx-size generate
context-size ctx-size generate
n-ctx ctx-size generate
input file score
num-threads threads generate
cache-type-k kv generate
out output trace
tolerance tol check
atol tol check
n-head heads convert
n-heads heads convert
text prompt generate
dtype type convert
outtype type convert
block-size context convert
END
refuses "an underscore" 2 "did you mean --top-k?" generate "$names" --top_k 1

# No terminal gets what an argument hides.
hidden=$(printf '\033[31m')
unseen()
{
    ! grep -q "$(printf '\033')" "$tmp/err" && grep -qF '?[31m' "$tmp/err"
}
for arguments in "$hidden" "generate --temp $hidden" "generate --$hidden" "generate $hidden" "info names $hidden"; do
    # shellcheck disable=SC2086
    run $arguments
    check "escapes are not printed: $(printf '%s' "$arguments" | tr -d '\033')" eval '[ $code -ne 0 ] && one_line && unseen'
done

# ---- help as a word, aliases ----

for command in $commands; do
    want "$command" --help
    equals "help $command is $command --help" help "$command"
    equals "... and $command help" "$command" help
done
want --help
equals "help is --help" help
refuses "help of an unknown command" 2 "did you mean 'generate'" help generat
(cd "$tmp" && cp "$names" help && "$MGPT" info help >"$tmp/out" 2>"$tmp/err")
says "a model called help is a model" "microgpt"
for option in -n --tokens --predict; do
    prints "generate $option" al generate "$names" --temp 0 "$option" 2
    runs "check $option" check "$names" "$MGPT_SOURCE_ROOT/weights/names.ref.json" "$option" 2
done
for command in generate "check --self" score bench trace patch repl; do
    # shellcheck disable=SC2086
    refuses "$command: most threads" 2 "from 1 to 256" $command "$names" -t 257
done

for command in generate "check --self" bench; do
    # shellcheck disable=SC2086
    refuses "$command: an instruction set of another machine" 2 "which has scalar" $command "$names" --isa vax
done

# ---- values ----

refuses "a missing value" 2 "--temp needs a value" generate "$names" --temp
refuses "a missing value of a letter" 2 "-n needs a value" generate "$names" -n
refuses "a value for a flag" 2 "--json takes no value" generate "$names" --json=1
for value in x 1x '' ' 1' 0x10 1.5 2147483648 99999999999999999999; do
    refuses "-n '$value'" 2 "whole number" generate "$names" -n "$value"
done
for value in x nan inf -0.1 1e31 0x1p1 '1 '; do
    refuses "--temp '$value'" 2 "expected a number from 0 to 1e+30" \
        generate "$names" --temp "$value"
done
for value in -2 18446744073709551616 1e3; do
    refuses "-s '$value'" 2 "whole number" generate "$names" -s "$value"
done
refuses "a range is said" 2 "from 1 to 256, found '0'" generate "$names" -t 0
run generate "$names" -s 18446744073709551615 --temp=1e-30 -n2
check "the largest seed, a value after =, a value after the letter" [ "$code" -eq 0 ]
runs "-- ends the options" generate --temp 0 -- "$names"
POSIXLY_CORRECT=1 "$MGPT" generate "$names" --temp 0 -n 1 >"$tmp/out" 2>"$tmp/err"
check "options may follow operands" eval '[ "$(cat "$tmp/out")" = a ]'
refuses "an operand too many" 2 "unexpected argument 'two'" info "$names" two
refuses "a model twice" 2 "unexpected argument" info -m "$names" "$names"

# ---- options that exclude each other, or need a vocabulary ----

while read -r text options; do
    # shellcheck disable=SC2086
    refuses "generate $options" 2 "$(echo "$text" | tr _ ' ')" generate "$names" $options
done <<'END'
-p_and_-f:_give_one_of_them --chat --chat-format chatml -p a -f b
-p_and_-f_exclude_each_other -p a -f b
--first_needs_a_stream_for_each_sample --first 2 --rng python --samples 3
END

finish
