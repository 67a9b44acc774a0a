"""`ack: delivered` through the whole mesh: the publisher's ACK comes when every subscriber's session has confirmed."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from gateway.client import connect
from gateway.protocols.actions import Outcome
from gateway.protocols.hsp.codec import decode, encode, split
from gateway.protocols.hsp.frames import Command, Frame
from tests.integration.edges import MoreEdge, more_edges
from tests.integration.mesh import TestMesh

LIMIT = 1_048_576


@pytest.fixture(scope="module")
def other_edge(mesh: TestMesh) -> Iterator[MoreEdge]:
    with more_edges(mesh, "edge-1") as (edge,):
        yield edge


@dataclass
class Peer:
    """An hsp peer that confirms when it is told to."""

    port: int
    socket: socket.socket = field(init=False)
    buffer: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def send(self, frame: Frame) -> None:
        self.socket.sendall(encode(frame))

    def receive(self, seconds: float = 30) -> Frame:
        self.socket.settimeout(seconds)
        while not (size := split(self.buffer, 0, LIMIT)):
            data = self.socket.recv(65_536)
            assert data, "the edge has closed"
            self.buffer += data
        frame = decode(bytes(self.buffer[:size]))
        del self.buffer[:size]
        return frame

    def hears_nothing(self, seconds: float = 0.7) -> None:
        with pytest.raises(TimeoutError):
            self.receive(seconds)

    def subscribe(self, pattern: str) -> None:
        body = json.dumps({"subject": pattern}).encode()
        envelope = b"\x01\x00\x00\x00" + bytes(8) + b"\x00\x0emesh.subscribe\x00\x00"
        self.send(Frame(Command.DATA_ACK, 1, 0xFFFF, envelope + body))
        assert self.receive() == Frame(Command.ACK, 1)


@pytest.fixture
def publisher(mesh: TestMesh) -> Iterator[Peer]:
    peer = Peer(mesh.ports["careful"])
    yield peer
    peer.socket.close()


@pytest.fixture
def subscribers(mesh: TestMesh, other_edge: MoreEdge) -> Iterator[list[Peer]]:
    """One at the publisher's edge, one at another."""
    peers = [Peer(port) for port in (mesh.ports["hsp"], other_edge.ports["hsp"])]
    for peer in peers:
        peer.subscribe("temp.high")
    yield peers
    for peer in peers:
        peer.socket.close()


def test_nobody_wants_it_so_everybody_has_it(publisher: Peer) -> None:
    publisher.send(Frame(Command.DATA_ACK, 7, 99, b"1"))
    assert publisher.receive() == Frame(Command.ACK, 7)


def test_the_ack_waits_for_the_last_of_them(publisher: Peer, subscribers: list[Peer]) -> None:
    publisher.send(Frame(Command.DATA_ACK, 7, 17, b"hot"))
    asked = [peer.receive() for peer in subscribers]
    assert [frame.payload[-3:] for frame in asked] == [b"hot"] * 2
    subscribers[0].send(Frame(Command.ACK, asked[0].message_id))
    publisher.hears_nothing()
    subscribers[1].send(Frame(Command.ACK, asked[1].message_id))
    assert publisher.receive() == Frame(Command.ACK, 7)


def test_one_that_says_no_makes_it_an_error(publisher: Peer, subscribers: list[Peer]) -> None:
    publisher.send(Frame(Command.DATA_ACK, 8, 17, b"hot"))
    for peer, answer in zip(subscribers, (Command.ACK, Command.ERROR_UNDEF), strict=True):
        peer.send(Frame(answer, peer.receive().message_id))
    refused = publisher.receive()
    assert (refused.command, refused.message_id, refused.type) == (Command.ERROR, 8, 0xFF00)
    assert json.loads(refused.payload)["code"] == "undeliverable"


def test_one_that_leaves_makes_it_an_error(publisher: Peer, subscribers: list[Peer]) -> None:
    publisher.send(Frame(Command.DATA_ACK, 9, 17, b"hot"))
    for peer in subscribers:
        peer.receive()
    subscribers[0].send(Frame(Command.ACK, 1))
    subscribers[1].socket.close()
    assert json.loads(publisher.receive().payload)["code"] == "undeliverable"


async def test_answers_to_many_at_once_come_for_each(mesh: TestMesh, other_edge: MoreEdge) -> None:
    """Confirmed by the clients, which do so by themselves."""
    async with (
        connect("hsp", "127.0.0.1", other_edge.ports["hsp"]) as receiver,
        connect("yamp", "127.0.0.1", mesh.ports["yamp"]) as onlooker,
        connect("hsp", "127.0.0.1", mesh.ports["careful"]) as sender,
    ):
        await receiver.subscribe("Many.>")
        await onlooker.subscribe("Many.>")
        async with asyncio.timeout(30):
            told = [sender.post(f"Many.n{number}", b"1", "application/json") for number in range(300)]
            result = [(await one).outcome for one in told]
    assert set(result) == {Outcome.CONFIRMED}


def test_a_malformed_subscription_is_refused_at_once(other_edge: MoreEdge) -> None:
    """Said as an event of the envelope, which the log alone would have acknowledged."""
    peer = Peer(other_edge.ports["hsp"])
    envelope = b"\x01\x00\x00\x00" + bytes(8) + b"\x00\x0emesh.subscribe\x00\x00"
    peer.send(Frame(Command.DATA_ACK, 3, 0xFFFF, envelope + b'{"subject": "a..b"}'))
    refused = peer.receive()
    assert (refused.command, json.loads(refused.payload)["code"]) == (Command.ERROR, "bad_request")
    peer.socket.close()
