"""The topics as tables of a batch job: a stretch of each partition, and every frame of the raw log judged again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import cache, reduce
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from gateway.config import Config, load
from gateway.config.topics import TopicName
from gateway.inspect.history.span import Span
from gateway.kafka.interest_reader import InterestReader, InterestRecord
from gateway.kafka.records import open_consumer
from streaming_jobs.reprocess.frame_verdict import FIXED_ATTRIBUTES, PROOF_ATTRIBUTES, READ_ATTRIBUTES
from streaming_jobs.reprocess.reprocessor import Reprocessor
from streaming_jobs.spark.plain_types import PlainArray
from streaming_jobs.spark.schemas import INT, LONG, TEXT, TEXTS, struct
from streaming_jobs.spark.session import BRIEF_JVM, start_spark

Spans = Mapping[int, Span]

# What the router sets for latency would cost a batch its throughput.
BATCH = {
    "spark.sql.execution.python.udf.maxRecordsPerBatch": "100",
    "spark.python.udf.pipelined.enabled": "false",
    "spark.buffer.size": "65536",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
}
JUDGED = struct(
    event_id=TEXT,
    partition=INT,
    offset=LONG,
    frame_index=INT,
    received_at=LONG,
    protocol=TEXT,
    edge=TEXT,
    epoch=LONG,
    verdict=TEXT,
    first_id=TEXT,
    key=TEXT,
    reasons=TEXTS,
    event_print=TEXT,
    frame_print=TEXT,
    destinations=TEXTS,
    touched=TEXTS,
    causes=TEXT,
)
"""A row of `FrameVerdict`."""


def start_batch(config: Config, master: str | None) -> SparkSession:
    """Starts a session for a batch job, with two tasks at a time unless `master` says otherwise.

    A job that runs beside a mesh must leave it its cores.
    """
    return start_spark(f"meshgate-{config.mesh}-batch", master or "local[2]", BATCH, jvm_options=BRIEF_JVM)


def read_topic(spark: SparkSession, config: Config, name: TopicName, spans: Spans) -> DataFrame:
    """Reads a topic: partition, offset, logged_at (µs), key, value, headers.

    Offsets that are gone are an error, not fewer rows.
    """
    topic = config.topic(name)
    options = {
        **config.kafka.spark_options(),
        "kafka.enable.metrics.push": "false",
        "assign": json.dumps({topic: sorted(spans)}),
        "startingOffsets": json.dumps({topic: {str(number): span.start for number, span in spans.items()}}),
        "endingOffsets": json.dumps({topic: {str(number): span.end for number, span in spans.items()}}),
        "includeHeaders": "true",
        "failOnDataLoss": "true",
    }
    records = spark.read.format("kafka").options(**options).load()
    logged_at = F.unix_micros("timestamp").alias("logged_at")
    return records.select("partition", "offset", logged_at, "key", "value", "headers")


def stands_in(spans: Spans) -> Column:
    """Returns a condition that is true if a row's `event_id` belongs to a frame in one of these spans."""
    place = F.split("event_id", "-")
    number, at = F.get(place, F.lit(0)).try_cast("int"), F.get(place, F.lit(1)).try_cast("long")
    inside = ((number == partition) & (at >= span.start) & (at < span.end) for partition, span in spans.items())
    return reduce(Column.__or__, inside, F.lit(False))


def header(name: str) -> Column:
    """Returns a header of the record as text; null if there is none."""
    return F.get(F.filter("headers", lambda pair: pair["key"] == name), F.lit(0))["value"].cast("string")


def event_print() -> Column:
    """Returns the column that is `judged.event_print` of `attributes` and `body`."""
    proof = F.concat_ws("/", *map(_attribute, PROOF_ATTRIBUTES))
    fixed = F.concat(_joined(FIXED_ATTRIBUTES), F.lit(b"\0"), "body")
    return F.concat_ws(" ", proof, F.md5(fixed), F.md5(_joined(READ_ATTRIBUTES)))


def _attribute(name: str) -> Column:
    return F.coalesce(F.col("attributes")[name], F.lit(""))


def _joined(names: Iterable[str]) -> Column:
    return F.encode(F.concat_ws("\0", *map(_attribute, names)), "utf-8")


def judge_frames(raw: DataFrame, config: Config, standing_before: int | None) -> DataFrame:
    """Returns every frame of the raw records, today's verdict on it (`JUDGED`), and when its record was logged.

    `standing_before`: the interests begin with those of that time; None: with none, where the log begins.
    """
    # Not where it leads to: in a pod it is a link into a folder that has nothing of what it names relative to itself.
    judges = ReprocessRecords(str(config.path), standing_before)
    judge: Callable[..., Column] = F.udf(judges, PlainArray(JUDGED), useArrow=False)
    frames = raw.select("logged_at", F.explode(judge("value", "partition", "offset")).alias("frame"))
    return frames.select("frame.*", "logged_at")


class ReprocessRecords:
    """The judge as Spark ships it: a path and a time, so that no key or setting ever stands in a closure."""

    def __init__(self, config_path: str, standing_before: int | None) -> None:
        self._config_path, self._standing_before = config_path, standing_before

    def __call__(self, value: bytes, partition: int, offset: int) -> list[tuple[Any, ...]]:
        return _worker(self._config_path, self._standing_before).judge(value, partition, offset)


class ReprocessWorker:
    """Judges frames; there is one in each Python process. A task is one raw partition, from beginning to end."""

    def __init__(self, config_path: str, standing_before: int | None) -> None:
        self._config = load(Path(config_path)).for_router()
        self._judge = Reprocessor.of_today(self._config)
        self._standing = [] if standing_before is None else standing(self._config, standing_before)
        self._task = -1

    def judge(self, value: bytes, partition: int, offset: int) -> list[tuple[Any, ...]]:
        if self._task != (task := task_id()):
            self._task = task
            self._judge.begin(self._standing)
        return [plain(row) for row in self._judge.record(value, partition, offset)]


@cache
def _worker(config_path: str, standing_before: int | None) -> ReprocessWorker:
    return ReprocessWorker(config_path, standing_before)


def standing(config: Config, before_us: int) -> list[InterestRecord]:
    """Returns the interests topic up to a time.

    What ended before, and was compacted away since, is not in it: then there are fewer receivers than there were, never
    more.
    """
    with closing(InterestReader(config, open_consumer)) as reader:
        return list(reader.read_until(before_us).items())


def task_id() -> int:
    context = TaskContext.get()
    return context.taskAttemptId() if context is not None else 0


def plain(row: Iterable[Any]) -> tuple[Any, ...]:
    """Returns the row as the JVM's unpickler needs it: a list is an array, a tuple a row."""
    return tuple(list(value) if isinstance(value, tuple) else value for value in row)
