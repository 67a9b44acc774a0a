"""Tests when connections are read, so that neither one peer nor a Kafka that is away costs others."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from gateway.core.envelope import Envelope
from gateway.core.event import Kind
from gateway.edge import sessions
from gateway.edge.carriers import listeners
from gateway.edge.carriers.listeners import ACCEPTED_AT_ONCE
from gateway.protocols.hsp.codec import encode
from gateway.protocols.hsp.frames import ENVELOPE_TYPE, Command, Frame
from tests.unit.edge.running import Peer, RunningEdge, configured, dialled, listener, running, until

PING, PONG = b"\x03", b"\x04"
HANDSHAKE = bytes.fromhex("00 0001 04 6a736f6e")
LONG_PING = bytes.fromhex("01 ff") + bytes(255)
EMPTY = bytes.fromhex("00 0099 00000000")
CONTROL = encode(Frame(Command.DATA, 0, ENVELOPE_TYPE, Envelope(Kind.EVENT, 0, "mesh.subscribe").encode() + b"{}"))
HALF_MEGABYTE = bytes.fromhex("00 0099 00080000") + bytes(524_288)


async def answers(peer: Peer) -> None:
    peer.sends(PING)
    assert await peer.reads(1) == PONG


def full_after(size: int) -> dict[str, object]:
    return {"limits": {"in_flight_bytes": size}}


async def test_while_kafka_takes_no_more_nobody_is_read_and_all_goes_on_by_itself() -> None:
    config = configured(listener("plc", "hsp"), listener("devices", "emm", "udp"), **full_after(500_000))
    async with running(config) as edge:
        busy, idle = await edge.dial("plc"), await edge.dial("plc")
        await answers(idle)
        edge.kafka.producer_.held = True
        busy.sends(HALF_MEGABYTE)
        await until(lambda: edge.life.publisher.in_flight.is_full)
        idle.sends(PING)
        await idle.hears_nothing()
        late = await edge.dial("plc")  # comes while nobody is read
        late.sends(PING)
        await late.hears_nothing()
        edge.kafka.producer_.held = False
        edge.kafka.producer_.acknowledge()
        assert await idle.reads(1) == PONG
        assert await late.reads(1) == PONG
        await answers(busy)
        await until(lambda: edge.life.publisher.in_flight.bytes == 0)


async def test_datagrams_that_come_while_kafka_takes_no_more_are_dropped_and_counted() -> None:
    config = configured(listener("devices", "emm", "udp"), **full_after(200))
    async with running(config) as edge:
        edge.kafka.producer_.held = True
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            asyncio.DatagramProtocol, remote_addr=("127.0.0.1", edge.port("devices"))
        )
        for _ in range(2):
            transport.sendto(bytes(100))
        await until(lambda: edge.life.publisher.in_flight.is_full)
        for _ in range(3):
            transport.sendto(bytes(100))
        await until(lambda: edge.of("received_frames_total", "devices") == 5)
        assert edge.of("rejected_frames_total", "devices", reason="overload") == 3
        edge.kafka.producer_.acknowledge()
        await until(lambda: edge.of("accepted_frames_total", "devices") == 2)
        transport.close()


async def test_the_silence_of_a_peer_that_is_not_read_is_not_its_fault() -> None:
    plc = listener("plc", "hsp", ping_seconds=0.1, pong_timeout_seconds=0.1, idle_seconds=0.2)
    async with running(configured(plc, **full_after(500_000))) as edge:
        edge.kafka.producer_.held = True
        peer = await edge.dial("plc")
        peer.sends(HALF_MEGABYTE)
        await until(lambda: edge.life.publisher.in_flight.is_full)
        assert await peer.reads(1) == PING
        await peer.hears_nothing(0.5)  # more than all of its limits
        peer.sends(PONG)
        edge.kafka.producer_.held = False
        edge.kafka.producer_.acknowledge()
        assert await peer.reads(1) == PING  # heard, and asked again
        assert edge.of("connections", "plc", state="open") == 1


async def test_a_session_that_sends_too_many_frames_is_read_later_and_loses_none() -> None:
    config = configured(listener("plc", "hsp", frames_per_second_per_session=100), listener("free", "hsp"))
    async with running(config) as edge:
        fast, other = await edge.dial("plc"), await edge.dial("free")
        begun = asyncio.get_running_loop().time()
        fast.sends(EMPTY * 110)  # a tenth of a second more than it may at once
        await until(lambda: edge.of("received_frames_total", "plc") == 110)
        fast.sends(EMPTY)
        await answers(other)
        await until(lambda: edge.of("received_frames_total", "plc") == 111)
        assert asyncio.get_running_loop().time() - begun > 0.09


@pytest.mark.parametrize(
    ("limit", "frames"),
    [
        ({"bytes_per_second_per_session": 600_000}, HALF_MEGABYTE * 3),
        ({"cpu_share_per_session": 0.000_001}, EMPTY * 3),
        ({"control_frames_per_second_per_session": 0.5, "subscriptions_per_session": 1}, CONTROL * 3),
    ],
    ids=["bytes", "time of the thread", "control frames"],
)
async def test_a_stream_that_costs_more_than_it_may_waits_and_nobody_else_does(
    limit: dict[str, Any], frames: bytes
) -> None:
    async with running(configured(listener("plc", "hsp", **limit), listener("free", "hsp"))) as edge:
        [costly], [other] = await edge.opens("plc"), await edge.opens("free")
        costly.sends(frames)
        await until(lambda: edge.of("throttled_seconds_total", "plc") > 0)
        costly.sends(PING)
        await costly.hears_nothing()
        await answers(other)
        assert edge.of("throttled_seconds_total", "free") == 0
        assert edge.of("rejected_frames_total", "plc", reason="rate_limited") == 0


async def test_streams_that_flood_are_read_by_turns_and_an_honest_peer_waits_for_none_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "SLICE_EFFORT", 1)  # a frame a turn
    async with running(configured(listener("plc", "hsp"), listener("free", "hsp"))) as edge:
        floods, [honest] = await edge.opens("plc", 3), await edge.opens("free")
        for peer in floods:
            peer.sends(PING * 2_000)
        await until(lambda: len(edge.life.sessions.reads) > 0)
        await answers(honest)
        assert len(edge.life.sessions.reads) > 0
        assert edge.sample("waiting_streams") > 0
        for peer in floods:
            assert await peer.reads(2_000) == PONG * 2_000
        assert edge.sample("waiting_streams") == 0


async def test_what_a_peer_sent_before_it_closed_its_half_is_taken_however_small_the_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "SLICE_EFFORT", 1)
    async with dialled(configured(listener("plc", "hsp")), "plc") as (edge, peer):
        peer.sends(CONTROL * 7 + EMPTY * 3)
        peer.says_no_more()
        await until(lambda: edge.of("received_frames_total", "plc") == 10)
        assert await peer.reads_all() == b""
        assert edge.of("connections_closed_total", "plc", reason="eof") == 1


async def test_what_a_lost_peer_had_sent_is_taken_by_turns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dear frames and a reset would else keep the loop until the last of them."""
    monkeypatch.setattr(sessions, "SLICE_EFFORT", 1)
    async with dialled(configured(listener("plc", "hsp")), "plc") as (edge, peer):
        await answers(peer)
        [connection] = edge.life.sessions
        connection.session.hold_back(CONTROL * 7 + EMPTY * 3)
        connection._carrier.abort()
        connection.reading.account(0.0, is_filled=False)
        connection.receive_eof()
        assert connection.session.has_more
        await until(lambda: not list(edge.life.sessions))
        assert edge.of("received_frames_total", "plc") == 10
        assert edge.of("connections_closed_total", "plc", reason="eof") == 1


async def test_connections_beyond_the_rate_wait_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "ARRIVALS_BURST_SECONDS", 1.0)
    async with running(configured(listener("plc", "hsp", connections_per_second=1), listener("free", "hsp"))) as edge:
        first, second = await edge.dial("plc"), await edge.dial("plc")
        second.sends(PING)
        await answers(first)
        await answers(await edge.dial("free"))
        assert edge.of("connections", "plc", state="open") == 1
        assert edge.of("connections", "plc", state="handshake") == 1
        assert await second.reads(1) == PONG


async def test_a_turn_of_the_loop_takes_some_connections_and_the_kernel_holds_all_others() -> None:
    async with running(configured(listener("plc", "hsp"))) as edge:
        count, opened = 4 * ACCEPTED_AT_ONCE, [0]
        with contextlib.ExitStack() as peers:
            for _ in range(count):  # the loop does not run meanwhile
                peers.enter_context(socket.create_connection(("127.0.0.1", edge.port("plc")), 5))
            while opened[-1] < count:
                await asyncio.sleep(0)
                opened.append(int(edge.of("connections_opened_total", "plc")))
        assert 1 < max(after - before for before, after in pairwise(opened)) <= ACCEPTED_AT_ONCE + 1


async def test_connections_whose_turn_would_come_too_late_are_refused_and_counted() -> None:
    plc = listener("plc", "hsp", connections_per_second=0.01, handshake_seconds=200)
    async with running(configured(plc)) as edge:
        peers = [await edge.dial("plc") for _ in range(5)]
        await answers(peers[0])
        assert [await peer.reads_all() for peer in peers[3:]] == [b"", b""]
        assert edge.of("connections_closed_total", "plc", reason="rate_limited") == 2
        assert edge.of("connections", "plc", state="handshake") == 2


def has_received(edge: RunningEdge, name: str, count: int) -> bool:
    return edge.of("received_frames_total", name) == count


async def sends_datagrams(edge: RunningEdge, name: str, count: int) -> None:
    """One after another, each read by the edge before the next."""
    for number in range(1, count + 1):
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            asyncio.DatagramProtocol, remote_addr=("127.0.0.1", edge.port(name))
        )
        transport.sendto(bytes(1_000))
        await until(partial(has_received, edge, name, number))
        transport.close()


async def test_datagrams_that_anybody_may_send_have_a_rate_together_and_signed_ones_have_none() -> None:
    rate = {"unauthenticated_bytes_per_second": 10}
    config = configured(
        listener("open", "emm", "udp", unauthenticated="accept", **rate),
        listener("any-key", "emm", "udp", public_key="any", **rate),
        listener("signed", "emm", "udp", **rate),
    )
    async with running(config) as edge:
        await sends_datagrams(edge, "open", 3)
        await sends_datagrams(edge, "any-key", 3)
        await sends_datagrams(edge, "signed", 3)
        await until(lambda: edge.of("accepted_frames_total", "signed") == 3)
        assert edge.of("rejected_frames_total", "signed", reason="rate_limited") == 0
        for name in ("open", "any-key"):
            assert edge.of("rejected_frames_total", name, reason="rate_limited") == 2
            assert edge.of("accepted_frames_total", name) == 1


async def test_datagrams_beyond_the_rate_of_one_source_are_dropped_and_cost_no_other() -> None:
    config = configured(listener("devices", "emm", "udp", frames_per_second_per_session=3))
    async with running(config) as edge:
        loop = asyncio.get_running_loop()
        at = "127.0.0.1", edge.port("devices")
        fast, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=at)
        other, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=at)
        for _ in range(5):
            fast.sendto(b"datagram")
        other.sendto(b"datagram")
        await until(lambda: edge.of("received_frames_total", "devices") == 6)
        assert edge.of("rejected_frames_total", "devices", reason="rate_limited") == 2
        await until(lambda: edge.of("accepted_frames_total", "devices") == 4)
        fast.close()
        other.close()


def queued(edge: RunningEdge) -> int:
    return sum(connection.outbox.queued_bytes for connection in edge.life.sessions)


async def test_a_peer_that_reads_nothing_is_not_read_either_once_its_answers_pile_up() -> None:
    async with running(configured(listener("apps", "yamp", queue_bytes=50_000), listener("free", "hsp"))) as edge:
        rude, other = await edge.dial("apps"), await edge.dial("free")
        rude.stops_reading()
        rude.sends(HANDSHAKE)

        async def flood() -> None:
            while True:
                rude.sends(LONG_PING * 256)
                await rude.writer.drain()

        flooding = asyncio.create_task(flood())
        await until(lambda: queued(edge) > 100_000)
        await answers(other)
        assert queued(edge) < 200_000
        flooding.cancel()
