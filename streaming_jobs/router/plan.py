"""The router's query, the same for every trigger:

    raw ─► one Python pass a record ─► explode ─► dropDuplicates(bucket, key) ─► explode ─► Kafka

Measured: one pass and one query, never two of either; a second Python stage or a second query through a topic costs ten
to a hundred times the latency.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from gateway.config import Config
from streaming_jobs.events_table import HEADERS
from streaming_jobs.router.progress import CARRYING, JUDGED, UNIQUE
from streaming_jobs.router.worker import PlainRow
from streaming_jobs.routing.dedup import Buckets

OUT = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", HEADERS),
    ]
)
ROW = StructType([StructField("key", StringType()), StructField("at", LongType()), StructField("outs", ArrayType(OUT))])

# The broker answers a fetch as soon as there is a byte, so a long wait costs an idle mesh nothing and a busy one no
# time; it is what keeps an idle router from asking two thousand times a second.
SOURCE = {"kafka.fetch.max.wait.ms": "500", "kafka.enable.metrics.push": "false", "includeHeaders": "false"}
# A record leaves at once, and what comes while it is under way leaves together after it: nothing waits for company at
# low rates, and at high ones a burst is two requests. With room for 16 KiB, or five under way, it would be five.
SINK = {
    "kafka.linger.ms": "0",
    "kafka.max.in.flight.requests.per.connection": "1",
    "kafka.batch.size": "262144",
    "kafka.enable.metrics.push": "false",
    "kafka.acks": "all",
    "kafka.compression.type": "zstd",
}


def sink_options(config: Config) -> dict[str, str]:
    """A producer's own limit is 1 MiB, less than what is made of the largest frame; the workers hold to the mesh's."""
    return {**config.kafka.spark_options(), **SINK, "kafka.max.request.size": str(config.kafka.message_bytes)}


def read_raw(
    spark: SparkSession, config: Config, partitions: Iterable[int], *, accepts_loss: bool = False
) -> DataFrame:
    """The raw records of these partitions. A gap in the offsets is an error: it would be a silent loss."""
    assigned = json.dumps({config.topic("raw"): sorted(partitions)})
    options = {**config.kafka.spark_options(), **SOURCE, "assign": assigned}
    options |= {"startingOffsets": "earliest", "failOnDataLoss": str(not accepts_loss).lower()}
    return spark.readStream.format("kafka").options(**options).load()


class PlainArray(ArrayType):
    """What the row functions return consists of what pickle and the JVM both know, so pyspark need not walk through it
    again: that would cost as much as all the rest (32 of 65 µs for a record of one frame)."""

    def needConversion(self) -> bool:  # noqa: N802 - pyspark's name
        return False

    @classmethod
    def typeName(cls) -> str:  # noqa: N802 - pyspark's name
        return "array"


def route(
    raw: DataFrame, routes: Callable[[bytes, int, int], list[PlainRow]], buckets: Buckets, *, evicts: bool
) -> DataFrame:
    """Records to write: topic, partition, key, value, headers."""
    route_record: Callable[..., Column] = F.udf(routes, PlainArray(ROW), useArrow=False)
    judged = raw.select(F.explode(route_record("value", "partition", "offset")).alias("row")).select("row.*")
    carrying = F.count_if(F.size("outs") > 0).alias(CARRYING)
    unique = first_of_each(judged.observe(JUDGED, carrying), buckets, evicts=evicts)
    outs = unique.observe(UNIQUE, carrying).select(F.explode("outs").alias("out")).select("out.*")
    return outs


def first_of_each(rows: DataFrame, buckets: Buckets, *, evicts: bool) -> DataFrame:
    """The first row of each `key` and bucket, which begins `at` this second.

    `evicts`: Spark takes out of the state what the watermark has passed, which it does by walking over all of it. Else
    somebody else must (see `sweep`): the dedup is then on a column that Spark does not know for the watermark's.
    """
    start, others = F.timestamp_seconds("at"), [name for name in rows.columns if name != "at"]
    marked = rows.select(start.alias("watermarked"), start.alias("bucket"), *others)
    watermarked = marked.withWatermark("watermarked", f"{buckets.delay_seconds} seconds")
    bucket = "watermarked" if evicts else "bucket"
    return watermarked.select(bucket, *others).dropDuplicates([bucket, "key"])
