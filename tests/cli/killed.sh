#!/bin/sh
# What happens from outside: kill -9 and Ctrl-C at any moment, no room on the disk, a stdout that takes
# nothing. A target is absent, as before, or complete; what cannot be printed is an error.
# shellcheck disable=SC2016  # conditions are evaluated by check
# shellcheck source=tests/cli/lib.sh
. "$MGPT_SOURCE_ROOT/tests/cli/lib.sh"
cd "$tmp" || exit 1
moments=12
text=$(yes 'the king and the queen ' | head -n 5 | tr -d '\n')
: >err
: >out
code=-

# Whether a file in progress has no name here, so that even SIGKILL leaves nothing.
unnamed=$(python3 -c 'import os
try: os.open(".", os.O_TMPFILE | os.O_WRONLY); print(1)
except OSError: print(0)')

# ended SIGNAL COMMAND...: runs that write $target, each stopped at another moment of the first 60 ms or at
# its end. What is there must be whole, and nothing else may be left: by SIGKILL only where there is O_TMPFILE.
prefix=
ended()
{
    signal=$1
    shift
    rm -f "$target"
    "$MGPT" "$@" >out 2>err || return 1
    mv "$target" want
    for i in $(seq $moments); do
        rm -f "$target" .[!.]*.tmp
        code=0
        $prefix timeout --foreground -s "$signal" "0.0$(printf '%02d' $((i * 5)))" "$MGPT" "$@" >out 2>err || code=$?
        if [ -e "$target" ] && ! cmp -s want "$target"; then
            return 1
        fi
        if [ "$signal" != KILL ] || [ "$unnamed" = 1 ] && [ -n "$(find . -name '.*.tmp')" ]; then
            return 1
        fi
    done
}

for signal in KILL INT TERM HUP; do
    target=x.gguf
    check "SIG$signal during convert" ended $signal convert --type q4_k "$lines" x.gguf
    target=x.npz
    check "SIG$signal during trace to .npz" ended $signal trace "$lines" -p "$text" -o x.npz
    target=x.safetensors
    check "SIG$signal during trace to .safetensors" ended $signal trace "$lines" -p "$text" -o x.safetensors
done

# Where a file in progress has a name, a signal that can be caught removes it.
prefix="python3 $MGPT_SOURCE_ROOT/tests/cli/no_tmpfile.py"
if $prefix true; then
    target=x.gguf
    for signal in INT TERM HUP; do
        check "SIG$signal during convert, without O_TMPFILE" ended $signal convert --type q4_k "$lines" x.gguf
    done
    target=x.npz
    check "SIGTERM during trace, without O_TMPFILE" ended TERM trace "$lines" -p "$text" -o x.npz
fi
prefix=
rm -f .[!.]*.tmp

# The sender of SIGTERM sees that it ended the process; nohup keeps SIGHUP away.
code=0
timeout --foreground --preserve-status -s TERM 0.3 "$MGPT" generate "$lines" -p the --samples 100000 >out 2>err || code=$?
check "SIGTERM ends generate" [ $code -eq 143 ]
hangs_up()
{
    trap '' HUP # what starts now inherits it
    "$MGPT" convert --type q4_k "$lines" nohup.gguf 2>err &
    kill -HUP $!
    trap - HUP
    code=0
    wait $! || code=$?
    [ $code -eq 0 ] && [ -e nohup.gguf ]
}
check "SIGHUP that is ignored stays ignored" hangs_up
rm -f nohup.gguf

# A mapped input (more than 256 MiB) that becomes shorter: one line and exit code 5. The conversion waits at a
# FIFO, its file open, until the input has been cut.
shrinks()
{
    cp "$names" mapped.gguf
    truncate -s 300M mapped.gguf
    rm -f fifo
    mkfifo fifo
    "$MGPT" convert mapped.gguf fifo 2>err >out &
    for _ in $(seq 3000); do
        ! grep -q mapped.gguf /proc/$!/maps 2>/dev/null || break
        sleep 0.02
    done
    sleep 0.1
    truncate -s 4096 mapped.gguf
    cat fifo >/dev/null
    code=0
    wait $! || code=$?
    [ $code -eq 5 ] && [ "$(cat err)" = 'mgpt: mapped.gguf: became shorter while it was read' ]
}
[ ! -e /proc/self/maps ] || check "a mapped file that is cut" shrinks
rm -f mapped.gguf fifo

# Generating never ends by itself here; checking may.
for after in 0.02 0.05 0.1 0.3; do
    code=0
    timeout --foreground --preserve-status -s INT $after "$MGPT" generate "$lines" -p the --samples 100000 >out 2>err || code=$?
    check "Ctrl-C after $after s of generate" eval '[ $code -eq 130 ] && ! grep -q "mgpt: out of" err'
    code=0
    timeout --foreground --preserve-status -s INT $after "$MGPT" check --self "$lines" --full >out 2>err || code=$?
    check "Ctrl-C after $after s of check --self" eval '[ $code -eq 130 ] || [ $code -eq 0 ]'
done

# Scoring, comparing and a script of the repl come to an end, or are stopped with 130; nothing is left over.
yes 'the king and the queen' | head -n 2000 >many
yes 'the king' | head -n 40 | sed 'a /g 100\n/reset' >lines.in
stopped()
{
    code=0
    timeout --foreground --preserve-status -s INT "$@" <in.now >out 2>err || code=$?
    { [ $code -eq 130 ] || [ $code -eq 0 ] || [ "$code,$3" = 1,check ]; } && ! grep -q 'mgpt: out of' err &&
        [ -z "$(find . -name '.*.tmp')" ] && { [ ! -e inside.npz ] || python3 -m zipfile -t inside.npz >/dev/null; }
}
for after in 0.01 0.03 0.1; do
    cp many in.now
    check "Ctrl-C after $after s of score" stopped $after "$MGPT" score "$lines" -f -
    check "Ctrl-C after $after s of check" stopped $after "$MGPT" check "$lines" "$lines" -p "$text"
    check "Ctrl-C after $after s of check of a reference" stopped $after "$MGPT" check "$names" \
        "$MGPT_SOURCE_ROOT/weights/names.ref.json" --explain
    { echo '/trace on * inside.npz'; cat lines.in; echo /trace off; } >in.now
    check "Ctrl-C after $after s of repl" stopped $after "$MGPT" repl "$lines"
done
rm -f inside.npz

# No room: files may not become larger than 1 kB here (2 blocks of 512). SIGXFSZ is ignored, as it is for
# who runs into the end of a disk.
full()
{
    code=0
    (trap '' XFSZ && ulimit -f 2 && exec "$MGPT" "$@") >/dev/null 2>err || code=$?
    [ $code -eq 5 ] && [ ! -e big.out.gguf ] && [ ! -e big.npz ] && [ ! -e big.safetensors ] &&
        [ -z "$(find . -name '.*.tmp')" ] && [ "$(tail -n 1 err | cut -c1-5)" = mgpt: ]
}
check "no room for convert" full convert "$names" big.out.gguf
check "no room for trace to .npz" full trace "$names" -p anna -o big.npz
check "no room for trace to .safetensors" full trace "$names" -p anna -o big.safetensors

# The repl prints an error and goes on; a script ends with the code of the first one.
printf 'annanannanna\n/trace on * big.npz\nb\n/trace off\n/a 0 0 -o big.txt\n/save big.session\n/p 0\n' >in
code=0
(trap '' XFSZ && ulimit -f 1 && exec "$MGPT" repl "$names" --rng python) <in 2>err >out || code=$?
check "no room for what the repl writes" eval '[ $code -eq 5 ] && [ "$(grep -c "mgpt: big" err)" -ge 2 ] && [ ! -e big.npz ] &&
    [ ! -e big.session ] && [ -z "$(find . -name ".*.tmp")" ] && grep -q rank out'

# tells_of_stdout COMMAND...: a result that cannot be printed is exit 5 and one line, whether stdout is a
# device without room or closed.
tells_of_stdout()
{
    code=0
    "$MGPT" "$@" <in >/dev/full 2>err || code=$?
    [ $code -eq 5 ] && [ "$(wc -l <err)" -eq 1 ] && grep -q 'cannot write to stdout' err || return 1
    code=0
    "$MGPT" "$@" <in >&- 2>err || code=$?
    [ $code -eq 5 ] && [ "$(wc -l <err)" -eq 1 ]
}
echo anna >in
check "stdout: generate" tells_of_stdout generate "$names"
check "stdout: generate --json" tells_of_stdout generate "$names" --json
check "stdout: generate --samples" tells_of_stdout generate "$names" --samples 20
check "stdout: repl" tells_of_stdout repl "$names"
check "stdout: check" tells_of_stdout check "$names" "$MGPT_SOURCE_ROOT/weights/names.ref.json"
check "stdout: check --json" tells_of_stdout check "$names" "$MGPT_SOURCE_ROOT/weights/names.ref.json" --json
check "stdout: check --self" tells_of_stdout check --self "$names"
check "stdout: score" tells_of_stdout score "$names" -f -
echo '{"text": "anna"}' >in
check "stdout: score --json" tells_of_stdout score "$names" -f - --json
echo anna >in
check "stdout: check of two models" tells_of_stdout check "$names" "$names" -p anna
check "stdout: attend --json" tells_of_stdout attend identity --json
check "stdout: patch" tells_of_stdout patch "$names" --clean anna --corrupt emma --metric 'e - a'
check "stdout: patch --json" tells_of_stdout patch "$names" --clean anna --corrupt emma --metric 'e - a' --json
check "stdout: lab --json" tells_of_stdout lab "$names" -p a -o page.html --json
check "stdout: trace --json" tells_of_stdout trace "$names" -p a -o trace.npz --json
check "stdout: completions" tells_of_stdout completions bash
check "stdout: --version" tells_of_stdout --version
check "stdout: attend" tells_of_stdout attend identity
check "stdout: tokenize" tells_of_stdout tokenize "$names" -p anna
check "stdout: tokenize --decode" tells_of_stdout tokenize "$names" --decode -p '1 2'
check "stdout: info" tells_of_stdout info "$names" --tensors
check "stdout: info --json" tells_of_stdout info "$names" --json
check "stdout: trace --list" tells_of_stdout trace "$names" --list
check "stdout: convert --dry-run" tells_of_stdout convert "$names" --dry-run
check "stdout: --help" tells_of_stdout generate --help

# Limits of the process (ulimit -f, -n): a line and exit code 5, no signal, no "Permission denied".
limited()
{
    limit=$1 want=$2
    shift 2
    code=0
    # shellcheck disable=SC3045  # -n: dash, bash and busybox have it
    said=$( (ulimit "${limit% *}" "${limit#* }" && exec "$MGPT" "$@") 2>&1 >out) || code=$?
    echo "$said" >err
    [ $code -eq 5 ] && tail -n 1 err | grep -q "$want" && [ -z "$(find . -name '.*.tmp')" ]
}
check "ulimit -f: convert" limited '-f 8' 'File too large' convert "$lines" small.gguf
check "ulimit -f: trace" limited '-f 8' 'File too large' trace "$lines" -p "$text" -o small.npz
check "ulimit -f: lab" limited '-f 8' 'File too large' lab "$names" -p anna -o small.html
check "ulimit -f: stdout" limited '-f 0' 'cannot write to stdout' info "$names"
for command in "convert $names few.gguf" "info $names" "check --self $names" "trace $names -p a -o few.npz"; do
    # shellcheck disable=SC2086
    check "ulimit -n: ${command%% *}" limited '-n 4' 'Too many open files' $command
done

# What cannot be read: a directory as stdin.
unreadable()
{
    code=0
    "$MGPT" "$@" <"$tmp" >out 2>err || code=$?
    [ $code -eq 5 ] && [ "$(wc -l <err)" -eq 1 ]
}
check "stdin: repl" unreadable repl "$names"
check "stdin: score" unreadable score "$names" -f -
check "stdin: tokenize" unreadable tokenize "$names"
check "stdin: generate" unreadable generate "$names" -f -
check "stdin: convert" unreadable convert - x.gguf

finish
