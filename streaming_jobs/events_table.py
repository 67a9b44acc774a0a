"""The events as a table of Spark's, with the columns of the event model: for SQL, and for rules.

Records of the topic `events` become columns by Spark's own functions; no Python sees them.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import BinaryType, BooleanType, MapType, StringType, StructField, StructType, TimestampType

from gateway.cloud_event import TRACE_HEADER, TYPE_PREFIX
from gateway.config import Config
from gateway.event import Auth
from gateway.trace_context import TRACEPARENT

TABLE = "events"
_TEXT = StringType()
SCHEMA = StructType(
    [
        StructField("id", _TEXT),
        StructField("kind", _TEXT),
        StructField("subject", _TEXT),
        StructField("protocol", _TEXT),
        StructField("listener", _TEXT),
        StructField("edge", _TEXT),
        StructField("session", _TEXT),
        StructField("peer", _TEXT),
        StructField("node", _TEXT),
        StructField("message_id", _TEXT),
        StructField("correlation", _TEXT),
        StructField("content_type", _TEXT),
        StructField("body", BinaryType()),
        StructField("text", _TEXT),
        StructField("headers", MapType(_TEXT, _TEXT)),
        StructField("urgent", BooleanType()),
        StructField("sent_at", TimestampType()),
        StructField("received_at", TimestampType()),
        StructField("auth", _TEXT),
        StructField("key_id", _TEXT),
    ]
)
"""The fields of `gateway.event.Event` in its order, with `text` beside `body`. Empty text is empty, never null; `text`
is null where the body is none, `sent_at` where the peer says nothing."""

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # A peer's body that is no number must make a cast null, not end the query.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",  # of a record with a header twice, which is not of our making
    "spark.sql.shuffle.partitions": "2",
}
_OPTIONS = {"includeHeaders": "true", "kafka.enable.metrics.push": "false", "failOnDataLoss": "false"}
"""Events that retention has taken are no error of a query over what is left."""


def events_in(records: DataFrame) -> DataFrame:
    """Kafka records (value, headers) as events."""
    pairs = F.transform("headers", lambda one: F.struct(one["key"], one["value"].cast("string")))
    given = records.select(F.col("value"), F.map_from_entries(pairs).alias("given"))
    columns = _columns(F.col("given"), F.col("value"))
    return given.select(*(columns[field.name].cast(field.dataType).alias(field.name) for field in SCHEMA))


def _columns(given: Column, value: Column) -> Mapping[str, Column]:
    """Each column by its name, as `gateway.cloud_event.read` has it."""

    def text(name: str, default: str = "") -> Column:
        return F.coalesce(given[name], F.lit(default))

    body = F.coalesce(value, F.lit(b""))
    extensions = ("protocol", "listener", "edge", "session", "peer", "node", "correlation")
    return {
        **{name: text(f"ce_mesh{name}") for name in extensions},
        "id": text("ce_id"),
        "kind": F.substring(text("ce_type"), len(TYPE_PREFIX) + 1, 64),
        "subject": text("ce_subject"),
        "message_id": text("ce_meshmessageid"),
        "content_type": text("content-type"),
        "body": body,
        "text": F.try_validate_utf8(body.cast("string")),
        "headers": _headers(given),
        "urgent": F.coalesce(given["ce_meshurgent"] == "true", F.lit(False)),
        "sent_at": F.try_to_timestamp(given["ce_meshsentat"]),
        "received_at": F.try_to_timestamp(given["ce_time"]),
        "auth": text("ce_meshauth", Auth.NONE.value),
        "key_id": text("ce_meshkey"),
    }


def _headers(given: Column) -> Column:
    told = F.coalesce(F.from_json(given["ce_meshheaders"], "map<string,string>"), F.create_map())
    trace = given[TRACE_HEADER]
    traced = F.map_concat(told, F.create_map(F.lit(TRACEPARENT), trace))
    return F.when(trace.isNotNull(), traced).otherwise(told)


def read_events(spark: SparkSession, config: Config, *, since_ms: int | None = None) -> DataFrame:
    """All there is now; or what was logged since a time."""
    start = {"startingOffsets": "earliest"} if since_ms is None else _since(since_ms)
    options = {**config.kafka.spark_options(), **_OPTIONS, **start, "subscribe": config.topic("events")}
    return events_in(spark.read.format("kafka").options(**options).load())


def follow_events(spark: SparkSession, config: Config, *, since_ms: int | None = None) -> DataFrame:
    """As they come; from now on where nothing else is said."""
    start = {"startingOffsets": "latest"} if since_ms is None else _since(since_ms)
    options = {**config.kafka.spark_options(), **_OPTIONS, **start, "subscribe": config.topic("events")}
    return events_in(spark.readStream.format("kafka").options(**options).load())


def _since(milliseconds: int) -> dict[str, str]:
    return {"startingTimestamp": str(milliseconds), "startingOffsetsByTimestampStrategy": "latest"}
