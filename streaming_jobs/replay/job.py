"""The replay: the raw log decoded again with today's code, rules and keys, beside what was made of it then.

A frame is sent again where somebody has not got what it says today: it was refused and would be accepted now; it reads
differently now, and nobody has got it as it read then; or it could not be delivered, and somebody wants it now. It goes
in with the id of its first time and the names of those who have got it, so nothing is delivered twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from gateway.config import Config
from gateway.core.clock import now_us
from gateway.core.event import SECOND_US, Event
from gateway.core.ids import FramePosition
from gateway.inspect.history.logged_frame import LoggedFrame, NotFoundError, find_frame
from gateway.inspect.history.span import Span
from gateway.inspect.history.topics import History
from gateway.protocols.actions import REACHED
from gateway.records import cloud_event
from gateway.records.raw_log.container import decode_record
from gateway.records.raw_log.frames import RawFrame, Replayed
from streaming_jobs.audit import deliveries
from streaming_jobs.audit.account import READS_DIFFERENTLY, FaultKind
from streaming_jobs.audit.tables import Tables, kept
from streaming_jobs.replay.changes import LISTED, Replay, ReplayChange, ReplayOutcome, differing
from streaming_jobs.replay.replay_writer import FrameAgain, ReplayWriter
from streaming_jobs.reprocess.log_range import LogRange, choose_stretch
from streaming_jobs.reprocess.reprocessor import Reprocessor
from streaming_jobs.reprocess.spark_tables import read_topic, standing, start_batch
from streaming_jobs.routing.known_ids import repeat_horizon_seconds
from streaming_jobs.spark.events_table import attributes_in
from streaming_jobs.spark.session import brief

Say = Callable[[str], None]

ACCEPTED_TODAY = "accepted today"
UNDELIVERED = "was not delivered"


def replay_mesh(
    config: Config, start: int | None, end: int | None, *, dry_run: bool, master: str | None, say: Say
) -> Replay:
    with History(config) as history:
        stretch = choose_stretch(history, config, start, end, now_us())
        spark = start_batch(config, master)
        with brief(spark):
            say(f"decoding {sum(span.size for span in stretch.spans.values()):,} raw records again")
            return ReplayJob(config, spark, history, stretch, dry_run=dry_run).run(say)


class ReplayJob:
    def __init__(
        self, config: Config, spark: SparkSession, history: History, stretch: LogRange, *, dry_run: bool
    ) -> None:
        self._config, self._spark, self._history, self._stretch = config, spark, history, stretch
        self._judge = Reprocessor.of_today(config)
        self._replay = Replay(config.mesh, stretch.start, stretch.end, dry_run)

    def run(self, say: Say) -> Replay:
        self._tables = Tables(self._config, self._spark, self._history, self._stretch)
        self._compare()
        say("looking for what nobody has got")
        self._send()
        return self._replay

    # -- what would be decided otherwise -------------------------------------------------------------------------

    def _compare(self) -> None:
        replay = self._replay
        frames = self._tables.frames
        reads = F.when(_reads_differently(), F.lit(READS_DIFFERENTLY)).otherwise(F.col("differently"))
        changed = kept(frames.withColumn("change", reads).where("change != ''"))
        replay.frames = frames.count()
        replay.kinds = Counter({row["change"]: row["count"] for row in changed.groupBy("change").count().collect()})
        if replay.kinds:
            rows = changed.select("event_id", "change").orderBy("partition", "offset", "frame_index").limit(LISTED)
            replay.changes = list(self._described(rows.collect()))

    def _described(self, rows: list[Any]) -> Iterator[ReplayChange]:
        then = self._events_then([row["event_id"] for row in rows if row["change"] == READS_DIFFERENTLY])
        for row in rows:
            if row["event_id"] in then:
                yield self._reading(row["event_id"], then[row["event_id"]])
            else:
                before, _, after = row["change"].partition(" then, ")
                yield ReplayChange(row["event_id"], before, after.removesuffix(" today"))

    def _reading(self, event_id: str, then: Event) -> ReplayChange:
        today = self._event_today(event_id)
        if today is None:
            return ReplayChange(event_id, _shown(then), "not readable")
        return ReplayChange(event_id, _shown(then), _shown(today), differing(then, today))

    def _event_today(self, event_id: str) -> Event | None:
        try:
            verdict = self._judge.verdict(find_frame(self._history, FramePosition.parse(event_id)).raw)
        except NotFoundError:
            return None
        return verdict if isinstance(verdict, Event) else None

    def _events_then(self, event_ids: list[str]) -> dict[str, Event]:
        if not event_ids:
            return {}
        spans = self._history.between("events", self._stretch.outputs_from, None)
        records = read_topic(self._spark, self._config, "events", spans)
        events = attributes_in(records).where(F.col("attributes")["ce_id"].isin(event_ids))
        rows = events.select("attributes", "body").limit(2 * LISTED).collect()
        then = (cloud_event.from_attributes(row["attributes"], bytes(row["body"])) for row in rows)
        return {event.id: event for event in then}

    # -- what nobody has got -------------------------------------------------------------------------------------

    def _send(self) -> None:
        rows = self._candidates().orderBy("partition", "offset", "frame_index").collect()
        self._judge.begin(standing(self._config, now_us()), keeps_leases=True)
        chosen: list[FrameAgain] = []
        because: list[str] = []
        for row, logged in self._logged(rows):
            again = Replayed(row["event_id"], now_us(), frozenset(row["reached"]))
            if why := self._why_not(row["because"], logged.raw, again):
                self._replay.outcomes.append(ReplayOutcome(row["event_id"], row["because"], left_alone=why))
            else:
                chosen.append((logged, again))
                because.append(row["because"])
        places = [""] * len(chosen)
        if chosen and not self._replay.dry_run:
            with ReplayWriter(self._config) as writer:
                places = writer.put(chosen)
        sent = zip(chosen, because, places, strict=True)
        self._replay.outcomes += [ReplayOutcome(again.event_id, why, place) for (_, again), why, place in sent]

    def _why_not(self, because: str, raw: RawFrame, again: Replayed) -> str:
        why = self._judge.why_not_again(raw)
        if not why and because == UNDELIVERED and not self._judge.is_wanted(raw, again):
            return "nobody wants it now who has not got it"
        return why

    def _candidates(self) -> DataFrame:
        """Frames that are an event today, which their receivers have not got; with who has."""
        frames = _unheard(
            self._tables.frames.where("verdict = 'event' AND NOT again AND counted != 'duplicate'"),
            repeat_horizon_seconds(self._config) * SECOND_US,
        )
        joined = frames.join(self._reached(), "event_id", "left").join(self._missed(), "event_id", "left")
        because = (
            F.when(F.col("counted").isin("rejected", "lost") & ~F.col("heard"), F.lit(ACCEPTED_TODAY))
            .when(_reads_differently() & F.col("reached").isNull(), F.lit(READS_DIFFERENTLY))
            .when(F.col("missed"), F.lit(UNDELIVERED))
        )
        chosen = joined.withColumn("because", because).where("because IS NOT NULL")
        reached = F.coalesce("reached", F.array().cast("array<string>")).alias("reached")
        return chosen.select("event_id", "partition", "offset", "frame_index", "because", reached)

    def _reached(self) -> DataFrame:
        got = self._tables.outcomes.where(F.col("outcome").isin([str(outcome) for outcome in REACHED]))
        names = F.array_union(F.collect_set("name"), F.collect_set("node"))
        return got.groupBy("event_id").agg(F.array_except(names, F.array(F.lit(""))).alias("reached"))

    def _missed(self) -> DataFrame:
        """Returns the events of which a delivery came to nothing."""
        delivered = deliveries.delivered(self._tables.sent, self._tables.outcomes)
        missed = delivered.where("outcome = 'undeliverable' AND kind IN ('event', '')")
        return missed.select("event_id", F.lit(True).alias("missed")).distinct()

    def _logged(self, rows: list[Any]) -> Iterator[tuple[Any, LoggedFrame]]:
        """Yields each row's raw frame, read in the log's own order."""
        for partition, of_partition in groupby(rows, key=lambda row: row["partition"]):
            rows_by_offset: dict[int, list[Any]] = {}
            for row in of_partition:
                rows_by_offset.setdefault(row["offset"], []).append(row)
            span = Span(min(rows_by_offset), max(rows_by_offset) + 1)
            for record in self._history.read("raw", {partition: span}):
                if record.offset in rows_by_offset:
                    raws = decode_record(record.value or b"").frames
                    for row in rows_by_offset[record.offset]:
                        place = FramePosition(partition, record.offset, row["frame_index"])
                        yield row, LoggedFrame(place, raws[row["frame_index"]], record.logged_at)


def _reads_differently() -> Column:
    return (F.col("fault") == str(FaultKind.ALTERED_EVENT)) | (F.col("differently") == READS_DIFFERENTLY)


def _unheard(frames: DataFrame, reach_us: int) -> DataFrame:
    """`heard`: what the frame says has come through as a frame with its key. Repeats that were all refused are one
    event today: the others count as heard.
    """
    around = Window.partitionBy("key").orderBy("received_at").rangeBetween(-reach_us, reach_us)
    in_order = Window.partitionBy("key").orderBy("received_at", "partition", "offset", "frame_index")
    came_through = F.max(F.size("event_prints_then") > 0).over(around)
    is_repeat = F.coalesce(F.col("received_at") - F.lag("received_at").over(in_order) <= reach_us, F.lit(False))
    keyed = frames.where("key IS NOT NULL").withColumn("heard", came_through | is_repeat)
    return keyed.unionByName(frames.where("key IS NULL").withColumn("heard", F.lit(False)))


def _shown(event: Event) -> str:
    return f"{event.kind} {event.subject} ({len(event.body)} bytes {event.content_type})"
