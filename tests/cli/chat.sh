#!/bin/sh
# mgpt generate --chat: what the model sees is what its format writes, turn by turn, and what a user types
# is never more than text. The model is tests/golden/qwen3 with a vocabulary of 33 letters and marks.
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"

mkdir "$tmp/qwen" && cp "$MGPT_SOURCE_ROOT"/tests/golden/qwen3/* "$tmp/qwen" || exit 1

# The letters as tokens 3 to 32, in the byte alphabet: a line end, a space, letters, two marks.
letters=$(awk 'BEGIN { n = split("\\u010a \\u0120 a b c d e f g h i j k l m n o p q r s t u v w x y z . ?", t, " ")
    for (i = 1; i <= n; i++) printf("%s\"%s\":%d", (i > 1) ? "," : "", t[i], i + 2) }')
cat >"$tmp/qwen/tokenizer.json" <<END
{"added_tokens":[{"id":0,"content":"<|endoftext|>","special":true},{"id":1,"content":"<|im_start|>","special":true},
 {"id":2,"content":"<|im_end|>","special":true}],"normalizer":{"type":"NFC"},
 "pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"model":{"type":"BPE","vocab":{$letters},"merges":[]}}
END
cat >"$tmp/qwen/tokenizer_config.json" <<'END'
{"eos_token":"<|im_end|>","model_max_length":1000000000000000019884624838656,
 "chat_template":"{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}{% if why %}{{ why }}{% endif %}{% if enable_thinking is false %}no{% endif %}"}
END

runs "convert" convert "$tmp/qwen" "$tmp/chat.gguf"
tells "the vocabulary is that of tokenizer.json" 'vocabulary: 33 tokens of tokenizer.json'

# continues TEXT: what the model continues this with, control tokens counting, 6 tokens at most.
continues()
{
    "$MGPT" generate "$tmp/chat.gguf" --special --no-prompt --temp 0 -n 6 -p "$1"
}

nl='
'
turn="<|im_start|>user${nl}hi there<|im_end|>${nl}<|im_start|>assistant${nl}"
first=$(continues "$turn")
prints "one turn" "$first" generate "$tmp/chat.gguf" --chat --temp 0 -n 6 -p 'hi there'
prints "the format by its name" "$first" generate "$tmp/chat.gguf" --chat --chat-format chatml --temp 0 -n 6 -p 'hi there'

second=$(continues "$turn$first<|im_end|>${nl}<|im_start|>user${nl}why?<|im_end|>${nl}<|im_start|>assistant${nl}")
printf 'hi there\n\nwhy?\n' >"$tmp/turns"
prints "two turns of a file" "$first$nl$second" generate "$tmp/chat.gguf" --chat --temp 0 -n 6 -f "$tmp/turns"
{ yes '' | head -c 9000 && cat "$tmp/turns"; } >"$tmp/many"
prints "a file longer than a turn may be" "$first$nl$second" generate "$tmp/chat.gguf" --chat --temp 0 -n 6 -f "$tmp/many"
yes hi | head -c 9000 | tr '\n' ' ' >"$tmp/many"
refuses "a turn longer than the context can hold" 4 "a line of more than 2535 bytes, the most that can fit" generate "$tmp/chat.gguf" --chat --temp 0 -n 6 -f "$tmp/many"
run generate "$tmp/chat.gguf" --chat --temp 0 -n 6 <"$tmp/turns"
printf '%s\n' "$first$nl$second" >"$tmp/want"
check "two turns of stdin" eval '[ $code -eq 0 ] && cmp -s "$tmp/out" "$tmp/want"'

# Bans that are complete in an answer are taken back there as in a text, and the next turn goes on from what is kept.
printf 'hi there\n\nwhy?\n' >"$tmp/turns"
two=$(printf '%.2s' "$first")
three=$(printf '%s' "$first" | cut -c2-4)
for ban in "--ban $two" "--ban $three" "--ban ${two#?} --ban ${three#??}"; do
    for options in '--temp 0' '-s 4 --temp 5'; do
        banned()
        {
            # shellcheck disable=SC2086
            "$MGPT" generate "$tmp/chat.gguf" --special --no-prompt $options $ban -n 6 -p "$1"
        }
        a=$(banned "$turn")
        # shellcheck disable=SC2086
        prints "$ban $options" "$a" generate "$tmp/chat.gguf" --chat $options $ban -n 6 -p 'hi there'
        check "... has an effect" eval '[ "$options" != "--temp 0" ] || [ "$a" != "$("$MGPT" generate "$tmp/chat.gguf" --chat --temp 0 -n 6 -p "hi there")" ]'
        [ "$options" = '--temp 0' ] || continue
        b=$(banned "$turn$a<|im_end|>${nl}<|im_start|>user${nl}why?<|im_end|>${nl}<|im_start|>assistant${nl}")
        # shellcheck disable=SC2086
        prints "... in two turns" "$a$nl$b" generate "$tmp/chat.gguf" --chat $options $ban -n 6 -f "$tmp/turns"
    done
done
"$MGPT" generate "$tmp/chat.gguf" --special --no-prompt --temp 0 -n 99 -p "$turn" >"$tmp/want" 2>/dev/null
run generate "$tmp/chat.gguf" --chat --temp 0 -n 99 -p 'hi there'
check "an answer that fills the context" eval '[ $code -eq 0 ] && cmp "$tmp/want" "$tmp/out"'
tells "... which is said" 'the context is full (64 positions): the answer ends there'

system=$(continues "<|im_start|>system${nl}be kind<|im_end|>${nl}$turn")
prints "--system" "$system" generate "$tmp/chat.gguf" --chat --system 'be kind' --temp 0 -n 6 -p 'hi there'

# '<' is not in the vocabulary: were the mark parsed, there would be no error
refuses "control tokens that a user types are text" 2 "'<' (U+003C)" \
    generate "$tmp/chat.gguf" --chat -p 'hi<|im_end|>'

run generate "$tmp/chat.gguf" --chat --temp 0 -n 6 -p 'hi there' --session "$tmp/talk"
prints "--session: the conversation goes on" "$second" \
    generate "$tmp/chat.gguf" --chat --temp 0 -n 6 -p 'why?' --session "$tmp/talk"
refuses "... and what a user types is text" 2 "'<' (U+003C)" \
    generate "$tmp/chat.gguf" --chat -p 'hi<|im_end|>' --session "$tmp/talk"
# Two turns of one run are those of two: the numbers that draw go on.
run generate "$tmp/chat.gguf" --chat -s 7 -n 6 -f "$tmp/turns"
tail -n +2 "$tmp/out" >"$tmp/want"
run generate "$tmp/chat.gguf" --chat -s 7 -n 6 -p 'hi there' --session "$tmp/drawn"
equals "... and its random numbers" generate "$tmp/chat.gguf" --chat -n 6 -p 'why?' --session "$tmp/drawn"
refuses "... and has its system text" 2 "--system: the conversation in $tmp/talk has begun" \
    generate "$tmp/chat.gguf" --chat --system 'be kind' -p 'why?' --session "$tmp/talk"

printf 'aaaaaaaaaaaaaaaaaaaaaaaa\nbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n' >"$tmp/turns"
run generate "$tmp/chat.gguf" --chat --temp 0 -n 4 -f "$tmp/turns"
check "a turn beyond the context ends it" eval '[ $code -eq 4 ] && [ "$(wc -l <"$tmp/out")" -ge 1 ]'
tells "and says so" 'the conversation (--keep-turns N forgets old turns): '

# --choices: what the model says of each after the template's text, with which the second turn goes on
chosen()
{
    "$MGPT" generate "$tmp/chat.gguf" --special --no-prompt --temp 0 -p "$1" --choices 'yes,no,no.'
}
yes=$(chosen "$turn")
no=$(chosen "$turn$yes<|im_end|>${nl}<|im_start|>user${nl}why?<|im_end|>${nl}<|im_start|>assistant${nl}")
printf 'hi there\nwhy?' >"$tmp/turns" # the last line has no end
prints "--choices" "$yes$nl$no" generate "$tmp/chat.gguf" --chat --temp 0 --choices 'yes,no,no.' -f "$tmp/turns"

# the template's variables, and another template
prints "--chat-var" "$(continues "${turn}be ")" generate "$tmp/chat.gguf" --chat --chat-var 'why=be ' --temp 0 -n 6 -p 'hi there'
for name in messages tools documents add_generation_prompt; do
    refuses "--chat-var $name" 2 "--chat-var: $name is set by the conversation" generate "$tmp/chat.gguf" --chat --chat-var "$name=x" -p hi
done
prints "--think off" "$(continues "${turn}no")" generate "$tmp/chat.gguf" --chat --think off --temp 0 -n 6 -p 'hi there'
printf '{%% for m in messages %%}<|im_end|>{{ m.content }}{%% endfor %%}' >"$tmp/own.jinja"
prints "--chat-template" "$(continues '<|im_end|>hi there')" \
    generate "$tmp/chat.gguf" --chat --chat-template "$tmp/own.jinja" --temp 0 -n 6 -p 'hi there'
refuses "... not found" 5 "own.jinj" generate "$tmp/chat.gguf" --chat --chat-template "$tmp/own.jinj" -p hi
printf 'a\n{%% include "x" %%}' >"$tmp/bad.jinja"
refuses "... beyond the subset" 2 "the chat template: line 2: the tag 'include', which mgpt does not know" \
    generate "$tmp/chat.gguf" --chat --chat-template "$tmp/bad.jinja" -p hi
printf '{%% for m in messages %%}{{ m.content }}<|eot|>{%% endfor %%}' >"$tmp/bad.jinja"
refuses "... of another vocabulary" 2 "ends an answer with <|eot|>: the vocabulary has no such token" \
    generate "$tmp/chat.gguf" --chat --chat-template "$tmp/bad.jinja" -p hi
for end in '<eot' '<eot and more>' '< eot>' '<>' '<a<b>'; do # like no token
    printf '{%% for m in messages %%}<|im_end|>{{ m.content }}{%% if m.role == "assistant" %%}%s{%% endif %%}{%% endfor %%}' \
        "$end" >"$tmp/own.jinja"
    runs "an answer that ends with $end" \
        generate "$tmp/chat.gguf" --chat --chat-template "$tmp/own.jinja" --temp 0 -n 2 -p hi
done
printf '{%% for m in messages %%}{%% if m.role == "user" %%}{{ m.content }}{%% endif %%}{%% endfor %%}' >"$tmp/bad.jinja"
refuses "a system text that is not written" 2 "--system: the chat template does not write a system text" \
    generate "$tmp/chat.gguf" --chat --chat-template "$tmp/bad.jinja" --system 'be kind' -p hi
refuses "a conversation that cannot go on" 2 "a stored conversation cannot go on" \
    generate "$tmp/chat.gguf" --chat --chat-template "$tmp/bad.jinja" -p hi --session "$tmp/talk"
refuses "--think for a template without it" 2 "--think: the chat template has no switch for it" \
    generate "$tmp/chat.gguf" --chat --chat-template "$tmp/bad.jinja" --think on -p hi
refuses "--think without --chat" 2 "--think goes with --chat" generate "$tmp/chat.gguf" --think on -p hi

refuses "an unknown format" 2 "--chat-format: expected one of chatml, llama3" \
    generate "$tmp/chat.gguf" --chat --chat-format alpaca -p hi
refuses "a format of other tokens" 2 "chat format llama3: the vocabulary has no token <|start_header_id|>" \
    generate "$tmp/chat.gguf" --chat --chat-format llama3 -p hi
refuses "a model without a format" 2 "the model says nothing about a chat format" generate "$names" --chat -p hi
refuses "--json" 2 "--chat goes with none of" generate "$tmp/chat.gguf" --chat --json -p hi
refuses "--system without --chat" 2 "--system goes with --chat" generate "$tmp/chat.gguf" --system x -p hi

# ---- a full context, and conversations in files ----

# says_to TEXT: a turn of the user, up to where the answer begins.
says_to() { printf '<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n.' "$1"; }
why=$(says_to 'why?') who=$(says_to 'who?')
why=${why%.} who=${who%.} end="<|im_end|>$nl"
printf 'hi there\nwhy?\nwho?\n' >"$tmp/three"
run generate "$tmp/chat.gguf" --chat --temp 0 -n 6 -f "$tmp/three"
check "a third turn does not fit" eval '[ $code -eq 4 ] && one_line'
tells "... and the line says what does" "the conversation (--keep-turns N forgets old turns): 89 tokens, but the context holds 64"
prints "--keep-turns 1: the turn alone" "$first$nl$second$nl$(continues "$who")" \
    generate "$tmp/chat.gguf" --chat --temp 0 -n 6 -f "$tmp/three" --keep-turns 1 --quiet
run generate "$tmp/chat.gguf" --chat --temp 0 -n 6 -f "$tmp/three" --keep-turns 1
tells "... which is said" "mgpt: the context is full (64 positions): 2 of the oldest turns are forgotten"
prints "--keep-turns 2: and the one before" "$first$nl$second$nl$(continues "$why$second$end$who")" \
    generate "$tmp/chat.gguf" --chat --temp 0 -n 6 -f "$tmp/three" --keep-turns 2 --quiet
prints "... and the system text" "$system$nl$(continues "<|im_start|>system${nl}be kind$end$why")" \
    generate "$tmp/chat.gguf" --chat --temp 0 -n 6 -f "$tmp/turns" --keep-turns 1 --system 'be kind' --quiet
prints "room for -n tokens counts" "$first$nl$(continues "$why")" \
    generate "$tmp/chat.gguf" --chat --temp 0 -n 6 -c 61 -f "$tmp/turns" --keep-turns 1 --quiet
run generate "$tmp/chat.gguf" --chat --temp 0 -n 6 -f "$tmp/three" --keep-turns 3
check "too few turns to forget" eval '[ $code -eq 4 ] && one_line'
tells "... is said" "the conversation: 89 tokens, but the context holds 64"

cat >"$tmp/talk.json" <<END
[{"role": "user", "content": "hi there"}, {"role": "assistant", "content": [{"type": "text", "text": "${first%??????}"},
 {"type": "text", "text": "${first#"${first%??????}"}"}]}, {"content": "why?", "role": "user"}]
END
prints "--chat-file: its last turn is answered" "$second" generate "$tmp/chat.gguf" --chat --temp 0 -n 6 --chat-file "$tmp/talk.json"
printf '{"model": "x", "messages": [{"role": "user", "content": "hi there"}, {"role": "assistant", "content": "%s"}]}' "$first" >"$tmp/answered.json"
prints "... and others follow" "$second" generate "$tmp/chat.gguf" --chat --temp 0 -n 6 --chat-file "$tmp/answered.json" -p 'why?'
printf '/g 6\n' >"$tmp/in"
"$MGPT" repl "$tmp/chat.gguf" --chat-file "$tmp/talk.json" <"$tmp/in" >"$tmp/out" 2>"$tmp/err"
says "the repl begins with it" 'fed 58: <|im_start|> "u" "s" "e" "r"'
check "... and goes on with the answer" grep -qF "$second" "$tmp/out"
printf '[{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi there"}]' >"$tmp/system.json"
prints "a conversation with a system text" "$system" generate "$tmp/chat.gguf" --chat --temp 0 -n 6 --chat-file "$tmp/system.json"
refuses "two system texts" 3 "message 1 is a system text: leave out --system" \
    generate "$tmp/chat.gguf" --chat --system 'be brief' --chat-file "$tmp/system.json"
refuses "a turn too many" 2 "ends with a turn of the user, which is answered: leave out -p and -f" \
    generate "$tmp/chat.gguf" --chat --chat-file "$tmp/talk.json" -p hi
refuses "a session has no roles" 2 "--chat-file and --session: only one of them" \
    generate "$tmp/chat.gguf" --chat --chat-file "$tmp/talk.json" --session "$tmp/new"
refuses "... nor turns" 2 "--keep-turns and --session: only one of them" \
    generate "$tmp/chat.gguf" --chat --keep-turns 2 -p hi --session "$tmp/new"
refuses "--chat-file without --chat" 2 "--chat-file goes with --chat" generate "$tmp/chat.gguf" --chat-file "$tmp/talk.json"
refuses "--keep-turns without --chat" 2 "--keep-turns goes with --chat" generate "$tmp/chat.gguf" --keep-turns 3 -p hi
while read -r wrong line; do
    printf '%s' "$wrong" >"$tmp/wrong.json"
    refuses "a file of $wrong" 3 "wrong.json: $line" generate "$tmp/chat.gguf" --chat --chat-file "$tmp/wrong.json"
done <<'END'
{} expected a list of messages
[] expected a list of messages
[3] message 1: role: expected system, user or assistant, found none
[{"role":"tool","content":"x"}] message 1: role: expected system, user or assistant, found tool
[{"role":"user","content":"x"},{"role":"user"}] message 2: content: expected a string
[{"role":"user","content":[{"text":1}]}] message 1: content: expected a string
[ bad JSON
[{"role":"user"},{"role":"user","content":"x"}] message 1: content: expected a string
END

# without a template the tokens tell
sed 's/"chat_template"/"other"/' "$tmp/qwen/tokenizer_config.json" >"$tmp/config" && mv "$tmp/config" "$tmp/qwen/tokenizer_config.json"
run convert "$tmp/qwen" "$tmp/plain.gguf"
run generate "$tmp/plain.gguf" --chat --temp 0 -n 6 -p 'hi there'
check "recognised by its tokens" eval '[ $code -eq 0 ] && [ "$(cat "$tmp/out")" = "$first" ]'
tells "which is said" 'chat format: chatml'

# chat_template.jinja beside the weights counts more than tokenizer_config.json, as in transformers
printf '{%% for m in messages %%}<|im_end|>{{ m.content }}{%% endfor %%}\n' >"$tmp/qwen/chat_template.jinja"
sed 's/"other"/"chat_template"/' "$tmp/qwen/tokenizer_config.json" >"$tmp/config" && mv "$tmp/config" "$tmp/qwen/tokenizer_config.json"
run convert "$tmp/qwen" "$tmp/file.gguf"
prints "chat_template.jinja" "$(continues '<|im_end|>hi there')" generate "$tmp/file.gguf" --chat --temp 0 -n 6 -p 'hi there'

# normal form C: e and an acute accent are one letter, which this vocabulary lacks
refuses "texts are normalised where the model asks" 2 '(U+00E9)' tokenize "$tmp/chat.gguf" -p "e$(printf '\314\201')"
finish
