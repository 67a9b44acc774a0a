"""A foreign hsp implementation against the real mesh: as a client of a listener, and as a server the edge dials."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.client import Answer, IncomingRequest, StreamClient, connect
from gateway.client.errors import UndeliveredError
from gateway.core.event import Kind
from gateway.protocols.actions import Outcome
from tests.integration.conftest import FOREIGN_TYPES
from tests.integration.foreign.environment import ForeignPeer, foreign_peer, foreign_python
from tests.integration.mesh import TestMesh, free_port

JSON = "application/json"
SECONDS = 30
EVENT, REQUEST, REPLY, SUBSCRIBE, SERVED, SERVED_REPLY = 17, 18, 19, 20, 21, 22


def data(type_: int, body: bytes) -> str:
    """Returns what the peer says of a message that came."""
    return f"data {type_} {body.hex() or '-'}"


@pytest.fixture(scope="session")
def python() -> Path:
    return foreign_python()


@pytest.fixture
def peer(mesh: TestMesh, python: Path) -> Iterator[ForeignPeer]:
    with foreign_peer(python, "connect", f"127.0.0.1:{mesh.ports['terminal']}") as one:
        assert one.hears() == "connected"
        yield one


def stands(peer: ForeignPeer) -> None:
    """What its session has by configuration stands everywhere, for what it asked for later does."""
    peer.do("ask", "stands", SUBSCRIBE, b'{"subject": "foreign.else"}'.hex())
    peer.hears_until("acked stands")


def with_client(mesh: TestMesh, listener: str, do: Callable[[StreamClient], Coroutine[Any, Any, Any]]) -> Any:
    async def run() -> Any:
        protocol = "yamp" if listener == "yamp" else "hsp"
        async with connect(protocol, "127.0.0.1", mesh.ports[listener]) as client, asyncio.timeout(SECONDS):
            return await do(client)

    return asyncio.run(run())


class TestAsAClient:
    def test_its_data_is_an_event(self, mesh: TestMesh, peer: ForeignPeer) -> None:
        async def receive(client: StreamClient) -> bytes:
            await client.subscribe("foreign.event")
            peer.do("send", EVENT, b"\x00\xff".hex())
            async for event in client.events():
                return event.body
            raise AssertionError

        assert with_client(mesh, "hsp", receive) == b"\x00\xff"

    def test_its_data_ack_is_acknowledged(self, peer: ForeignPeer) -> None:
        assert peer.asks("a", EVENT, b"1") == "acked a"

    def test_many_of_its_data_acks_are_each_acknowledged(self, peer: ForeignPeer) -> None:
        for number in range(50):
            peer.do("ask", f"n{number}", EVENT, "-")
        assert sorted(peer.hears() for _ in range(50)) == sorted(f"acked n{number}" for number in range(50))

    def test_its_ping_is_answered(self, peer: ForeignPeer) -> None:
        peer.do("ping", "p")
        assert peer.hears() == "pong p"

    def test_its_request_is_answered_by_a_server_of_another_protocol(self, mesh: TestMesh, peer: ForeignPeer) -> None:
        async def serve(asked: IncomingRequest) -> Answer:
            return Answer(Kind.RESPONSE, b'{"n":42}', JSON)

        async def answer(client: StreamClient) -> list[str]:
            await client.serve("foreign.ask", serve)
            peer.do("ask", "r", REQUEST, b'{"n":1}'.hex())
            return [await asyncio.to_thread(peer.hears) for _ in range(2)]

        said = with_client(mesh, "yamp", answer)
        assert sorted(said) == ["acked r", data(REPLY, b'{"n":42}')]

    def test_its_request_is_refused_where_nobody_serves(self, peer: ForeignPeer) -> None:
        refused, name, type_, body = peer.asks("r", REQUEST, b"").split()
        assert (refused, name, int(type_)) == ("error", "r", 0xFF00)
        assert json.loads(bytes.fromhex(body))["code"] == "no_responder"

    def test_a_malformed_subscription_is_refused(self, peer: ForeignPeer) -> None:
        _, _, _, body = peer.asks("s", SUBSCRIBE, b'{"subject": "a..b"}').split()
        assert json.loads(bytes.fromhex(body))["code"] == "bad_request"

    def test_it_subscribes_and_confirms_what_comes(self, mesh: TestMesh, peer: ForeignPeer) -> None:
        assert peer.asks("s", SUBSCRIBE, b'{"subject": "foreign.event"}') == "acked s"

        async def publish(client: StreamClient) -> Outcome:
            return await client.publish("foreign.event", b"hot")

        assert with_client(mesh, "careful", publish) is Outcome.CONFIRMED
        assert peer.hears() == data(EVENT, b"hot")

    @pytest.mark.parametrize("answer", [("error", 7, b"no".hex()), ("undefined",)])
    def test_it_says_no_to_what_comes(self, mesh: TestMesh, peer: ForeignPeer, answer: tuple[object, ...]) -> None:
        assert peer.asks("s", SUBSCRIBE, b'{"subject": "foreign.event"}') == "acked s"
        peer.do("answer", *answer)

        async def publish(client: StreamClient) -> None:
            with pytest.raises(UndeliveredError):
                await client.publish("foreign.event", b"hot")

        with_client(mesh, "careful", publish)
        assert peer.hears().startswith(f"data {EVENT}")

    @pytest.mark.parametrize(
        ("answer", "kind", "body"),
        [
            (("ack",), Kind.RESPONSE, b""),
            (("body", SERVED_REPLY, b"done".hex()), Kind.RESPONSE, b"done"),
            (("error", 7, b"no".hex()), Kind.ERROR, b"no"),
            (("undefined",), Kind.ERROR, b""),
        ],
    )
    def test_it_serves(
        self, mesh: TestMesh, peer: ForeignPeer, answer: tuple[object, ...], kind: Kind, body: bytes
    ) -> None:
        stands(peer)
        peer.do("answer", *answer)

        async def ask(client: StreamClient) -> Answer:
            return await client.request("foreign.serve", b"do")

        said = with_client(mesh, "hsp", ask)
        assert (said.kind, said.body) == (kind, body)
        assert peer.hears() == data(SERVED, b"do")

    def test_its_requester_hears_when_it_leaves(self, mesh: TestMesh, peer: ForeignPeer) -> None:
        stands(peer)
        peer.do("answer", "later")

        async def ask(client: StreamClient) -> Answer:
            asking = asyncio.create_task(client.request("foreign.serve", b"do"))
            await asyncio.to_thread(peer.hears)
            peer.do("quit")
            return await asking

        assert with_client(mesh, "yamp", ask).code == "undeliverable"


@contextmanager
def dialled(mesh: TestMesh, port: int) -> Iterator[None]:
    """A link in the configuration, which the running mesh takes over and gives up again."""
    before = mesh.config_file.read_text()
    link = {"name": "foreign", "protocol": "hsp", "connect": f"tcp://127.0.0.1:{port}", "types": FOREIGN_TYPES}
    link |= {"subscribe": ["foreign.event"], "serve": ["foreign.serve"], "content_type": JSON}
    mesh.config_file.write_text(yaml.safe_dump({**yaml.safe_load(before), "peers": [link]}, sort_keys=False))
    try:
        yield
    finally:
        mesh.config_file.write_text(before)


class TestAsAServer:
    def test_the_edge_dials_it_and_both_sides_speak(self, mesh: TestMesh, python: Path) -> None:
        port = free_port()
        with foreign_peer(python, "listen", f"127.0.0.1:{port}") as peer, dialled(mesh, port):
            self._is_known(mesh, peer)
            assert peer.asks("a", EVENT, b"1") == "acked a"
            assert peer.hears() == data(EVENT, b"1")  # it subscribes to what it publishes
            peer.do("answer", "body", SERVED_REPLY, b"2".hex())
            answer = with_client(mesh, "yamp", self._ask)
            assert (answer.kind, answer.body) == (Kind.RESPONSE, b"2")
            assert peer.hears() == data(SERVED, b"1")

    def test_it_is_sent_what_it_missed(self, mesh: TestMesh, python: Path) -> None:
        port = free_port()

        async def publish(client: StreamClient) -> None:
            for number in range(3):
                await client.publish("foreign.event", b"%d" % number, JSON)

        with dialled(mesh, port):
            with foreign_peer(python, "listen", f"127.0.0.1:{port}") as peer:
                self._is_known(mesh, peer)
            with_client(mesh, "yamp", publish)
            with foreign_peer(python, "listen", f"127.0.0.1:{port}") as peer:
                assert [peer.hears().split()[0], peer.hears(2 * SECONDS)] == ["listening", "connected"]
                peer.hears_until(data(EVENT, b"0"))  # what it left unacknowledged comes first
                assert [peer.hears() for _ in range(2)] == [data(EVENT, b"1"), data(EVENT, b"2")]

    async def _ask(self, client: StreamClient) -> Answer:
        return await client.request("foreign.serve", b"1", JSON)

    def _is_known(self, mesh: TestMesh, peer: ForeignPeer) -> None:
        """It is dialled; and the router, which takes over a configuration by itself, knows its types."""
        assert [peer.hears().split()[0], peer.hears()] == ["listening", "connected"]

        async def watch(client: StreamClient) -> None:
            await client.subscribe("foreign.>")
            seen = asyncio.ensure_future(anext(client.events()))
            while not seen.done():
                peer.do("send", EVENT, "-")
                await asyncio.wait((seen,), timeout=0.5)

        with_client(mesh, "yamp", watch)
        stands(peer)
        peer.do("send", EVENT, b"the last of its own".hex())
        peer.hears_until(data(EVENT, b"the last of its own"))
