"""The table `events` as rules see it: events as they come, with a watermark that the whole mesh moves on.

A window closes when the watermark has passed its end. Were the watermark moved by events alone, windows would stay open
in a quiet mesh, and a node gone silent would be noticed when the next one speaks. So the router's probes count as
ticks: each has gone through its lane behind all events received before it, and moves time on as far as they may.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import DataType, MapType

from gateway.config import Config
from gateway.interests.records import PROBE
from streaming_jobs.rules.check import LATE_SECONDS
from streaming_jobs.spark.events_table import SCHEMA, follow_events


def live_events(spark: SparkSession, config: Config, since_ms: int) -> DataFrame:
    """Returns the stream of events that were logged since a time.

    Without a time, Spark would begin where the topic ends when it first looks, seconds after the query was started.
    """
    events = follow_events(spark, config, since_ms=since_ms).unionByName(_ticks(spark, config))
    # Spark pushes what a rule asks for below the watermark, which would then only see what the rule wants. It stops at
    # a condition that is not deterministic, and this one is that in name only.
    is_event = (F.col("kind") != PROBE) == (F.spark_partition_id() >= 0)
    return events.withWatermark("received_at", f"{LATE_SECONDS} seconds").where(is_event)


def _ticks(spark: SparkSession, config: Config) -> DataFrame:
    """The probes' records, as rows of which only the time and the kind say something."""
    options = {**config.kafka.spark_options(), "kafka.enable.metrics.push": "false", "failOnDataLoss": "false"}
    options |= {"subscribe": config.topic("interests"), "startingOffsets": "latest"}
    records = spark.readStream.format("kafka").options(**options).load()
    key, value = F.col("key").cast("string"), F.col("value").cast("string")
    known_columns = {
        "kind": F.get_json_object(key, "$[0]"),
        "received_at": F.timestamp_micros(F.get_json_object(value, "$.at").cast("long")),
    }
    # Not a literal: Spark would see through it that no tick passes what a rule asks for, and read none.
    nothing = F.get_json_object(value, "$.nothing")
    columns = (known_columns.get(field.name, _as(nothing, field.dataType)).alias(field.name) for field in SCHEMA)
    return records.where(key.startswith(f'["{PROBE}"')).select(*columns)


def _as(text: Column, data_type: DataType) -> Column:
    return F.from_json(text, data_type.simpleString()) if isinstance(data_type, MapType) else text.cast(data_type)
