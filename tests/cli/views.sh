#!/bin/sh
# The looking commands of mgpt repl: a session of 71 commands as golden text, its numbers by their
# identities, files of numbers, widths, colours, hostile tokens.
#
# The golden text holds few digits of numbers whose bits are promised. After a wanted change:
#   mgpt repl weights/names.gguf --width 80 <tests/cli/views.in >tests/cli/views.out 2>&1
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
here=$MGPT_SOURCE_ROOT/tests/cli

# script LINES [MODEL [OPTIONS...]]: lines (a format of printf) through the repl.
script()
{
    # shellcheck disable=SC2059
    printf "$1" >"$tmp/in"
    shift
    model=${1:-$names}
    [ $# -eq 0 ] || shift
    run_script "$model" "$@"
}

run_script()
{
    run repl "$@" <"$tmp/in"
}

# ---- a session ----

code=0
"$MGPT" repl "$names" --width 80 <"$here/views.in" >"$tmp/out" 2>&1 || code=$?
cp "$tmp/out" "$tmp/err"
check "71 commands through a pipe" cmp "$tmp/out" "$here/views.out"
for isa in scalar avx2 avx512; do
    "$MGPT" repl "$names" --width 80 --isa $isa -t 3 <"$here/views.in" >"$tmp/isa" 2>&1 || continue
    check "... and the same on $isa" cmp "$tmp/isa" "$here/views.out"
done
check "help and an example for each" eval 'for c in a h qk v lens dla r m kv w; do
    printf "/help %s\n" $c | "$MGPT" repl "$names" | grep -q "^  example: /$c" || exit 1; done'

# ---- files of numbers ----

# sums FILE COLUMN: the sum of a column; lines that begin with # do not count.
sums()
{
    awk -v c="$2" '!/^#/ { s += $c } END { printf "%.3f\n", s }' "$1"
}

script "anna\\n/a 0 1 -o $tmp/a.txt\\n/h 0 -o $tmp/h.txt\\n"
check "-o: the weights of each query sum to 1" eval 'awk "!/^#/ { s = 0; n++; for (i = 1; i <= NF; i++)
    s += \$i; if (s < 0.999999 || s > 1.000001 || NF != 5) exit 1 } END { exit n != 5 }" "$tmp/a.txt"'
check "-o: nothing is seen of the future" eval \
    '[ "$(awk "!/^#/ && ++n == 2 { print \$3, \$4, \$5 }" "$tmp/a.txt")" = "0 0 0" ]'
check "/h -o: 4 heads of 5 queries" eval '[ "$(grep -vc "^#" "$tmp/h.txt")" -eq 20 ]'
says "the file is named, with its size" "wrote $(wc -c <"$tmp/h.txt") bytes to $tmp/h.txt"
script "/tokens 99 -o $tmp/none.txt\\n/ids 26\\n/tokens 99 -o $tmp/one.txt\\n"
check "/tokens -o: of a text without predictions too the likeliest are at most the 27 there are" eval 'grep -q "of the 27 likeliest" "$tmp/none.txt" &&
    [ "$(tail -n 1 "$tmp/one.txt" | wc -w)" = 59 ]'
script "/circuits qk 0 2 -o $tmp/q.txt\\n/circuits fires 0 3 -o $tmp/n.txt\\n/circuits promotes 0 3 -o $tmp/p.txt\\n"
check "/circuits -o: 27 tokens by 27, a neuron's column, its row" eval '[ "$(awk "!/^#/ { n += NF; m++ } END { print n, m }" "$tmp/q.txt")" = "729 27" ] &&
    [ "$(awk "!/^#/ { n += NF; m++ } END { print n, m }" "$tmp/n.txt")" = "27 27" ] && [ "$(awk "!/^#/ { print NF }" "$tmp/p.txt")" = 27 ]'
check "... by id: g looks for i" eval '[ "$(awk "!/^#/ && ++n == 7 { printf \"%.4f\", \$9 }" "$tmp/q.txt")" = 28.8762 ]'
# exact FILE HOOK HEAD: the numbers of a file are those of mgpt trace, bit for bit.
exact()
{
    "$MGPT" trace "$names" -p anna -o "$tmp/exact.npz" --hooks "$2" --quiet && python3 - "$@" "$tmp/exact.npz" <<'END'
import struct, sys, zipfile
path, hook, head, npz = sys.argv[1:]
data = zipfile.ZipFile(npz).read(hook + ".npy")
data = data[10 + struct.unpack_from("<H", data, 8)[0]:]
values = struct.unpack("<%df" % (len(data) // 4), data)
found = [float(word) for line in open(path) if line[0] != "#" for word in line.split()]
found = struct.unpack("<%df" % len(found), struct.pack("<%df" % len(found), *found))
sys.exit(found != values[int(head) * len(found):][:len(found)])
END
}
script "anna\\n/a 0 1 -o $tmp/a.txt\\n/r -o $tmp/r.txt\\n/m 0 -o $tmp/m.txt\\n/qk 0 1 4 2 -o $tmp/q.txt\\n/lens -o $tmp/l.txt\\n/dla -o $tmp/d.txt\\n/kv 0 1 -o $tmp/k.txt\\n/w output.weight -o $tmp/w.txt\\n"
check "-o: numbers are whole floats" exact "$tmp/a.txt" blocks.0.attn.hook_pattern 1
check "... in every file" eval 'for f in a r m q l d k w; do
    grep -v "^#" "$tmp/$f.txt" | tr -d ".-" | grep -Eq "[1-9][0-9]{8}" || exit 1; done'
script "anna\\n/a 0 1 scores -o $tmp/a.txt\\n/a 0 1 scores future -o $tmp/f.txt\\n"
check "-o: scores of keys not seen are -inf" eval \
    '[ "$(awk "!/^#/ && ++n == 4 { print \$5 }" "$tmp/a.txt")" = "-inf" ]'
check "... and future gives the same scores to those seen" eval 'paste "$tmp/a.txt" "$tmp/f.txt" |
    awk "!/^#/ { n++; for (i = 1; i <= n; i++) { d = \$i - \$(i + 5); if (d * d > 1e-10) exit 1 } }"'
script "The king is\\n/v 2 3 -1 -o $tmp/v.txt\\n/qk 2 3 -1 4 -o $tmp/q.txt\\n/v 2 3 -1\\n/qk 2 3 -1 4\\n" \
    "$lines"
check "/v: weights sum to 1, shares to 100" eval \
    '[ "$(sums "$tmp/v.txt" 1)" = 1.000 ] && [ "$(sums "$tmp/v.txt" 4)" = 100.000 ]'
# 6e-7 is ten roundings of a number below 1.
check "/v: the values mixed are the head's output" eval \
    'grep "by at most" "$tmp/out" | sed "s/.*at most //" | awk "{ exit !(\$1 < 6e-7) }"'
check "/qk: the products sum to q . k" eval \
    '[ "$(sums "$tmp/q.txt" 3)" = "$(awk "/^q . k/ { printf \"%.3f\n\", \$4 }" "$tmp/out")" ]'
check "/qk: which is the engine's score" eval '[ "$(awk "/^.engine|^engine/ { print substr(\$3, 1, 7) }" \
    "$tmp/out")" = "$(awk "/sqrt/ { print substr(\$3, 1, 7) }" "$tmp/out")" ]'
check "/qk: query heads share a KV head" eval '[ "$(sums "$tmp/q.txt" 4)" = 100.000 ]'
script "The king is\\n/lens\\n" "$lines"
check "/lens: a layer begins with the row of the one before it, shown once" eval '[ "$(grep -c "^[0-9]* pre" "$tmp/out")" -eq 1 ] &&
    [ "$(grep -c "^[0-9]* mid" "$tmp/out")" -eq 6 ] && [ "$(grep -c "^[0-9]* post" "$tmp/out")" -eq 6 ]'
for layer in 1 2; do
    script "The king is\\n/ab mlp.$layer zero\\n/top 5\\n" "$lines"
    grep -v "mlp" "$tmp/out" >"$tmp/mlp.$layer"
done
check "/ab: the MLP of one layer" eval '[ -s "$tmp/mlp.1" ] && ! cmp -s "$tmp/mlp.1" "$tmp/mlp.2"'
script "anna\\n/r -o $tmp/r\\n/m 0 -o $tmp/m\\n/kv 0 0 -o $tmp/k\\n/lens -o $tmp/l\\n/dla -o $tmp/d\\n"
check "-o: residuals, neurons, cache, lens, attribution" eval '[ "$(grep -vc "^#" "$tmp/r")" -eq 3 ] &&
    [ "$(grep -vc "^#" "$tmp/m")" -eq 64 ] && [ "$(grep -vc "^#" "$tmp/k")" -eq 5 ] &&
    [ "$(grep -vc "^#" "$tmp/l")" -eq 3 ] && [ "$(grep -vc "^#" "$tmp/d")" -eq 1 ] && [ ! -s "$tmp/err" ]'
script "/w blk.0.attn_q.weight -o $tmp/w w\\n"
check "-o: a tensor, in a file whose name has a space" eval \
    '[ "$(awk "!/^#/ { n += NF } END { print NR, n }" "$tmp/w w")" = "18 256" ]'
cp "$names" "$tmp/nan.gguf"
at=$("$MGPT" info "$names" --tensors | sed -n 's/^output.weight .* at \([0-9]*\)$/\1/p')
printf '\000\000\300\177\000\000\200\177' | dd of="$tmp/nan.gguf" bs=1 seek="$at" conv=notrunc 2>"$tmp/err" # NaN, infinity
script "/w output.weight\\n/w output.weight -o $tmp/nan.w\\n" "$tmp/nan.gguf"
check "/w: the numbers of a tensor are those of its finite values" eval 'grep -q "not finite 2" "$tmp/out" &&
    grep -qF "$(grep -v "^#" "$tmp/nan.w" | tr "\t" "\n" | grep -v "nan\|inf" | awk "{ n++; s += \$1; q += \$1 * \$1 }
    END { printf \"mean %.6g  std %.6g\", s / n, sqrt(q / n - s * s / n / n) }")" "$tmp/out"'
script "anna\\n/a 0 0 -o $tmp/none/x\\n/tokens\\n"
tells "-o into a directory that is not there" "$tmp/none/x"
says "... and the session goes on" "5 of 16"

# ---- widths ----

text='First Citizen: Before we proceed any further, hear me speak. All: Speak, speak. First Citizen: You all'
script "$text\\n/a 0 0\\n/a 5 3 log\\n/h 0\\n/h 5\\n/v 0 0 -1\\n/qk 0 0 -1 0\\n/lens\\n/dla\\n/r\\n/m 0\\n/kv 0 0\\n" \
    "$lines" --width 60
sed 1d "$tmp/out" | sed 's/·/./g; s/"[^"]*"/"x"/g' >"$tmp/narrow"
check "100 tokens on 60 columns" eval '[ "$(wc -L <"$tmp/narrow")" -le 60 ] && [ ! -s "$tmp/err" ]'
says "too many numbers: it says how many, and how to get all" \
    "a cell: largest of 3 x 3; all 102 x 102: -o FILE"
says "too many rows: the strongest" "the strongest 48 of 102 keys; -o FILE writes all"
check "no view is longer than the limit and its frame" eval \
    'awk "/^layer|^length|^after/ { n = 0 } ++n > 60 { exit 1 }" "$tmp/out"'

# ---- colours ----

tab_escape=$(printf '\033')
TERM=xterm-256color COLORTERM=truecolor COLUMNS=80 export TERM COLORTERM COLUMNS
script 'anna\n/a 0 0\n/h 0\n'
check "no colour through a pipe" eval '! grep -q "$tab_escape" "$tmp/out"'
script 'anna\n/a 0 0\n/h 0\n' "$names" --screen truecolor
says "--screen truecolor" "${tab_escape}[48;2;"
says "half blocks" "▀"
script 'annabellannab\n/a 0 0\n' "$names" --screen truecolor
says "... of two rows each, and both names" '2 "n"/"n"      '
check "each line ends in the terminal's own colours" eval \
    '! grep "$tab_escape" "$tmp/out" | grep -v "$tab_escape\[0m[^$tab_escape]*$" | grep -q .'
script 'anna\n/a 0 0\n' "$names" --screen 256
says "--screen 256" "${tab_escape}[48;5;"
script 'anna\n/a 0 0\n' "$names" --screen plain
check "--screen plain" eval '! grep -q "$tab_escape" "$tmp/out"'
refuses "another screen" 2 "expected truecolor, 256, plain or full, found 'vga'" repl "$names" --screen vga

# ---- hostile tokens ----

# A model of 4 numbers a row whose tokens are a control sequence's beginning, a change of the writing
# direction, a wide character and a letter.
awk 'function rows(n, m, i, j, s) { s = "["; for (i = 0; i < n; i++) { s = s (i ? ",[" : "["); for (j = 0; j < m; j++)
    s = s (j ? "," : "") ((i * 7 + j * 5) % 11 - 5) / 5; s = s "]" } return s "]" }
    BEGIN { printf "{\"wte\":%s,\"wpe\":%s,\"lm_head\":%s", rows(5, 4), rows(80, 4), rows(5, 4)
    split("q k v o", w, " "); for (i = 1; i <= 4; i++) printf ",\"layer0.attn_w%s\":%s", w[i], rows(4, 4)
    printf ",\"layer0.mlp_fc1\":%s,\"layer0.mlp_fc2\":%s", rows(6, 4), rows(4, 6)
    print ",\"_vocab\":[\"\\u001b\",\"\\u202e\",\"漢\",\"x\"],\"_bos_id\":4,\"_vocab_size\":5}" }' >"$tmp/odd.json"
run convert "$tmp/odd.json" "$tmp/odd.gguf" --heads 2
views='/a 0 0\n/h 0\n/v 0 0 -1\n/qk 0 0 1 2\n/lens\n/dla\n/r\n/kv 0 0\n'
script "/feed \\\\x1B\\\\u{202E}漢x\\n$views" "$tmp/odd.gguf"
check "no control character reaches the terminal" eval \
    '[ $code -eq 0 ] && [ ! -s "$tmp/err" ] && ! grep -q "$tab_escape\|$(printf "\342\200\256")" "$tmp/out"'
says "they are shown escaped" '1 "\u{1B}"'
says "wide characters stand in their columns" '3 "漢"           0'
sed 's/u001b/u0000/' "$tmp/odd.json" >"$tmp/nul.json" && printf '\0x' >"$tmp/nul"
run convert "$tmp/nul.json" "$tmp/nul.gguf" --heads 2
run tokenize "$tmp/nul.gguf" --pieces -f "$tmp/nul"
says "a zero byte, too" '0	"\u{0}"'
i=0 long=
while [ $i -lt 19 ]; do
    long="${long}\\\\x1B漢x\\\\u{202E}"
    i=$((i + 1))
done
script "/feed $long\\n$views" "$tmp/odd.gguf" --width 40
check "... also in pictures of many" eval \
    '[ ! -s "$tmp/err" ] && ! grep -q "$tab_escape\|$(printf "\342\200\256")" "$tmp/out"'

# ---- the published model ----

shared=$MGPT_SOURCE_ROOT/../shared/cases/microgpt-3d
if [ -d "$shared" ]; then
    run convert "$shared/microgpt-weights.json" "$tmp/m.gguf"
    script 'anna\n/h 0\n/qk 0 0 4 2\n/top 3\n/lens\n' "$tmp/m.gguf"
    says "what each head looks at" \
        '0 <BOS> 0.2369      1 "a" 0.3746        2 "n" 0.4641        3 "n" 0.7026'
    says "q . k" "q . k               -0.180528"
    says "... divided" "/ sqrt(4)           -0.090264"
    says "the next token" '0.338 <BOS>    0.141 "n"      0.130 "h"'
else
    echo "# skipped: no ../shared/cases"
fi

finish
