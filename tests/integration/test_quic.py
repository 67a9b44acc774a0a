"""emm over QUIC through the whole mesh: certificates, leases, and events between QUIC and UDP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from gateway.client import TlsFiles, UnreachableError, connect_emm
from gateway.client.packet_key import PacketKey
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import EventType
from tests.integration.emm_peer import Device
from tests.integration.foreign.quic_go_client import QuicGo, built_quic_go
from tests.integration.mesh import TestMesh
from tests.unit.edge.certificates import Authority


def files(authority: Authority) -> TlsFiles:
    signed = authority.signs("sensor")
    return TlsFiles(authority.ca, Path(signed["cert"]), Path(signed["key"]))


async def test_events_go_between_quic_and_udp_with_their_signatures(
    mesh: TestMesh, authority: Authority, device: Device
) -> None:
    where = f"quic://127.0.0.1:{mesh.ports['secret']}"
    other = Device(mesh.ports["devices"]).trusted_by(mesh)
    async with connect_emm(where, key=PacketKey.of(other.identity), tls=files(authority)) as client:
        await client.subscribe("by.udp")
        device.subscribe("by.quic")
        client.post("by.quic", b"from quic", "text/plain")
        heard = await asyncio.to_thread(device.receive)
        device.send(device.packet("by.udp", "from udp"))
        event = await asyncio.wait_for(anext(client.events()), 20)
    other.close()
    assert (event.subject, event.text) == ("by.udp", "from udp")
    assert heard is not None
    assert b"from quic" in heard
    assert other.identity.node in heard  # the packet of the client itself, and not one of the gateway's


def test_quic_go_is_answered_on_every_connection(mesh: TestMesh, authority: Authority, device: Device) -> None:
    """It changes its connection id right after the handshake: the edge must know the new one by then."""
    client = QuicGo(built_quic_go(), authority)
    device.subscribe("quic.go")  # answered once the mesh has read its keys
    for _ in range(5):
        hello = device.hello("quic.go")
        answer = codec.decode(client.answer_to(hello, mesh.ports["secret"]))
        assert answer.header.event_type == EventType.HELLO


def test_a_packet_sent_by_udp_is_a_repeat_when_it_comes_by_quic(
    mesh: TestMesh, authority: Authority, device: Device
) -> None:
    where = f"quic://127.0.0.1:{mesh.ports['secret']}"
    device.subscribe("twice.>")
    packet, last = device.packet("twice.only"), device.packet("twice.last")

    async def send() -> None:
        async with connect_emm(where, key=PacketKey.of(device.identity), tls=files(authority)) as client:
            for one in (packet, packet, last):
                client._send(one)
                await asyncio.sleep(0)

    device.send(packet)
    asyncio.run(send())
    assert [device.receive(), device.receive()] == [packet, last]


def test_without_a_certificate_nobody_gets_in(mesh: TestMesh, authority: Authority) -> None:
    async def come() -> None:
        async with connect_emm(f"quic://127.0.0.1:{mesh.ports['secret']}", tls=TlsFiles(authority.ca)):
            pass

    with pytest.raises(UnreachableError) as refused:
        asyncio.run(come())
    assert "certificate required" in refused.value.why


def test_pub_and_sub_speak_it(mesh: TestMesh, authority: Authority, device: Device) -> None:
    device.subscribe("verb.>")
    signed = authority.signs("sensor")
    tls = ["--tls-ca", str(authority.ca), "--tls-cert", signed["cert"], "--tls-key", signed["key"]]
    where = ["--via", "emm", "--to", f"quic://127.0.0.1:{mesh.ports['secret']}", *tls]
    said = mesh.command("pub", "verb.pub", "hello", *where, "--output", "json")
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["outcome"] == "sent"
    heard = device.receive()
    assert heard is not None
    assert b"hello" in heard
