"""A link whose peer was away, and whose edge was killed meanwhile: what was accepted for it is owed to it."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from gateway.client import connect
from gateway.core.content import JSON
from gateway.core.envelope import decode as decode_envelope
from gateway.protocols.hsp.codec import decode, encode, split
from gateway.protocols.hsp.frames import Command, Frame
from tests.integration.mesh import TestMesh, free_port, running_mesh, wait_until

FRAME_BYTES = 1_048_576
PATIENCE_SECONDS = 60.0


class Plant:
    """A peer that the edge dials. It acknowledges what it gets, and may close and come again."""

    def __init__(self) -> None:
        self.port = free_port()
        self._server: socket.socket | None = None
        self._peer: socket.socket | None = None
        self._buffer = bytearray()

    def comes(self) -> None:
        self._server = socket.create_server(("127.0.0.1", self.port))
        self._server.settimeout(60)
        self._peer, _ = self._server.accept()
        self._peer.settimeout(60)
        self._buffer.clear()

    def close(self) -> None:
        for one in (self._peer, self._server):
            if one is not None:
                one.close()

    def gets(self) -> str:
        """The subject of the next event, acknowledged."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            frame = self._next()
            if frame.command is Command.PING:
                self._says(Frame(Command.PONG))
            elif frame.command is Command.DATA_ACK:
                self._says(Frame(Command.ACK, frame.message_id))
                return decode_envelope(frame.payload)[0].subject
        raise AssertionError("nothing but pings")

    def hears(self, seconds: float) -> bool:
        """Something has come."""
        assert self._peer is not None
        return bool(self._buffer) or bool(select.select([self._peer], [], [], seconds)[0])

    def _says(self, frame: Frame) -> None:
        assert self._peer is not None
        self._peer.sendall(encode(frame))

    def _next(self) -> Frame:
        assert self._peer is not None
        while not (size := split(self._buffer, 0, FRAME_BYTES)):
            data = self._peer.recv(65_536)
            assert data, "the edge hung up"
            self._buffer += data
        raw = bytes(self._buffer[:size])
        del self._buffer[:size]
        return decode(raw)


@pytest.fixture(scope="module")
def plant() -> Iterator[Plant]:
    with closing(Plant()) as one:
        yield one


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory, plant: Plant) -> Iterator[TestMesh]:
    link = {
        "name": "plant",
        "protocol": "hsp",
        "connect": f"tcp://127.0.0.1:{plant.port}",
        "envelope": "always",
        "subscribe": ["order.>"],
        "redeliver_seconds": 120,
    }
    listeners: list[dict[str, object]] = [{"name": "yamp", "protocol": "yamp"}]
    with running_mesh(tmp_path_factory.mktemp("linked"), listeners, {"peers": [link]}) as mesh:
        yield mesh


def publish(mesh: TestMesh, *subjects: str) -> None:
    """Returns when the router has had them all: it answers a ping behind them."""

    async def send() -> None:
        async with connect("yamp", "127.0.0.1", mesh.ports["yamp"]) as client:
            for subject in subjects:
                await client.publish(subject, b"{}", JSON)
            await client.request("mesh.ping", b"{}", JSON)

    asyncio.run(send())


def test_what_was_accepted_while_a_link_was_down_and_its_edge_killed_arrives_once_and_in_order(
    linked: TestMesh, plant: Plant
) -> None:
    plant.comes()
    while not plant.hears(seconds=0.5):  # nobody tells a link's peer when its subscription stands
        publish(linked, "order.0")
    while plant.hears(seconds=0.5):
        assert plant.gets() == "order.0"
    plant.close()
    wait_until(lambda: linked.metrics("edge")[OPEN_LINK] == 0, "the link is down")
    publish(linked, *(f"order.{number}" for number in range(1, 6)))
    wait_until(lambda: linked.metrics("edge")[QUEUED] == 5, "all five are owed")
    kill_edge(linked)
    publish(linked, "order.6")
    plant.comes()
    assert [plant.gets() for _ in range(6)] == [f"order.{number}" for number in range(1, 7)]
    plant.close()
    plant.comes()
    publish(linked, "order.7")
    assert plant.gets() == "order.7"  # and nothing of before


OPEN_LINK = 'meshgate_connections{edge="edge-0",listener="plant",mesh="test",protocol="hsp",state="open"}'
QUEUED = 'meshgate_egress_queue_frames{edge="edge-0",mesh="test"}'


def kill_edge(mesh: TestMesh) -> None:
    """Kills it as the system would; its supervisor starts another."""
    pid = mesh.pid_of("edge")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: mesh.pid_of("edge") != pid, "another edge is started")
    wait_until(lambda: is_ready(mesh), "it is ready")


def is_ready(mesh: TestMesh) -> bool:
    try:
        return bool(mesh.metrics("edge")) and probe(mesh)
    except OSError:
        return False


def probe(mesh: TestMesh) -> bool:
    with socket.create_connection(("127.0.0.1", mesh.ports["yamp"]), timeout=2):
        return True
