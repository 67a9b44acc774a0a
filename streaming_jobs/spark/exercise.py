"""Runs once what a router runs at its start, so that its classes are loaded: by a standby, and for a class archive."""

from __future__ import annotations

import logging
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from gateway.local.class_archive import wait_for_rest
from streaming_jobs.spark.session import archive_classes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession


log = logging.getLogger(__name__)


def exercise(spark: SparkSession) -> None:
    """Runs a small query with state and a Python function, and reads its state back, as a lane does.

    It takes one task slot, and a few seconds the first time.
    """
    with tempfile.TemporaryDirectory(prefix="meshgate-exercise-") as folder:
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        length = F.udf(len, "int", useArrow=False)
        with_length = rows.withColumn("length", length(F.col("value").cast("string")))
        unique = with_length.withWatermark("timestamp", "10 seconds").coalesce(1).dropDuplicates(["timestamp", "value"])
        unique = unique.select(F.explode(F.array("value", "value")).alias("value"))
        writer = unique.writeStream.format("noop").outputMode("update").option("checkpointLocation", folder)
        writer.trigger(availableNow=True).start().awaitTermination()
        state = spark.read.format("statestore").load(folder).select("key.timestamp", "key.value").coalesce(1)
        state.sortWithinPartitions("timestamp").foreachPartition(Count(folder))


def archive_at_rest(spark: SparkSession, stop: threading.Event) -> None:
    """Writes what the next start will load, while nobody needs the cores."""
    if not wait_for_rest(stop):
        return
    try:
        exercise(spark)
    except Exception as failed:  # no fault: Spark may be ending, or its executors not see the driver's files
        log.info("not warmed up: %s", type(failed).__name__)
    if archive_classes():
        log.info("the class archive is written: the next start is faster")


class Count:
    """Writes the number of rows, in one of Spark's tasks."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self, rows: Iterable[Any]) -> None:
        Path(self._folder, "rows").write_text(str(sum(1 for _ in rows)))
