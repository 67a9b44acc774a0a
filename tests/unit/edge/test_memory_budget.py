"""Tests the memory of all sessions together: the largest holders go first, and nobody else is harmed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway.edge.carriers.carrier import TLS_BYTES
from gateway.edge.memory_budget import CUT_AT_ONCE, FREED_SHARE, LOOK_SHARE, RETURN_BYTES, MemoryBudget
from tests.unit.edge.certificates import Authority
from tests.unit.edge.running import Peer, RunningEdge, configured, listener, running, until

MIB = 1 << 20
PAYLOAD = bytes(100_000)
EVENT = bytes.fromhex("00 0011") + len(PAYLOAD).to_bytes(4, "big") + PAYLOAD
EVENT_ACK = bytes.fromhex("01 00000000 0011") + len(PAYLOAD).to_bytes(4, "big") + PAYLOAD


@dataclass
class Session:
    held_bytes: int
    is_cut: bool = False

    def cut(self) -> None:
        self.is_cut = True


class Turn:
    """A turn of the loop: what is called later, is called when it ends."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.looks = 0

    def later(self, call: Callable[[], None]) -> None:
        self.due.append(call)

    def ends(self) -> None:
        due, self.due = self.due, []
        for call in due:
            self.looks += 1
            call()


def nothing() -> None:
    """Gives no memory back."""


def held(sessions: list[Session]) -> list[Session]:
    return [session for session in sessions if not session.is_cut]


def test_one_turn_ends_so_many_sessions_and_the_next_goes_on_until_enough_is_free() -> None:
    count = 4 * (CUT_AT_ONCE + 1)
    sessions, turn = [Session(100) for _ in range(count)], Turn()
    budget = MemoryBudget(count * 100 - 1, lambda: held(sessions), turn.later, nothing)
    budget.look()
    assert count - len(held(sessions)) == CUT_AT_ONCE
    assert len(turn.due) == 1
    budget.count(1)
    assert len(turn.due) == 1
    turn.ends()
    assert count - len(held(sessions)) == CUT_AT_ONCE + 1
    assert turn.due == []
    budget.look()
    assert count - len(held(sessions)) == CUT_AT_ONCE + 1


def test_nobody_goes_at_the_limit_and_the_largest_goes_beyond_it() -> None:
    sessions, turn = [Session(100), Session(500), Session(400)], Turn()
    budget = MemoryBudget(1_000, lambda: held(sessions), turn.later, nothing)
    budget.count(1_001)
    turn.ends()
    assert not any(session.is_cut for session in sessions)
    sessions[0].held_bytes += 1
    budget.count(1_001)
    turn.ends()
    assert [session.is_cut for session in sessions] == [False, True, False]
    assert budget.held_bytes == 501


def test_as_many_go_as_must_and_no_more() -> None:
    sessions, turn = [Session(100) for _ in range(11)], Turn()
    budget = MemoryBudget(1_000, lambda: held(sessions), turn.later, nothing)
    budget.count(1_001)
    turn.ends()
    assert budget.held_bytes == 700 <= 1_000 - 1_000 // FREED_SHARE


def test_sessions_are_looked_at_only_when_so_much_has_passed_that_it_may_be_too_much() -> None:
    sessions, turn = [Session(100)], Turn()
    budget = MemoryBudget(1_000, lambda: held(sessions), turn.later, nothing)
    budget.count(1_000)
    turn.ends()
    for _ in range(9):
        budget.count(100)
        turn.ends()
    assert turn.looks == 1
    budget.count(1)
    budget.count(1)
    turn.ends()
    assert turn.looks == 2


def test_a_budget_that_is_nearly_used_up_does_not_bring_a_look_for_each_byte() -> None:
    sessions, turn = [Session(1_000)], Turn()
    budget = MemoryBudget(1_000, lambda: held(sessions), turn.later, nothing)
    for _ in range(1_000):
        budget.count(1)
        turn.ends()
    assert turn.looks <= LOOK_SHARE


def test_memory_goes_back_to_the_system_whenever_so_much_was_let_go_of() -> None:
    sessions, turn, returned = [Session(RETURN_BYTES), Session(RETURN_BYTES)], Turn(), []
    budget = MemoryBudget(2 * RETURN_BYTES - 1, lambda: held(sessions), turn.later, lambda: returned.append(1))
    budget.look()
    assert (len(held(sessions)), len(returned)) == (1, 1), "it was let go of because it was too much"
    [left] = held(sessions)
    left.held_bytes = RETURN_BYTES // 2
    budget.look()
    left.held_bytes = RETURN_BYTES
    budget.look()
    left.held_bytes = RETURN_BYTES // 2 + 1
    budget.look()
    assert len(returned) == 1
    left.held_bytes -= 1
    budget.look()
    assert len(returned) == 2


def test_a_smaller_budget_holds_from_the_next_byte() -> None:
    sessions, turn = [Session(1_000)], Turn()
    budget = MemoryBudget(10_000, lambda: held(sessions), turn.later, nothing)
    budget.reconfigure(500)
    budget.count(1)
    turn.ends()
    assert sessions[0].is_cut


# -- a whole edge ----------------------------------------------------------------------------------------------------


async def publishes(edge: RunningEdge, honest: Peer, frame: bytes, count: int, **fields: object) -> int:
    """Events for all sessions, each once the honest one has read the last; how much the edge has held at the most."""
    most = 0
    for _ in range(count):
        numbers = tuple(connection.number for connection in edge.life.sessions)
        edge.delivers(frame, sessions=numbers, **fields)
        await honest.reads(len(frame))
        most = max(most, edge.life.sessions.memory.held_bytes)
    return most


async def test_peers_that_read_nothing_stay_within_the_budget_and_cost_others_nothing() -> None:
    limits = {"held_bytes": 20 * MIB}
    async with running(configured(listener("plc", "hsp"), limits=limits)) as edge:
        slow = await edge.opens("plc", 60)
        for peer in slow:
            peer.stops_reading()
        [honest] = await edge.opens("plc")
        most = await publishes(edge, honest, EVENT, 90)
        assert most < 24 * MIB
        closed = edge.of("connections_closed_total", "plc", reason="over_budget")
        assert 0 < closed <= 60
        edge.life.tick()
        assert 0 < edge.sample("held_bytes") < most
        assert edge.of("egress_delivered_total", "plc", outcome="written") >= 90


async def test_peers_that_read_and_confirm_nothing_stay_within_the_budget() -> None:
    limits = {"held_bytes": 20 * MIB}
    async with running(configured(listener("plc", "hsp"), limits=limits)) as edge:
        rude = await edge.opens("plc", 10)
        reading = [asyncio.create_task(peer.reads_all()) for peer in rude]
        for _ in range(90):
            numbers = tuple(connection.number for connection in edge.life.sessions)
            edge.delivers(EVENT_ACK, sessions=numbers, stamps=(1,))
            await asyncio.sleep(0)
            assert edge.life.sessions.memory.held_bytes < 24 * MIB
        await until(lambda: edge.of("connections_closed_total", "plc", reason="over_budget") > 0)
        for task in reading:
            task.cancel()


UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
BEGUN_MESSAGE = bytes.fromhex("82 ff") + MIB.to_bytes(8, "big") + bytes(4)
BEGUN_TEXTS = bytes.fromhex("01 81") + bytes(4) + b"a" + (bytes.fromhex("00 82") + bytes(4) + b"bb") * 5_000


async def upgraded(edge: RunningEdge, name: str, count: int) -> list[Peer]:
    """Peers that speak WebSocket by hand, so that they can stop in the middle of it."""
    peers = [await edge.dial(name) for _ in range(count)]
    for peer in peers:
        peer.sends(UPGRADE)
        await peer.reader.readuntil(b"\r\n\r\n")
    return peers


async def test_messages_of_websockets_without_an_end_stay_within_the_budget() -> None:
    async with running(configured(listener("web", "yamp", "ws"), limits={"held_bytes": 10 * MIB})) as edge:
        for peer in await upgraded(edge, "web", 20):
            peer.sends(BEGUN_MESSAGE + bytes(900_000))
        await until(lambda: edge.of("connections_closed_total", "web", reason="over_budget") > 0)
        assert MIB < edge.life.sessions.memory.held_bytes < 12 * MIB


async def test_texts_of_websockets_in_fragments_without_an_end_stay_within_the_budget() -> None:
    async with running(configured(listener("rpc", "wolpertinger", "ws"), limits={"held_bytes": 20_000})) as edge:
        for peer in await upgraded(edge, "rpc", 3):
            peer.sends(BEGUN_TEXTS)
        await until(lambda: edge.of("connections_closed_total", "rpc", reason="over_budget") > 0)
        assert edge.life.sessions.memory.held_bytes <= 22_000


async def test_fragments_without_a_content_are_not_kept() -> None:
    async with running(configured(listener("rpc", "wolpertinger", "ws"))) as edge:
        [peer] = await upgraded(edge, "rpc", 1)
        peer.sends(BEGUN_TEXTS[:7] + (bytes.fromhex("00 80") + bytes(4)) * 10_000 + bytes.fromhex("89 80") + bytes(4))
        assert await peer.reads(2) == bytes.fromhex("8a 00")  # the pong: all before it has been read
        assert edge.life.sessions.memory.held_bytes == 1


async def test_what_tls_keeps_of_a_stream_that_is_not_read_counts_and_has_a_bound(tmp_path: Path) -> None:
    cert = Authority(tmp_path).signs("edge")
    async with running(configured(listener("plc", "hsp", "tls", tls=cert))) as edge:
        context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        peer = edge.kept(Peer(*await asyncio.open_connection("127.0.0.1", edge.port("plc"), ssl=context)))
        await until(lambda: len(list(edge.life.sessions)) == 1)
        [connection] = edge.life.sessions
        connection.hold()
        peer.sends(EVENT * 10)
        await until(lambda: edge.life.sessions.memory.held_bytes >= TLS_BYTES)
        await peer.hears_nothing()
        assert edge.life.sessions.memory.held_bytes <= 2 * TLS_BYTES
        connection.release()
        await until(lambda: len(edge.kafka.frames()) == 10)


async def test_peers_that_never_end_their_frames_stay_within_the_budget() -> None:
    limits = {"held_bytes": 10 * MIB}
    async with running(configured(listener("plc", "hsp"), limits=limits)) as edge:
        rude = await edge.opens("plc", 20)
        for peer in rude:
            peer.sends(bytes.fromhex("00 0011 00100000") + bytes(900_000))
        await until(lambda: edge.of("connections_closed_total", "plc", reason="over_budget") > 0)
        assert edge.life.sessions.memory.held_bytes < 12 * MIB
