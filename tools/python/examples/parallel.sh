#!/bin/sh
# parallel.sh MODEL RECORDS OUT [SHARDS] [JOBS]: all shards by GNU parallel; run it again to go on after an interruption.
set -eu
here=$(dirname "$0")
shards=${4:-64}
seq "$shards" | parallel --will-cite --halt now,fail=1 -j "${5:-100%}" \
    "$here/score_shard.sh" "$1" "$2" "$3" {} "$shards"
cat "$3"/*.jsonl
