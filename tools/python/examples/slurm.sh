#!/bin/sh
#SBATCH --job-name=mgpt-score
#SBATCH --array=1-64
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
# sbatch slurm.sh MODEL RECORDS OUT: a shard per task of the array, in a folder that all nodes see. Give the same
# command again for the shards that are missing; then: cat OUT/*.jsonl
set -eu
here=${MGPT_EXAMPLES:-${SLURM_SUBMIT_DIR:-$(dirname "$0")}} # Slurm runs a copy of this file
exec "$here/score_shard.sh" "$1" "$2" "$3" "$SLURM_ARRAY_TASK_ID" "${SLURM_ARRAY_TASK_COUNT:-64}"
