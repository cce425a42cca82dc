#!/bin/sh
# mgpt for Windows, made with mingw-w64 and run by wine: the same bytes and exit codes as here, hashes of check --self,
# paths with spaces and letters of other alphabets, files written and replaced, Ctrl-C.
# usage: windows.sh MGPT ROOT FOLDER AMALGAMATION LIBRARY
#   mgpt of this system; the source; where to build, kept for the next time; the folder of mgpt.c; libmgpt.a of this system
set -eu
mgpt=$(realpath "${1:?program of this system}") root=$(realpath "${2:?source}") folder=$(realpath -m "${3:?where to build}")
one=$(realpath "${4:?folder of mgpt.c}") library=$(realpath "${5:?libmgpt.a}")
export LC_ALL=C.UTF-8 WINEDEBUG=-all WINEPREFIX="$folder/wine" # wine's names of files are those of the locale

for need in x86_64-w64-mingw32-gcc-posix:gcc-mingw-w64-x86-64 wine:wine; do
    command -v "${need%%:*}" >/dev/null || { echo "windows.sh: skipped, the package ${need#*:} is missing"; exit 77; }
done

mkdir -p "$folder"
"$root/tools/windows/deps.sh" "$folder/deps"
export PKG_CONFIG_LIBDIR="$folder/deps/lib/pkgconfig"
unset CC CFLAGS LDFLAGS
[ -e "$folder/build/build.ninja" ] ||
    /usr/bin/meson setup --cross-file "$root/tools/windows/windows.ini" --cross-file "$root/tests/windows/wine.ini" "$folder/build" "$root" >"$folder/setup.log" ||
    { cat "$folder/setup.log"; exit 1; }
ninja -C "$folder/build" tools/mgpt.exe >"$folder/build.log" || { tail -20 "$folder/build.log"; exit 1; }
exe=$folder/build/tools/mgpt.exe

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work"
mkdir weights
cp "$root"/weights/*.gguf "$root"/weights/*.json weights/
bad=0 n=0
# wine starts its server once; it ends some seconds after the last program.
wine "$exe" --version >version </dev/null || { echo "wine does not run mgpt.exe"; exit 1; }

not_ok() {
    echo "not ok: $*"
    bad=1
}

# same INPUT ARGUMENTS...: stdout, stderr and exit code of both programs are equal.
same() {
    input=$1
    shift
    here=0 there=0
    printf "$input" | "$mgpt" "$@" >here.out 2>here.err || here=$?
    printf "$input" | wine "$exe" "$@" >there.out 2>there.err || there=$?
    n=$((n + 1))
    [ $here = $there ] || not_ok "mgpt $*: exit code $here here, $there on Windows"
    cmp -s here.out there.out || { not_ok "mgpt $*: stdout differs"; diff here.out there.out | head -4; }
    cmp -s here.err there.err || { not_ok "mgpt $*: stderr differs"; diff here.err there.err | head -4; }
}

# ---- the same bytes ----
same '' generate weights/names.gguf --samples 5 --temp 0.5
same '' generate weights/shakespeare.gguf -p ROMEO: -n 160 --seed 3 -t 2
same '' generate weights/names.gguf --samples 300 --seed 7 --top-k 5 --top-p 0.9 --min-p 0.01
same '' generate weights/names.gguf -n 5 --json --seed 1
same 'anna\n/a 0 3\n/lens\n/top 5\nq\n' repl weights/names.gguf --width 80
same 'anna\r\n' repl weights/names.gguf --width 80
same 'anna\nemma\n' score weights/names.gguf -f - --each
same '' info weights/names.gguf --isa scalar
same '' info weights/names.gguf --isa scalar --json
same 'd\303\251j\303\240 vu' tokenize weights/shakespeare.gguf -f -
same '' check weights/names.gguf weights/names.ref.json --tol 1e-5
for command in generate repl check trace score tokenize info bench attend; do
    wine "$exe" $command --help </dev/null >out 2>&1 && grep -q "^usage: mgpt $command" out || not_ok "$command --help"
done
for name in names:092da0f84bfcf144 shakespeare:25b9cfe007c02879; do
    model=weights/${name%%:*}.gguf
    hash=$(wine "$exe" check --self "$model" </dev/null | tail -n 1)
    case $hash in
    ${name#*:}*) ;;
    *) not_ok "check --self $model: $hash, expected ${name#*:}" ;;
    esac
done

# ---- exit codes and errors ----
printf 'GGUF' >short.gguf
same '' generate missing.gguf
same '' generate short.gguf
same '' generate weights/names.gguf --no-such-option
same '' generate weights/names.gguf -n 3 -p '\303\251'
same '' generate weights/shakespeare.gguf -n 100000
same '' nothing
same '' check weights/names.gguf weights/shakespeare.gguf
# What Windows has not says so, and what to use.
for name in convert lab patch; do
    code=0
    wine "$exe" $name a b </dev/null >out 2>err || code=$?
    [ $code = 2 ] && [ "$(wc -l <err)" = 1 ] && grep -q "^mgpt: $name is not in the Windows program: .* in WSL or on Linux" err ||
        not_ok "$name: exit code $code, $(cat err)"
done
wine "$exe" generate "$root/tests/fixtures/torch/nanogpt/ckpt.pt" </dev/null >out 2>err && not_ok "a checkpoint was read without a converter"
grep -q 'this build has no converter (.*; on Windows use WSL)' err || not_ok "a checkpoint: $(cat err)"
wine "$exe" repl --screen full weights/names.gguf </dev/null >out 2>&1 && not_ok "repl --screen full without a terminal ends with 0"

# ---- names of files ----
place="$work/a b/ñandú 日本 Ω"
mkdir -p "$place"
cp weights/names.gguf "$place/mödel 1.gguf"
same '' generate "$place/mödel 1.gguf" --samples 3 --seed 4
same '' generate "$place/missing ä.gguf"
same '' generate weights/names.gguf -f "$place/no such.txt"
printf 'an' >"$place/prömpt.txt"
same '' generate weights/names.gguf -f "$place/prömpt.txt" --seed 2
wine "$exe" generate 'a b\ñandú 日本 Ω\mödel 1.gguf' --samples 3 --seed 4 </dev/null >out 2>err || not_ok "backslashes: $(cat err)"
"$mgpt" generate weights/names.gguf --samples 3 --seed 4 >here.out
cmp -s out here.out || not_ok "backslashes: another text"
wine "$exe" generate "a b" </dev/null >out 2>err && not_ok "a folder was taken for a model"
# A session is written, read, replaced; a text is not replaced, an input neither.
for round in 1 2; do
    wine "$exe" generate weights/names.gguf -p em -n 3 --temp 0 --session "$place/sitzung ß.mgpt" </dev/null >out 2>err ||
        not_ok "session, round $round: $(cat err)"
done
[ -s "$place/sitzung ß.mgpt" ] || not_ok "no session file: $(ls "$place")"
"$mgpt" generate weights/names.gguf -p em -n 3 --temp 0 --session "$work/here.mgpt" >/dev/null 2>&1
"$mgpt" generate weights/names.gguf -p em -n 3 --temp 0 --session "$work/here.mgpt" >/dev/null 2>&1
cmp -s "$work/here.mgpt" "$place/sitzung ß.mgpt" || not_ok "the session file differs from the one of this system"
wine "$exe" generate weights/names.gguf -n 3 --session "$place/prömpt.txt" </dev/null >out 2>err && not_ok "a text was taken for a session"
[ "$(cat "$place/prömpt.txt")" = an ] || not_ok "a text was replaced by a session"
[ -z "$(find "$place" -name '.*')" ] || not_ok "left: $(find "$place" -name '.*')"
# What a killed program has left goes at the next write.
: >"$place/.sitzung ß.mgpt.abc123.tmp"
wine "$exe" generate weights/names.gguf -p em -n 3 --session "$place/sitzung ß.mgpt" </dev/null >out 2>err || not_ok "session: $(cat err)"
[ -z "$(find "$place" -name '.*')" ] || not_ok "not removed: $(find "$place" -name '.*')"
for other in .sitzung.mgpt.abc123.tmp '.sitzung ß.mgpt.ABC123.tmp' '.sitzung ß.mgpt.abcdef.tmp.old'; do
    : >"$place/$other"
    wine "$exe" generate weights/names.gguf -p em -n 3 --session "$place/sitzung ß.mgpt" </dev/null >out 2>err || not_ok "session: $(cat err)"
    [ -e "$place/$other" ] || not_ok "removed: $other, which is no temporary file of this name"
    rm -f "$place/$other"
done
# A trace is the same file.
wine "$exe" trace weights/names.gguf -p anna -o "$place/träce.safetensors" </dev/null >out 2>err || not_ok "trace: $(cat err)"
"$mgpt" trace weights/names.gguf -p anna -o here.safetensors >/dev/null 2>&1
cmp -s here.safetensors "$place/träce.safetensors" || not_ok "the trace differs from the one of this system"

# ---- Ctrl-C ----
python3 "$root/tests/quality/release_model.py" large.gguf
python3 "$root/tests/windows/console.py" "$exe" weights/names.gguf large.gguf >out 2>&1 || { not_ok "Ctrl-C"; cat out; }

# ---- a reader that goes away ----
code=0
{ wine "$exe" generate weights/names.gguf --samples 20000 || echo $? >code; } 2>err </dev/null | head -n 1 >/dev/null
[ "$(cat code 2>/dev/null)" = 5 ] || not_ok "a closed pipe: exit code $(cat code 2>/dev/null), expected 5"
[ -s err ] && not_ok "a closed pipe: $(cat err)"

# ---- the unit tests ----
# Wine's services keep the output of the program that started them, for as long as any runs: of a test, which would seem
# to run on when it has passed. So a program without output starts them and stays.
mkfifo hold
wine "$exe" repl weights/names.gguf <hold >/dev/null 2>&1 &
held=$!
exec 9>hold
wine "$exe" --version </dev/null >/dev/null 2>&1 9>&-
/usr/bin/meson test -C "$folder/build" --suite unit >unit.log 2>&1 9>&- || { not_ok "unit tests"; grep -E 'FAIL|TIMEOUT|ERROR' unit.log | head -20; }
kill -0 $held || not_ok "the program that waits for input has ended"
exec 9>&-
wait $held || not_ok "the program that waits for input: exit code $?"

# ---- README's program with libmgpt.a, and with mgpt.c as its first lines say ----
awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$root/README.md" >main.c
gcc -I"$one" main.c "$library" -lpcre2-8 -lm -lpthread -o here && ./here >here.out
ninja -C "$folder/build" src/libmgpt.a >>"$folder/build.log" || not_ok "libmgpt.a"
flags=$(PKG_CONFIG_LIBDIR=$folder/build/meson-private pkg-config --static --define-variable=libdir="$folder/build/src" \
    --define-variable=includedir="$root/include" --cflags --libs mgpt)
x86_64-w64-mingw32-gcc-posix main.c $flags -L"$folder/deps/lib" -static -o lib.exe || not_ok "main.c with libmgpt.a"
command=$(sed -n 's/^ \* On Windows (MinGW-w64): //p' "$one/mgpt.c")
cp "$one/mgpt.c" "$one/mgpt.h" .
sh -c "$(echo "$command" | sed 's/-O2/-O1/')" || not_ok "main.c with mgpt.c: $command"
for program in lib a; do
    wine $program.exe </dev/null | tr -d '\r' >there.out
    [ -s there.out ] && cmp -s here.out there.out || not_ok "$program.exe prints $(cat there.out), here $(cat here.out)"
done

# ---- the library in one file ----
hashes=$root/tests/shape/hashes.c
gcc -I"$one" "$hashes" "$library" -lpcre2-8 -lm -lpthread -o here && ./here weights/*.gguf | sed 's/ .*//' | sort -u >here.out
[ -s here.out ] || not_ok "hashes.c"
# Without the option of the assembler there is no AVX, with it there is: the bits are the same.
x86_64-w64-mingw32-gcc -O1 -I"$one" "$hashes" "$one/mgpt.c" -lpthread -static -o plain.exe || not_ok "mgpt.c"
for part in 1 2 3 4; do
    x86_64-w64-mingw32-gcc -O1 -I"$one" -Wa,-muse-unaligned-vector-move -DMGPT_PART=$part -c "$one/mgpt.c" -o part$part.o || not_ok "mgpt.c, part $part"
done
x86_64-w64-mingw32-gcc -I"$one" "$hashes" part?.o -lpthread -static -o avx.exe || not_ok "mgpt.c in parts"
for program in plain avx; do
    wine $program.exe weights/*.gguf | tr -d '\r' | sed 's/ .*//' | sort -u >there.out
    cmp -s here.out there.out || not_ok "$program.exe: logits differ"
done

[ $bad = 0 ] && echo "ok: $n commands with the same bytes and exit codes, hashes, names of files, sessions, traces"
exit $bad
