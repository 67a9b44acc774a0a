"""Rules that look at each event by itself run in real time: a finding enters the raw log as soon as its event is there.

    events ─► the rule's SQL ─► a raw record for each row ─► raw

A rule that groups, joins or asks for the time needs batches (`job`). So does one for whose query no task slots are
left: in real time it holds one for each partition of `events`.

After a crash a batch is done again from its beginning, so its findings come again under the same names, and the router
drops them as repeats.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from gateway.config import Config
from streaming_jobs.rules.columns import as_event_columns
from streaming_jobs.rules.output_writer import finding_record
from streaming_jobs.rules.rule_output import partition_of, rule_events
from streaming_jobs.spark.events_table import TABLE, follow_events
from streaming_jobs.spark.kafka_sink import sink_options

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

TRIGGER: dict[str, Any] = {"realTime": "60 seconds"}
"""The length of a batch before it commits: so much comes again after a crash, which the replay window must cover."""
BATCH_ID = "streaming.sql.batchId"


@dataclass
class FindingPacker:
    """Makes a raw record of a row. Each task has one of its own, which counts rows of its batch that are alike."""

    rule: str
    depth: int
    _counts: Counter[str] = field(default_factory=Counter)

    def __call__(self, subject: str, body: Any, content_type: str, origin: str, hops: int | None) -> bytes | None:
        place = _task_name()
        row = {"subject": subject, "body": body, "content_type": content_type, "origin": origin, "hops": hops}
        found = next(rule_events(self.rule, self.depth, place, [row], self._counts), None)
        return finding_record([found]) if found is not None else None


def _task_name() -> str:
    """Returns the batch and the partition of the task at hand: the same ones when Spark does the batch again."""
    task = TaskContext.get()
    return f"{task.getLocalProperty(BATCH_ID)}-{task.partitionId()}" if task is not None else ""


def realtime_writer(spark: SparkSession, config: Config, packer: FindingPacker, sql: str) -> DataStreamWriter:
    """Returns what writes the findings of a rule from now on."""
    follow_events(spark, config, since_ms=time.time_ns() // 1_000_000).createOrReplaceTempView(TABLE)
    packed = _packed(as_event_columns(spark.sql(sql)), config, packer)
    writer = packed.writeStream.format("kafka").outputMode("update").trigger(**TRIGGER)
    return writer.options(**sink_options(config))


def _packed(columns: DataFrame, config: Config, packer: FindingPacker) -> DataFrame:
    value = F.udf(packer, "binary", useArrow=False)(*columns.columns)
    partition = F.lit(partition_of(packer.rule, config.kafka.topic("raw").partitions))
    rows = columns.select(F.lit(config.topic("raw")).alias("topic"), partition.alias("partition"), value.alias("value"))
    return rows.where("value IS NOT NULL")
