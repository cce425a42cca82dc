#!/bin/sh
# mgpt attend as a user types it. Every worked example of the attention lessons is replayed against numbers that
# awk computes in double precision from the same matrices, a second program of a few lines, and some are
# also there in full, derived by hand.
# shellcheck disable=SC2016,SC2059,SC2154
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
cd "$tmp" || exit 1

# ---- a second opinion ----

# Reads the output of mgpt attend --digits 9, takes X, Q, K and V (checked apart), and computes what
# must follow from them. 1e-6 of a number near 1 is 8 units in the last place of float32: rounding of
# products, exponentials and sums; scores are compared relative to their size.
cat >oracle.awk <<'ORACLE'
function near(a, b, where) {
    d = a - b; d = d < 0 ? -d : d; size = b < 0 ? -b : b
    if (!(d <= 1e-6 * (size > 1 ? size : 1))) { print where ": " a ", expected " b; bad = 1 }
    n_checked++
}
/\[[0-9]+, [0-9]+\]$/ { title = $1 " " $2 " " $3; name = $1; if ($0 ~ /^A V/) name = "AV"; if ($0 ~ /^A =/) name = "A"
    if ($0 ~ /^S =/) { name = "S"; head++ } if ($0 ~ /^S \/ tau/) { name = "scaled"; tau = $6 + 0 }
    if ($0 ~ /^masked/) { causal = 1 } row = 0; next }
/^mask:/ || /^----/ || NF == 0 { next }
{ for (j = 1; j <= NF; j++) m[name, name ~ /^[XQKV]$/ ? 0 : head, row, j - 1] = $j; cols[name] = NF; row++; rows[name] = row }
END {
    n = rows["Q"]; H = head; dk = cols["Q"] / H; dv = cols["V"] / H
    for (h = 0; h < H; h++) for (i = 0; i < n; i++) {
        last = causal ? i : n - 1; top = -1e300; total = 0
        for (j = 0; j < n; j++) {
            s[j] = 0
            for (c = 0; c < dk; c++) s[j] += m["Q", 0, i, h * dk + c] * m["K", 0, j, h * dk + c]
            near(m["S", h + 1, i, j], s[j], "S " i " " j)
            near(m["scaled", h + 1, i, j], s[j] / tau, "scaled " i " " j)
            if (causal && (m["masked:", h + 1, i, j] == "-inf") != (j > i)) { print "mask " i " " j; bad = 1 }
            if (j <= last && s[j] / tau > top) top = s[j] / tau
        }
        for (j = 0; j <= last; j++) { e[j] = exp(s[j] / tau - top); total += e[j] }
        for (j = 0; j < n; j++) near(m["A", h + 1, i, j], j <= last ? e[j] / total : 0, "A " i " " j)
        for (c = 0; c < dv; c++) {
            o = 0
            for (j = 0; j <= last; j++) o += e[j] / total * m["V", 0, j, h * dv + c]
            near(m["AV", h + 1, i, c], o, "AV " i " " c)
        }
    }
    if (!n_checked) { print "nothing was checked"; bad = 1 }
    exit bad
}
ORACLE

# agrees NAME ARGS...
agrees()
{
    agrees_name=$1
    shift
    run attend "$@" --digits 9
    check "$agrees_name" eval '[ $code -eq 0 ] && [ ! -s err ] && awk -f oracle.awk out >err'
}

# stage TITLE: the numbers under this title of the last run, in one line.
stage()
{
    awk -v title="$1" 'index($0, title) == 1 { on = 1; next } on && NF == 0 { exit }
        on { for (i = 1; i <= NF; i++) printf "%s ", $i } END { print "" }' out
}

# shows NAME TITLE NUMBERS
shows()
{
    check "$1" [ "$(stage "$2")" = "$3 " ]
}

# ---- the worked example ----

agrees "identity" identity
agrees "identity, causal" causal
for tau in 0.1 0.25 0.5 1 1.4142135 2 3 4 5; do
    agrees "tau $tau" identity --tau $tau
    agrees "tau $tau, causal" identity --tau $tau --causal
done

# X = (1,0,1,0), (0,1,0,1), (1,1,0,0): every row has square 2, the third meets each other in one place.
# Row 2 of S / sqrt(4) is 1/2 1/2 1: weights 1 : 1 : sqrt(e), so 1 / (2 + sqrt(e)) = 0.2741.
run attend causal
shows "S" 'S = Q K^T' '2.0000 0.0000 1.0000 0.0000 2.0000 1.0000 1.0000 1.0000 2.0000'
shows "S / tau" 'S / tau, tau = 2' '1.0000 0.0000 0.5000 0.0000 1.0000 0.5000 0.5000 0.5000 1.0000'
shows "the mask" masked '1.0000 -inf -inf 0.0000 1.0000 -inf 0.5000 0.5000 1.0000'
shows "A" 'A = softmax' '1.0000 0.0000 0.0000 0.2689 0.7311 0.0000 0.2741 0.2741 0.4519'
shows "A V" 'A V' \
    '1.0000 0.0000 1.0000 0.0000 0.2689 0.7311 0.2689 0.7311 0.7259 0.7259 0.2741 0.2741'
cp out causal
run attend identity --causal
check "the same by option" eval 'tail -n +2 causal >same && tail -n +2 out | cmp -s - same'
run attend causal --isa scalar
check "the same kernels on every instruction set" cmp -s out causal
# Without the mask row 0 is 1 0 1/2: e, 1, sqrt(e) of e + 1 + sqrt(e) = 5.3670.
run attend identity
shows "A without a mask" 'A = softmax' '0.5065 0.1863 0.3072 0.1863 0.5065 0.3072 0.2741 0.2741 0.4519'
run attend causal --no-causal
shows "--no-causal" 'A = softmax' '0.5065 0.1863 0.3072 0.1863 0.5065 0.3072 0.2741 0.2741 0.4519'
# Cold: S / 0.1 of row 2 is 10 10 20, so the others get e^-10 each. Hot: nearly uniform.
run attend identity --tau 0.1 --digits 6
check "tau 0.1 is nearly one key" eval 'stage "A = softmax" | grep -q "0.000045 0.000045 0.999909 $"'
run attend identity --tau 5
check "tau 5 is nearly uniform" eval 'stage "A = softmax" | grep -q "0.3104 0.3104 0.3792 $"'

# ---- projections ----

for name in identity zero negate flip dim:1 dim:2 dim:4; do
    for at in wq wk wv; do
        agrees "--$at $name" causal --$at $name
    done
done
# Q keeps dimension 1 only: rows 1 0 0 0, 0, 1 0 0 0; S is 1 where both have it.
run attend identity --wq dim:1
shows "one dimension: Q" 'Q = X W_Q' '1.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 1.0000 0.0000 0.0000 0.0000'
shows "one dimension: S" 'S = Q K^T' '1.0000 0.0000 1.0000 0.0000 0.0000 0.0000 1.0000 0.0000 1.0000'
run attend identity --wq flip
shows "flipped: Q" 'Q = X W_Q' '0.0000 1.0000 0.0000 1.0000 1.0000 0.0000 1.0000 0.0000 0.0000 0.0000 1.0000 1.0000'
shows "flipped: tokens 0 and 1 look at each other" 'S = Q K^T' \
    '0.0000 2.0000 1.0000 2.0000 0.0000 1.0000 1.0000 1.0000 0.0000'
run attend identity --wk negate
shows "negated: the unlike attract" 'S = Q K^T' \
    '-2.0000 0.0000 -1.0000 0.0000 -2.0000 -1.0000 -1.0000 -1.0000 -2.0000'

printf '# three tokens\n1, 2\n\n  -1\t0.5 # the second\n3e-1 +2\r\n' >x
printf '1 0 2 1\n0 1 -1 3\n' >w
agrees "given matrices" -x x --wq w --wk w
agrees "given matrices, two heads, causal" -x x --wq w --wk w --wv w --heads 2 --causal
agrees "four heads of one dimension" -x x --wq w --wk w --wv w --heads 4 --tau 0.7
run attend -x x --wq w --wk w --wv w --heads 2
# X W by hand: 1*1+2*0, 1*0+2*1, 1*2-2*1, 1*1+2*3; and so on.
shows "X W_Q" 'Q = X W_Q' '1.0000 2.0000 0.0000 7.0000 -1.0000 0.5000 -2.5000 0.5000 0.3000 2.0000 -1.4000 6.3000'
check "tau is the root of a head's width" grep -q 'tau = 1.41421 ' out
says "heads are told apart" '---- head 1'
run attend -x - <x
check "from stdin" eval '[ $code -eq 0 ] && stage X | grep -q "^1.0000 2.0000 -1.0000 0.5000 0.3000 2.0000"'
# An .npy of two rows of float64: 1 2, 3 4.
{
    printf '\223NUMPY\001\000\166\000'
    printf '%-117s\n' "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }"
    printf '\0\0\0\0\0\0\360\077\0\0\0\0\0\0\0\100\0\0\0\0\0\0\010\100\0\0\0\0\0\0\020\100'
} >x.npy
agrees "an .npy file" -x x.npy
shows "its numbers" X '1.000000000 2.000000000 3.000000000 4.000000000'
for shape in '4, 1' '1, 4'; do
    sed "s/(2, 2)/($shape)/" x.npy >flat.npy
    agrees "an .npy file of shape ($shape)" -x flat.npy
    check "... has its rows" eval '[ "$(awk "/^X/ { on = 1; next } on && NF == 0 { exit } on" out | wc -l)" -eq "${shape%%,*}" ]'
done

# ---- averages, copies, the bigram table ----

agrees "average" average
run attend average
shows "averages: no scores" 'S = Q K^T' \
    '0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000 0.0000'
shows "averages: the triangular matrix" 'A = softmax' \
    '1.0000 0.0000 0.0000 0.0000 0.5000 0.5000 0.0000 0.0000 0.3333 0.3333 0.3333 0.0000 0.2500 0.2500 0.2500 0.2500'
# Running means of (2,4), (6,0), (1,5), (3,3): halves of 8 and 4, thirds of 9 and 9, quarters of 12 and 12.
shows "averages: running means" 'A V' '2.0000 4.0000 4.0000 2.0000 3.0000 3.0000 3.0000 3.0000'
run attend average --no-causal
shows "averages of all" 'A V' '3.0000 3.0000 3.0000 3.0000 3.0000 3.0000 3.0000 3.0000'
# Queries look for the next, the second and the first dimension: exp(-577) is 0 in float32.
run attend one-hot
shows "a copy: one-hot weights" 'A = softmax' '0.0000 0.0000 1.0000 1.0000 0.0000 0.0000 0.0000 1.0000 0.0000'
shows "a copy: their values" 'A V' '5.0000 6.0000 1.0000 2.0000 3.0000 4.0000'
# "emma": e is followed by m; m by m once and by a once; a by the end.
run attend bigram
shows "the bigram table: rows of . e m m a" 'A V' \
    '0.0000 1.0000 0.0000 0.0000 0.0000 0.0000 1.0000 0.0000 0.0000 0.0000 0.5000 0.5000 0.0000 0.0000 0.5000 0.5000 1.0000 0.0000 0.0000 0.0000'
agrees "bigram" bigram

# ---- JSON ----

printf '1 2\n3 4\n' >small
prints "--json" '{"tau":1.0,"causal":true,"x":[[1.0,2.0],[3.0,4.0]],"q":[[0.0,0.0],[0.0,0.0]],"k":[[1.0,2.0],[3.0,4.0]],"v":[[1.0,2.0],[3.0,4.0]],"heads":[{"s":[[0.0,0.0],[0.0,0.0]],"scaled":[[0.0,0.0],[0.0,0.0]],"masked":[[0.0,null],[0.0,0.0]],"a":[[1.0,0.0],[0.5,0.5]],"av":[[1.0,2.0],[2.0,3.0]]}],"out":[[1.0,2.0],[2.0,3.0]]}' \
    attend -x small --wq zero --causal --tau 1 --json

# ---- refused ----

# bad NAME TEXT WHAT: a file with this text is refused.
bad()
{
    printf "$2" >bad
    refuses "$1" 3 "bad: $3" attend -x bad
}

bad "ragged rows" '1 2\n3 4\n\n5\n' 'line 4: a row of 1 numbers, those before have 2'
bad "a word" '1 2\n3 x\n' "line 2: expected a number, found 'x'"
bad "NaN" '1 2\n3 4\nnan 1\n' "line 3: expected a number, found 'nan'"
bad "infinity" 'inf\n' "line 1: expected a number, found 'inf'"
bad "hexadecimal" '0x10\n' "line 1: expected a number, found '0x10'"
bad "two signs" '1 --2\n' "line 1: expected a number, found '--2'"
bad "too large" '1\n1e39\n' "line 2: '1e39' is too large for float32"
bad "no numbers" '# nothing\n\n' 'no numbers'
bad "an empty file" '' 'no numbers'
bad "zeros" '1\n\0002\n' 'line 2: not text'
seq 1025 >bad
refuses "too many rows" 3 'bad: more than 1024 rows or columns' attend -x bad
head -c 140 x.npy >bad
refuses "an .npy that is cut" 3 'bad: 12 bytes of data, the shape needs 32' attend -x bad
{ head -c 136 x.npy; printf '\0\0\0\0\0\0\370\177'; tail -c 16 x.npy; } >bad
refuses "an .npy with NaN" 3 'bad: row 1, column 2: not a finite float32' attend -x bad
refuses "a file that is not there" 5 'cannot open' attend -x missing
refuses "nothing" 2 "Give an example's name or -x FILE" attend
refuses "an example that is misspelt" 2 "did you mean 'identity'?" attend idnetity
refuses "a dimension that is not there" 2 'dim:5: expected dim:1 to dim:4' attend identity --wq dim:5
refuses "rows that do not fit" 2 'W_Q is 2 x 4: expected 4 rows, one for each column of X' attend identity --wq w
printf '%s\n' '1 0' '0 1' '1 1' '2 2' '3 3' >tall
for at in wq wk wv; do
    refuses "--$at with more rows than X has columns" 2 "is 5 x 2: expected 4 rows" attend identity --$at tall
done
refuses "queries and keys of different length" 2 'W_Q has 4 columns and W_K 2' attend -x x --wq w
refuses "heads that do not fit" 2 'W_Q is 4 x 4: its columns cannot be cut into 3 heads' attend identity --heads 3
refuses "values that do not fit" 2 'W_V is 2 x 2: its columns cannot be cut into 4 heads' \
    attend -x x --wq w --wk w --heads 4
refuses "tau 0" 2 '--tau: expected a number from' attend identity --tau 0
refuses "causal and not" 2 'exclude each other' attend identity --causal --no-causal
printf '1e30 1e30\n' >large
refuses "scores beyond float32" 2 'S: row 1, column 1 is too large for float32' attend -x large
printf '1e18 1e18\n' >large
refuses "scores beyond float32 over tau" 2 'S / tau: row 1, column 1 is too large for float32' attend -x large --tau 1e-3
refuses "an instruction set that is none" 2 "no 'mmx'" attend identity --isa mmx
finish
