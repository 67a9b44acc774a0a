"""A little of everything that a mesh can meet, a few times a second, so that nothing that is counted stands still."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from gateway.client import Answer, ClientError, IncomingRequest, StreamClient, connect
from gateway.core.event import Kind
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh
from tests.integration.threads import running_threads

TURN_SECONDS = 0.2
JSON = "application/json"
GARBAGE = b"\xff" * 32


@contextmanager
def everything(mesh: TestMesh, device: Device) -> Iterator[None]:
    """While this is entered. `device` is one that the mesh trusts."""
    stop = threading.Event()
    with running_threads(stop, lambda: asyncio.run(_talk(mesh, device, stop))):
        yield


async def _talk(mesh: TestMesh, device: Device, stop: threading.Event) -> None:
    async with AsyncExitStack() as clients:

        async def open_client(protocol: str) -> StreamClient:
            return await clients.enter_async_context(connect(protocol, "127.0.0.1", mesh.ports[protocol]))

        listener, speaker, asker, terse = [await open_client(each) for each in ("hsp", "yamp", "emp", "wolpertinger")]
        await listener.subscribe("load.>")
        await speaker.serve("load.ask", _answer)
        await speaker.serve("load.fail", _fail)
        hearing = asyncio.create_task(_hear(listener))
        while not stop.is_set():
            _send_packets(mesh, device)
            speaker.post("load.event", b'{"n":1}', JSON)
            speaker.post("mesh.forbidden", b"1", JSON)
            await _ask(asker, "load.ask", "load.nobody")
            await _ask(terse, "load.fail")
            await asyncio.to_thread(_break_the_protocol, mesh)
            await asyncio.sleep(TURN_SECONDS)
        hearing.cancel()


def _send_packets(mesh: TestMesh, device: Device) -> None:
    """One that is new, its repeat, one of a stranger, and one that is none."""
    packet, stranger = device.packet("load.packet", "1"), Device(device.port, socket=device.socket)
    for data in (packet, packet, stranger.packet("load.packet"), b"\x09 no packet"):
        device.send(data)


async def _ask(asker: StreamClient, *subjects: str) -> None:
    """Sends a request to somebody who serves it, or to nobody."""
    for subject in subjects:
        with contextlib.suppress(ClientError):
            await asker.request(subject, b"[1]", JSON)


async def _answer(_: IncomingRequest) -> Answer:
    return Answer(Kind.RESPONSE, b"2", JSON)


async def _fail(_: IncomingRequest) -> Answer:
    """wolpertinger has no room for what an error says: this is lost in translation."""
    return Answer(Kind.ERROR, b'{"why":"it fails"}', JSON)


async def _hear(listener: StreamClient) -> None:
    async for _ in listener.events():
        pass


def _break_the_protocol(mesh: TestMesh) -> None:
    with socket.create_connection(("127.0.0.1", mesh.ports["yamp"])) as stranger:
        stranger.sendall(GARBAGE)
        stranger.settimeout(5)
        stranger.recv(64)
