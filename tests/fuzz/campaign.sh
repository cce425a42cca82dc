#!/bin/sh
# A fuzzing campaign: campaign.sh SECONDS [TARGET...] builds the targets with clang, libFuzzer, ASan and UBSan
# into build-fuzz/, lets each run for SECONDS, and prints how many executions each saw. Logs are in
# build-fuzz/logs; what was found is in tests/fuzz/found/TARGET, and every build replays it from then on.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:?seconds for each target}
shift
directory=build-fuzz
[ -f $directory/build.ninja ] || CC=clang /usr/bin/meson setup $directory -Db_sanitize=address,undefined -Db_lundef=false \
    -Dbuildtype=debugoptimized -Dc_args=-fsanitize=fuzzer-no-link -Ddefault_library=static >&2
ninja -C $directory tests/fuzz/seeds >&2
[ $# -gt 0 ] || set -- $(cd $directory/tests/fuzz && ls -d fuzz_* | grep -v '\.p$' | sed 's/^fuzz_//')
mkdir -p $directory/logs
code=0
for name in "$@"; do
    log=$directory/logs/$name.log
    ninja -C $directory "tests/fuzz/fuzz_$name" >&2
    MGPT_SOURCE_ROOT=$PWD SECONDS_EACH=$seconds sh tests/fuzz/run.sh "$directory/tests/fuzz/fuzz_$name" "$name" \
        "$directory/tests/fuzz/seeds" >"$log" 2>&1 || { code=1; echo "FINDING in $name: $log"; }
    awk -v name="$name" '/stat::number_of_executed_units/ { n = $2 } END { printf "%-14s %d executions\n", name, n }' "$log"
done
exit $code
