"""The third line of the equation, as tables: everyone that something was written for, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from gateway.core.event import Kind
from gateway.core.ids import session_id
from gateway.core.reasons import Rejected
from gateway.inspect.history.span import Span
from gateway.records import deliveries, egress_codec
from gateway.records.egress import Deliver, Group, PositionFilter
from gateway.records.raw_log.frames import ReplyAddress
from streaming_jobs.reprocess.frame_verdict import numbered, receivers
from streaming_jobs.reprocess.spark_tables import stands_in, task_id
from streaming_jobs.routing.change_records import ROUTER
from streaming_jobs.spark.plain_types import PlainArray
from streaming_jobs.spark.schemas import BOOLEAN, INT, TEXT, struct

PAIR = ("event_id", "part", "destination")
"""The columns that name a delivery."""
RANKS = ("confirmed", "written", "expired", "undeliverable")
"""Best first. What was delivered, and then came again to an edge that had restarted, was delivered."""


class SentDelivery(NamedTuple):
    """One receiver of a record of `egress`.

    `fresh` is False for what the router repeats after a crash. `request` is the open request that the record hands over
    or answers, by its requester.
    """

    event_id: str
    part: int
    destination: str
    kind: str
    fresh: bool
    request: str = ""


class Ended(NamedTuple):
    """An outcome. `name`: the destination as it was told. `by_router`: it never went to an edge, for the receiver's
    protocol has no form for it.
    """

    event_id: str
    part: int
    destination: str
    outcome: str
    by_router: bool
    name: str = ""
    node: str = ""


SENT = struct(event_id=TEXT, part=INT, destination=TEXT, kind=TEXT, fresh=BOOLEAN, request=TEXT)
ENDED = struct(event_id=TEXT, part=INT, destination=TEXT, outcome=TEXT, by_router=BOOLEAN, name=TEXT, node=TEXT)


class SentBy:
    """Reads one partition of `egress`, in order, in one task, and lets pass what its edge did."""

    def __init__(self) -> None:
        self._task = -1
        self._passing = PositionFilter()

    def __call__(self, value: bytes, partition: int) -> list[tuple[object, ...]]:
        if self._task != (task := task_id()):
            self._task, self._passing = task, PositionFilter()
        return [tuple(row) for row in self.rows(value, partition)]

    def rows(self, value: bytes, partition: int) -> Iterator[SentDelivery]:
        """Yields the receivers of one record. What is no record of the router's reaches nobody: edges skip it too."""
        try:
            record = egress_codec.decode(value)
        except Rejected:
            return
        for entry in record:
            fresh = self._passing.passes(entry.position)
            if isinstance(entry, Deliver):
                yield from _receivers_of(entry, partition, fresh=fresh)


def _receivers_of(entry: Deliver, edge_ordinal: int, *, fresh: bool) -> Iterator[SentDelivery]:
    named = SentDelivery(entry.event_id, entry.position.part, "", entry.kind.value, fresh)
    for group in entry.groups:
        for destination in receivers(group, entry.epoch, edge_ordinal):
            request = _request(group, destination, entry.kind)
            yield named._replace(destination=destination, request=request)


def _request(group: Group, destination: str, kind: Kind) -> str:
    if group.reply and kind is Kind.REQUEST:
        reply = ReplyAddress.unpack(group.reply)
        return f"{numbered(session_id(reply.edge, reply.epoch, reply.session))} {reply.request}"
    return f"{destination} {group.request}" if kind.ends_request else ""


def ended_in(value: bytes) -> list[Ended]:
    try:
        record = deliveries.decode(value)
    except Rejected:
        return []
    by_router = record.edge == ROUTER
    return [
        Ended(
            outcome.event_id,
            outcome.part,
            numbered(outcome.destination),
            outcome.outcome,
            by_router,
            outcome.destination,
            outcome.node,
        )
        for outcome in record
    ]


def _ended_rows(value: bytes) -> list[tuple[object, ...]]:
    return [tuple(row) for row in ended_in(value)]


def sent(records: DataFrame) -> DataFrame:
    read: Callable[..., Column] = F.udf(SentBy(), PlainArray(SENT), useArrow=False)
    return records.select("logged_at", F.explode(read("value", "partition")).alias("one")).select("one.*", "logged_at")


def ended(records: DataFrame) -> DataFrame:
    read: Callable[..., Column] = F.udf(_ended_rows, PlainArray(ENDED), useArrow=False)
    return records.select("logged_at", F.explode(read("value")).alias("one")).select("one.*", "logged_at")


def as_sent(outcomes: DataFrame, spans: Mapping[int, Span]) -> DataFrame:
    """Returns outcomes that stand in for egress records which are no longer kept.

    They are found by the frame: an outcome may come long after the sending, if the receiver was away.
    """
    older = outcomes.where(stands_in(spans) & ~F.col("by_router"))
    nothing = F.lit("")
    return older.select(*PAIR, nothing.alias("kind"), F.lit(True).alias("fresh"), nothing.alias("request"), "logged_at")


def delivered(sent_out: DataFrame, outcomes: DataFrame) -> DataFrame:
    """Returns each delivery once, with the best of its outcomes.

    Without any outcome, `outcome` is null, and `answered` tells whether it is a request that has its answer.
    """
    rank = F.array_position(F.array(*map(F.lit, RANKS)), F.col("outcome"))
    best = outcomes.groupBy(*PAIR).agg(
        F.min_by("outcome", rank).alias("outcome"), F.max("by_router").alias("by_router")
    )
    due = (
        sent_out.where("fresh")
        .groupBy(*PAIR)
        .agg(F.first("kind").alias("kind"), F.first("request").alias("request"), F.min("logged_at").alias("logged_at"))
    )
    answers = sent_out.where("kind != 'request' AND request != ''").select("request").distinct()
    at_edges = (
        due.join(best.where("NOT by_router").drop("by_router"), [*PAIR], "left")
        .join(answers.withColumn("answer", F.lit(True)), "request", "left")
        .select(
            *PAIR,
            "kind",
            "logged_at",
            "outcome",
            (F.col("answer").isNotNull() & (F.col("kind") == "request")).alias("answered"),
        )
    )
    at_router = best.where("by_router").select(
        *PAIR,
        F.lit("").alias("kind"),
        F.lit(0).cast("long").alias("logged_at"),
        "outcome",
        F.lit(False).alias("answered"),
    )
    return at_edges.unionByName(at_router)


def unsent(frames: DataFrame, sent_out: DataFrame, outcomes: DataFrame) -> DataFrame:
    """Returns the receivers that a frame has today and for whom nothing was written then.

    It also returns how many receivers the frame has (`wanted`) and had (`had`). It covers only frames that went then as
    they would go today.
    """
    as_then = "counted IN ('event', 'rejected', 'control', 'again') AND differently = '' AND fault = ''"
    as_then += " AND NOT (again AND verdict = 'control')"  # migrated: its receivers are the first frame's
    due = frames.where(as_then).select(
        F.col("known_as").alias("event_id"),
        "logged_at",
        "written_at",
        F.size("destinations").alias("wanted"),
        F.explode("destinations").alias("destination"),
    )
    there = sent_out.select("event_id", "destination").union(outcomes.select("event_id", "destination")).distinct()
    had = there.groupBy("event_id").agg(F.count("*").alias("had"))
    missing = due.join(there, ["event_id", "destination"], "left_anti")
    return missing.join(had, "event_id", "left").fillna(0, ["had", "written_at"])


def unknown(sent_out: DataFrame, outcomes: DataFrame) -> DataFrame:
    """Returns the outcomes of deliveries that nobody asked an edge for: `event_id`, `detail`."""
    from_edges = outcomes.where("NOT by_router").select("event_id", "destination").distinct()
    strange = from_edges.join(sent_out.select("event_id", "destination"), ["event_id", "destination"], "left_anti")
    return strange.select("event_id", F.concat(F.lit("nothing was sent to "), "destination").alias("detail"))
