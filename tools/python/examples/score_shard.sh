#!/bin/sh
# score_shard.sh MODEL RECORDS OUT SHARD SHARDS: scores part SHARD (from 1) of SHARDS of a file of JSON Lines, whole
# lines, into OUT/SHARD.jsonl. A shard that is there is done: it got its name when it was complete. MGPT is the program.
set -eu
model=$1 records=$2 out=$3 shard=$4 shards=$5
done=$out/$(printf %06d "$shard").jsonl
[ ! -e "$done" ] || exit 0
[ -f "$records" ] || { echo "$records: no such file" >&2; exit 1; }
mkdir -p "$out"
part=$done.$$.part
trap 'rm -f "$part"' EXIT
trap 'exit 1' HUP INT TERM
code=0
split -n "l/$shard/$shards" "$records" |
    "${MGPT:-mgpt}" score "$model" --json -t 1 -f - >"$part" || code=$?
[ "$code" -eq 0 ] || [ "$code" -eq 3 ] || exit "$code" # 3: some lines have an "error" in their records
mv "$part" "$done"
