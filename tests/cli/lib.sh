# shellcheck shell=sh disable=SC2016,SC2034
# Shared by the tests of the command line (sourced): a temporary directory, numbered results.
#
# MGPT is the binary, MGPT_SOURCE_ROOT the repository. A result is a line "ok N name" or "not ok N
# name", the latter with what was seen. After the last test call `finish`.
: "${MGPT:?the mgpt binary}" "${MGPT_SOURCE_ROOT:?the repository}"
case $MGPT in /*) ;; *) MGPT=$PWD/$MGPT ;; esac
MGPT_SOURCE_ROOT=$(cd "$MGPT_SOURCE_ROOT" && pwd)
tmp=$(mktemp -d "${TMPDIR:-/tmp}/mgpt-cli-XXXXXX") || exit 1
trap 'rm -rf "$tmp" "$tmp.runs"' EXIT
trap 'exit 1' HUP INT TERM

names=$MGPT_SOURCE_ROOT/weights/names.gguf
lines=$MGPT_SOURCE_ROOT/weights/shakespeare.gguf
vectors=$MGPT_SOURCE_ROOT/tests/vectors
tab=$(printf '\t')
number=0
failures=0

# report NAME STATUS: counts one result; on failure shows what the last run printed.
report()
{
    number=$((number + 1))
    if [ "$2" -eq 0 ]; then
        echo "ok $number $1"
        return
    fi
    failures=$((failures + 1))
    echo "not ok $number $1"
    sed 's/^/#   stdout: /' "$tmp/out" | head -n 8
    sed 's/^/#   stderr: /' "$tmp/err" | head -n 60 # a sanitizer's report
    echo "#   exit code: $code"
}

# run ARGS...: mgpt with stdout in $tmp/out, stderr in $tmp/err, the exit code in $code. All of it is kept for `finish`.
run()
{
    code=0
    "$MGPT" "$@" >"$tmp/out" 2>"$tmp/err" || code=$?
    { printf '\001%s\n' "$*"; cat "$tmp/out" "$tmp/err"; echo "exit code $code"; } >>"$tmp.runs"
}

# interrupted WHEN ARGS...: the same for a run that gets Ctrl-C as soon as WHEN holds. A background job of a shell without job
# control ignores Ctrl-C until the program asks for it, which it has done when it writes.
interrupted()
{
    when=$1 code=0
    shift
    : >"$tmp/out"
    "$MGPT" "$@" >"$tmp/out" 2>"$tmp/err" &
    job=$!
    while kill -0 $job && ! eval "$when"; do
        sleep 0.1
    done
    kill -INT $job
    wait $job || code=$?
}

# check NAME COMMAND...: the command must succeed.
check()
{
    check_name=$1
    shift
    status=0
    "$@" || status=1
    report "$check_name" "$status"
}

# prints NAME EXPECTED ARGS...: exit code 0, exactly this on stdout (a line end is added), nothing
# on stderr.
prints()
{
    prints_name=$1
    printf '%s\n' "$2" >"$tmp/want"
    shift 2
    run "$@"
    check "$prints_name" \
        eval '[ $code -eq 0 ] && cmp -s "$tmp/out" "$tmp/want" && [ ! -s "$tmp/err" ]'
}

# refuses NAME CODE TEXT ARGS...: this exit code, nothing on stdout, one line on stderr that holds
# TEXT and is not longer than 200 bytes and a file name.
refuses()
{
    refuses_name=$1 want_code=$2 want_text=$3
    shift 3
    run "$@"
    check "$refuses_name" eval '[ $code -eq $want_code ] && [ ! -s "$tmp/out" ] && one_line &&
        grep -qF -- "$want_text" "$tmp/err"'
}

one_line()
{
    longest=$((200 + ${#names} + ${#tmp}))
    [ "$(wc -l <"$tmp/err")" -eq 1 ] && [ "$(wc -c <"$tmp/err")" -le $longest ]
}

# says NAME TEXT [ARGS...] / tells NAME TEXT [ARGS...]: mgpt ARGS, or the last run, printed this on stdout /
# stderr.
says()
{
    printed out "$@"
}

tells()
{
    printed err "$@"
}

printed()
{
    printed_to=$1 printed_name=$2 printed_text=$3
    shift 3
    [ $# -eq 0 ] || run "$@"
    check "$printed_name" grep -qF -- "$printed_text" "$tmp/$printed_to"
}

# runs NAME ARGS...: exit code 0.
runs()
{
    runs_name=$1
    shift
    run "$@"
    check "$runs_name" [ "$code" -eq 0 ]
}

# want ARGS...: what mgpt prints is what `equals NAME ARGS...` expects on stdout, with exit code 0.
want()
{
    run "$@"
    cp "$tmp/out" "$tmp/want"
}

equals()
{
    equals_name=$1
    shift
    run "$@"
    check "$equals_name" eval '[ $code -eq 0 ] && cmp -s "$tmp/out" "$tmp/want"'
}

# denies CODE TEXT ARGS...: mgpt convert ARGS ends with this exit code and TEXT in the only line on stderr that is
# not a note, prints nothing on stdout and leaves no no.gguf.
denies()
{
    check "convert: exit $*" denied "$@"
}

denied()
{
    want_code=$1 want_text=$2
    shift 2
    rm -f no.gguf
    run convert "$@"
    [ "$code" -eq "$want_code" ] && [ ! -s "$tmp/out" ] && [ ! -e no.gguf ] && grep -qF -- "$want_text" "$tmp/err" &&
        [ "$(grep -vc 'inferred:\|vocabulary:\|ignored:\|no vocabulary\|no BOS' "$tmp/err")" -eq 1 ]
}

# computes REF FILE ARGS...: FILE is converted, with its notes in `said`, and has the logits of REF. References
# are float64; models of one or two layers reach 2e-6 in float32, so 1e-5 leaves room for other orders of sums.
computes()
{
    check "convert: the logits of $*" computed "$@"
}

computed()
{
    computes_ref=$1
    shift
    run convert "$@" x.gguf
    cp "$tmp/err" said
    [ "$code" -eq 0 ] && run check x.gguf "$computes_ref" --tol 1e-5 && [ "$code" -eq 0 ]
}

# feed TEXT ARGS...: mgpt ARGS with this on stdin, a format of printf.
feed()
{
    # shellcheck disable=SC2059
    printf "$1" >"$tmp/in"
    shift
    run "$@" <"$tmp/in"
}

# Ends a test. What its runs printed has the hashes of hashes/NAME.txt, if there is such a file (hashes.py).
finish()
{
    hashes=$MGPT_SOURCE_ROOT/tests/cli/hashes/$(basename "$0" .sh).txt
    if [ -f "$hashes" ]; then
        code=0
        python3 "$MGPT_SOURCE_ROOT/tests/cli/hashes.py" "$hashes" "$tmp.runs" "$tmp" >"$tmp/out" 2>"$tmp/err" || code=$?
        check "what all runs print has the hashes of $(basename "$hashes")" [ "$code" -eq 0 ]
    fi
    echo "1..$number"
    [ "$failures" -eq 0 ]
    exit
}
