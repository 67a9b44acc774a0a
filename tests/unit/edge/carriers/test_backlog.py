"""Tests that what a peer does not read waits in its carrier, and not as single writes in the transport."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.edge.carriers.backlog import PIECE_BYTES
from gateway.protocols.actions import CloseReason
from tests.unit.edge.certificates import Authority
from tests.unit.edge.running import Peer, RunningEdge, configured, listener, running, until

FRAMES, BODY_BYTES = 4_000, 2_000
"""More than the system's own buffers hold."""


def frame(number: int) -> bytes:
    body = number.to_bytes(4, "big").ljust(BODY_BYTES, b"x")
    return bytes.fromhex("00 0011") + len(body).to_bytes(4, "big") + body


async def backed_up(edge: RunningEdge, peer: Peer) -> None:
    """Has a peer that reads nothing be sent more than the system takes."""
    peer.stops_reading()
    [connection] = edge.life.sessions
    for number in range(FRAMES):
        edge.delivers(frame(number), sessions=(connection.number,))
        if number % 20 == 0:
            await asyncio.sleep(0)
    await until(lambda: connection.outbox.delivered_frames == FRAMES)
    transport = connection._carrier._transport
    assert transport is not None
    assert transport.get_write_buffer_size() <= 4 * PIECE_BYTES < connection.outbox.queued_bytes


ALL = b"".join(map(frame, range(FRAMES)))


async def reads_on(peer: Peer) -> None:
    peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
    assert await peer.reads(len(ALL)) == ALL


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
async def test_a_peer_that_reads_late_gets_all_of_it_in_order(scheme: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = {"tls": authority.signs("edge")} if scheme == "tls" else {}
    async with running(configured(listener("plc", "hsp", scheme, **tls))) as edge:
        context = authority.trusted_by() if scheme == "tls" else None
        peer = edge.kept(Peer(*await asyncio.open_connection("127.0.0.1", edge.port("plc"), ssl=context)))
        await until(lambda: len(list(edge.life.sessions)) == 1)
        await backed_up(edge, peer)
        await reads_on(peer)
        peer.sends(b"\3")
        assert await peer.reads(1) == b"\4"


async def test_a_session_that_ends_says_all_that_waits_before() -> None:
    async with running(configured(listener("plc", "hsp"))) as edge:
        [peer] = await edge.opens("plc")
        await backed_up(edge, peer)
        [connection] = edge.life.sessions
        connection.leave(CloseReason.KICKED)
        await reads_on(peer)
        assert await peer.reads_all() == b""
