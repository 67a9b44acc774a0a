"""The QUIC listener: whose packets it takes, where it sends what is for them, and whom it turns away."""

from __future__ import annotations

import os
import socket
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from aioquic.quic.packet import QuicErrorCode
from aioquic.tls import AlertDescription
from cryptography.x509.oid import ExtendedKeyUsageOID

from gateway.client import DatagramClient, TlsFiles, UnreachableError, connect_emm
from gateway.edge import quic
from gateway.errors import SetupError
from tests.unit.edge.certificates import Authority
from tests.unit.edge.fake_kafka import TOO_LARGE
from tests.unit.edge.foreign_quic import ForeignQuic
from tests.unit.edge.running import RunningEdge, configured, in_a_loop, listener, running, until

PACKET = b"\x01 a packet, as far as the edge looks at it"
CRYPTO = QuicErrorCode.CRYPTO_ERROR


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def devices(authority: Authority, **settings: Any) -> dict[str, Any]:
    wanted = {name: settings.pop(name) for name in ("client_ca",) if name in settings}
    return listener("devices", "emm", "quic", tls=authority.signs("mesh") | wanted, **settings)


def peer_of(edge: RunningEdge, authority: Authority, files: dict[str, str] | None = None, **given: Any) -> ForeignQuic:
    peer = ForeignQuic(edge.port("devices"), authority.ca, files, **given)
    edge.at_the_end.append(peer.vanish)
    return peer


def names(edge: RunningEdge) -> list[str]:
    """By which the raw log knows whom the packets came from."""
    return [frame.source.peer for frame in edge.kafka.raw() if frame.source.protocol == "emm"]


async def outcomes(edge: RunningEdge, count: int = 1) -> list[tuple[str, str]]:
    await until(lambda: len(edge.kafka.outcomes()) >= count)
    return [(row.outcome, row.detail) for row in edge.kafka.outcomes()]


class TestPackets:
    @in_a_loop
    async def test_each_datagram_frame_is_one_packet_in_the_raw_log(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority).connect()
            for at in range(3):
                peer.send(PACKET + bytes([at]))
            await until(lambda: len(edge.kafka.frames()) == 3)
            assert edge.kafka.frames() == [PACKET + bytes([at]) for at in range(3)]
            assert names(edge)[0].startswith(f"{peer.address}#")
            await until(lambda: edge.of("accepted_frames_total", "devices") == 3)
            assert edge.of("received_frames_total", "devices") == 3
            assert edge.of("received_bytes_total", "devices") == 3 * (len(PACKET) + 1)

    @in_a_loop
    async def test_a_packet_that_no_protocol_allows_is_kept_to_be_refused_where_all_are(
        self, authority: Authority
    ) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority).connect()
            peer.send(bytes(1000))
            peer.send(b"")
            await until(lambda: len(edge.kafka.frames()) == 2)
            assert [len(frame) for frame in edge.kafka.frames()] == [1000, 0]

    @in_a_loop
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

    @in_a_loop
    async def test_a_connection_keeps_its_name_when_its_peer_moves(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority).connect()
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

    @in_a_loop
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

    @in_a_loop
    async def test_frames_beyond_the_rate_are_refused_and_the_connection_goes_on(self, authority: Authority) -> None:
        async with running(configured(devices(authority, frames_per_second_per_session=2))) as edge:
            peer = await peer_of(edge, authority).connect()
            for _ in range(5):
                peer.send(PACKET)
            await until(lambda: edge.of("rejected_frames_total", "devices", reason="rate_limited") == 3)
            assert len(edge.kafka.frames()) == 2
            assert edge.of("received_frames_total", "devices") == 5

    @in_a_loop
    async def test_what_comes_while_the_log_takes_no_more_is_refused(self, authority: Authority) -> None:
        async with running(configured(devices(authority), limits={"in_flight_bytes": 1})) as edge:
            peer = await peer_of(edge, authority).connect()
            edge.kafka.producer_.held = True
            for _ in range(3):
                peer.send(PACKET)
            await until(lambda: edge.of("rejected_frames_total", "devices", reason="overload") == 2)
            assert len(edge.kafka.frames()) <= 1

    @in_a_loop
    async def test_what_kafka_will_never_take_is_counted_as_such(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority).connect()
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

    @in_a_loop
    async def test_what_the_peer_does_not_take_so_large(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority, max_datagram_frame_size=203).connect()
            ends = await self.ends(edge, peer, bytes(201), bytes(200))
            assert ends == [("undeliverable", "the peer takes datagrams of 200 bytes at most"), ("written", "")]
            await until(lambda: peer.packets)
            assert peer.packets == [bytes(200)]
            assert [one["reason"] for one in edge.kafka.rejected()] == ["undeliverable"]

    @in_a_loop
    async def test_what_no_packet_of_quic_holds(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority).connect()
            ends = await self.ends(edge, peer, bytes(1157), bytes(1156))
            assert ends == [("undeliverable", "the peer takes datagrams of 1156 bytes at most"), ("written", "")]
            await until(lambda: peer.packets)
            assert peer.packets == [bytes(1156)]

    @in_a_loop
    async def test_anything_where_the_peer_takes_no_datagrams(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority, max_datagram_frame_size=None).connect()
            assert await self.ends(edge, peer, b"x") == [("undeliverable", "the peer takes no datagrams")]

    @in_a_loop
    async def test_what_a_peer_that_acknowledges_nothing_leaves_no_room_for(self, authority: Authority) -> None:
        async with running(configured(devices(authority, queue_bytes=5_000))) as edge:
            peer = await peer_of(edge, authority).connect()
            peer.send(PACKET)
            await until(edge.kafka.frames)
            peer.silent = True
            for _ in range(60):
                edge.delivers(bytes(1000), addresses=(("devices", names(edge)[0]),))
            slow = ("undeliverable", "the peer reads too slowly")
            await until(lambda: slow in [(row.outcome, row.detail) for row in edge.kafka.outcomes()])
            peer.silent = False
            assert set(await outcomes(edge, 60)) == {slow, ("written", "")}

    @in_a_loop
    async def test_what_waits_when_the_connection_ends(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority).connect()
            peer.send(PACKET)
            await until(edge.kafka.frames)
            peer.silent = True
            for _ in range(40):
                edge.delivers(bytes(1000), addresses=(("devices", names(edge)[0]),))
            await until(lambda: peer.heard)
            peer.close()
            ended = ("undeliverable", "the connection ended first")
            assert ended in await outcomes(edge, 40)

    @in_a_loop
    async def test_anything_to_a_connection_that_never_was(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            edge.delivers(b"x", addresses=(("devices", "127.0.0.1:1#00000000"),))
            assert await outcomes(edge) == [("undeliverable", "the connection is gone")]


class TestCertificates:
    @in_a_loop
    async def test_who_has_a_certificate_where_one_is_compulsory_is_admitted_and_no_more(
        self, authority: Authority
    ) -> None:
        async with running(configured(devices(authority, client_ca=str(authority.ca)))) as edge:
            files = authority.signs("sensor", usage=ExtendedKeyUsageOID.CLIENT_AUTH)
            peer = await peer_of(edge, authority, files).connect()
            peer.send(PACKET)
            await until(edge.kafka.frames)
            source = next(frame.source for frame in edge.kafka.raw() if frame.source.protocol == "emm")
            assert (source.node, source.auth.value, source.session) == ("", "none", 0)

    @in_a_loop
    @pytest.mark.parametrize("shown", ["nothing", "a server's", "a stranger's"])
    async def test_who_has_none_that_holds_is_told_so(self, authority: Authority, tmp_path: Path, shown: str) -> None:
        (tmp_path / "elsewhere").mkdir()
        files = {
            "nothing": None,
            "a server's": authority.signs("sensor", usage=ExtendedKeyUsageOID.SERVER_AUTH),
            "a stranger's": Authority(tmp_path / "elsewhere").signs("sensor"),
        }[shown]
        async with running(configured(devices(authority, client_ca=str(authority.ca)))) as edge:
            peer = await peer_of(edge, authority, files).connect()
            assert peer.end is not None
            missing, bad = AlertDescription.certificate_required, AlertDescription.bad_certificate
            assert peer.end.error_code == CRYPTO + (missing if files is None else bad)
            assert edge.of("connections_closed_total", "devices", reason="tls") == 1
            assert edge.kafka.frames() == []

    @in_a_loop
    async def test_packets_that_come_with_a_handshake_that_fails_are_not_taken(self, authority: Authority) -> None:
        async with running(configured(devices(authority, client_ca=str(authority.ca)))) as edge:
            peer = peer_of(edge, authority)
            peer.quic.send_datagram_frame(PACKET)
            await peer.connect()
            assert peer.is_open  # as far as it knew
            assert peer.end is not None
            assert edge.kafka.frames() == []
            assert edge.of("received_frames_total", "devices") == 0

    @in_a_loop
    async def test_who_speaks_another_protocol_is_turned_away(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority, alpn_protocols=["h3"]).connect()
            assert peer.end is not None
            assert peer.end.error_code == CRYPTO + AlertDescription.no_application_protocol
            await until(lambda: edge.of("connections_closed_total", "devices", reason="tls") == 1)

    @in_a_loop
    async def test_new_certificates_are_for_new_connections_and_old_ones_go_on(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        async with running(configured(devices(authority))) as edge:
            old = await peer_of(edge, authority).connect()
            old_ca = authority.ca.read_bytes()
            again = Authority(tmp_path)
            again.signs("mesh")
            edge.life.endpoints.refresh_tls()
            refused = await peer_of(edge, authority, cadata=old_ca, cafile=None).connect()
            new = await peer_of(edge, again).connect()
            assert refused.end is not None
            for peer in (old, new):
                peer.send(PACKET)
            await until(lambda: len(edge.kafka.frames()) == 2)

    @in_a_loop
    async def test_broken_certificates_change_nothing(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            authority.breaks("mesh")
            edge.life.endpoints.refresh_tls()
            assert (await peer_of(edge, authority).connect()).end is None

    @in_a_loop
    async def test_a_listener_without_usable_files_is_a_fault_of_the_configuration(self, authority: Authority) -> None:
        config = configured(devices(authority))
        authority.breaks("mesh")
        with pytest.raises(SetupError) as refused:
            await running(config).__aenter__()
        assert str(refused.value).startswith("devices: the files of `tls` are of no use")


class TestWhoMayCome:
    @in_a_loop
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

    @in_a_loop
    async def test_each_connection_is_counted_under_the_state_it_is_in(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            begun = peer_of(edge, authority)
            begun.silent = True
            begun.begin()
            await until(lambda: edge.of("connections", "devices", state="handshake") == 1)
            await peer_of(edge, authority).connect()
            assert edge.of("connections", "devices", state="open") == 1
            assert edge.of("connections_opened_total", "devices") == 2

    @in_a_loop
    async def test_a_handshake_that_is_not_done_in_time_ends_the_connection(self, authority: Authority) -> None:
        async with running(configured(devices(authority, handshake_seconds=0.05))) as edge:
            peer = peer_of(edge, authority)
            peer.silent = True
            peer.begin()
            await until(lambda: edge.of("connections_closed_total", "devices", reason="timeout") == 1)
            peer.vanish()
            await until(lambda: edge.of("connections", "devices", state="closing") == 0)

    @in_a_loop
    async def test_when_many_arrive_who_comes_next_must_prove_where_it_is(
        self, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(quic, "RETRY_FROM_ARRIVING", 1)
        async with running(configured(devices(authority))) as edge:
            begun = peer_of(edge, authority)
            begun.silent = True
            begun.begin()
            await until(lambda: edge.of("connections", "devices", state="handshake") == 1)
            forger = peer_of(edge, authority)
            forger.silent = True
            forger.begin()
            await until(lambda: forger.heard)
            assert forger.heard[0][0] >> 4 & 0b11 == 3  # Retry (RFC 9000 section 17.2.5)
            assert edge.of("connections_opened_total", "devices") == 1
            peer = await peer_of(edge, authority).connect()
            assert peer.heard[0][0] >> 4 & 0b11 == 3
            peer.send(PACKET)
            await until(edge.kafka.frames)

    @in_a_loop
    async def test_a_token_of_another_s_opens_no_door(
        self, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(quic, "RETRY_FROM_ARRIVING", 0)
        async with running(configured(devices(authority))) as edge:
            peer = peer_of(edge, authority, token=os.urandom(60))
            peer.silent = True
            peer.begin()
            await until(lambda: peer.heard)
            assert edge.of("connections_opened_total", "devices") == 0

    @in_a_loop
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
    @in_a_loop
    async def test_a_peer_that_says_nothing_for_too_long_is_let_go(self, authority: Authority) -> None:
        async with running(configured(devices(authority, idle_seconds=0.5))) as edge:
            peer = await peer_of(edge, authority).connect()
            peer.vanish()
            await until(lambda: edge.of("connections_closed_total", "devices", reason="idle") == 1)

    @in_a_loop
    async def test_a_peer_that_opens_a_stream_is_told_that_there_are_none(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority).connect()
            peer.quic._remote_max_streams_bidi, peer.quic._remote_max_data = 9, 9
            peer.quic._remote_max_stream_data_bidi_remote = 9
            peer.quic.send_stream_data(0, b"GET /")
            peer.flush()
            await until(lambda: peer.end)
            assert peer.end is not None
            assert peer.end.error_code == QuicErrorCode.STREAM_LIMIT_ERROR
            await until(lambda: edge.of("connections_closed_total", "devices", reason="peer_error") == 1)

    @in_a_loop
    async def test_an_edge_that_goes_says_so(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority).connect()
            listening = edge.life.endpoints.datagrams.pop("devices")
            listening.stop()
            await until(lambda: peer.end)
            assert peer.end is not None
            assert (peer.end.error_code, peer.end.reason_phrase) == (QuicErrorCode.NO_ERROR, "drain")
            assert edge.of("connections_closed_total", "devices", reason="drain") == 1
            assert edge.of("connections", "devices", state="open") == 0
            told: list[str] = []
            listening.send(b"x", "127.0.0.1:1#00000000", told.append)
            assert told == ["the listener is gone"]

    @in_a_loop
    async def test_new_limits_hold_for_who_is_connected(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority).connect()
            edge.life.use(configured(devices(authority, frames_per_second_per_session=1, connections=1)))
            for _ in range(3):
                peer.send(PACKET)
            await until(lambda: edge.of("rejected_frames_total", "devices", reason="rate_limited") == 2)
            assert (await peer_of(edge, authority).connect()).end is not None


class TestBadInput:
    @in_a_loop
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

    @in_a_loop
    async def test_packets_changed_on_their_way_harm_nobody(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority).connect()
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

    @in_a_loop
    async def test_a_fault_of_ours_ends_one_connection_and_no_other(
        self, authority: Authority, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with running(configured(devices(authority))) as edge:
            good, bad = await peer_of(edge, authority).connect(), await peer_of(edge, authority).connect()
            bad.send(PACKET)
            await until(edge.kafka.frames)
            listening = edge.life.endpoints.datagrams["devices"]
            assert isinstance(listening, quic.QuicListener)
            connection = listening._known[names(edge)[0]].peer._connection

            def fails(*_: object) -> None:
                raise RuntimeError("a fault")

            monkeypatch.setattr(connection, "receive_datagram", fails)
            bad.send(PACKET)
            await until(lambda: edge.of("connections_closed_total", "devices", reason="internal") == 1)
            good.send(PACKET)
            await until(lambda: len(edge.kafka.frames()) == 2)


class TestOurClient:
    @in_a_loop
    async def test_without_the_certificate_that_is_asked_for_it_hears_so_before_it_sends_anything(
        self, authority: Authority
    ) -> None:
        async with running(configured(devices(authority, client_ca=str(authority.ca)))) as edge:
            with pytest.raises(UnreachableError) as refused:
                await self.connects(edge, TlsFiles(authority.ca)).__aenter__()
            assert "tls: certificate required" in refused.value.why

    @in_a_loop
    async def test_with_it_all_it_sends_comes_in(self, authority: Authority) -> None:
        files = authority.signs("sensor")
        tls = TlsFiles(authority.ca, Path(files["cert"]), Path(files["key"]))
        async with running(configured(devices(authority, client_ca=str(authority.ca)))) as edge:
            async with self.connects(edge, tls) as client:
                for _ in range(100):
                    await client.publish("temp.high", b"81")
            await until(lambda: len(edge.kafka.frames()) == 100)
            await until(lambda: edge.of("connections_closed_total", "devices", reason="bye") == 1)

    @staticmethod
    def connects(edge: RunningEdge, tls: TlsFiles) -> AbstractAsyncContextManager[DatagramClient]:
        return connect_emm(f"quic://127.0.0.1:{edge.port('devices')}", tls=tls)
