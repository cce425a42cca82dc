"""python ray_score.py MODEL RECORDS OUT [SHARDS]: scores JSON Lines with Ray Data, a shard per task.

Each task runs score_shard.sh, which writes OUT/NNNNNN.jsonl. A shard that is there is skipped, so the same command goes
on after an interruption. The files are in folders that all nodes see.
"""
import subprocess
import sys
from pathlib import Path

import ray

MODEL, RECORDS, OUT = (str(Path(word).resolve()) for word in sys.argv[1:4])  # workers have folders of their own
SHARDS = int(sys.argv[4]) if len(sys.argv) > 4 else 64
SCRIPT = Path(__file__).resolve().with_name("score_shard.sh")


def score(row: dict[str, int]) -> dict[str, int]:
    """Scores shard row["id"] + 1."""
    subprocess.run([SCRIPT, MODEL, RECORDS, OUT, str(row["id"] + 1), str(SHARDS)], check=True)
    return row


if __name__ == "__main__":
    ray.init(log_to_driver=False)
    shards = ray.data.range(SHARDS, override_num_blocks=SHARDS).map(score, num_cpus=1)
    print(shards.materialize().count(), "shards in", OUT)
