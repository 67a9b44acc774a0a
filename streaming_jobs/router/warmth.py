"""What a young JVM does slowly, done before it matters.

Once a minute a real-time batch ends and nothing passes until the next one is planned and runs. That is code by the
thousand classes, each run too seldom to be compiled for the first hour; so a small query of the same kind does it some
dozens of times in the first minute.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from streaming_jobs.router.dedup import Buckets
from streaming_jobs.router.plan import first_of_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

SECONDS = 5.0
"""Before a standby is warm enough to take over."""
BATCHES, EVERY = 60, "0.5 seconds"
"""Of a rehearsal: a fifth of a core, for half a minute."""


def warm_workers(spark: SparkSession) -> None:
    """The process that workers are forked from takes a second or two to begin: while the queries are planned.

    Takes one core, which they must not need: a query in real time does not start with fewer than all of its own.
    """
    length = F.udf(len, "int", useArrow=False)
    try:
        spark.range(0, 1, numPartitions=1).select(length(F.lit("x"))).collect()
    except Exception as failed:
        log.info("workers not warmed up: %s", type(failed).__name__)


def warm_up(spark: SparkSession) -> None:
    """As fast as it goes."""
    _run(spark, "0 seconds", threading.Event(), seconds=SECONDS)


def rehearse(spark: SparkSession, stop: threading.Event) -> None:
    """Beside queries that are at work. Takes one core now and then."""
    try:
        _run(spark, EVERY, stop, batches=BATCHES)
    except Exception as failed:
        log.info("not rehearsed: %s", type(failed).__name__)


def _run(
    spark: SparkSession, every: str, stop: threading.Event, *, batches: int = 1_000_000, seconds: float = 120.0
) -> None:
    length = F.udf(len, "int", useArrow=False)
    rows = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=10, numPartitions=1).load()
    rows = rows.select(length(F.col("value").cast("string")).alias("key"), F.unix_seconds("timestamp").alias("at"))
    unique = first_of_each(rows.observe("rehearsed", F.count("key")), Buckets(60), evicts=False)
    query = unique.writeStream.format("noop").outputMode("update").trigger(processingTime=every).start()
    deadline = time.monotonic() + seconds
    try:
        while query.isActive and not stop.wait(0.05) and time.monotonic() < deadline:
            if (query.lastProgress or {"batchId": 0})["batchId"] >= batches:
                break
    finally:
        query.stop()
