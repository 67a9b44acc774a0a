"""The QUIC listener's connections: who may come, and what ends them."""

from __future__ import annotations

import os

import pytest
from aioquic.quic.packet import QuicErrorCode

from gateway.edge.datagrams import quic
from tests.unit.edge.certificates import Authority
from tests.unit.edge.quic_devices import PACKET, begun_by, connected, devices, peer_of
from tests.unit.edge.running import configured, running, until


class TestWhoMayCome:
    async def test_more_connections_than_the_listener_takes_are_refused_and_places_come_free_again(
        self, authority: Authority
    ) -> None:
        async with running(configured(devices(authority, connections=1))) as edge:
            first, second = await peer_of(edge, authority).connect(), await peer_of(edge, authority).connect()
            assert second.end is not None
            assert second.end.error_code == QuicErrorCode.CONNECTION_REFUSED
            assert edge.of("connections_closed_total", "devices", reason="overload") == 1
            first.close()
            await until(lambda: edge.of("connections", "devices", state="open") == 0)
            await until(lambda: edge.of("connections", "devices", state="closing") == 0)
            assert (await peer_of(edge, authority).connect()).end is None

    async def test_each_connection_is_counted_under_the_state_it_is_in(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            begun_by(edge, authority)
            await until(lambda: edge.of("connections", "devices", state="handshake") == 1)
            await peer_of(edge, authority).connect()
            assert edge.of("connections", "devices", state="open") == 1
            assert edge.of("connections_opened_total", "devices") == 2

    async def test_a_handshake_that_is_not_done_in_time_ends_the_connection(self, authority: Authority) -> None:
        async with running(configured(devices(authority, handshake_seconds=0.05))) as edge:
            peer = begun_by(edge, authority)
            await until(lambda: edge.of("connections_closed_total", "devices", reason="timeout") == 1)
            peer.vanish()
            await until(lambda: edge.of("connections", "devices", state="closing") == 0)

    async def test_when_many_arrive_who_comes_next_must_prove_where_it_is(
        self, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(quic, "RETRY_FROM_ARRIVING", 1)
        async with running(configured(devices(authority))) as edge:
            begun_by(edge, authority)
            await until(lambda: edge.of("connections", "devices", state="handshake") == 1)
            forger = begun_by(edge, authority)
            await until(lambda: forger.heard)
            assert forger.heard[0][0] >> 4 & 0b11 == 3  # Retry (RFC 9000 section 17.2.5)
            assert edge.of("connections_opened_total", "devices") == 1
            peer = await peer_of(edge, authority).connect()
            assert peer.heard[0][0] >> 4 & 0b11 == 3
            peer.send(PACKET)
            await until(edge.kafka.frames)

    async def test_a_token_of_another_s_opens_no_door(
        self, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(quic, "RETRY_FROM_ARRIVING", 0)
        async with running(configured(devices(authority))) as edge:
            peer = begun_by(edge, authority, token=os.urandom(60))
            await until(lambda: peer.heard)
            assert edge.of("connections_opened_total", "devices") == 0

    async def test_who_speaks_no_version_of_ours_is_told_which_there_are(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = peer_of(edge, authority)
            first = bytes.fromhex("c0 0a0a0a0a 08 0102030405060708 08 1112131415161718")
            peer.silent = True
            peer.socket.send(first.ljust(1199, b"\0"))  # too short to be answered with anything
            peer.socket.send(first.ljust(1200, b"\0"))
            await until(lambda: peer.heard)
            assert peer.heard[0][1:5] == bytes(4)
            assert bytes.fromhex("00000001") in peer.heard[0]
            assert edge.of("connections_opened_total", "devices") == 0
            await until(lambda: len(peer.heard) == 1)


class TestTheEnd:
    async def test_a_peer_that_says_nothing_for_too_long_is_let_go(self, authority: Authority) -> None:
        async with connected(authority, idle_seconds=0.5) as (edge, peer):
            peer.vanish()
            await until(lambda: edge.of("connections_closed_total", "devices", reason="idle") == 1)

    async def test_a_peer_that_opens_a_stream_is_told_that_there_are_none(self, authority: Authority) -> None:
        async with connected(authority) as (edge, peer):
            peer.quic._remote_max_streams_bidi, peer.quic._remote_max_data = 9, 9
            peer.quic._remote_max_stream_data_bidi_remote = 9
            peer.quic.send_stream_data(0, b"GET /")
            peer.flush()
            await until(lambda: peer.end)
            assert peer.end is not None
            assert peer.end.error_code == QuicErrorCode.STREAM_LIMIT_ERROR
            await until(lambda: edge.of("connections_closed_total", "devices", reason="peer_error") == 1)

    async def test_an_edge_that_goes_says_so(self, authority: Authority) -> None:
        async with connected(authority) as (edge, peer):
            listening = edge.life.endpoints.datagrams.pop("devices")
            listening.stop()
            await until(lambda: peer.end)
            assert peer.end is not None
            assert (peer.end.error_code, peer.end.reason_phrase) == (QuicErrorCode.NO_ERROR, "drain")
            assert edge.of("connections_closed_total", "devices", reason="drain") == 1
            assert edge.of("connections", "devices", state="open") == 0
            told: list[str] = []
            listening.send([(b"x", "127.0.0.1:1#00000000", None)], lambda _, detail: told.append(detail))
            assert told == ["the listener is gone"]

    async def test_new_limits_hold_for_who_is_connected(self, authority: Authority) -> None:
        async with connected(authority) as (edge, peer):
            edge.life.reconfigure(configured(devices(authority, frames_per_second_per_session=1, connections=1)))
            for _ in range(3):
                peer.send(PACKET)
            await until(lambda: edge.of("rejected_frames_total", "devices", reason="rate_limited") == 2)
            assert (await peer_of(edge, authority).connect()).end is not None
