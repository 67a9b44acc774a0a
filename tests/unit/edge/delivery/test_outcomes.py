"""Tests the outcomes of deliveries: written, and read back from an earlier life of the edge."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from gateway.core.event import Kind
from gateway.edge.delivery import outcomes
from gateway.edge.delivery.offset_tracker import Checkpoint, OffsetTracker
from gateway.edge.delivery.outcomes import OUTCOMES_PER_RECORD, OWED_KEY, KnownOutcomes, OutcomeLog, known_outcomes
from gateway.edge.delivery.previous_run import PreviousRun
from gateway.edge.producer import NotTaken
from gateway.protocols.actions import Delivery
from gateway.records.deliveries import DeliveriesRecord, DeliveryOutcome, RunOutcome, pack_receivers
from gateway.records.deliveries import decode as decode_outcomes
from gateway.records.deliveries import encode as encode_outcomes
from tests.unit.edge.fake_kafka import FENCED, FakeProducer
from tests.unit.edge.running import configured, until

ROW = DeliveryOutcome("0-1-0", "edge-0.1.7", "written", "", 1)


class Books:
    """The outcome log and its ledger, over a Kafka that acknowledges only when told."""

    def __init__(self) -> None:
        self.kafka = FakeProducer(held=True)
        self.ledger = OffsetTracker(1, Checkpoint(0))
        self.failed: list[BaseException] = []
        self.log = OutcomeLog(configured(), self.kafka, self.ledger, self.failed.append)

    def adds(self, offset: int, *, owed: bool = False) -> None:
        self.ledger.open(offset, owed=owed)
        self.ledger.done(offset + 1)
        self.log.add(ROW, offset, owed=owed)

    @property
    def committed(self) -> int:
        return self.ledger.checkpoint(1).checkpoint.offset

    async def acknowledges(self, error: NotTaken | None = None) -> None:
        self.kafka.acknowledge(error)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_outcomes_are_written_together_and_settled_when_kafka_has_them() -> None:
    books = Books()
    for offset in range(3):
        books.adds(offset)
    await until(lambda: books.kafka.written)
    assert [decode_outcomes(one.value) for one in books.kafka.written] == [DeliveriesRecord("edge-0", (ROW,) * 3)]
    assert books.committed == 0
    await books.acknowledges()
    assert books.committed == 3


async def test_a_record_is_settled_when_kafka_has_the_last_of_its_outcomes() -> None:
    books = Books()
    for _ in range(3):
        books.adds(0)
    books.log.flush()
    books.adds(0)
    await books.acknowledges()
    assert books.committed == 0
    books.log.flush()
    await books.acknowledges()
    assert books.committed == 1


async def test_a_full_record_of_outcomes_does_not_wait() -> None:
    books = Books()
    for offset in range(OUTCOMES_PER_RECORD):
        books.adds(offset)
    assert len(books.kafka.written) == 1


async def test_outcomes_of_what_is_owed_stand_in_records_of_their_own_so_that_they_can_be_found() -> None:
    books = Books()
    books.adds(0)
    books.adds(1, owed=True)
    books.log.flush()
    assert [one.settings["key"] for one in books.kafka.written] == [None, OWED_KEY]
    assert {one.settings["partition"] for one in books.kafka.written} == {0}


async def test_what_could_not_be_delivered_is_settled_only_with_its_record_in_rejected() -> None:
    books = Books()
    books.adds(0)
    books.log.reject(ROW, b"frame", {"node": "n"}, 0, owed=False)
    books.log.flush()
    rejected, outcomes = books.kafka.open
    assert (rejected.topic, outcomes.topic) == ("test.rejected", "test.deliveries")
    books.kafka.open = [outcomes]
    await books.acknowledges()
    assert books.committed == 0
    books.kafka.open = [rejected]
    await books.acknowledges()
    assert books.committed == 1


async def test_outcomes_that_kafka_will_not_take_end_the_edge() -> None:
    books = Books()
    books.adds(0)
    books.log.flush()
    await books.acknowledges(FENCED)
    assert books.failed == [FENCED]
    assert books.committed == 0


def test_an_outcome_is_known_by_event_part_and_destination() -> None:
    known = KnownOutcomes()
    known.add(ROW)
    known.add(ROW._replace(part=1))
    assert not known.take("0-1-0", 0, "another")
    assert not known.take("0-1-0", 2, "edge-0.1.7")
    assert known.take("0-1-0", 0, "edge-0.1.7")
    assert known.take("0-1-0", 1, "edge-0.1.7")
    assert not known.take("0-1-0", 1, "edge-0.1.7")


def test_known_outcomes_take_little_memory() -> None:
    tracemalloc.start()
    known = KnownOutcomes()
    for number in range(30_000):
        known.add(ROW._replace(event_id=f"0-{number}-0", destination=f"node:plc-{number}@plc"))
    assert known.take("0-7-0", 0, "node:plc-7@plc")
    assert tracemalloc.get_traced_memory()[0] < 30 * 30_000
    tracemalloc.stop()


OTHER_EDGE = "edge-1"
RUN = RunOutcome(0, 7, b"\0\0\1\0", "", "written", "", 1, receivers=pack_receivers([("a", ""), ("b", "")]))


def test_of_what_sessions_got_only_what_is_young_and_so_much_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "MOST_SESSION_OUTCOMES", 3)
    old, owed = ROW._replace(event_id="0-2-0"), ROW._replace(event_id="0-3-0", destination="node:n@plc")
    records = [
        (False, 99, encode_outcomes("edge-0", [old])),
        (False, 100, encode_outcomes(OTHER_EDGE, [ROW])),
        (False, 100, encode_outcomes("edge-0", [], [RUN])),
        (True, 1, encode_outcomes("edge-0", [owed])),
    ]
    known = known_outcomes(records, "edge-0", 100)
    of_the_run = [("0-7-0", 0, "a"), ("0-7-1", 0, "a"), ("0-7-0", 0, "b"), ("0-7-1", 0, "b")]
    assert [known.take(*name) for name in of_the_run] == [True, True, True, False]
    assert known.take("0-3-0", 0, "node:n@plc")
    assert not known.take(old.event_id, 0, old.destination)
    assert not known.take(ROW.event_id, 0, ROW.destination)


def test_of_records_before_the_start_sessions_lack_nothing_where_all_was_settled() -> None:
    known = KnownOutcomes()
    known.add(ROW)
    past = PreviousRun(to=20, sessions_to=10, outcomes=known)
    delivery = Delivery("0-1-0", Kind.EVENT, "s", b"")
    assert past.knows(9, delivery, "anybody", owed=False)
    assert not past.knows(9, delivery, "node", owed=True)
    assert past.knows(10, delivery, "edge-0.1.7", owed=False)
    assert not past.knows(11, delivery, "another", owed=False)
    assert not past.knows(20, delivery, "edge-0.1.7", owed=False)
