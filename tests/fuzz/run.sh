#!/bin/sh
# One fuzz target in `meson test --suite fuzz`: PROGRAM NAME SEEDS. A plain program replays seeds with DAMAGE
# damaged copies of each (default 500; all of tiny ones) and all findings of the past; a libFuzzer one fuzzes for
# SECONDS_EACH (default 60) or RUNS executions, keeps its corpus next to the seeds (REDUCE=1: first reduces it), and
# leaves what it finds in tests/fuzz/found. Campaigns of hours: campaign.sh.
#
# With AFL++ (Debian: afl++) a target is built by its compiler, which brings a driver for LLVMFuzzerTestOneInput
# (persistent, input in shared memory). The kernels, which no input steers, are left out of what it counts:
#
#   printf 'src:*kernels*\nsrc:*src/page*\n' >/tmp/not-counted
#   export AFL_LLVM_DENYLIST=/tmp/not-counted CC=afl-clang-fast
#   meson setup build-afl -Db_lundef=false -Ddefault_library=static -Dbuildtype=debugoptimized \
#       '-Dc_args=-fsanitize=fuzzer-no-link -DQUICK_TO_COMPILE'
#   ninja -C build-afl tests/fuzz/fuzz_gguf tests/fuzz/seeds
#   export AFL_SKIP_CPUFREQ=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 MGPT_SOURCE_ROOT=$PWD
#   afl-fuzz -i build-afl/tests/fuzz/seeds/gguf -x build-afl/tests/fuzz/seeds/gguf.dict -o build-afl/out -- \
#       build-afl/tests/fuzz/fuzz_gguf
set -eu
program=$1 name=$2 seeds=$3
here=$(cd "$(dirname "$0")" && pwd) # a target may end in another folder
found=$here/found/$name
if ! "$program" -help=1 </dev/null 2>&1 | grep -q libFuzzer; then
    set -- "$seeds/$name"
    [ ! -d "$found" ] || set -- "$@" "$found"
    # A run of a command takes longer than a reader's. Many of these seeds are alike.
    case $name in
    command) set -- --few $((${DAMAGE:-500} / 100)) "$@" ;;
    score) set -- --few $((${DAMAGE:-500} / 5)) "$@" ;;
    attest) set -- --few "${DAMAGE:-500}" "$@" ;;
    *) set -- --damage "${DAMAGE:-500}" "$@" ;;
    esac
    # What the damaged copies come to, for as many as are made here.
    outcomes=$here/outcomes/$name.txt
    if [ -z "${DAMAGE:-}" ] && [ -f "$outcomes" ]; then set -- --outcomes "$outcomes" "$@"; fi
    exec "$program" "$@"
fi
corpus=$seeds.corpus/$name
mkdir -p "$corpus" "$found"
set -- -timeout="${TIMEOUT:-5}" -report_slow_units="${TIMEOUT:-5}" -rss_limit_mb=1024 -max_len="${MAX_LEN:-65536}" ${FLAGS:-}
if [ "${REDUCE:-0}" = 1 ] && [ -n "$(ls "$corpus")" ]; then
    rm -rf "$corpus.new"
    mkdir "$corpus.new"
    "$program" "$@" -merge=1 "$corpus.new" "$corpus" >/dev/null 2>&1
    rm -r "$corpus"
    mv "$corpus.new" "$corpus"
fi
set -- "$@" -max_total_time="${SECONDS_EACH:-60}" -runs="${RUNS:--1}" -print_final_stats=1 -artifact_prefix="$found/"
[ ! -f "$seeds/$name.dict" ] || set -- "$@" -dict="$seeds/$name.dict"
"$program" "$@" "$corpus" "$seeds/$name"
