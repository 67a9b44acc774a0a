"""Tests what is no QUIC, what was changed on its way, and a fault of ours: one connection suffers at most."""

from __future__ import annotations

import os
import socket

import pytest

from gateway.edge.datagrams import quic
from tests.unit.edge.certificates import Authority
from tests.unit.edge.quic_devices import PACKET, connected, devices, names, peer_of
from tests.unit.edge.running import configured, running, until


class TestBadInput:
    async def test_what_is_no_quic_is_passed_over(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.connect(("127.0.0.1", edge.port("devices")))
                for size in (0, 1, 7, 20, 548, 1199, 1200, 1500, 2048, 9000):
                    for first in (0x00, 0x40, 0xC0, 0xC1, 0xD0, 0xE0, 0xFF):
                        stranger.send((bytes([first]) + b"\0\0\0\1\x08" + os.urandom(size))[:size])
            peer = await peer_of(edge, authority).connect()
            peer.send(PACKET)
            await until(edge.kafka.frames)

    async def test_packets_changed_on_their_way_harm_nobody(self, authority: Authority) -> None:
        async with connected(authority) as (edge, peer):
            sent: list[bytes] = []
            peer.quic.send_datagram_frame(PACKET)
            sent = [data for data, _ in peer.quic.datagrams_to_send(0.0)]
            for data in sent:
                for at in range(len(data)):
                    peer.socket.send(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
                    peer.socket.send(data[:at])
                peer.socket.send(data)
            await until(edge.kafka.frames)
            assert edge.kafka.frames() == [PACKET]

    async def test_a_fault_of_ours_ends_one_connection_and_no_other(
        self, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with running(configured(devices(authority))) as edge:
            good, bad = await peer_of(edge, authority).connect(), await peer_of(edge, authority).connect()
            bad.send(PACKET)
            await until(edge.kafka.frames)
            listening = edge.life.endpoints.datagrams["devices"]
            assert isinstance(listening, quic.QuicListener)
            connection = listening._connections[names(edge)[0]].peer._connection

            def fails(*_: object) -> None:
                raise RuntimeError("a fault")

            monkeypatch.setattr(connection, "receive_datagram", fails)
            bad.send(PACKET)
            await until(lambda: edge.of("connections_closed_total", "devices", reason="internal") == 1)
            good.send(PACKET)
            await until(lambda: len(edge.kafka.frames()) == 2)
