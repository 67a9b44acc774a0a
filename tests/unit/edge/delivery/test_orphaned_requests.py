"""Requests to an edge that was killed: its successor says that nobody will answer."""

from __future__ import annotations

from typing import Any

from gateway.core.event import Kind
from gateway.edge.delivery.offset_tracker import Checkpoint, CommittedState
from gateway.edge.delivery.orphaned_requests import replies_in
from gateway.records import egress_codec
from gateway.records.egress import Deliver, Group, Position
from gateway.records.raw_log.control_frames import RequestsAbandoned
from gateway.records.raw_log.frames import ReplyAddress
from tests.unit.edge.fake_kafka import FakeKafka
from tests.unit.edge.running import configured, listener, running, until

REPLY = ReplyAddress("yamp", "apps", "edge-1", 7, 3, "0102", "sum")


def record(**fields: Any) -> bytes:
    group = Group("hsp", b"frame", sessions=(1,), reply=REPLY.pack())
    told: dict[str, Any] = {"epoch": 7, "kind": Kind.REQUEST, "groups": (group,)} | fields
    return egress_codec.encode(Deliver(Position(0, 1, 0), subject="sum", origin="yamp", received_at=0, **told))


def test_only_requests_to_sessions_of_an_earlier_life_are_orphaned() -> None:
    assert list(replies_in(record(), 8)) == [REPLY]
    assert list(replies_in(record(epoch=8), 8)) == []
    assert list(replies_in(record(kind=Kind.EVENT), 8)) == []
    assert list(replies_in(b"of no router", 8)) == []


async def test_who_waits_for_an_earlier_life_hears_at_the_start_of_the_next_one() -> None:
    kafka = FakeKafka(waiting=[REPLY])
    kafka.reader_.resumption = CommittedState(7, Checkpoint(0))
    async with running(configured(listener("plc", "hsp")), kafka):
        await until(lambda: RequestsAbandoned() in kafka.mesh())
        [frame] = [frame for frame in kafka.raw() if frame.replies]
        assert frame.replies == (REPLY,)


async def test_an_edge_without_an_earlier_life_asks_nobody() -> None:
    kafka = FakeKafka(waiting=[REPLY])
    async with running(configured(listener("plc", "hsp")), kafka) as edge:
        await edge.opens("plc")
        assert RequestsAbandoned() not in kafka.mesh()
