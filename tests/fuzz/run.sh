#!/bin/sh
# One fuzz target in `meson test --suite fuzz`: PROGRAM NAME SEEDS. A plain program replays seeds with DAMAGE
# damaged copies of each (default 500; all of small ones) and all findings of the past; a libFuzzer one fuzzes for SECONDS
# (default 60), keeps its corpus beside the seeds, and leaves what it finds in tests/fuzz/found.
set -eu
program=$1 name=$2 seeds=$3
here=$(dirname "$0")
found=$here/found/$name
if ! "$program" -help=1 </dev/null 2>&1 | grep -q libFuzzer; then
    set -- "$seeds/$name"
    [ ! -d "$found" ] || set -- "$@" "$found"
    exec "$program" --damage "${DAMAGE:-500}" "$@"
fi
corpus=$seeds.corpus/$name
mkdir -p "$corpus" "$found"
set -- -max_total_time="${SECONDS_EACH:-60}" -timeout=5 -rss_limit_mb=1024 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$found/"
[ ! -f "$seeds/$name.dict" ] || set -- "$@" -dict="$seeds/$name.dict"
"$program" "$@" "$corpus" "$seeds/$name"
