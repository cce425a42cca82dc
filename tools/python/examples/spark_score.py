"""spark-submit spark_score.py MODEL RECORDS OUT [MB]: scores JSON Lines with PySpark, a partition at a time.

mapInArrow gives the lines of each partition (MB of the input, 16 unless given) to one `mgpt score --json`, which writes
OUT/NNNNNN.jsonl. A partition whose file is there is skipped, so the same command goes on after an interruption.
"""
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

MODEL, RECORDS, OUT = (str(Path(word).resolve()) for word in sys.argv[1:4])
MGPT = os.environ.get("MGPT", "mgpt")


def score(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Scores the lines of a partition into its file; returns its number."""
    shard = TaskContext.get().partitionId()
    done = Path(OUT) / f"{shard:06}.jsonl"
    if not done.exists():
        part = done.with_suffix(f".{os.getpid()}.part")
        with part.open("wb") as out, subprocess.Popen([MGPT, "score", MODEL, "--json", "-t1", "-f-"],
                                                      stdin=subprocess.PIPE, stdout=out) as program:
            for batch in batches:
                program.stdin.write("".join(f"{line}\n" for line in batch.column(0).to_pylist()).encode())
            program.stdin.close()
            if program.wait() not in (0, 3):  # 3: some lines have an "error" in their records
                raise RuntimeError(f"partition {shard}: mgpt score ended with {program.returncode}")
        part.rename(done)
    yield pa.RecordBatch.from_pydict({"shard": pa.array([shard], pa.int32())})


if __name__ == "__main__":
    Path(OUT).mkdir(parents=True, exist_ok=True)
    size = int(float(sys.argv[4] if len(sys.argv) > 4 else 16) * 2**20)
    spark = (SparkSession.builder.appName("mgpt score").config("spark.sql.files.maxPartitionBytes", size)
             .config("spark.sql.files.openCostInBytes", 0).config("spark.sql.files.minPartitionNum", 1).getOrCreate())
    print(spark.read.text(RECORDS).mapInArrow(score, "shard int").count(), "shards in", OUT)
    spark.stop()
