"""The QUIC listener's certificates: its own, those it asks for, and our client with them."""

from __future__ import annotations

import datetime
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from aioquic.tls import AlertDescription
from cryptography.x509.oid import ExtendedKeyUsageOID

from gateway.client import DatagramClient, TlsFiles, UnreachableError, connect_emm
from gateway.core.errors import SetupError
from tests.unit.edge.certificates import Authority
from tests.unit.edge.quic_devices import CRYPTO, PACKET, devices, peer_of
from tests.unit.edge.running import RunningEdge, configured, running, until


class TestCertificates:
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

    async def test_who_stands_on_the_list_is_told_so_and_nobody_else(self, authority: Authority) -> None:
        kept, stolen = authority.signs("kept"), authority.signs("stolen")
        lists = str(authority.revokes("stolen"))
        async with running(configured(devices(authority, client_ca=str(authority.ca), crl=lists))) as edge:
            refused = await peer_of(edge, authority, stolen).connect()
            admitted = await peer_of(edge, authority, kept).connect()
            assert refused.end is not None
            assert refused.end.error_code == CRYPTO + AlertDescription.certificate_revoked
            assert admitted.end is None

    @pytest.mark.parametrize("lists", ["run out", "another's", "another's of its name"])
    async def test_without_a_list_that_holds_nobody_is_let_in(
        self, authority: Authority, tmp_path: Path, lists: str
    ) -> None:
        (tmp_path / "elsewhere").mkdir()
        yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
        other = Authority(tmp_path / "elsewhere", "others" if lists == "another's" else "tests")
        path = authority.revokes(until=yesterday) if lists == "run out" else other.revokes()
        async with running(configured(devices(authority, client_ca=str(authority.ca), crl=str(path)))) as edge:
            peer = await peer_of(edge, authority, authority.signs("sensor")).connect()
            assert peer.end is not None
            assert peer.end.error_code == CRYPTO + AlertDescription.certificate_revoked

    async def test_a_connection_ends_when_its_certificate_is_revoked(self, authority: Authority) -> None:
        kept, stolen = authority.signs("kept"), authority.signs("stolen")
        lists = str(authority.revokes())
        async with running(configured(devices(authority, client_ca=str(authority.ca), crl=lists))) as edge:
            peers = [await peer_of(edge, authority, files).connect() for files in (kept, stolen)]
            authority.revokes("stolen")
            assert edge.life.endpoints.refresh_files()
            edge.life.endpoints.judge_again()
            await until(lambda: peers[1].end)
            assert edge.of("connections_closed_total", "devices", reason="revoked") == 1
            assert peers[0].end is None

    async def test_a_connection_ends_with_its_certificate(self, authority: Authority) -> None:
        ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
        async with running(configured(devices(authority, client_ca=str(authority.ca)))) as edge:
            brief = await peer_of(edge, authority, authority.signs("brief", until=ends)).connect()
            long = await peer_of(edge, authority, authority.signs("long")).connect()
            await until(lambda: brief.end)
            assert edge.of("connections_closed_total", "devices", reason="expired") == 1
            assert long.end is None

    async def test_packets_that_come_with_a_handshake_that_fails_are_not_taken(self, authority: Authority) -> None:
        async with running(configured(devices(authority, client_ca=str(authority.ca)))) as edge:
            peer = peer_of(edge, authority)
            peer.quic.send_datagram_frame(PACKET)
            await peer.connect()
            assert peer.is_open  # as far as it knew
            assert peer.end is not None
            assert edge.kafka.frames() == []
            assert edge.of("received_frames_total", "devices") == 0

    async def test_who_speaks_another_protocol_is_turned_away(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            peer = await peer_of(edge, authority, alpn_protocols=["h3"]).connect()
            assert peer.end is not None
            assert peer.end.error_code == CRYPTO + AlertDescription.no_application_protocol
            await until(lambda: edge.of("connections_closed_total", "devices", reason="tls") == 1)

    async def test_new_certificates_are_for_new_connections_and_old_ones_go_on(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        async with running(configured(devices(authority))) as edge:
            old = await peer_of(edge, authority).connect()
            old_ca = authority.ca.read_bytes()
            again = Authority(tmp_path)
            again.signs("mesh")
            edge.life.endpoints.refresh_files()
            refused = await peer_of(edge, authority, cadata=old_ca, cafile=None).connect()
            new = await peer_of(edge, again).connect()
            assert refused.end is not None
            for peer in (old, new):
                peer.send(PACKET)
            await until(lambda: len(edge.kafka.frames()) == 2)

    async def test_broken_certificates_change_nothing(self, authority: Authority) -> None:
        async with running(configured(devices(authority))) as edge:
            authority.breaks("mesh")
            edge.life.endpoints.refresh_files()
            assert (await peer_of(edge, authority).connect()).end is None

    async def test_a_listener_without_usable_files_is_a_fault_of_the_configuration(self, authority: Authority) -> None:
        config = configured(devices(authority))
        authority.breaks("mesh")
        with pytest.raises(SetupError) as refused:
            await running(config).__aenter__()
        assert str(refused.value).startswith("devices: the files of `tls` cannot be used")


class TestOurClient:
    async def test_without_the_certificate_that_is_asked_for_it_hears_so_before_it_sends_anything(
        self, authority: Authority
    ) -> None:
        async with running(configured(devices(authority, client_ca=str(authority.ca)))) as edge:
            with pytest.raises(UnreachableError) as refused:
                await self.connects(edge, TlsFiles(authority.ca)).__aenter__()
            assert "tls: certificate required" in refused.value.why

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
