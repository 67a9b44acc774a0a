"""How large the dedup's state becomes, that it stays so, and how long the mesh stands still for what leaves it:

    python -m tests.bench.dedup_state --rate 1000
    python -m tests.bench.dedup_state --rate 1000 --evicts          # as on executors: Spark evicts by itself
    python -m tests.bench.dedup_state --rate 10000 --window 60

The router's own operator and settings, over keys as emm has them, none of which comes twice. Time is the data's, a
minute in each batch, so that a day need not be waited for.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.streaming.query import StreamingQuery

from streaming_jobs.router.plan import first_of_each
from streaming_jobs.router.progress import Progress
from streaming_jobs.router.sweep import Sweep
from streaming_jobs.routing.dedup import Buckets
from streaming_jobs.spark import start_spark, stop_spark

BATCH_SECONDS = 60
BEGIN_MS = 1_800_000_000_000
BATCH_MINUTES = 20
"""A batch that takes longer than this is not waited for."""
SETTINGS = {"spark.sql.shuffle.partitions": "1"}
NODE = "01234567-89ab-cdef-0123-456789abcdef"


def main() -> int:
    asked = _arguments()
    buckets = Buckets(asked.window)
    # The oldest mark that is kept lies the delay behind the newest; then as long again, to see that it stays so.
    batches = 2 * (buckets.delay_seconds + 2 * buckets.bucket_seconds) // BATCH_SECONDS
    spark = start_spark("dedup-state", "local[2]", SETTINGS)
    try:
        with tempfile.TemporaryDirectory(prefix="meshgate-state-") as folder:
            told = list(_run(spark, buckets, asked.rate, batches, Path(folder), evicts=asked.evicts))
    finally:
        stop_spark(spark)
    return 0 if not sum(told) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.dedup_state", description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=1_000, help="new ids a second")
    parser.add_argument("--window", type=int, default=420, help="seconds: replay window and clock skew")
    parser.add_argument("--evicts", action="store_true", help="leave it to Spark, which walks over all of it")
    return parser.parse_args()


def _run(spark: SparkSession, buckets: Buckets, rate: int, batches: int, folder: Path, *, evicts: bool) -> list[int]:
    """Rows that were dropped as late, by batch."""
    unique = _unique(_ids(spark, rate), buckets, evicts=evicts)
    writer = unique.writeStream.format("noop").outputMode("update").queryName("state")
    query = writer.option("checkpointLocation", str(folder)).trigger(processingTime="0 seconds").start()
    late, sweep = [], Sweep(spark)
    for batch in range(batches):
        told = _committed(query, batch)
        progress = Progress.read(told)
        rows, seconds = progress.state_rows, told["stateOperators"][0]["allRemovalsTimeMs"] / 1000
        if not evicts:
            began = time.monotonic()
            rows = sweep.run(query, int(progress.watermark_seconds or 0))
            seconds = time.monotonic() - began
        late.append(progress.dropped_by_watermark)
        print(
            f"{(batch + 1) * BATCH_SECONDS:>6} s  {rows or 0:>12,} rows  {seconds:>7.3f} s for those that go"
            f"  {progress.state_bytes / 2**20:>8.1f} MiB in memory  {_size(folder) / 2**20:>8.1f} MiB in the checkpoint"
            f"  {progress.dropped_by_watermark} dropped as late",
            flush=True,
        )
    query.stop()
    return late


def _ids(spark: SparkSession, rate: int) -> DataFrame:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rate * BATCH_SECONDS)
    source = source.option("advanceMillisPerBatch", BATCH_SECONDS * 1000).option("startTimestamp", BEGIN_MS)
    # The source gives all rows of a batch one time; theirs is spread over its minute.
    second = F.unix_seconds("timestamp") + F.col("value") % BATCH_SECONDS
    return source.load().select(
        F.concat_ws(":", F.lit(NODE), F.hex(F.xxhash64("value"))).alias("key"), second.alias("at")
    )


def _unique(ids: DataFrame, buckets: Buckets, *, evicts: bool) -> DataFrame:
    """As the row functions mark, and the plan deduplicates."""
    start = F.col("at") - F.col("at") % buckets.bucket_seconds
    end = start + buckets.bucket_seconds
    is_near_end = F.col("at") + buckets.window_seconds >= end
    marks = F.when(is_near_end, F.array(start, end)).otherwise(F.array(start))
    return first_of_each(ids.select("key", F.explode(marks).alias("at")), buckets, evicts=evicts)


def _committed(query: StreamingQuery, batch: int) -> dict[str, Any]:
    deadline = BATCH_MINUTES * 60
    while True:
        for told in query.recentProgress:
            if told["batchId"] == batch:
                return told
        if query.exception() is not None or deadline <= 0:
            raise SystemExit(f"batch {batch} was not committed: {query.exception()}")
        query.awaitTermination(1)
        deadline -= 1


def _size(folder: Path) -> int:
    return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())


if __name__ == "__main__":
    sys.exit(main())
