"""The second line of the equation, as tables: every frame of the raw log beside what the topics say of it.

judged ⟕ events ⟕ refusals ─► covered (a window over each key) ─► account, one Python call a frame
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from gateway.config import Config
from gateway.event import SECOND_US
from gateway.history.places import Span
from gateway.reasons import Stage
from gateway.rejected_frame import KEPT_BYTES
from streaming_jobs.audit.account import Account, Evidence, account
from streaming_jobs.events_table import attributes_in
from streaming_jobs.judging.judged import Verdict
from streaming_jobs.judging.reading import event_print, header
from streaming_jobs.routing.dedup import LATEST_SECONDS, Buckets

ACCOUNT = StructType([StructField(name, StringType()) for name in Account._fields])
SPAN = StructType(
    [
        StructField("number", IntegerType()),
        StructField("begin", LongType()),
        StructField("start", LongType()),
        StructField("end", LongType()),
    ]
)


def events_then(events: DataFrame) -> DataFrame:
    """One row an event id, for the router may write a record twice after a crash."""
    told = attributes_in(events).select(
        F.col("attributes")["ce_id"].alias("id"), event_print().alias("print"), "logged_at"
    )
    return told.groupBy("id").agg(
        F.array_sort(F.collect_set("print")).alias("event_prints_then"), F.min("logged_at").alias("written_at")
    )


def refusals_then(rejected: DataFrame) -> DataFrame:
    """By the place of the frame that was refused; what could not be delivered is no matter of the frame."""
    told = rejected.where(header("stage") != str(Stage.DELIVER)).select(
        F.coalesce(header("again"), header("event_id")).alias("place"),
        header("reason").alias("reason"),
        F.md5(F.substring(F.coalesce("value", F.lit(b"")), 1, KEPT_BYTES)).alias("print"),
        "logged_at",
    )
    return told.groupBy("place").agg(
        F.array_sort(F.collect_set("reason")).alias("reasons_then"),
        F.array_sort(F.collect_set("print")).alias("frame_prints_then"),
        F.min("logged_at").alias("refused_at"),
    )


def accounted(judged: DataFrame, events: DataFrame, refusals: DataFrame, config: Config) -> DataFrame:
    """Every judged frame with its account."""
    causes = judged.where("causes != ''").select(F.col("causes").alias("cause")).distinct()
    evidence = (
        judged.withColumn("again", F.col("first_id") != "")
        .withColumn("known_as", F.when(F.col("again"), F.col("first_id")).otherwise(F.col("event_id")))
        .join(events.withColumnRenamed("id", "known_as"), "known_as", "left")
        .join(refusals.withColumnRenamed("place", "event_id"), "event_id", "left")
        .join(causes, F.col("event_id") == F.col("cause"), "left")
        .withColumn("changed_interests", F.col("cause").isNotNull())
    )
    for name in ("event_prints_then", "reasons_then", "frame_prints_then"):
        evidence = evidence.withColumn(name, F.coalesce(name, F.array().cast("array<string>")))
    give: Callable[..., Column] = F.udf(_account, ACCOUNT, useArrow=False)
    return (
        _covered(evidence, Buckets.of(config))
        .select("*", give(*Evidence._fields).alias("account"))
        .select("*", "account.*")
    )


def _account(*evidence: object) -> tuple[str, ...]:
    """Plain text: the JVM knows nothing of our enumerations."""
    given = Evidence(*(tuple(one) if isinstance(one, list) else one for one in evidence))  # type: ignore[arg-type]
    return tuple(str(part) for part in account(given))


def _covered(evidence: DataFrame, buckets: Buckets) -> DataFrame:
    """Whether an earlier frame with the same key has marked the time of this one, as the router's buckets are marked.

    All that the router took for an event marks, so a repeat does too. In another partition (of a node that has moved)
    what came first cannot be told: there, any that came through will do.
    """
    keyed = evidence.where("key IS NOT NULL").withColumn("bucket", _bucket(_seconds("received_at"), buckets))
    place = F.struct("partition", "offset", "frame_index")
    marks = keyed.where(~_was_refused()).select("key", F.explode(_marks(buckets)).alias("bucket"), place.alias("mark"))
    first_marks = marks.groupBy("key", "bucket").agg(F.min("mark").alias("first_mark"))
    elsewhere = F.when(_came_through(), F.col("partition"))
    of_key = Window.partitionBy("key")
    moved = (F.min(elsewhere).over(of_key) != F.col("partition")) | (
        F.max(elsewhere).over(of_key) != F.col("partition")
    )
    marked = F.coalesce(F.col("first_mark") < place, F.lit(False))
    covered = (
        keyed.withColumn("moved", F.coalesce(moved, F.lit(False)))
        .join(first_marks, ["key", "bucket"], "left")
        .withColumn("covered", marked | F.col("moved"))
        .drop("bucket", "moved", "first_mark")
    )
    return covered.unionByName(evidence.where("key IS NULL").withColumn("covered", F.lit(False)))


def _marks(buckets: Buckets) -> Column:
    """The buckets that a frame marks. What was read long after its receipt counted as received `LATEST` before that:
    then it is not known where its repeats fall, and all in between count as marked.
    """
    received = _seconds("received_at")
    at = F.greatest(received, F.coalesce(_seconds("written_at") - LATEST_SECONDS, F.lit(0)))
    last = _bucket(at, buckets)
    reaches_on = at + buckets.window_seconds >= last + buckets.bucket_seconds
    until = F.when(reaches_on, last + buckets.bucket_seconds).otherwise(last)
    return F.sequence(_bucket(received, buckets), until, F.lit(buckets.bucket_seconds).cast("long"))


def _bucket(seconds: Column, buckets: Buckets) -> Column:
    return seconds - seconds % buckets.bucket_seconds


def _seconds(column: str) -> Column:
    return F.floor(F.col(column) / SECOND_US)


def _came_through() -> Column:
    return F.size("event_prints_then") + F.size("reasons_then") > 0


def _was_refused() -> Column:
    """Refused then, although it would be an event today: without a verdict on it, it had no key and marked nothing."""
    return (F.col("verdict") == str(Verdict.EVENT)) & (F.size("event_prints_then") == 0) & (F.size("reasons_then") > 0)


def strangers(known: DataFrame, records: DataFrame, spans: DataFrame) -> DataFrame:
    """Records, by `event_id` and `written_at`, that name no frame of the raw log. `is_gone`: its offset is not there.

    Those before the stretch that is looked at, and after it, are nobody's.
    """
    place = F.split("event_id", "-")
    number, at = F.get(place, F.lit(0)).try_cast("int"), F.get(place, F.lit(1)).try_cast("long")
    left = records.join(known, "event_id", "left_anti").select("*", number.alias("number"), at.alias("at"))
    placed = left.join(F.broadcast(spans), "number").withColumn("is_gone", F.col("at") < F.col("begin"))
    return placed.where("is_gone OR (at >= start AND at < end)").select("event_id", "written_at", "number", "is_gone")


def spans_table(spark: SparkSession, bounds: Mapping[int, Span], judged: Mapping[int, Span]) -> DataFrame:
    """Of each raw partition: where it begins, and the stretch that is judged."""
    rows = [(number, bounds[number].start, span.start, span.end) for number, span in judged.items()]
    return spark.createDataFrame(rows, SPAN)
