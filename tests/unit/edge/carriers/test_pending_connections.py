"""Connections before their sessions: PROXY headers, TLS, and the deadline for both."""

from __future__ import annotations

import asyncio
import ssl

import pytest
from cryptography import x509

from gateway.core.event import Auth
from gateway.protocols.actions import CloseReason
from gateway.protocols.yamp.codec import encode
from gateway.protocols.yamp.frames import Close
from gateway.protocols.yamp.session import CLOSE_REASONS
from gateway.records.raw_log.frames import FrameSource
from tests.unit.edge.certificates import SOON, Authority
from tests.unit.edge.running import Peer, RunningEdge, configured, dialled, listener, running, until, with_session

PING, PONG = b"\x03", b"\x04"
PROXY_V4 = bytes.fromhex("0d0a0d0a000d0a515549540a 21 11 000c c0000201 c6336402 d431 13b2")
PROXY_LOCAL = bytes.fromhex("0d0a0d0a000d0a515549540a 20 00 0000")
URI = x509.UniformResourceIdentifier("urn:plant:7")
DNS = x509.DNSName("plant-7.example")


async def secured(edge: RunningEdge, name: str, context: ssl.SSLContext) -> Peer:
    return edge.kept(Peer(*await asyncio.open_connection("127.0.0.1", edge.port(name), ssl=context)))


async def source(edge: RunningEdge) -> FrameSource:
    await until(lambda: list(edge.life.sessions))
    return next(iter(edge.life.sessions)).source


class TestProxyProtocol:
    PLC = listener("plc", "hsp", proxy_protocol=True)

    async def test_the_peer_is_whom_the_balancer_names(self) -> None:
        async with dialled(configured(self.PLC), "plc") as (edge, peer):
            peer.sends(PROXY_V4 + PING)
            assert await peer.reads(1) == PONG
            assert (await source(edge)).peer == "192.0.2.1:54321"

    @pytest.mark.parametrize("senders", [["127.0.0.1"], ["192.0.2.0/24", "127.0.0.0/8"]])
    async def test_a_sender_that_is_listed_is_believed(self, senders: list[str]) -> None:
        async with running(configured(listener("plc", "hsp", proxy_protocol=True, proxy_from=senders))) as edge:
            peer = await edge.dial("plc")
            peer.sends(PROXY_V4 + PING)
            assert await peer.reads(1) == PONG
            assert (await source(edge)).peer == "192.0.2.1:54321"

    @pytest.mark.parametrize("senders", [[], ["192.0.2.0/24"], ["127.0.0.2/31", "::1"]])
    async def test_a_sender_that_is_not_listed_is_refused_before_it_is_read(self, senders: list[str]) -> None:
        async with running(configured(listener("plc", "hsp", proxy_protocol=True, proxy_from=senders))) as edge:
            peer = await edge.dial("plc")
            peer.sends(PROXY_V4 + PING)
            assert await peer.reads_all() == b""
            assert edge.of("connections_closed_total", "plc", reason="forbidden") == 1
            assert edge.of("connections", "plc", state="handshake") == 0

    async def test_a_header_may_come_byte_by_byte(self) -> None:
        async with dialled(configured(self.PLC), "plc") as (_edge, peer):
            for byte in PROXY_V4 + PING:
                peer.sends(bytes([byte]))
                await peer.writer.drain()
                await asyncio.sleep(0)
            assert await peer.reads(1) == PONG

    async def test_the_balancers_own_checks_are_the_balancer(self) -> None:
        async with dialled(configured(self.PLC), "plc") as (edge, peer):
            peer.sends(PROXY_LOCAL + PING)
            assert await peer.reads(1) == PONG
            host, port = peer.writer.get_extra_info("sockname")
            assert (await source(edge)).peer == f"{host}:{port}"

    @pytest.mark.parametrize(
        ("said", "reason"),
        [(b"PROXY TCP4 192.0.2.1 198.51.100.2 54321 5042\r\n", "unsupported_version"), (PING * 16, "malformed")],
    )
    async def test_anything_else_ends_the_connection(self, said: bytes, reason: str) -> None:
        async with dialled(configured(self.PLC), "plc") as (edge, peer):
            peer.sends(said)
            assert await peer.reads_all() == b""
            assert edge.of("connections_closed_total", "plc", reason=reason) == 1
            assert edge.of("connections", "plc", state="handshake") == 0

    async def test_a_header_that_does_not_come_in_time_ends_the_connection(self) -> None:
        plc = listener("plc", "hsp", proxy_protocol=True, handshake_seconds=0.05)
        async with dialled(configured(plc), "plc") as (edge, peer):
            peer.sends(PROXY_V4[:15])
            assert await peer.reads_all() == b""
            assert edge.of("connections_closed_total", "plc", reason="timeout") == 1

    async def test_tls_begins_behind_the_header(self, authority: Authority) -> None:
        tls = authority.signs("edge")
        async with running(configured(listener("plc", "hsp", "tls", proxy_protocol=True, tls=tls))) as edge:
            peer = await edge.dial("plc")
            peer.sends(PROXY_V4)
            await peer.writer.start_tls(authority.trusted_by(), server_hostname="127.0.0.1")
            peer.sends(PING)
            assert await peer.reads(1) == PONG
            assert (await source(edge)).peer == "192.0.2.1:54321"


class TestTls:
    @pytest.mark.parametrize(
        ("alternatives", "node_from", "node"),
        [
            ((DNS, URI), "san", "urn:plant:7"),
            ((DNS,), "san", "plant-7.example"),
            ((URI,), "cn", "cn:plant-7"),
            ((x509.UniformResourceIdentifier("user:alice"),), "san", "san:user:alice"),
        ],
    )
    async def test_the_node_is_what_the_client_certificate_says(
        self, authority: Authority, alternatives: tuple[x509.GeneralName, ...], node_from: str, node: str
    ) -> None:
        tls = authority.signs("edge") | {"client_ca": str(authority.ca), "node_from": node_from}
        plc = listener("plc", "hsp", "tls", tls=tls, redeliver_seconds=60)
        mine = authority.signs("client", *alternatives, common="plant-7")
        async with running(configured(plc)) as edge:
            peer = await secured(edge, "plc", authority.trusted_by(mine))
            peer.sends(PING)
            assert await peer.reads(1) == PONG
            found = await source(edge)
            assert (found.node, found.auth) == (node, Auth.TLS)
            assert next(iter(edge.life.sessions)).terms.redeliver_seconds == 60

    async def test_without_a_client_certificate_the_node_is_anonymous_and_owed_nothing(
        self, authority: Authority
    ) -> None:
        plc = listener("plc", "hsp", "tls", tls=authority.signs("edge"), redeliver_seconds=60)
        async with running(configured(plc)) as edge:
            await secured(edge, "plc", authority.trusted_by())
            found = await source(edge)
            assert (found.node.startswith("anon:edge-0:"), found.auth) == (True, Auth.NONE)
            assert next(iter(edge.life.sessions)).terms.redeliver_seconds == 0

    async def test_who_finds_no_place_is_told_so_within_tls(self, authority: Authority) -> None:
        apps = listener("apps", "yamp", "tls", tls=authority.signs("edge"), connections=1)
        async with running(configured(apps)) as edge:
            await secured(edge, "apps", authority.trusted_by())
            peer = await secured(edge, "apps", authority.trusted_by())
            assert await peer.reads_all() == encode(Close(CLOSE_REASONS[CloseReason.OVERLOAD]))
            assert edge.of("connections_closed_total", "apps", reason="overload") == 1

    async def test_who_has_no_certificate_where_one_is_compulsory_gets_no_session(self, authority: Authority) -> None:
        tls = authority.signs("edge") | {"client_ca": str(authority.ca)}
        async with running(configured(listener("plc", "hsp", "tls", tls=tls))) as edge:
            peer = await secured(edge, "plc", authority.trusted_by())  # with TLS 1.3 a client hears of it later
            assert await peer.reads_all() == b""
            await until(lambda: edge.of("connections_closed_total", "plc", reason="tls") == 1)
            assert edge.of("connections", "plc", state="handshake") == 0
            assert list(edge.life.sessions) == []

    async def test_who_speaks_no_tls_gets_no_session(self, authority: Authority) -> None:
        async with running(configured(listener("plc", "hsp", "tls", tls=authority.signs("edge")))) as edge:
            peer = await edge.dial("plc")
            peer.sends(b"GET / HTTP/1.1\r\n\r\n")
            await peer.reads_all()
            assert edge.of("connections_closed_total", "plc", reason="tls") == 1

    async def test_a_handshake_that_does_not_come_in_time_ends_the_connection(self, authority: Authority) -> None:
        plc = listener("plc", "hsp", "tls", tls=authority.signs("edge"), handshake_seconds=0.05)
        async with dialled(configured(plc), "plc") as (edge, peer):
            assert await peer.reads_all() == b""
            assert edge.of("connections_closed_total", "plc", reason="timeout") == 1

    async def test_half_open_connections_take_places_and_leave_them(self, authority: Authority) -> None:
        plc = listener("plc", "hsp", "tls", tls=authority.signs("edge"), connections=1, handshake_seconds=0.5)
        async with running(configured(plc)) as edge:
            silent = await edge.dial("plc")
            await until(lambda: edge.of("connections", "plc", state="handshake") == 1)
            assert await (await edge.dial("plc")).reads_all() == b""
            assert edge.of("connections_closed_total", "plc", reason="overload") == 1
            assert await silent.reads_all() == b""
            peer = await secured(edge, "plc", authority.trusted_by())
            peer.sends(PING)
            assert await peer.reads(1) == PONG

    async def test_new_certificates_are_for_new_connections_and_old_ones_go_on(self, authority: Authority) -> None:
        tls = authority.signs("edge", common="first")
        async with running(configured(listener("plc", "hsp", "tls", tls=tls))) as edge:
            first = await secured(edge, "plc", authority.trusted_by())
            expiry = edge.sample("certificate_expiry_timestamp_seconds", listener="plc", protocol="hsp")
            assert expiry == SOON.timestamp()
            authority.signs("edge", common="second", until=SOON.replace(year=2090))
            edge.life.endpoints.refresh_files()
            second = await secured(edge, "plc", authority.trusted_by())
            assert (common(first), common(second)) == ("first", "second")
            assert edge.sample("certificate_expiry_timestamp_seconds", listener="plc", protocol="hsp") < expiry
            for peer in (first, second):
                peer.sends(PING)
                assert await peer.reads(1) == PONG

    async def test_broken_certificates_change_nothing(self, authority: Authority) -> None:
        tls = authority.signs("edge", common="first")
        async with running(configured(listener("plc", "hsp", "tls", tls=tls))) as edge:
            authority.breaks("edge")
            edge.life.endpoints.refresh_files()
            assert common(await secured(edge, "plc", authority.trusted_by())) == "first"
            authority.signs("edge", common="mended")
            edge.life.endpoints.refresh_files()
            assert common(await secured(edge, "plc", authority.trusted_by())) == "mended"

    async def test_the_last_words_reach_the_peer(self, authority: Authority) -> None:
        async with running(configured(listener("apps", "yamp", "tls", tls=authority.signs("edge")))) as edge:
            peer = await secured(edge, "apps", authority.trusted_by())
            peer.sends(b"\x63")
            assert (await peer.reads_all()).startswith(b"\x03")
            await until(lambda: edge.of("connections", "apps", state="closing") == 0)


def common(peer: Peer) -> str:
    subject = peer.writer.get_extra_info("peercert")["subject"]
    return str(dict(pair for rdn in subject for pair in rdn)["commonName"])


class TestTheEnd:
    async def test_the_last_words_reach_a_peer_that_is_still_sending(self) -> None:
        async with dialled(configured(listener("apps", "yamp")), "apps") as (_edge, peer):
            peer.sends(b"\x63" + bytes(500_000))
            assert (await peer.reads_all()).startswith(b"\x03")

    async def test_a_peer_that_never_takes_the_last_bytes_is_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gateway.edge.carriers.carrier.LINGER_SECONDS", 0.1)
        async with with_session(configured(listener("plc", "hsp")), "plc") as (edge, peer):
            peer.stops_reading()
            for _ in range(8):
                edge.delivers(bytes.fromhex("00 0099 00100000") + bytes(1_048_576), sessions=(1,))
            await until(lambda: any(one.outbox.queued_bytes > 1_000_000 for one in edge.life.sessions))
            peer.sends(b"\x63")
            await until(lambda: edge.of("connections", "plc", state="closing") == 1)
            await until(lambda: edge.of("connections", "plc", state="closing") == 0)

    async def test_a_peer_that_floods_after_our_goodbye_is_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("gateway.edge.carriers.carrier.DISCARDED_BYTES", 100_000)
        async with with_session(configured(listener("plc", "hsp")), "plc") as (edge, peer):
            peer.sends(b"\x63" + bytes(2_000_000))
            await until(lambda: edge.of("connections", "plc", state="closing") == 0)
            await until(lambda: edge.of("connections_closed_total", "plc", reason="unknown_type") == 1)
