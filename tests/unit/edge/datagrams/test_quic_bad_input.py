"""Tests what is no QUIC, what was changed on its way, and a fault of ours: one connection suffers at most."""

from __future__ import annotations

import os
import socket
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest
from aioquic.quic.connection import QuicConnectionState
from aioquic.quic.crypto import CryptoPair
from aioquic.quic.packet import QuicFrameType, QuicPacketType, QuicProtocolVersion
from aioquic.quic.packet_builder import QuicPacketBuilder

from gateway.carriers.quic import MOST_CRYPTO_BYTES, MOST_CRYPTO_GAPS, DatagramConnection, server_configuration
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


CONNECTION_ID = bytes(range(8))
ADDRESS = ("127.0.0.1", 40_000)
PACKET_BYTES = 1_200


def initial(pieces: Iterable[tuple[int, bytes]], number: int = 0) -> bytes:
    """A first packet of anybody's: pieces of TLS by their offsets, and padding."""
    crypto, version = CryptoPair(), QuicProtocolVersion.VERSION_1
    crypto.setup_initial(cid=CONNECTION_ID, is_client=True, version=version)
    builder = QuicPacketBuilder(
        host_cid=bytes(8), peer_cid=CONNECTION_ID, is_client=True, max_datagram_size=PACKET_BYTES, version=version,
        packet_number=number,
    )  # fmt: skip
    builder.start_packet(QuicPacketType.INITIAL, crypto)
    for offset, data in pieces:
        frame = builder.start_frame(QuicFrameType.CRYPTO)
        frame.push_uint_var(offset)
        frame.push_uint_var(len(data))
        frame.push_bytes(data)
    builder.start_frame(QuicFrameType.PADDING).push_bytes(bytes(builder.remaining_flight_space))
    return builder.flush()[0][0]


class TestUnfinishedTls:
    """What anybody can send before a handshake is done, and after it."""

    @pytest.fixture
    def connection(self, tmp_path: Path) -> DatagramConnection:
        files = Authority(tmp_path).signs("edge")
        configuration = server_configuration("emm", Path(files["cert"]), Path(files["key"]), None)
        return DatagramConnection(configuration, CONNECTION_ID)

    def is_refused(self, connection: DatagramConnection, *packets: bytes) -> bool:
        for packet in packets:
            connection.receive_datagram(packet, ADDRESS, 1.0)
            connection.datagrams_to_send(1.0)
        return connection._state is not QuicConnectionState.CONNECTED

    @pytest.mark.parametrize(("longer", "refused"), [(0, False), (1, True)])
    def test_a_piece_may_be_so_far_ahead_and_no_further(
        self, connection: DatagramConnection, longer: int, refused: bool
    ) -> None:
        assert self.is_refused(connection, initial([(MOST_CRYPTO_BYTES - 1 + longer, b"x")])) is refused

    def test_a_piece_that_is_far_ahead_takes_no_memory(self, connection: DatagramConnection) -> None:
        packet = initial([(500_000, b"x")])
        tracemalloc.start()
        assert self.is_refused(connection, packet)
        assert tracemalloc.get_traced_memory()[1] < 250_000
        tracemalloc.stop()

    @pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True)])
    def test_so_many_pieces_may_lack_what_is_between_and_no_more(
        self, connection: DatagramConnection, more: int, refused: bool
    ) -> None:
        pieces = [(2 * number, b"x") for number in range(1, MOST_CRYPTO_GAPS + 2 + more)]
        assert self.is_refused(connection, initial(pieces)) is refused

    def test_a_message_that_never_ends_is_not_waited_for(self, connection: DatagramConnection) -> None:
        hello = b"\x01\xff\xff\xff" + bytes(2 * MOST_CRYPTO_BYTES)
        cuts = range(0, len(hello), 1_000)
        packets = [initial([(at, hello[at : at + 1_000])], number) for number, at in enumerate(cuts)]
        assert not self.is_refused(connection, *packets[: MOST_CRYPTO_BYTES // 1_000])
        assert self.is_refused(connection, *packets[MOST_CRYPTO_BYTES // 1_000 :])
        assert len(connection.tls._receive_buffer) <= MOST_CRYPTO_BYTES + 1_000

    async def test_who_leaves_it_unfinished_harms_nobody(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.connect(("127.0.0.1", edge.port("devices")))
                stranger.send(initial([(500_000, b"x")]))
                await until(lambda: edge.of("connections_closed_total", "devices", reason="peer_error") == 1)
            peer = await peer_of(edge, authority).connect()
            peer.send(PACKET)
            await until(edge.kafka.frames)
