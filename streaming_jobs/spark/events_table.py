"""The events as a table of Spark's, with the columns of the event model: for SQL, and for rules.

Records of the topic `events` become columns by Spark's own functions; no Python sees them.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import ArrayType, MapType

from gateway.config import Config
from gateway.core.event import Auth
from gateway.core.trace_context import TRACEPARENT
from gateway.records.cloud_event import TRACE_HEADER, TYPE_PREFIX
from gateway.records.event_records import BATCH, CONTENT_TYPE, SEPARATOR, STRUCTURED
from streaming_jobs.spark.schemas import BOOLEAN, BYTES, TEXT, TIME, struct

TABLE = "events"
HEADERS = ArrayType(struct(key=TEXT, value=BYTES))
"""The headers of a Kafka record, as Spark has them."""
SCHEMA = struct(
    id=TEXT,
    kind=TEXT,
    subject=TEXT,
    protocol=TEXT,
    listener=TEXT,
    edge=TEXT,
    session=TEXT,
    peer=TEXT,
    node=TEXT,
    message_id=TEXT,
    correlation=TEXT,
    content_type=TEXT,
    body=BYTES,
    text=TEXT,
    headers=MapType(TEXT, TEXT),
    urgent=BOOLEAN,
    sent_at=TIME,
    received_at=TIME,
    auth=TEXT,
    key_id=TEXT,
)
"""The fields of `gateway.core.event.Event` in its order, with `text` beside `body`. Empty text is empty, never null.
`text` is null where the body is none, `sent_at` where the peer says nothing."""

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
    """Returns the events in Kafka records (value, headers)."""
    attributes = attributes_in(records.select("value", "headers"))
    columns = _columns(F.col("attributes"), F.col("body"))
    return attributes.select(*(columns[field.name].cast(field.dataType).alias(field.name) for field in SCHEMA))


def attributes_in(records: DataFrame) -> DataFrame:
    """Returns a row for each event in Kafka records (value, headers, and others that stay), in any form that
    `event_records.read` knows: its `attributes` under the names of Kafka's binary mode, and its `body`.

    A record that is no event is one without attributes; JSON that cannot be read gives no rows.
    """
    headers = F.coalesce("headers", F.array().cast(HEADERS))
    pairs = F.transform(headers, lambda header: F.struct(header["key"], header["value"].cast("string")))
    others = [name for name in records.columns if name not in ("value", "headers")]
    attributes = records.select(
        *others, F.coalesce("value", F.lit(b"")).alias("value"), F.map_from_entries(pairs).alias("of")
    )
    media = F.lower(F.trim(F.substring_index(F.col("of")[CONTENT_TYPE], ";", 1)))
    is_json = F.col("of")["ce_id"].isNull() & media.isin(STRUCTURED, BATCH)
    alone = F.array(F.struct(F.col("of").alias("attributes"), F.col("value").alias("body")))
    return attributes.select(
        *others, F.inline(F.when(is_json, _in_json(F.col("value").cast("string"))).otherwise(alone))
    )


def _in_json(text: Column) -> Column:
    """Returns the events of a JSON object, or of an array of them. The separators of a batch cut it into its events."""
    objects = F.regexp_replace(text, r"\A\s*\[|\]\s*\z", "")
    return F.flatten(F.transform(F.split(objects, SEPARATOR + r"(?=\{)"), _in_objects))


def _in_objects(objects: Column) -> Column:
    """Returns the events of JSON objects with commas between them; of one alone, if a separator has cut them."""
    data = F.get(F.split(objects, SEPARATOR + '"data":', 2), F.lit(1))
    written = F.substring(data, F.lit(1), F.length(data) - 1)
    parsed = F.from_json(F.concat(F.lit("["), objects, F.lit("]")), "array<map<string,string>>")
    return F.transform(parsed, lambda members: _of_members(members, written))


def _of_members(members: Column, written: Column) -> Column:
    """Returns the event of an object. `written`: its body as it stands there, or null where it has no separator."""
    data = F.encode(F.coalesce(written, members["data"]), "utf-8")
    body = F.coalesce(F.unbase64(members["data_base64"]), data, F.lit(b""))
    attributes = F.map_filter(members, lambda name, value: ~name.isin("data", "data_base64") & value.isNotNull())
    renamed = F.transform_keys(
        attributes,
        lambda name, _: F.when(name == "datacontenttype", F.lit(CONTENT_TYPE)).otherwise(F.concat(F.lit("ce_"), name)),
    )
    return F.struct(renamed.alias("attributes"), body.alias("body"))


def _columns(attributes: Column, body: Column) -> Mapping[str, Column]:
    """Returns each column by its name, as `cloud_event.from_attributes` has it."""

    def text(name: str, default: str = "") -> Column:
        return F.coalesce(attributes[name], F.lit(default))

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
        "headers": _headers(attributes),
        "urgent": F.coalesce(attributes["ce_meshurgent"] == "true", F.lit(False)),
        "sent_at": F.try_to_timestamp(attributes["ce_meshsentat"]),
        "received_at": F.try_to_timestamp(attributes["ce_time"]),
        "auth": text("ce_meshauth", Auth.NONE.value),
        "key_id": text("ce_meshkey"),
    }


def _headers(attributes: Column) -> Column:
    headers = F.coalesce(F.from_json(attributes["ce_meshheaders"], "map<string,string>"), F.create_map())
    trace = attributes[TRACE_HEADER]
    traced = F.map_concat(headers, F.create_map(F.lit(TRACEPARENT), trace))
    return F.when(trace.isNotNull(), traced).otherwise(headers)


def read_events(spark: SparkSession, config: Config, *, since_ms: int | None = None) -> DataFrame:
    """Returns all events that are there now, or those that were logged since a time."""
    start = {"startingOffsets": "earliest"} if since_ms is None else _since(since_ms)
    options = {**config.kafka.spark_options(), **_OPTIONS, **start, "subscribe": config.topic("events")}
    return events_in(spark.read.format("kafka").options(**options).load())


def follow_events(spark: SparkSession, config: Config, *, since_ms: int | None = None) -> DataFrame:
    """Returns the events as a stream as they come: from now on, unless `since_ms` says otherwise."""
    start = {"startingOffsets": "latest"} if since_ms is None else _since(since_ms)
    options = {**config.kafka.spark_options(), **_OPTIONS, **start, "subscribe": config.topic("events")}
    return events_in(spark.readStream.format("kafka").options(**options).load())


def _since(milliseconds: int) -> dict[str, str]:
    return {"startingTimestamp": str(milliseconds), "startingOffsetsByTimestampStrategy": "latest"}
