"""Connections of an edge: what the raw log, the peer and the counters see of them."""

from __future__ import annotations

import asyncio

import pytest

from gateway.core.event import Auth
from gateway.protocols.actions import CloseReason
from gateway.protocols.emp.codec import encode_error
from gateway.protocols.emp.frames import EmpErrorCode, Failure
from gateway.protocols.yamp.codec import encode
from gateway.protocols.yamp.frames import Close
from gateway.protocols.yamp.session import CLOSE_REASONS
from gateway.records.raw_log.control_frames import EdgeStarted, SessionClosed, SessionOpened
from tests.unit.edge.fake_kafka import TOO_LARGE
from tests.unit.edge.running import configured, dialled, listener, running, until, with_session

DATA = bytes.fromhex("00 0099 00000003 78797a")
DATA_ACK_1 = bytes.fromhex("01 00000001 0007 00000005 68656c6c6f")
ACK_1 = bytes.fromhex("02 00000001")
DATA_ACK_2, ACK_2 = bytes.fromhex("01 00000002 0007 00000000"), bytes.fromhex("02 00000002")
PING, PONG = b"\x03", b"\x04"
HANDSHAKE = bytes.fromhex("00 0001 04 6a736f6e")
EVENT = bytes.fromhex("05") + b"\1" * 16 + bytes.fromhex("03 666f6f 00000007 7b2261223a317d")
PLC = listener("plc", "hsp", subscribe=["alarm.>"], serve=["sum"])


async def test_an_edge_announces_its_epoch_in_every_partition_before_anybody_can_connect() -> None:
    async with running(configured(PLC)) as edge:
        assert edge.kafka.mesh() == [EdgeStarted(), EdgeStarted()]
        partitions = [one.settings["partition"] for one in edge.kafka.producer_.written]
        assert sorted(partitions) == [0, 1]
        assert {frame.source.epoch for frame in edge.kafka.raw()} == {edge.life.epoch}


async def test_a_session_opens_and_closes_in_the_raw_log_around_its_frames() -> None:
    async with dialled(configured(PLC), "plc") as (edge, peer):
        peer.sends(DATA)
        await until(edge.kafka.frames)
        peer.hangs_up()
        await until(lambda: len(edge.kafka.mesh()) == 4)
        opened, frame, closed = edge.kafka.raw()[2:]
        assert edge.kafka.mesh()[2] == SessionOpened("hsp", ("alarm.>",), ("sum",))
        assert frame.data == DATA
        assert edge.kafka.mesh()[3] == SessionClosed("hsp", "eof")
        assert opened.source.session == frame.source.session == closed.source.session == 1
        name = f"edge-0.{edge.life.epoch:x}.1"
        assert (frame.source.node, frame.source.auth) == (f"anon:edge-0:{name}", Auth.NONE)


async def test_nothing_is_acknowledged_before_all_in_sync_replicas_have_it() -> None:
    async with running(configured(PLC)) as edge:
        edge.kafka.producer_.held = True
        peer = await edge.dial("plc")
        peer.sends(DATA_ACK_1 + PING)
        assert await peer.reads(1) == PONG  # answered meanwhile
        await until(edge.kafka.frames)
        assert edge.of("accepted_frames_total", "plc") == 0
        edge.kafka.producer_.acknowledge()
        assert await peer.reads(5) == ACK_1
        assert edge.of("accepted_frames_total", "plc") == edge.of("received_frames_total", "plc") == 1
        assert edge.of("ack_duration_seconds_count", "plc") == 1


async def test_a_peer_that_has_said_all_is_still_told_what_became_of_it() -> None:
    async with running(configured(PLC)) as edge:
        edge.kafka.producer_.held = True
        peer = await edge.dial("plc")
        peer.sends(DATA_ACK_1)
        peer.says_no_more()
        await until(edge.kafka.frames)
        assert edge.of("connections_closed_total", "plc", reason="eof") == 0
        edge.kafka.producer_.acknowledge()
        assert await peer.reads_all() == ACK_1
        await until(lambda: edge.of("connections_closed_total", "plc", reason="eof") == 1)


async def test_what_the_permissions_forbid_is_logged_and_not_acknowledged() -> None:
    rule = {"nodes": ["anon:edge-0:*"], "publish": {"deny": ["hsp.7"]}}
    async with dialled(configured(PLC, permissions=[rule]), "plc") as (edge, peer):
        peer.sends(DATA_ACK_1)
        assert await peer.reads(11) == bytes.fromhex("05 00000001 ff00 0000003f")
        assert b'"forbidden"' in await peer.reads(63)
        await until(edge.kafka.frames)


async def test_a_session_that_stands_is_judged_by_the_permissions_in_force() -> None:
    forbidding = configured(PLC, permissions=[{"publish": {"deny": ["hsp.7"]}}])
    async with with_session(configured(PLC), "plc") as (edge, peer):
        edge.life.reconfigure(forbidding)
        peer.sends(DATA_ACK_1)
        assert b'"forbidden"' in await peer.reads(74)
        edge.life.reconfigure(configured(PLC))
        peer.sends(DATA_ACK_1)
        assert await peer.reads(5) == ACK_1


async def test_a_session_that_stands_takes_over_its_listeners_new_options() -> None:
    asked = configured(listener("plc", "hsp", types={7: {"subject": "sum", "kind": "request"}}))
    async with with_session(configured(listener("plc", "hsp")), "plc") as (edge, peer):
        edge.life.reconfigure(asked)
        peer.sends(DATA_ACK_1)
        await until(edge.kafka.frames)
        [connection] = edge.life.sessions
        assert connection.session.open_requests == 1
        await peer.hears_nothing()
        edge.life.reconfigure(configured(PLC))
        peer.sends(DATA_ACK_2)
        assert await peer.reads(5) == ACK_2


async def test_what_breaks_the_protocol_is_one_refused_frame_and_ends_that_session_alone() -> None:
    async with running(configured(PLC)) as edge:
        good, bad = await edge.dial("plc"), await edge.dial("plc")
        bad.sends(b"\x63")
        assert await bad.reads_all() == b""
        good.sends(PING)
        assert await good.reads(1) == PONG
        assert edge.of("rejected_frames_total", "plc", reason="unknown_type") == 1
        assert edge.of("received_frames_total", "plc") == 1
        assert edge.of("connections_closed_total", "plc", reason="unknown_type") == 1


async def test_each_connection_is_counted_under_the_state_it_is_in() -> None:
    async with dialled(configured(listener("apps", "yamp")), "apps") as (edge, peer):
        await until(lambda: edge.of("connections", "apps", state="handshake") == 1)
        peer.sends(bytes.fromhex("00 0001 04 6a736f6e"))
        await until(lambda: edge.of("connections", "apps", state="open") == 1)
        assert edge.of("connections", "apps", state="handshake") == 0
        peer.hangs_up()
        await until(lambda: edge.of("connections", "apps", state="open") == 0)
        await until(lambda: edge.of("connections", "apps", state="closing") == 0)
        assert edge.of("connections_opened_total", "apps") == 1
        assert edge.of("connections_closed_total", "apps", reason="eof") == 1


async def test_a_handshake_that_does_not_come_in_time_ends_the_connection_and_refuses_no_frame() -> None:
    async with dialled(configured(listener("apps", "yamp", handshake_seconds=0.05)), "apps") as (edge, peer):
        said = await peer.reads_all()
        assert said.startswith(b"\x03")
        assert edge.of("connections_closed_total", "apps", reason="timeout") == 1
        assert edge.of("received_frames_total", "apps") == 0


async def test_a_peer_that_says_nothing_for_too_long_hears_why_it_is_left() -> None:
    async with dialled(configured(listener("bus", "emp", idle_seconds=0.05)), "bus") as (edge, peer):
        hello = bytes.fromhex("0000000c 00000000 01000000")
        peer.sends(hello)
        assert await peer.reads_all() == hello + encode_error(
            Failure(EmpErrorCode.TIMEOUT, "nothing has come for too long")
        )
        assert edge.of("connections_closed_total", "bus", reason="idle") == 1


async def test_a_frame_that_never_gets_whole_is_no_sign_of_life() -> None:
    async with dialled(configured(listener("plc", "hsp", idle_seconds=0.1)), "plc") as (edge, peer):

        async def trickle() -> None:
            for byte in bytes.fromhex("00 0099 00100000") + bytes(1000):
                peer.sends(bytes([byte]))
                await asyncio.sleep(0.005)

        trickling = asyncio.create_task(trickle())
        assert await peer.reads_all() == b""
        trickling.cancel()
        assert edge.of("connections_closed_total", "plc", reason="idle") == 1


async def test_more_connections_than_the_listener_takes_are_turned_away_and_places_come_free_again() -> None:
    async with running(configured(listener("plc", "hsp", connections=2))) as edge:
        first, second = await edge.dial("plc"), await edge.dial("plc")
        for peer in (first, second):
            peer.sends(PING)
            assert await peer.reads(1) == PONG
        third = await edge.dial("plc")
        assert await third.reads_all() == b""
        assert edge.of("connections_closed_total", "plc", reason="overload") == 1
        first.hangs_up()
        await until(lambda: edge.of("connections", "plc", state="open") == 1)
        await until(lambda: edge.of("connections", "plc", state="closing") == 0)
        fourth = await edge.dial("plc")
        fourth.sends(PING)
        assert await fourth.reads(1) == PONG


async def test_all_listeners_together_take_no_more_connections_than_the_edge_has_files() -> None:
    async with running(configured(listener("plc", "hsp"), listener("bus", "hsp"))) as edge:
        edge.life.sessions.most_places = 2
        [first], [_] = await edge.opens("plc"), await edge.opens("bus")
        for name in ("plc", "bus"):
            assert await (await edge.dial(name)).reads_all() == b""
            assert edge.of("connections_closed_total", name, reason="overload") == 1
        first.hangs_up()
        await until(lambda: edge.of("connections", "plc", state="open") == 0)
        await until(lambda: edge.of("connections", "plc", state="closing") == 0)
        await edge.opens("bus")


TOO_MANY = {
    "yamp": encode(Close(CLOSE_REASONS[CloseReason.OVERLOAD])),
    "emp": encode_error(Failure(EmpErrorCode.UNSPECIFIED, "there are too many connections")),
    "hsp": b"",
    "wolpertinger": b"",
}
"""hsp and wolpertinger have no word for it."""


@pytest.mark.parametrize("protocol", TOO_MANY)
async def test_who_is_turned_away_is_told_so_where_the_protocol_can_say_it(protocol: str) -> None:
    async with running(configured(listener("bus", protocol, connections=1))) as edge:
        await edge.dial("bus")
        await until(lambda: edge.of("connections_opened_total", "bus") == 1)
        second = await edge.dial("bus")
        assert await second.reads_all() == TOO_MANY[protocol]
        second.hangs_up()
        await until(lambda: edge.of("connections", "bus", state="closing") == 0)
        assert edge.of("connections_closed_total", "bus", reason="overload") == 1
        assert edge.kafka.mesh()[edge.config.kafka.partitions + (protocol in ("hsp", "wolpertinger")) :] == []


async def test_who_is_turned_away_takes_no_place_while_it_lingers() -> None:
    async with running(configured(listener("bus", "yamp", connections=1))) as edge:
        first = await edge.dial("bus")
        await until(lambda: edge.of("connections", "bus", state="handshake") == 1)
        lingering = await edge.dial("bus")
        await until(lambda: edge.of("connections", "bus", state="closing") == 1)
        first.hangs_up()
        await until(lambda: edge.of("connections", "bus", state="handshake") == 0)
        third = await edge.dial("bus")
        third.sends(HANDSHAKE)
        assert await third.reads(len(HANDSHAKE)) == HANDSHAKE
        assert await lingering.reads_all() == TOO_MANY["yamp"]


async def test_so_many_are_told_at_once_and_the_others_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.edge.carriers.listeners.TURNED_AWAY_AT_ONCE", 2)
    async with running(configured(listener("bus", "yamp", connections=1))) as edge:
        peers = [await edge.dial("bus") for _ in range(4)]
        heard = [await peer.reads_all() for peer in peers[1:]]
        assert heard == [TOO_MANY["yamp"], TOO_MANY["yamp"], b""]
        assert edge.of("connections_closed_total", "bus", reason="overload") == 3


@pytest.mark.parametrize(
    ("protocol", "greeting", "frame", "farewell"),
    [("yamp", HANDSHAKE, EVENT, encode(Close(CLOSE_REASONS[CloseReason.NOT_LOGGED]))), ("hsp", b"", DATA_ACK_1, b"")],
)
async def test_whose_frame_kafka_will_never_take_is_told_so_where_the_protocol_can_say_it(
    protocol: str, greeting: bytes, frame: bytes, farewell: bytes
) -> None:
    async with dialled(configured(listener("bus", protocol)), "bus") as (edge, peer):
        peer.sends(greeting)
        assert await peer.reads(len(greeting)) == greeting
        await until(lambda: edge.of("connections", "bus", state="open") == 1)
        edge.kafka.producer_.refuses = TOO_LARGE
        peer.sends(frame)
        assert await peer.reads_all() == farewell
        assert edge.of("connections_closed_total", "bus", reason="not_logged") == 1
        assert edge.of("accepted_frames_total", "bus") == 0
