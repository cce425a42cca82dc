#!/bin/sh
# A fuzzing campaign: campaign.sh SECONDS [TARGET...] builds the targets with clang and libFuzzer, lets each run
# for SECONDS, and adds what it saw to campaign.txt, so that campaigns add up. In the environment:
#
#   BUILD=sanitized  ASan, UBSan and float-cast-overflow, in build-fuzz/ (the default)
#   BUILD=fast       UBSan alone: some five times as fast, in build-fuzz-fast/
#   MOST=N           a target ends at N executions of this build, over all campaigns
# A hang is 150 s of the clock here: a campaign may be stopped for a while and go on.
#
#   WHERE=DIRECTORY  the build, with corpora and logs in it; TABLE=FILE for campaign.txt
#
# What is found is in tests/fuzz/found/TARGET, and every build replays it from then on. Corpora grow in
# $WHERE/tests/fuzz/seeds.corpus/TARGET; a target begins with reducing its own to what covers most.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:?seconds for each target}
shift
build=${BUILD:-sanitized}
case $build in
sanitized) directory=${WHERE:-build-fuzz} sanitize=address,undefined ;;
fast) directory=${WHERE:-build-fuzz-fast} sanitize=undefined ;;
*) echo "BUILD: expected sanitized or fast, found '$build'" >&2; exit 2 ;;
esac
table=${TABLE:-tests/fuzz/campaign.txt}
mkdir -p "$directory/logs"
# What costs more than it finds: calls at comparisons (half the time of torch), UBSan's reports (a trap names the
# line as well), counters of the kernels (no reader moves them, and all are looked at after every execution).
printf 'src:*kernels*\nsrc:*src/page*\n' >"$directory/not-counted"
args="-fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp -fsanitize=float-cast-overflow"
args="$args -fsanitize-trap=undefined,float-cast-overflow"
args="$args -fsanitize-coverage-ignorelist=$(realpath "$directory")/not-counted"
[ -f "$directory/build.ninja" ] || CC=${CC:-clang} /usr/bin/meson setup "$directory" -Db_sanitize=$sanitize -Db_lundef=false \
    -Dbuildtype=debugoptimized -Ddefault_library=static "-Dc_args=$args" >&2
# ASan: a small quarantine stays in the cache, and freed pages stay with the process; a replay in any other build of
# ASan gives whole stacks.
asan="quarantine_size_mb=2:thread_local_quarantine_size_kb=64:allocator_release_to_os_interval_ms=-1"
export ASAN_OPTIONS="$asan:malloc_context_size=2:max_malloc_fill_size=64${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
ninja -C "$directory" tests/fuzz/seeds >&2
[ $# -gt 0 ] || set -- $(cd "$directory/tests/fuzz" && ls -d fuzz_* | grep -v '\.p$' | sed 's/^fuzz_//')
[ -f "$table" ] || echo "# target build executions seconds findings corpus commit (campaign.sh)" >"$table"

# seen TARGET: executions of this build so far.
seen()
{
    awk -v name="$1" -v build="$build" '$1 == name && $2 == build { n = $3 } END { printf "%d\n", n }' "$table"
}

# findings TARGET: inputs that ended it, in this tree.
findings()
{
    find "tests/fuzz/found/$1" -type f ! -name 'slow-*' 2>/dev/null | wc -l
}

# add TARGET EXECUTIONS SECONDS FINDINGS CORPUS: to its line, or a new one.
add()
{
    awk -v name="$1" -v build="$build" -v n="$2" -v s="$3" -v found="$4" -v corpus="$5" -v commit="$commit" '
        $1 == name && $2 == build { n += $3; s += $4; found += $5; next }
        { print }
        END { printf "%-14s %-9s %10d %6d %2d %5d %s\n", name, build, n, s, found, corpus, commit }' \
        "$table" >"$table.tmp"
    { grep '^#' "$table.tmp"; grep -v '^#' "$table.tmp" | sort; } >"$table.new"
    rm "$table.tmp"
    mv "$table.new" "$table"
}

commit=$(git rev-parse --short HEAD)
code=0
[ "$build" = sanitized ] || export MALLOC_MMAP_THRESHOLD_=67108864 MALLOC_TRIM_THRESHOLD_=134217728 # fewer page faults
for name in "$@"; do
    left=$((${MOST:-9999999999} - $(seen "$name")))
    [ $left -gt 0 ] || continue
    log=$directory/logs/$name.log
    corpus=$directory/tests/fuzz/seeds.corpus/$name
    ninja -C "$directory" "tests/fuzz/fuzz_$name" >&2
    case $name in repl) most=512 ;; torch) most=16384 ;; text | stream) most=1024 ;; *) most=8192 ;; esac # the largest seeds
    before=$(findings "$name") since=$(date +%s)
    MGPT_SOURCE_ROOT=$PWD SECONDS_EACH=$seconds RUNS=$left REDUCE=1 TIMEOUT=150 MAX_LEN=$most FLAGS=-entropic=0 sh tests/fuzz/run.sh \
        "$directory/tests/fuzz/fuzz_$name" "$name" "$directory/tests/fuzz/seeds" >"$log" 2>&1 || code=1
    found=$(($(findings "$name") - before))
    [ $found -eq 0 ] || echo "FINDING in $name: $log"
    n=$(awk '/stat::number_of_executed_units/ { n = $2 } END { printf "%d", n }' "$log")
    spent=$(($(date +%s) - since))
    add "$name" "$n" "$spent" $found "$(find "$corpus" -type f | wc -l)"
    printf '%-14s %d executions in %d s\n' "$name" "$n" "$spent"
done
exit $code
