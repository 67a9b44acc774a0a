"""A whole edge on loopback, with everything real but Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from gateway.config import Config
from gateway.core.event import Kind
from gateway.edge.metrics import EdgeMetrics
from gateway.edge.runtime import EdgeRuntime
from gateway.records.egress import Deliver, Entry, Group, Position
from tests.unit.edge.fake_kafka import FakeKafka


async def until(condition: Callable[[], object]) -> None:
    """Waits for a condition; the test's own limit ends the waiting."""
    while not condition():  # noqa: ASYNC110 - what is waited for happens on sockets
        await asyncio.sleep(0.002)


def listener(name: str, protocol: str, scheme: str = "tcp", **settings: Any) -> dict[str, Any]:
    return {"name": name, "protocol": protocol, "listen": f"{scheme}://127.0.0.1:0", **settings}


def configured(*listeners: dict[str, Any], **settings: Any) -> Config:
    """`settings`: any other section of a configuration."""
    edge = {"id": "edge-0", "graceful_shutdown_limit_seconds": 5}
    given = {"mesh": "test", "kafka": {"partitions": 2}, "edge": edge, "listeners": list(listeners)}
    return Config.model_validate(given | settings)


@dataclass
class Peer:
    """At the other end of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def sends(self, data: bytes) -> None:
        self.writer.write(data)

    async def reads(self, count: int) -> bytes:
        return await self.reader.readexactly(count)

    async def reads_all(self) -> bytes:
        """Until the edge closes; a reset, or an alert of TLS, is the end too."""
        with contextlib.suppress(ConnectionResetError, ssl.SSLError):
            return await self.reader.read()
        return b""

    async def hears_nothing(self, seconds: float = 0.05) -> None:
        try:
            heard = await asyncio.wait_for(self.reader.read(1), seconds)
        except TimeoutError:
            return
        raise AssertionError(f"heard {heard!r}")

    def stops_reading(self) -> None:
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]

    def says_no_more(self) -> None:
        self.writer.write_eof()

    def hangs_up(self) -> None:
        self.writer.close()

    def cut(self) -> None:
        self.writer.transport.abort()


@dataclass
class RunningEdge:
    life: EdgeRuntime
    kafka: FakeKafka
    registry: CollectorRegistry
    config: Config
    position: int = 0
    at_the_end: list[Callable[[], None]] = field(default_factory=list)
    """What cuts off whoever is still connected then."""

    def port(self, name: str) -> int:
        return self.life.endpoints.port(name)

    async def dial(self, name: str) -> Peer:
        return self.kept(Peer(*await asyncio.open_connection("127.0.0.1", self.port(name))))

    def kept(self, peer: Peer) -> Peer:
        """Cut off when the test is over."""
        self.at_the_end.append(peer.cut)
        return peer

    async def opens(self, name: str, count: int = 1) -> list[Peer]:
        """Peers whose sessions stand, for protocols without a handshake."""
        standing = len(list(self.life.sessions))
        peers = [await self.dial(name) for _ in range(count)]
        await until(lambda: len(list(self.life.sessions)) == standing + count)
        return peers

    def sample(self, name: str, **labels: str) -> float:
        common = {"mesh": "test", "edge": "edge-0"}
        return self.registry.get_sample_value(f"meshgate_{name}", common | labels) or 0.0

    def of(self, name: str, at: str, **labels: str) -> float:
        """A sample of a listener's."""
        return self.sample(name, listener=at, protocol=self.config.endpoint(at).protocol, **labels)

    def delivers(self, frame: bytes, **fields: Any) -> None:
        """One record of the router's with one group."""
        self.position += 1
        group_fields = {name: fields.pop(name) for name in list(fields) if name in Group.__dataclass_fields__}
        group = Group(**({"protocol": "hsp", "frame": frame} | group_fields))
        told: dict[str, Any] = {
            "epoch": self.life.epoch,
            "kind": Kind.EVENT,
            "subject": "temp.high",
            "origin": "emm",
        } | fields
        position = told.pop("position", Position(0, self.position, 0))
        self.kafka.reader_.put(Deliver(position=position, received_at=0, groups=(group,), **told))

    def tells(self, entry: Callable[..., Entry], *fields: Any) -> None:
        """One record of the router's with an entry of this class."""
        self.position += 1
        self.kafka.reader_.put(entry(Position(0, self.position, 0), *fields))


@asynccontextmanager
async def running(config: Config, kafka: FakeKafka | None = None) -> AsyncIterator[RunningEdge]:
    kafka, registry = kafka or FakeKafka(), CollectorRegistry()
    life = EdgeRuntime(config, EdgeMetrics(config, registry), kafka)
    edge = RunningEdge(life, kafka, registry, config)
    try:
        await life.begin()
        yield edge
    finally:
        for cut in edge.at_the_end:
            cut()
        kafka.producer_.held = False
        kafka.producer_.acknowledge()
        if life.has_begun:
            await life.drain(None, 1.0)
        await life.end()


@asynccontextmanager
async def dialled(config: Config, name: str) -> AsyncIterator[tuple[RunningEdge, Peer]]:
    """Yields an edge, and a peer that has dialled a listener of it."""
    async with running(config) as edge:
        yield edge, await edge.dial(name)


@asynccontextmanager
async def with_session(config: Config, name: str) -> AsyncIterator[tuple[RunningEdge, Peer]]:
    """Yields an edge, and a peer whose session stands."""
    async with running(config) as edge:
        [peer] = await edge.opens(name)
        yield edge, peer
