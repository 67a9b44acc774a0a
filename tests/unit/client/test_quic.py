"""A client of emm against a mesh that is reached by QUIC."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from gateway.auth.keyring import GatewayIdentity
from gateway.client import EndedError, RefusedError, TlsFiles, UnreachableError, connect_emm, quic
from gateway.client.address import peer_address
from gateway.core.content import BINARY, JSON
from gateway.core.event import Event
from gateway.core.reasons import Reason, Rejected
from gateway.protocols import protocols
from tests.unit.client.certificates import Authority
from tests.unit.client.loopback_emm import FORBIDDEN, EmmMesh
from tests.unit.client.loopback_quic import quic_loopback
from tests.unit.client.test_packets import KEY, KEYS

IDENTITY = GatewayIdentity(b"g" * 16, bytes.fromhex("000000ff"), b"i" * 32)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.new(tmp_path)


def url(mesh: EmmMesh) -> str:
    return f"quic://127.0.0.1:{mesh.port}"


async def heard(mesh: EmmMesh) -> Event:
    event = await mesh.heard.get()
    assert not isinstance(event, Rejected), event
    return event


def test_tls_with_the_protocol_of_datagrams_is_quic() -> None:
    assert str(peer_address(protocols()["emm"], "mesh.example", tls=True)) == "quic://mesh.example:5050"


async def test_what_is_published_arrives_signed(authority: Authority) -> None:
    async with quic_loopback(KEYS, IDENTITY, authority) as mesh:
        async with connect_emm(url(mesh), key=KEY, tls=TlsFiles(authority.ca)) as client:
            await client.publish("temp.high", b"81", JSON)
            event = await heard(mesh)
    assert (event.subject, event.body, event.auth) == ("temp.high", b"81", "hmac+ed25519")


async def test_a_subscriber_gets_what_is_published(authority: Authority) -> None:
    async with quic_loopback(KEYS, IDENTITY, authority) as mesh:
        async with connect_emm(url(mesh), key=KEY, tls=TlsFiles(authority.ca)) as client:
            await client.subscribe("temp.>")
            client.post("temp.high", b"81", JSON)
            event = await anext(client.events())
            with pytest.raises(RefusedError) as refused:
                await client.subscribe(FORBIDDEN)
    assert (event.subject, event.body) == ("temp.high", b"81")
    assert refused.value.code == Reason.FORBIDDEN


async def test_all_that_is_published_has_gone_out_before_the_end(authority: Authority) -> None:
    async with quic_loopback(KEYS, IDENTITY, authority) as mesh:
        async with connect_emm(url(mesh), key=KEY, tls=TlsFiles(authority.ca)) as client:
            for at in range(200):
                await client.publish("temp.high", b"%d" % at + bytes(200), BINARY)
        bodies = [(await heard(mesh)).body.rstrip(b"\0") for _ in range(200)]
    assert bodies == [b"%d" % at for at in range(200)]


async def test_a_certificate_of_nobody_we_trust_ends_it(authority: Authority, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    stranger = Authority.new(tmp_path / "elsewhere")
    async with quic_loopback(KEYS, IDENTITY, authority) as mesh:
        with pytest.raises(UnreachableError) as refused:
            await connect_emm(url(mesh), key=KEY, tls=TlsFiles(stranger.ca)).__aenter__()
    assert "the session ended: tls: bad certificate" in refused.value.why


async def test_a_certificate_of_another_name_ends_it(authority: Authority) -> None:
    async with quic_loopback(KEYS, IDENTITY, authority) as mesh:
        named = TlsFiles(authority.ca, server_name="elsewhere")
        with pytest.raises(UnreachableError) as refused:
            await connect_emm(url(mesh), key=KEY, tls=named).__aenter__()
    assert "elsewhere" in refused.value.why


async def test_files_that_are_no_certificates_are_told(tmp_path: Path) -> None:
    (tmp_path / "broken.pem").write_text("no certificate")
    broken = TlsFiles(cert=tmp_path / "broken.pem", key=tmp_path / "broken.pem")
    with pytest.raises(UnreachableError) as refused:
        await connect_emm("quic://127.0.0.1:1", tls=broken).__aenter__()
    assert refused.value.why.startswith("our TLS files: ")


async def test_a_peer_that_speaks_another_protocol_is_none(authority: Authority) -> None:
    async with quic_loopback(KEYS, IDENTITY, authority, alpn_protocols=["h3"]) as mesh:
        with pytest.raises(UnreachableError) as refused:
            await connect_emm(url(mesh), tls=TlsFiles(authority.ca)).__aenter__()
    assert "no application protocol" in refused.value.why


async def test_a_peer_that_takes_no_datagrams_is_none(authority: Authority) -> None:
    async with quic_loopback(KEYS, IDENTITY, authority, max_datagram_frame_size=None) as mesh:
        with pytest.raises(UnreachableError) as refused:
            await connect_emm(url(mesh), tls=TlsFiles(authority.ca)).__aenter__()
    assert refused.value.why == "it takes no datagrams"


async def test_a_packet_larger_than_the_peer_takes_is_not_sent(authority: Authority) -> None:
    async with quic_loopback(KEYS, IDENTITY, authority, max_datagram_frame_size=203) as mesh:
        async with connect_emm(url(mesh), key=KEY, tls=TlsFiles(authority.ca)) as client:
            with pytest.raises(Rejected) as refused:
                client.post("temp.high", bytes(200), BINARY)
    assert (refused.value.reason, refused.value.detail) == (
        Reason.TOO_LARGE,
        "the peer takes datagrams of 200 bytes at most",
    )


async def test_where_nobody_listens_one_is_told_at_once() -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(UnreachableError) as refused:
        await connect_emm(f"quic://127.0.0.1:{port}").__aenter__()
    assert refused.value.why == "connection refused"


async def test_where_nobody_answers_one_is_told_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quic, "CONNECT_SECONDS", 0.05)
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as silent:
        silent.bind(("127.0.0.1", 0))
        with pytest.raises(UnreachableError) as refused:
            await connect_emm(f"quic://127.0.0.1:{silent.getsockname()[1]}").__aenter__()
    assert refused.value.why == "no connection within 0.05 s"


@pytest.mark.parametrize(("code", "said"), [(0, "the session ended: bye: drain"), (7, "the session ended: peer_error")])
async def test_when_the_peer_ends_it_whoever_waits_is_told(authority: Authority, code: int, said: str) -> None:
    async with quic_loopback(KEYS, IDENTITY, authority) as mesh:
        async with connect_emm(url(mesh), key=KEY, tls=TlsFiles(authority.ca)) as client:
            await client.subscribe("temp.>")
            mesh.end(code, "drain" if code == 0 else "")
            with pytest.raises(EndedError) as ended:
                await anext(client.events())
            with pytest.raises(UnreachableError) as unreachable:
                await client.publish("temp.high")
    assert ended.value.why == unreachable.value.why == said


async def test_what_is_posted_faster_than_the_peer_acknowledges_is_lost_and_not_kept(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quic, "WAITING_PACKETS", 20)
    async with quic_loopback(KEYS, IDENTITY, authority) as mesh:
        async with connect_emm(url(mesh), key=KEY, tls=TlsFiles(authority.ca)) as client:
            for at in range(300):
                client.post("temp.high", b"%03d" % at + bytes(200), BINARY)
            await client.publish("temp.last")
            while (event := await heard(mesh)).subject != "temp.last":
                last = event.body[:3]
    assert last < b"299"
