"""The audit's tables on a real Spark, over rows made here: every case is one event id of one table."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from gateway.config import parse
from gateway.inspect.history.span import Span
from gateway.records import cloud_event, rejected_frame
from gateway.records.rejected_frame import RefusedFrame
from streaming_jobs.audit import deliveries, frames
from streaming_jobs.audit.deliveries import Ended, SentDelivery
from streaming_jobs.reprocess.frame_verdict import FrameVerdict, event_print, frame_print
from streaming_jobs.reprocess.spark_tables import JUDGED, plain
from streaming_jobs.routing.known_ids import KnownIds, message_key, repeat_horizon_seconds
from streaming_jobs.spark.events_table import HEADERS
from streaming_jobs.spark.schemas import BYTES, INT, LONG, struct
from tests.events import FULL
from tests.integration.spark_session import spark
from tests.unit.records.test_event_records import BATCH_FORM, BINARY_FORM

__all__ = ["spark"]
SECOND = 1_000_000
AT = 1_760_000_000 * SECOND
WRITERS = (BINARY_FORM, BATCH_FORM)
CONFIG = parse("mesh: t", Path("meshgate.yaml"), {})
RECORD = struct(partition=INT, offset=LONG, logged_at=LONG, key=BYTES, value=BYTES, headers=HEADERS)


@dataclass
class Topics:
    """Frames of the raw log as they are judged, and the records that were made of them."""

    judged: list[FrameVerdict] = field(default_factory=list)
    events: list[tuple[Any, ...]] = field(default_factory=list)
    rejected: list[tuple[Any, ...]] = field(default_factory=list)

    def frame(self, offset: int, *, received_at: int = AT, partition: int = 0, **more: Any) -> FrameVerdict:
        event_id = f"{partition}-{offset}-0"
        said: dict[str, Any] = {"verdict": "event", "event_print": self.print_of(event_id), "frame_print": "f"}
        said |= more
        one = FrameVerdict(event_id, partition, offset, 0, received_at, "emm", "edge-0", 7, **said)
        self.judged.append(one)
        return one

    def event(self, event_id: str, *, at: int = AT, value: bytes = b"body") -> None:
        self.events.append(
            (0, len(self.events), at, b"node", bytearray(value), [("ce_id", bytearray(event_id.encode()))])
        )

    def rejection(self, event_id: str, reason: str, *, stage: str = "decode", again: str = "") -> None:
        said = {"event_id": event_id, "reason": reason, "stage": stage} | ({"again": again} if again else {})
        headers = [(name, bytearray(value.encode())) for name, value in said.items()]
        self.rejected.append((0, len(self.rejected), AT, None, bytearray(b"frame"), headers))

    def rejections(self, *refusals: RefusedFrame) -> None:
        """Writes them as the router does in a flood: those that were refused for one reason share a record."""
        for value, told in rejected_frame.records(refusals, alone=0):
            headers = [(name, bytearray(text)) for name, text in told]
            self.rejected.append((0, len(self.rejected), AT, None, bytearray(value), headers))

    @staticmethod
    def print_of(event_id: str) -> str:
        return event_print({"ce_id": event_id}, b"body")

    def accounted(self, spark: SparkSession) -> dict[str, tuple[str, str]]:
        """Event id → how it is counted, and its fault."""
        schema = StructType([*JUDGED.fields, StructField("logged_at", LONG)])
        judged = spark.createDataFrame([(*plain(one), AT) for one in self.judged], schema)
        events = frames.events_then(spark.createDataFrame(self.events, RECORD))
        refusals = frames.refusals_then(spark.createDataFrame(self.rejected, RECORD))
        rows = frames.accounted(judged, events, refusals, CONFIG).select("event_id", "counted", "fault").collect()
        return {row["event_id"]: (row["counted"], row["fault"]) for row in rows}


def test_every_frame_finds_what_was_made_of_it(spark: SparkSession) -> None:
    topics = Topics()
    refused = "53f5e2bdf9a0e93ee1a1e0f08e4f1d3a"
    expected = {}

    topics.frame(1)
    topics.event("0-1-0")
    expected["0-1-0"] = ("event", "")

    topics.frame(2)
    topics.event("0-2-0")
    topics.event("0-2-0")  # the router's repeat after a crash
    expected["0-2-0"] = ("event", "")

    topics.frame(3)
    expected["0-3-0"] = ("lost", "lost_event")

    topics.frame(4)
    topics.event("0-4-0", value=b"BODY")
    expected["0-4-0"] = ("event", "altered_event")

    topics.frame(5, verdict="rejected", reasons=("stale",), event_print="", frame_print=frame_print(b"frame"))
    topics.rejection("0-5-0", "stale")
    expected["0-5-0"] = ("rejected", "")

    topics.frame(6, verdict="rejected", reasons=("stale",), event_print="", frame_print=refused)
    topics.rejection("0-6-0", "stale")
    expected["0-6-0"] = ("rejected", "altered_rejection")

    topics.frame(7, verdict="rejected", reasons=("stale",), event_print="")
    topics.rejection("0-7-0", "undeliverable", stage="deliver")
    expected["0-7-0"] = ("lost", "lost_rejection")

    topics.frame(8, verdict="control", event_print="")
    expected["0-8-0"] = ("control", "")

    topics.frame(9, verdict="rejected", reasons=("forbidden",), event_print="")
    topics.frame(10, verdict="control", event_print="", causes="0-9-0")
    expected |= {"0-9-0": ("control", ""), "0-10-0": ("control", "")}

    topics.frame(11, first_id="0-1-0", event_print=Topics.print_of("0-1-0"))
    topics.frame(12, first_id="0-3-0", event_print=Topics.print_of("0-3-0"))
    expected |= {"0-11-0": ("again", ""), "0-12-0": ("lost", "lost_event")}

    topics.frame(13, first_id="0-5-0", verdict="rejected", reasons=("stale",), event_print="")
    topics.frame(
        14, first_id="0-5-0", verdict="rejected", reasons=("stale",), event_print="", frame_print=frame_print(b"frame")
    )
    topics.rejection("0-5-0", "stale", again="0-14-0")
    expected |= {"0-13-0": ("lost", "lost_rejection"), "0-14-0": ("again", "")}

    assert topics.accounted(spark) == expected


def test_each_frame_of_a_record_of_several_is_found(spark: SparkSession) -> None:
    topics = Topics()
    forged: dict[str, Any] = {"verdict": "rejected", "reasons": ("bad_hmac",), "event_print": ""}
    for offset in (1, 2, 3):
        topics.frame(offset, **forged, frame_print=frame_print(b"frame %d" % offset))
    topics.frame(4, **forged, first_id="0-9-0", frame_print=frame_print(b"frame 4"))
    topics.frame(5, **forged)
    one = RefusedFrame("bad_hmac", "decode", "emm", "devices", "edge-0", "0-1-0", kept=b"frame 1")
    topics.rejections(
        one, one._replace(event_id="0-2-0", kept=b"another"), one._replace(event_id="0-3-0", kept=b"frame 3"),
        one._replace(event_id="0-9-0", again="0-4-0", kept=b"frame 4"),
    )  # fmt: skip
    assert len(topics.rejected) == 1
    assert topics.accounted(spark) == {
        "0-1-0": ("rejected", ""),
        "0-2-0": ("rejected", "altered_rejection"),
        "0-3-0": ("rejected", ""),
        "0-4-0": ("again", ""),
        "0-5-0": ("lost", "lost_rejection"),
    }


def test_a_refused_frame_of_which_nothing_is_kept_is_not_altered(spark: SparkSession) -> None:
    """Else whoever sends `mesh.login` in a datagram would have the audit tell of a fault."""
    topics = Topics()
    topics.frame(
        1, verdict="rejected", reasons=("truncated",), event_print="", frame_print=frame_print(b"mesh.login x")
    )
    topics.rejections(
        RefusedFrame("truncated", "decode", "emm", "devices", "edge-0", "0-1-0", truncated_bytes=12, kept=b"")
    )
    assert topics.accounted(spark) == {"0-1-0": ("rejected", "")}


def routed(occurrences: Iterable[FrameVerdict]) -> Iterator[FrameVerdict]:
    """Returns what the router lets through."""
    known = KnownIds(repeat_horizon_seconds(CONFIG))
    for one in occurrences:
        second = one.received_at // SECOND
        known.advance(second, second)
        if one.key is not None and known.admit([message_key(one.key)], [second]) == [True]:
            yield one


def test_repeats_count_as_duplicates_exactly_where_the_router_drops_them(spark: SparkSession) -> None:
    """Clocks of two edges may put a later frame earlier: the log's order and the receive time are both random."""
    topics, chance = Topics(), random.Random(7)
    for offset in range(2_000):
        received_at = AT + chance.randrange(4_000) * SECOND
        topics.frame(offset, received_at=received_at, key=f"key-{chance.randrange(400)}")
    through = {one.event_id for one in routed(topics.judged)}
    for event_id in through:
        topics.event(event_id)
    found = topics.accounted(spark)
    assert {name for name, (counted, _) in found.items() if counted == "event"} == through
    assert {counted for counted, _ in found.values()} == {"event", "duplicate"}


def test_a_lost_event_never_passes_for_a_duplicate(spark: SparkSession) -> None:
    topics, chance = Topics(), random.Random(8)
    for offset in range(2_000):
        topics.frame(offset, received_at=AT + offset * SECOND, key=f"key-{chance.randrange(300)}")
    through = [one.event_id for one in routed(topics.judged)]
    lost = set(chance.sample(through, 100))
    for event_id in through:
        if event_id not in lost:
            topics.event(event_id)
    found = topics.accounted(spark)
    assert {name for name, (counted, _) in found.items() if counted == "lost"} == lost


def test_what_was_refused_then_covers_no_repeat(spark: SparkSession) -> None:
    topics = Topics()
    topics.frame(1, key="k")
    topics.rejection("0-1-0", "unknown_key")
    topics.frame(2, key="k")
    found = topics.accounted(spark)
    assert (found["0-1-0"][0], found["0-2-0"]) == ("rejected", ("lost", "lost_event"))


def test_the_engine_prints_a_record_as_the_row_functions_do(spark: SparkSession) -> None:
    event = replace(FULL, subject="ä\0b")
    for writer in WRITERS:
        (record,) = writer.records([writer.row(event)], 0)
        headers = [(name, bytearray(value)) for name, value in record.headers]
        row = (0, 0, AT, None, bytearray(record.value), headers)
        (found,) = frames.events_then(spark.createDataFrame([row], RECORD)).collect()
        printed = event_print(cloud_event.attributes(event, "test"), event.body)
        assert (found["id"], found["event_prints_then"]) == (event.id, [printed])


# -- deliveries ----------------------------------------------------------------------------------------------------


def sent_rows(spark: SparkSession, *rows: SentDelivery) -> DataFrame:
    schema = StructType([*deliveries.SENT.fields, StructField("logged_at", LONG)])
    return spark.createDataFrame([(*row, AT) for row in rows], schema)


def ended_rows(spark: SparkSession, *rows: Ended) -> DataFrame:
    schema = StructType([*deliveries.ENDED.fields, StructField("logged_at", LONG)])
    return spark.createDataFrame([(*row, AT) for row in rows], schema)


def test_each_delivery_has_the_best_of_its_outcomes_or_none(spark: SparkSession) -> None:
    sent = sent_rows(
        spark,
        SentDelivery("0-1-0", 0, "0.7.1", "event", True),
        SentDelivery("0-1-0", 0, "0.7.2", "event", True),
        SentDelivery("0-1-0", 1, "0.7.2", "event", True),
        SentDelivery("0-1-0", 1, "0.7.1", "event", False),
        SentDelivery("0-2-0", 0, "0.7.9", "request", True, "0.7.1 17"),
        SentDelivery("0-3-0", 0, "0.7.1", "response", True, "0.7.1 17"),
    )
    ended = ended_rows(
        spark,
        Ended("0-1-0", 0, "0.7.1", "undeliverable", False),
        Ended("0-1-0", 0, "0.7.1", "confirmed", False),
        Ended("0-1-0", 0, "0.7.2", "written", False),
        Ended("0-3-0", 0, "0.7.1", "expired", False),
        Ended("0-4-0", 0, "0.7.1", "undeliverable", True),
    )
    rows = deliveries.delivered(sent, ended).collect()
    found = {(row["event_id"], row["part"], row["destination"]): (row["outcome"], row["answered"]) for row in rows}
    assert found == {
        ("0-1-0", 0, "0.7.1"): ("confirmed", False),
        ("0-1-0", 0, "0.7.2"): ("written", False),
        ("0-1-0", 1, "0.7.2"): (None, False),
        ("0-2-0", 0, "0.7.9"): (None, True),
        ("0-3-0", 0, "0.7.1"): ("expired", False),
        ("0-4-0", 0, "0.7.1"): ("undeliverable", False),
    }


def test_an_outcome_of_what_no_edge_was_asked_for_is_unknown(spark: SparkSession) -> None:
    sent = sent_rows(spark, SentDelivery("0-1-0", 0, "0.7.1", "event", True))
    ended = ended_rows(
        spark,
        Ended("0-1-0", 0, "0.7.1", "written", False),
        Ended("0-1-0", 0, "0.7.2", "written", False),
        Ended("0-2-0", 0, "0.7.1", "undeliverable", True),
    )
    rows = deliveries.unknown(sent, ended).collect()
    assert [tuple(row) for row in rows] == [("0-1-0", "nothing was sent to 0.7.2")]


def test_records_that_name_no_frame_are_strangers_and_those_before_the_log_tell_of_a_gap(spark: SparkSession) -> None:
    spans = frames.spans_table(spark, {0: Span(5, 100)}, {0: Span(10, 50)})
    known = spark.createDataFrame([("0-10-0",)], "event_id string")
    names = ["0-10-0", "0-10-1", "0-4-0", "0-7-0", "0-50-0", "3-1-0", "no id", "0-x-0"]
    told = spark.createDataFrame([(name, AT) for name in names], "event_id string, written_at long")
    rows = frames.strangers(known, told, spans).collect()
    assert {(row["event_id"], row["is_gone"]) for row in rows} == {("0-10-1", False), ("0-4-0", True)}
