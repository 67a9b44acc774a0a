"""The router's query is the same for every trigger and every master:

    one raw partition ─► one Python pass a record ─► one row ─► dropDuplicates ─► explode ─► Kafka

The pass tells repeats from new frames (`routing.known_ids`) and makes one row of a record: its log time, its offset,
the ids that it has added, and the records to write. The offset makes each row the first of its kind, so
`dropDuplicates` drops none: it stores the ids, durably, together with the offset they belong to, and lets them go by
watermark.

`coalesce(1)` says that a lane has one partition, which is all that a stateful operator asks for. So Spark plans no
exchange, and a record stays in one task from Kafka to Kafka. `plan_check` makes sure.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import ArrayType

from gateway.config import Config
from streaming_jobs.spark.events_table import HEADERS
from streaming_jobs.spark.plain_types import PlainStruct
from streaming_jobs.spark.schemas import BYTES, INT, LONG, TEXT, struct

OUT = struct(topic=TEXT, partition=INT, key=BYTES, value=BYTES, headers=HEADERS)
LOG_TIME, OFFSET, IDS, OUTS = "log_time", "offset", "ids", "outs"
STORED = [LOG_TIME, OFFSET, IDS]
"""The columns that the state holds."""

PlainRow = tuple[int, int, bytes, list[tuple[Any, ...]]]
"""The row that the pass makes of a record. It is a Row without its class: the JVM's unpickler knows tuples."""

LANE_VARIABLE = "MESHGATE_LANE"
"""Spark keeps Python workers apart by their environment. With a variable of its own, a lane keeps its worker from batch
to batch, and the worker its memory."""

_environment = threading.Lock()

# The broker answers a fetch as soon as there is a byte, so a long wait costs an idle mesh nothing and a busy one no
# time; it is what keeps an idle router from asking two thousand times a second.
SOURCE = {"kafka.fetch.max.wait.ms": "500", "kafka.enable.metrics.push": "false", "includeHeaders": "false"}


def read_raw(
    spark: SparkSession, config: Config, partition: int, *, accepts_loss: bool = False, begin: str = "earliest"
) -> DataFrame:
    """Returns the records of one raw partition. A gap in the offsets is an error: it would be a silent loss.

    Args:
        begin: where a query without a commit begins.
    """
    assigned = json.dumps({config.topic("raw"): [partition]})
    options = {**config.kafka.spark_options(), **SOURCE, "assign": assigned}
    options |= {"startingOffsets": begin, "failOnDataLoss": str(not accepts_loss).lower()}
    return spark.readStream.format("kafka").options(**options).load()


ROW = PlainStruct(struct(**{LOG_TIME: LONG, OFFSET: LONG, IDS: BYTES, OUTS: ArrayType(OUT)}).fields)


def route(raw: DataFrame, pass_: Callable[[bytes, int, int], PlainRow], worker: str, keep_seconds: int) -> DataFrame:
    """Returns the records to write: topic, partition, key, value, headers.

    Args:
        worker: names the Python worker, which other queries with that name use too, one after another.
        keep_seconds: how long an id stays in the state after its record, in log time.
    """
    with worker_environment(raw.sparkSession, worker):
        routed: Column = F.udf(pass_, ROW, useArrow=False)("value", "partition", "offset")
    rows = raw.select(routed.alias("row")).select(
        F.timestamp_seconds(f"row.{LOG_TIME}").alias(LOG_TIME), *[f"row.{name}" for name in (OFFSET, IDS, OUTS)]
    )
    stored = rows.withWatermark(LOG_TIME, f"{keep_seconds} seconds").coalesce(1).dropDuplicates(STORED)
    return stored.select(F.explode(OUTS).alias("out")).select("out.*")


def call_once(spark: SparkSession, function: Callable[[int], int], worker: str) -> None:
    """Calls a function in the Python worker of this name, which takes a task slot, and waits for its end."""
    with worker_environment(spark, worker):
        called = F.udf(function, "int", useArrow=False)("id")
    spark.range(0, 1, numPartitions=1).select(called).collect()


@contextmanager
def worker_environment(spark: SparkSession, worker: str) -> Iterator[None]:
    """Lets the functions that are made meanwhile run in the worker of this name. One thread at a time may do so."""
    environment = spark.sparkContext.environment
    with _environment:
        environment[LANE_VARIABLE] = worker
        try:
            yield
        finally:
            del environment[LANE_VARIABLE]
