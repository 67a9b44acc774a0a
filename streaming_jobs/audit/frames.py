"""The second line of the equation, as tables: every frame of the raw log beside what the topics say of it.

judged ⟕ events ⟕ refusals ─► covered (a window over each key) ─► account, one Python call a frame
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from gateway.config import Config
from gateway.core.event import SECOND_US
from gateway.core.reasons import Stage
from gateway.inspect.history.span import Span
from gateway.records.rejected_frame import FRAMES_HEADER, KEPT_BYTES
from streaming_jobs.audit.account import Evidence, FrameAccount, account
from streaming_jobs.reprocess.frame_verdict import VerdictDigests
from streaming_jobs.reprocess.spark_tables import event_print, header
from streaming_jobs.routing.known_ids import repeat_horizon_seconds
from streaming_jobs.spark.events_table import attributes_in
from streaming_jobs.spark.schemas import INT, LONG, TEXT, struct

ACCOUNT = struct(**dict.fromkeys(FrameAccount._fields, TEXT))
SEVERAL = "array<struct<event_id string, again string, frame string>>"
"""The value of a record of several refused frames."""
SPAN = struct(number=INT, begin=LONG, start=LONG, end=LONG)


def events_then(events: DataFrame) -> DataFrame:
    """Returns one row for each event id, because the router may write a record twice after a crash."""
    events_read = attributes_in(events).select(
        F.col("attributes")["ce_id"].alias("id"), event_print().alias("print"), "logged_at"
    )
    return events_read.groupBy("id").agg(
        F.array_sort(F.collect_set("print")).alias("event_prints_then"), F.min("logged_at").alias("written_at")
    )


def refusals_then(rejected: DataFrame) -> DataFrame:
    """Returns the refusals by the refused frame's position. Undeliverable events say nothing about their frame."""
    single = F.array(
        F.struct(
            header("event_id").alias("event_id"),
            header("again").alias("again"),
            F.base64(F.coalesce("value", F.lit(b""))).alias("frame"),
        )
    )
    several = F.from_json(F.col("value").cast("string"), SEVERAL)
    frames = F.when(header(FRAMES_HEADER).isNull(), single).otherwise(several)
    refusals = (
        rejected.where(header("stage") != str(Stage.DELIVER))
        .select(F.explode(frames).alias("frame"), header("reason").alias("reason"), "logged_at")
        .select(
            F.coalesce("frame.again", "frame.event_id").alias("place"),
            "reason",
            F.when(F.col("frame.frame") != "", F.md5(F.substring(F.unbase64("frame.frame"), 1, KEPT_BYTES))).alias(
                "print"  # none where nothing was kept, because the frame may hold a token
            ),
            "logged_at",
        )
    )
    return refusals.groupBy("place").agg(
        F.array_sort(F.collect_set("reason")).alias("reasons_then"),
        F.array_sort(F.collect_set("print")).alias("frame_prints_then"),
        F.min("logged_at").alias("refused_at"),
    )


def accounted(judged: DataFrame, events: DataFrame, refusals: DataFrame, config: Config) -> DataFrame:
    """Returns every judged frame with its account."""
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
        _covered(evidence, repeat_horizon_seconds(config))
        .select("*", give(*Evidence._fields).alias("account"))
        .select("*", "account.*")
    )


def _account(*evidence: object) -> tuple[str, ...]:
    """Plain text: the JVM knows nothing of our enumerations."""
    frame_evidence = Evidence(*(tuple(part) if isinstance(part, list) else part for part in evidence))  # type: ignore[arg-type]
    return tuple(str(part) for part in account(frame_evidence))


def _covered(evidence: DataFrame, horizon_seconds: int) -> DataFrame:
    """Says of each frame whether it is a repeat: the last frame with its key that passed lies within the horizon.

    What stands in the topics has passed. That tells all repeats, unless a frame was lost: then its own repeats look
    lost as well. The keys where anything looks lost are gone through once more, frame by frame.
    """
    keyed = evidence.where("key IS NOT NULL").withColumn("received", _seconds("received_at"))
    of_key = Window.partitionBy("key", "partition")
    before = of_key.orderBy("offset", "frame_index").rowsBetween(Window.unboundedPreceding, -1)
    passed_last = F.last(F.when(_has_passed(), F.col("received")), ignorenulls=True).over(before)
    is_repeat = F.coalesce(F.abs(F.col("received") - passed_last) <= horizon_seconds, F.lit(False))
    looks_lost = ~(F.col("covered") | _has_passed() | _was_refused())
    judged = (
        keyed.withColumn("is_moved", _is_moved())
        .withColumn("covered", is_repeat)
        .withColumn("is_doubtful", F.max(looks_lost).over(of_key))
    )
    repeats = _repeats(judged.where("is_doubtful"), horizon_seconds)
    covered = (
        judged.join(repeats, "event_id", "left")
        .withColumn("covered", F.when(F.col("is_doubtful"), F.col("is_repeat").isNotNull()).otherwise(F.col("covered")))
        .withColumn("covered", F.col("covered") | F.col("is_moved"))
        .drop("received", "is_moved", "is_doubtful", "is_repeat")
    )
    return covered.unionByName(evidence.where("key IS NULL").withColumn("covered", F.lit(False)))


def _repeats(keyed: DataFrame, horizon_seconds: int) -> DataFrame:
    """Returns the ids of the frames that are repeats, by the rule alone."""
    frame = F.struct("offset", "frame_index", "received", _was_refused().alias("was_refused"), "event_id")
    frames = keyed.groupBy("key", "partition").agg(F.sort_array(F.collect_list(frame)).alias("frames"))
    find: Callable[..., Column] = F.udf(partial(_find_repeats, horizon_seconds), "array<string>", useArrow=False)
    return frames.select(F.explode(find("frames")).alias("event_id")).withColumn("is_repeat", F.lit(True))


def _find_repeats(horizon_seconds: int, frames: Iterable[tuple[int, int, int, bool, str]]) -> list[str]:
    passed_last: int | None = None
    repeats = []
    for _, _, received, was_refused, event_id in frames:
        if passed_last is not None and abs(received - passed_last) <= horizon_seconds:
            repeats.append(event_id)
        elif not was_refused:
            passed_last = received
    return repeats


def _is_moved() -> Column:
    """Frames with its key came through in another partition (of a node that has moved). What came first cannot be told
    then: any that came through will do.
    """
    elsewhere, of_key = F.when(_came_through(), F.col("partition")), Window.partitionBy("key")
    other = (F.min(elsewhere).over(of_key) != F.col("partition")) | (
        F.max(elsewhere).over(of_key) != F.col("partition")
    )
    return F.coalesce(other, F.lit(False))


def _has_passed() -> Column:
    """True if its key was remembered: something of it stands in the topics, or it was for the mesh itself."""
    return (_came_through() | (F.col("verdict") == str(VerdictDigests.CONTROL))) & ~_was_refused()


def _seconds(column: str) -> Column:
    return F.floor(F.col(column) / SECOND_US)


def _came_through() -> Column:
    return F.size("event_prints_then") + F.size("reasons_then") > 0


def _was_refused() -> Column:
    """Refused then, although it would be an event today: without a verdict on it, it had no key and marked nothing."""
    return (
        (F.col("verdict") == str(VerdictDigests.EVENT))
        & (F.size("event_prints_then") == 0)
        & (F.size("reasons_then") > 0)
    )


def strangers(known_events: DataFrame, records: DataFrame, spans: DataFrame) -> DataFrame:
    """Returns the records, by `event_id` and `written_at`, that name no frame of the raw log.

    `is_gone` means that the log no longer has the frame's offset. Records before and after the range that is looked at
    are left out.
    """
    place = F.split("event_id", "-")
    number, at = F.get(place, F.lit(0)).try_cast("int"), F.get(place, F.lit(1)).try_cast("long")
    unmatched = records.join(known_events, "event_id", "left_anti").select("*", number.alias("number"), at.alias("at"))
    placed = unmatched.join(F.broadcast(spans), "number").withColumn("is_gone", F.col("at") < F.col("begin"))
    return placed.where("is_gone OR (at >= start AND at < end)").select("event_id", "written_at", "number", "is_gone")


def spans_table(spark: SparkSession, bounds: Mapping[int, Span], judged: Mapping[int, Span]) -> DataFrame:
    """Returns a table of the raw partitions: where each begins, and the range of it that is judged."""
    rows = [(number, bounds[number].start, span.start, span.end) for number, span in judged.items()]
    return spark.createDataFrame(rows, SPAN)
