"""Something of everything through a mesh: accepted, refused, repeated, answered, undeliverable."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gateway.client import Answer, IncomingRequest, connect
from gateway.core.event import Kind
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh

ANSWERED = "Traffic.sum"


@dataclass(frozen=True)
class Traffic:
    """`refused`: the stranger's packet, until the mesh knows its key. `received`: what the device got."""

    device: Device
    stranger: Device
    refused: bytes
    received: list[bytes]

    def close(self) -> None:
        self.device.close()
        self.stranger.close()


def traffic(mesh: TestMesh) -> Traffic:
    """Returns when all of it has arrived."""
    device = Device(mesh.ports["devices"]).trusted_by(mesh)
    stranger = Device(mesh.ports["devices"])
    device.subscribe("traffic.>")
    refused = stranger.packet("traffic.unknown")
    stranger.send(refused)
    stranger.send(b"\x09 no packet at all")
    first = device.packet("traffic.first", "1")
    for packet in (first, first, first, device.packet("traffic.second", "2")):
        device.send(packet)
    asyncio.run(_sessions(mesh))
    received = [device.receive() or b"" for _ in range(3)]
    return Traffic(device, stranger, refused, received)


async def _sessions(mesh: TestMesh) -> None:
    """Across protocols; what is too long for a datagram is undeliverable to the device."""

    async def serve(asked: IncomingRequest) -> Answer:
        return Answer(Kind.RESPONSE, b"42", "application/json")

    ports = mesh.ports
    async with (
        connect("hsp", "127.0.0.1", ports["hsp"]) as hsp,
        connect("yamp", "127.0.0.1", ports["yamp"]) as yamp,
        connect("emp", "127.0.0.1", ports["emp"]) as emp,
    ):
        await hsp.subscribe("across.>")
        await emp.serve(ANSWERED, serve)
        await yamp.request(ANSWERED, b"[1,2]", "application/json")
        await yamp.request("Traffic.nobody", b"[]", "application/json")
        await yamp.publish("across.event", b'"hello"', "application/json")
        await yamp.publish("traffic.long", b'"' + 2_000 * b"x" + b'"', "application/json")
        await yamp.publish("traffic.third", b'"3"', "application/json")
        async with asyncio.timeout(20):
            async for _ in hsp.events():
                return
