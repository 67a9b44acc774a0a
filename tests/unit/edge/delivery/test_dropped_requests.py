"""Requests whose callers are gone, at the callers' edge and at the servers'."""

from __future__ import annotations

from dataclasses import replace

from gateway.core.event import Kind
from gateway.records.egress import EdgeRestarted
from gateway.records.raw_log.control_frames import (
    MESH,
    RequestDropped,
    RequestsAbandoned,
    SessionClosed,
    decode,
    encode,
)
from gateway.records.raw_log.frames import RawFrame, ReplyAddress
from tests.unit.edge.running import RunningEdge, configured, listener, until, with_session

DATA_ACK_0 = bytes.fromhex("01 00000000 0011 00000000")
REQUEST = bytes.fromhex("01 00000007 0011 00000000")
ELSEWHERE = ReplyAddress("yamp", "apps", "edge-1", 7, 3, "0102", "sum")


def dropped(edge: RunningEdge) -> list[RawFrame]:
    mine = (one for one in edge.kafka.raw() if one.source.protocol == MESH)
    return [one for one in mine if decode(one.data) == RequestDropped()]


async def test_what_a_peer_had_asked_is_dropped_with_its_session() -> None:
    config = configured(listener("plc", "hsp", types={17: {"subject": "sum", "kind": "request"}}))
    async with with_session(config, "plc") as (edge, peer):
        peer.sends(REQUEST)
        await until(lambda: REQUEST in edge.kafka.frames())
        peer.hangs_up()
        await until(lambda: bool(dropped(edge)))
        [frame] = dropped(edge)
        [reply] = frame.reply_addresses
        assert (reply.edge, reply.epoch, reply.session) == ("edge-0", edge.life.epoch, 1)
        assert (reply.protocol, reply.listener, reply.subject) == ("hsp", "plc", "sum")


async def test_what_earlier_lives_of_another_edge_had_asked_is_dropped_and_nothing_else() -> None:
    async with with_session(configured(listener("plc", "hsp")), "plc") as (edge, peer):
        edge.delivers(DATA_ACK_0, stamps=(1,), sessions=(1,), kind=Kind.REQUEST, reply=ELSEWHERE.pack())
        await peer.reads(len(DATA_ACK_0))
        for other in (("edge-1", 7), ("edge-2", 99), ("edge-1", 8)):
            edge.tells(EdgeRestarted, *other)
        await until(lambda: bool(dropped(edge)))
        assert [frame.replies for frame in dropped(edge)] == [(ELSEWHERE,)]


async def test_a_server_of_thousands_of_open_requests_that_goes_makes_no_record_that_kafka_refuses() -> None:
    kafka = {"partitions": 2, "message_bytes": 1_200_000}
    async with with_session(configured(listener("plc", "hsp"), kafka=kafka), "plc") as (edge, peer):
        asked = [replace(ELSEWHERE, request=str(number), subject="x" * 255) for number in range(5_000)]
        for reply in asked:
            edge.delivers(DATA_ACK_0, stamps=(1,), sessions=(1,), kind=Kind.REQUEST, reply=reply.pack())
        await peer.reads(len(asked) * len(DATA_ACK_0))
        peer.cut()
        await until(lambda: SessionClosed in map(type, edge.kafka.mesh()))
        assert max(len(record.value) for record in edge.kafka.producer_.written) < 1_200_000
        told = [frame.replies for frame in edge.kafka.raw() if frame.data == encode(RequestsAbandoned())]
        assert [reply for replies in told for reply in replies] == asked
