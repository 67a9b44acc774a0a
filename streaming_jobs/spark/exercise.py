"""Runs once what a router runs at its start, so that its classes are loaded: by a standby, and for a class archive."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession


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


class Count:
    """Writes the number of rows, in one of Spark's tasks."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self, rows: Iterable[Any]) -> None:
        Path(self._folder, "rows").write_text(str(sum(1 for _ in rows)))
