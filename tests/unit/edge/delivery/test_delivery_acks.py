"""Answers that wait until an event has been delivered, and the deliveries that they wait for."""

from __future__ import annotations

import pytest

from gateway.core.event import Kind
from gateway.edge.delivery.delivery_acks import HELD_AT_MOST, DeliveryCountdown, PendingAcks, Released
from gateway.protocols.actions import Outcome
from gateway.records.egress import Confirm, Deliver, Group, Position, RecordConfirmed
from gateway.records.raw_log.control_frames import DeliveryConfirmed
from tests.unit.edge.running import RunningEdge, configured, listener, running, until, with_session

DATA_ACK = bytes.fromhex("01 00000000 0007 00000005 68656c6c6f")
STAMPED = bytes.fromhex("01 00000001 0007 00000005 68656c6c6f")
PUBLISHED = bytes.fromhex("01 00000005 0007 00000001 31")
ACK, ACK_1, ACK_5 = (bytes.fromhex("02") + number.to_bytes(4, "big") for number in (0, 1, 5))
ERROR_UNDEF, ERROR_UNDEF_1, ERROR_UNDEF_5 = (bytes.fromhex("06") + number.to_bytes(4, "big") for number in (0, 1, 5))
CONFIRM = Confirm("edge-1", "0-1-0")


class TestHeldAnswers:
    @pytest.mark.parametrize(("second", "failed"), [(False, False), (True, True)])
    def test_the_last_part_lets_it_go_and_one_that_failed_is_enough(self, second: bool, failed: bool) -> None:
        answers: PendingAcks[str] = PendingAcks()
        assert answers.hold("t", "answer", 2, until=9) == []
        assert answers.confirmed("t", "edge-0", 1, failed=second) is None
        assert answers.confirmed("t", "edge-1", 1, failed=False) == Released("answer", failed)
        assert len(answers) == 0

    def test_parts_may_come_before_the_answer_that_waits_for_them(self) -> None:
        answers: PendingAcks[str] = PendingAcks()
        for part in (0, 1):
            assert answers.confirmed("t", "edge-0", part, failed=False) is None
        assert answers.hold("t", "answer", 2, until=9) == [Released("answer", failed=False)]

    def test_a_part_that_is_told_of_again_is_not_another_and_keeps_what_was_said_first(self) -> None:
        answers: PendingAcks[str] = PendingAcks()
        answers.hold("t", "answer", 2, until=9)
        answers.confirmed("t", "edge-0", 0, failed=False)
        assert answers.confirmed("t", "edge-0", 0, failed=True) is None
        assert answers.confirmed("t", "edge-0", 1, failed=False) == Released("answer", failed=False)

    def test_what_has_waited_long_enough_goes_out_as_failed(self) -> None:
        answers: PendingAcks[str] = PendingAcks()
        answers.hold("first", "one", 1, until=9)
        answers.hold("second", "two", 1, until=10)
        assert list(answers.overdue(8.9)) == []
        assert list(answers.overdue(9)) == [Released("one", failed=True)]
        assert answers.confirmed("second", "edge-0", 0, failed=False) == Released("two", failed=False)

    def test_too_many_let_the_oldest_go_as_failed(self) -> None:
        answers: PendingAcks[int] = PendingAcks()
        for number in range(HELD_AT_MOST):
            assert answers.hold(str(number), number, 1, until=9) == []
        assert answers.hold("more", -1, 1, until=9) == [Released(0, failed=True)]

    def test_parts_that_nothing_waits_for_are_forgotten_oldest_first(self) -> None:
        answers: PendingAcks[str] = PendingAcks()
        for number in range(HELD_AT_MOST + 1):
            answers.confirmed(str(number), "edge-0", 0, failed=False)
        assert answers.hold("0", "late", 1, until=9) == []
        assert answers.hold("1", "in time", 1, until=9) == [Released("in time", failed=False)]


@pytest.mark.parametrize(
    ("outcomes", "failed"),
    [
        ([Outcome.CONFIRMED, Outcome.WRITTEN], False),
        ([Outcome.UNDELIVERABLE, Outcome.CONFIRMED], True),
        ([Outcome.WRITTEN, Outcome.EXPIRED], True),
    ],
)
def test_a_record_is_over_with_its_last_delivery(outcomes: list[Outcome], failed: bool) -> None:
    said: list[bool] = []
    awaited = DeliveryCountdown(len(outcomes), said.append)
    for outcome in outcomes:
        assert said == []
        awaited.ended(outcome)
    assert said == [failed]


def held(edge: RunningEdge, needed: int) -> Deliver:
    """The answer to what the peer of the first session has published under its id 5."""
    good, bad = (Group("hsp", frame, (1,), (1,), request="5") for frame in (ACK, ERROR_UNDEF))
    return Deliver(
        Position(0, 10, 0, needed), edge.life.epoch, Kind.RESPONSE, "a", "mesh", 0, (good,),
        ticket="0-10-0", required_confirmations=needed, groups_on_failure=(bad,),
    )  # fmt: skip


def told(part: int, *, failed: bool = False) -> RecordConfirmed:
    return RecordConfirmed(Position(0, 20, part), "0-10-0", "edge-1", part, failed)


def of_mesh(edge: RunningEdge) -> list[DeliveryConfirmed]:
    return [frame for frame in edge.kafka.mesh() if isinstance(frame, DeliveryConfirmed)]


async def test_who_waits_is_told_when_every_session_has_confirmed() -> None:
    async with running(configured(listener("plc", "hsp"))) as edge:
        peers = await edge.opens("plc", 2)
        edge.delivers(DATA_ACK, stamps=(1,), sessions=(1, 2), position=Position(1, 4, 0, 3), confirm=CONFIRM)
        for peer in peers:
            assert await peer.reads(len(STAMPED)) == STAMPED
        peers[1].sends(ACK_1)
        await until(lambda: edge.kafka.outcomes())
        assert of_mesh(edge) == []
        peers[0].sends(ACK_1)
        await until(lambda: of_mesh(edge))
        assert of_mesh(edge) == [DeliveryConfirmed("edge-1", "0-1-0", 3)]


async def test_a_subscriber_that_refuses_or_is_gone_makes_it_fail() -> None:
    async with with_session(configured(listener("plc", "hsp")), "plc") as (edge, peer):
        edge.delivers(DATA_ACK, stamps=(1,), sessions=(1,), position=Position(0, 4, 0, 0), confirm=CONFIRM)
        edge.delivers(DATA_ACK, stamps=(1,), sessions=(9,), position=Position(0, 4, 0, 1), confirm=CONFIRM)
        assert await peer.reads(len(STAMPED)) == STAMPED
        peer.sends(ERROR_UNDEF_1)
        await until(lambda: len(of_mesh(edge)) == 2)
        assert {(one.part, one.failed) for one in of_mesh(edge)} == {(0, True), (1, True)}


async def test_a_node_that_is_away_has_no_session_that_could_confirm() -> None:
    async with running(configured(listener("plc", "hsp", redeliver_seconds=60))) as edge:
        edge.delivers(DATA_ACK, stamps=(1,), owed=("node:plant@plc",), confirm=CONFIRM)
        await until(lambda: of_mesh(edge))
        assert of_mesh(edge) == [DeliveryConfirmed("edge-1", "0-1-0", 0)]
        assert edge.kafka.outcomes() == []


async def test_the_committed_offset_does_not_pass_a_record_until_who_waits_for_it_was_told() -> None:
    async with running(configured(listener("plc", "hsp"))) as edge:
        edge.kafka.producer_.held = True
        edge.delivers(DATA_ACK, stamps=(1,), sessions=(9,), confirm=CONFIRM)
        await until(lambda: edge.kafka.outcomes() and edge.kafka.rejected())
        edge.life.tick()
        assert edge.kafka.reader_.commits[-1].checkpoint.offset == 0
        edge.kafka.producer_.held = False
        edge.kafka.producer_.acknowledge()
        await until(lambda: committed(edge) == 1)


def committed(edge: RunningEdge) -> int:
    edge.life.tick()
    return edge.kafka.reader_.commits[-1].checkpoint.offset


@pytest.mark.parametrize(("failed", "answer"), [(False, ACK_5), (True, ERROR_UNDEF_5)])
async def test_the_publisher_hears_once_all_are_in_whether_all_have_got_it(failed: bool, answer: bytes) -> None:
    async with with_session(configured(listener("plc", "hsp", ack="delivered")), "plc") as (edge, peer):
        peer.sends(PUBLISHED)
        await until(lambda: edge.of("received_frames_total", "plc") == 1)
        edge.kafka.reader_.put(held(edge, 2), told(0))
        await peer.hears_nothing()
        edge.kafka.reader_.put(told(1, failed=failed))
        assert await peer.reads(len(answer)) == answer


async def test_an_answer_that_nobody_waits_for_any_more_holds_nothing_back() -> None:
    config = configured(listener("plc", "hsp", ack="delivered"), request_timeout_seconds=1)
    async with with_session(config, "plc") as (edge, peer):
        edge.kafka.reader_.put(held(edge, 1))
        peer.hangs_up()
        await until(lambda: committed(edge) == 1)
        assert [row.outcome for row in edge.kafka.outcomes()] == ["undeliverable"]
