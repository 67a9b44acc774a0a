"""The QUIC listener's packets: each datagram frame is one, in and out, and what cannot be delivered."""

from __future__ import annotations

import asyncio

import pytest

from gateway.edge.datagrams import quic
from gateway.edge.datagrams.quic_peer import ENTRY_BYTES
from tests.unit.edge.certificates import Authority
from tests.unit.edge.fake_kafka import TOO_LARGE
from tests.unit.edge.foreign_quic import ForeignQuic
from tests.unit.edge.quic_devices import PACKET, connected, devices, names, outcomes, peer_of
from tests.unit.edge.running import RunningEdge, configured, running, until


class TestRates:
    async def test_packets_that_anybody_may_send_have_a_rate_together(self, authority: Authority) -> None:
        rate = {"unauthenticated": "accept", "unauthenticated_bytes_per_second": 10}
        async with running(configured(devices(authority, **rate))) as edge:
            for _ in range(3):
                (await peer_of(edge, authority).connect()).send(PACKET)
            await until(lambda: edge.of("accepted_frames_total", "devices") == 1)
            await until(lambda: edge.of("rejected_frames_total", "devices", reason="rate_limited") == 2)

    async def test_a_connection_has_the_rate_of_a_stream_where_the_configuration_says_none(
        self, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(quic, "STREAM_FRAMES_PER_SECOND", 2.0)
        async with connected(authority) as (edge, peer):
            for _ in range(3):
                peer.send(PACKET)
            await until(lambda: edge.of("accepted_frames_total", "devices") == 2)
            await until(lambda: edge.of("rejected_frames_total", "devices", reason="rate_limited") == 1)

    async def test_packets_that_take_long_to_take_apart_are_taken_in_turns(
        self, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with connected(authority) as (edge, peer):
            listening = edge.life.endpoints._quic["devices"]
            listening._loop.remove_reader(listening.socket.fileno())
            monkeypatch.setattr(quic, "SLICE_SECONDS", -1.0)
            for _ in range(3):
                peer.send(PACKET)
            taken = 0.0
            while taken < 3:  # what confirms the handshake may come between them, and later
                await asyncio.sleep(0)
                listening._drain()
                before, taken = taken, edge.of("received_frames_total", "devices")
                assert taken <= before + 1
            listening.start()


class TestPackets:
    async def test_each_datagram_frame_is_one_packet_in_the_raw_log(self, authority: Authority) -> None:
        async with connected(authority) as (edge, peer):
            for at in range(3):
                peer.send(PACKET + bytes([at]))
            await until(lambda: len(edge.kafka.frames()) == 3)
            assert edge.kafka.frames() == [PACKET + bytes([at]) for at in range(3)]
            assert names(edge)[0].startswith(f"{peer.address}#")
            await until(lambda: edge.of("accepted_frames_total", "devices") == 3)
            assert edge.of("received_frames_total", "devices") == 3
            assert edge.of("received_bytes_total", "devices") == 3 * (len(PACKET) + 1)

    async def test_a_packet_that_no_protocol_allows_is_kept_to_be_refused_where_all_are(
        self, authority: Authority
    ) -> None:
        async with connected(authority) as (edge, peer):
            peer.send(bytes(1000))
            peer.send(b"")
            await until(lambda: len(edge.kafka.frames()) == 2)
            assert [len(frame) for frame in edge.kafka.frames()] == [1000, 0]

    async def test_an_answer_goes_out_on_the_connection_that_the_packet_came_by(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            one, other = await peer_of(edge, authority).connect(), await peer_of(edge, authority).connect()
            one.send(PACKET)
            await until(edge.kafka.frames)
            edge.delivers(b"for one", addresses=(("devices", names(edge)[0]),))
            await until(lambda: one.packets)
            assert one.packets == [b"for one"]
            assert await outcomes(edge) == [("written", "")]
            assert other.packets == []

    async def test_a_connection_keeps_its_name_when_its_peer_moves(self, authority: Authority) -> None:
        async with connected(authority) as (edge, peer):
            peer.send(PACKET)
            await until(edge.kafka.frames)
            old = peer.address
            peer.move()
            peer.send(PACKET)
            await until(lambda: len(edge.kafka.frames()) == 2)
            assert peer.address != old
            assert set(names(edge)) == {names(edge)[0]}
            edge.delivers(b"where it is now", addresses=(("devices", names(edge)[0]),))
            await until(lambda: peer.packets)
            assert peer.packets == [b"where it is now"]

    async def test_a_packet_to_a_connection_id_that_was_just_given_out_arrives(self, authority: Authority) -> None:
        """quic-go uses the second id at once. QUIC never sends a lost DATAGRAM frame again."""
        async with running(configured(devices(authority))) as edge:
            peer = peer_of(edge, authority)
            peer.changes_id_with = PACKET
            peer.begin()
            await until(edge.kafka.frames)
            assert edge.kafka.frames() == [PACKET]

    async def test_who_comes_from_an_address_that_another_had_is_somebody_else(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            first = await peer_of(edge, authority).connect()
            first.send(PACKET)
            await until(edge.kafka.frames)
            port = first.socket.getsockname()[1]
            first.close()
            second = await peer_of(edge, authority, local_port=port).connect()
            second.send(PACKET)
            await until(lambda: len(edge.kafka.frames()) == 2)
            theirs, ours = names(edge)
            assert theirs.partition("#")[0] == ours.partition("#")[0] == second.address
            assert theirs != ours
            await until(lambda: edge.of("connections_closed_total", "devices", reason="bye") == 1)
            edge.delivers(b"for the first", addresses=(("devices", theirs),))
            edge.delivers(b"for the second", addresses=(("devices", ours),))
            await until(lambda: second.packets)
            assert second.packets == [b"for the second"]
            assert (await outcomes(edge, 2))[0][0] == "undeliverable"

    async def test_frames_beyond_the_rate_are_refused_and_the_connection_goes_on(self, authority: Authority) -> None:
        async with connected(authority, frames_per_second_per_session=2) as (edge, peer):
            for _ in range(5):
                peer.send(PACKET)
            await until(lambda: edge.of("rejected_frames_total", "devices", reason="rate_limited") == 3)
            assert len(edge.kafka.frames()) == 2
            assert edge.of("received_frames_total", "devices") == 5

    async def test_what_comes_while_the_log_takes_no_more_is_refused(self, authority: Authority) -> None:
        async with running(configured(devices(authority), limits={"in_flight_bytes": 1})) as edge:
            peer = await peer_of(edge, authority).connect()
            edge.kafka.producer_.held = True
            for _ in range(3):
                peer.send(PACKET)
            await until(lambda: edge.of("rejected_frames_total", "devices", reason="overload") == 2)
            assert len(edge.kafka.frames()) <= 1

    async def test_what_kafka_will_never_take_is_counted_as_such(self, authority: Authority) -> None:
        async with connected(authority) as (edge, peer):
            edge.kafka.producer_.held = True
            peer.send(PACKET)
            await until(lambda: edge.kafka.producer_.open)
            edge.kafka.producer_.acknowledge(TOO_LARGE)
            await until(lambda: edge.of("rejected_frames_total", "devices", reason="internal") == 1)


class TestUndeliverable:
    @staticmethod
    async def ends(edge: RunningEdge, peer: ForeignQuic, *frames: bytes) -> list[tuple[str, str]]:
        peer.send(PACKET)
        await until(edge.kafka.frames)
        for frame in frames:
            edge.delivers(frame, addresses=(("devices", names(edge)[0]),))
        return await outcomes(edge, len(frames))

    async def test_what_the_peer_does_not_take_so_large(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority, max_datagram_frame_size=203).connect()
            ends = await self.ends(edge, peer, bytes(201), bytes(200))
            assert ends == [("undeliverable", "the peer takes datagrams of 200 bytes at most"), ("written", "")]
            await until(lambda: peer.packets)
            assert peer.packets == [bytes(200)]
            assert [one["reason"] for one in edge.kafka.rejected()] == ["undeliverable"]

    async def test_what_no_packet_of_quic_holds(self, authority: Authority) -> None:
        async with connected(authority) as (edge, peer):
            ends = await self.ends(edge, peer, bytes(1157), bytes(1156))
            assert ends == [("undeliverable", "the peer takes datagrams of 1156 bytes at most"), ("written", "")]
            await until(lambda: peer.packets)
            assert peer.packets == [bytes(1156)]

    async def test_anything_where_the_peer_takes_no_datagrams(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority, max_datagram_frame_size=None).connect()
            assert await self.ends(edge, peer, b"x") == [("undeliverable", "the peer takes no datagrams")]

    async def test_what_waits_for_a_peer_that_holds_too_much_of_the_edges_memory(self, authority: Authority) -> None:
        async with running(configured(devices(authority), limits={"held_bytes": 40_000})) as edge:
            peer = await peer_of(edge, authority).connect()
            peer.send(PACKET)
            await until(edge.kafka.frames)
            peer.silent = True
            for _ in range(60):
                edge.delivers(bytes(1000), addresses=(("devices", names(edge)[0]),))
            await until(lambda: edge.life.sessions.memory.held_bytes > 40_000)
            edge.life.tick()
            ended = ("undeliverable", "the connection ended first")
            await until(lambda: ended in [(row.outcome, row.detail) for row in edge.kafka.outcomes()])
            assert edge.of("connections_closed_total", "devices", reason="over_budget") == 1
            assert edge.life.sessions.memory.held_bytes == 0

    async def test_what_a_peer_that_acknowledges_nothing_leaves_no_room_for(self, authority: Authority) -> None:
        async with connected(authority, queue_bytes=5_000) as (edge, peer):
            peer.send(PACKET)
            await until(edge.kafka.frames)
            peer.silent = True
            for _ in range(60):
                edge.delivers(bytes(1000), addresses=(("devices", names(edge)[0]),))
            slow = ("undeliverable", "the peer reads too slowly")
            await until(lambda: slow in [(row.outcome, row.detail) for row in edge.kafka.outcomes()])
            peer.silent = False
            assert set(await outcomes(edge, 60)) == {slow, ("written", "")}

    async def test_a_small_packet_takes_as_much_room_as_it_costs(self, authority: Authority) -> None:
        async with connected(authority, queue_bytes=ENTRY_BYTES + 1) as (edge, peer):
            ends = await self.ends(edge, peer, b"xx", b"x")
            assert ends == [("undeliverable", "the peer reads too slowly"), ("written", "")]

    async def test_what_waits_when_the_connection_ends(self, authority: Authority) -> None:
        async with connected(authority) as (edge, peer):
            peer.send(PACKET)
            await until(edge.kafka.frames)
            peer.silent = True
            for _ in range(40):
                edge.delivers(bytes(1000), addresses=(("devices", names(edge)[0]),))
            await until(lambda: peer.heard)
            peer.close()
            ended = ("undeliverable", "the connection ended first")
            assert ended in await outcomes(edge, 40)

    async def test_anything_to_a_connection_that_never_was(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            edge.delivers(b"x", addresses=(("devices", "127.0.0.1:1#00000000"),))
            assert await outcomes(edge) == [("undeliverable", "the connection is gone")]
