"""The audit: a cut through the raw log, the tables on both sides of the equation, and the terms counted from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from gateway.config import Config
from gateway.core.clock import now_us
from gateway.inspect.history.topics import History
from gateway.inspect.live.mesh_parts import edge_parts
from gateway.records.raw_log.control_frames import MESH
from streaming_jobs.audit import deliveries, frames
from streaming_jobs.audit.account import Counted, FaultKind
from streaming_jobs.audit.edges import AskedEdge
from streaming_jobs.audit.equation import LISTED, Equation, EquationFault, Gap
from streaming_jobs.audit.settle import LateDelivery, LateFrame, Patience, Unsent, Waiting
from streaming_jobs.audit.tables import Tables, kept
from streaming_jobs.reprocess.log_range import LogRange, choose_stretch
from streaming_jobs.reprocess.spark_tables import start_batch
from streaming_jobs.spark.session import brief

CHECKED = 10_000
"""So many missing records are followed one by one; where more are missing, waiting for them would not help."""

Say = Callable[[str], None]


def audit_mesh(
    config: Config,
    start: int | None,
    end: int | None,
    *,
    master: str | None,
    ask_edge: bool,
    settle_seconds: float,
    say: Say,
) -> Equation:
    """Audits the mesh between two times, in microseconds; None stands for the beginning, or for now.

    `say` hears how far the audit is.
    """
    with History(config) as history:
        asking = AskedEdge(edge_parts(config)[0]) if ask_edge else None
        stretch = choose_stretch(history, config, start, end, now_us())
        if asking is not None:
            asking.ask_again()
        spark = start_batch(config, master)
        with brief(spark):
            audit = Audit(config, spark, history, stretch)
            equation = audit.run(say, settle_seconds)
            if asking is not None:
                equation.edges = [asking.compare(audit.logged_by(asking.edge))]
            return equation


class Audit:
    def __init__(self, config: Config, spark: SparkSession, history: History, stretch: LogRange) -> None:
        self._config, self._spark, self._history, self._stretch = config, spark, history, stretch
        self._equation = Equation(config.mesh, stretch.start, stretch.end)

    def run(self, say: Say, settle_seconds: float) -> Equation:
        say(f"judging {sum(span.size for span in self._stretch.spans.values()):,} raw records again")
        tables = self.tables = Tables(self._config, self._spark, self._history, self._stretch)
        self._frames, self._sent, self._outcomes = tables.frames, tables.sent, tables.outcomes
        say("comparing with events, rejected, egress and deliveries")
        self._count_frames()
        self._count_strangers()
        self._count_deliveries()
        waiting = self._find_missing()
        waiting.wait(self._history, tables.read_to, settle_seconds, say)
        waiting.conclude(self._equation, self._changes({delivery.destination for delivery in waiting.unsent}), now_us())
        return self._equation

    # -- terms: one pass over the frames, one over what belongs to none, one over the deliveries --------------------

    def _count_frames(self) -> None:
        equation = self._equation
        is_mesh, differs = (F.col("protocol") == MESH).alias("mesh"), (F.col("differently") != "").alias("differs")
        totals = self._frames.groupBy("counted", "reason", "fault", is_mesh, differs).agg(F.count("*").alias("frames"))
        faults: Counter[str] = Counter()
        for row in totals.collect():
            equation.counted[row["counted"]] += row["frames"]
            equation.mesh_frames += row["frames"] * row["mesh"]
            equation.differently_count += row["frames"] * row["differs"]
            if row["counted"] == Counted.REJECTED:
                equation.reasons[row["reason"]] += row["frames"]
            if row["counted"] != Counted.LOST:
                faults[row["fault"]] += row["frames"]
        self._fault(faults, self._frames.where("counted != 'lost'").withColumn("detail", F.lit("")))
        if equation.differently_count:
            rows = self._frames.where("differently != ''").select("event_id", "differently").orderBy("event_id")
            equation.differently = [EquationFault("judged_differently", *row) for row in rows.limit(LISTED).collect()]

    def _count_strangers(self) -> None:
        """Records that name no frame; those whose place is gone from the raw log tell of a gap in it."""
        strange = kept(self._strangers().where(F.col("written_at") >= (self._stretch.start or 0)))
        counts = strange.groupBy("fault", "number", "is_gone").agg(F.count("*").alias("records")).collect()
        for row in counts:
            if row["is_gone"]:
                last, detail = self._stretch.bounds[row["number"]].start - 1, f"{row['records']:,} records tell of it"
                self._equation.gaps.append(Gap(row["number"], 0, last, detail))
        here = Counter({row["fault"]: 0 for row in counts})
        for row in counts:
            here[row["fault"]] += 0 if row["is_gone"] else row["records"]
        self._fault(here, strange.where("NOT is_gone").withColumn("detail", F.lit("names no raw frame")))

    def _strangers(self) -> DataFrame:
        spans = frames.spans_table(self._spark, self._stretch.bounds, self._stretch.spans)
        known_events = self._frames.select(F.col("known_as").alias("event_id"))
        places = self._frames.select("event_id")
        events = self.tables.events.select(F.col("id").alias("event_id"), "written_at")
        refused = self.tables.refusals.select(F.col("place").alias("event_id"), F.col("refused_at").alias("written_at"))
        named = _named(FaultKind.UNKNOWN_EVENT, frames.strangers(known_events, events, spans))
        return named.unionByName(_named(FaultKind.UNKNOWN_REJECTION, frames.strangers(places, refused, spans)))

    def _count_deliveries(self) -> None:
        self._delivered = kept(deliveries.delivered(self._sent, self._outcomes))
        unknown = _named(FaultKind.UNKNOWN_DELIVERY, deliveries.unknown(self._sent, self._outcomes))
        ends = self._delivered.select(F.coalesce("outcome", F.lit("")).alias("end"))
        counts = ends.unionByName(unknown.select(F.col("fault").alias("end"))).groupBy("end").count().collect()
        outcomes = Counter({row["end"]: row["count"] for row in counts})
        self._without_end = outcomes.pop("", 0)
        self._fault(Counter({FaultKind.UNKNOWN_DELIVERY: outcomes.pop(FaultKind.UNKNOWN_DELIVERY, 0)}), unknown)
        self._equation.outcomes = outcomes

    def _fault(self, counts: Counter[str], faulty: DataFrame) -> None:
        """Counts them all, and names so many that there is something to look at."""
        del counts[""]
        if counts.total():
            self._equation.fault_counts += counts
            rows = faulty.where("fault != ''").select("fault", "event_id", "detail").orderBy("event_id")
            self._equation.faults += [EquationFault(*row) for row in rows.limit(LISTED).collect()]

    # -- what is missing -----------------------------------------------------------------------------------------

    def _find_missing(self) -> Waiting:
        lost = self._frames.where("counted = 'lost'").withColumnRenamed("event_id", "place")
        without_end = _named(FaultKind.LOST_DELIVERY, self._delivered.where("outcome IS NULL"))
        unsent = _named(FaultKind.UNSENT_DELIVERY, deliveries.unsent(self._frames, self._sent, self._outcomes))
        return Waiting(
            Patience.of(self._config),
            [LateFrame(*row) for row in self._followed(lost, LateFrame._fields, self._equation.counted[Counted.LOST])],
            [LateDelivery(*row) for row in self._followed(without_end, LateDelivery._fields, self._without_end)],
            [Unsent(*row) for row in self._followed(unsent, Unsent._fields, unsent.count())],
        )

    def _followed(self, missing: DataFrame, fields: tuple[str, ...], count: int) -> list[Any]:
        """Returns the rows that may only be late. Where they are too many to follow, all others are faults at once."""
        if not count:
            return []
        rows = missing.orderBy("logged_at").select("fault", *fields).limit(CHECKED).collect()
        if count > CHECKED:
            counts = Counter({row["fault"]: row["count"] for row in missing.groupBy("fault").count().collect()})
            self._equation.fault_counts += counts - Counter(row["fault"] for row in rows)
        return [tuple(row)[1:] for row in rows]

    def _changes(self, destinations: set[str]) -> dict[str, list[int]]:
        """Returns when the interests of these destinations changed."""
        if not destinations:
            return {}
        changed = self.tables.judged.select("logged_at", F.explode("touched").alias("destination"))
        times: dict[str, list[int]] = {}
        for row in changed.where(F.col("destination").isin(sorted(destinations))).collect():
            times.setdefault(row["destination"], []).append(row["logged_at"])
        return times

    # -- edges ---------------------------------------------------------------------------------------------------

    def logged_by(self, edge: str) -> int:
        """Returns how many frames this edge's peers have logged in its newest epoch."""
        of_edge = self.tables.judged.where(
            (F.col("edge") == edge) & (F.col("protocol") != MESH) & (F.col("first_id") == "")
        )
        newest = self.tables.judged.where(F.col("edge") == edge).agg(F.max("epoch")).collect()[0][0]
        return of_edge.where(F.col("epoch") == newest).count() if newest is not None else 0


def _named(kind: FaultKind, rows: DataFrame) -> DataFrame:
    return rows.withColumn("fault", F.lit(str(kind)))
