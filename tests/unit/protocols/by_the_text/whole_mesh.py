"""A mesh of one process, for peers that speak by the text alone: the edge with its sockets and the router's own row
functions; memory stands where Kafka is, and a set where Spark drops what it has seen.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from gateway.auth.keyring import GatewayIdentity, KeyRing
from gateway.config import Config
from gateway.core.event import Event
from gateway.edge.producer import OnSent
from gateway.records import egress_codec, event_records, rejected_frame
from streaming_jobs.routing.frame_router import FrameRouter
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.output_records import OutputRecord
from tests.unit.edge.fake_kafka import FakeKafka, FakeProducer
from tests.unit.edge.running import Peer, RunningEdge, configured, running, until


@dataclass
class RoutedProducer(FakeProducer):
    route: Callable[[int, bytes], None] = lambda _partition, _value: None

    def send(self, topic: str, value: bytes, on_sent: OnSent, **settings: Any) -> None:
        super().send(topic, value, on_sent, **settings)
        if topic.endswith(".raw"):
            asyncio.get_running_loop().call_soon(self.route, settings["partition"], value)


@dataclass
class RoutedKafka(FakeKafka):
    """`events`, `refusals`: what the router recorded."""

    producer_: RoutedProducer = field(default_factory=RoutedProducer)
    keys: KeyRing = field(default_factory=lambda: KeyRing({}))
    identity: GatewayIdentity | None = None
    events: list[Event] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    _ends: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def prepare(self, config: Config) -> None:
        self.state = MeshState(config, self.keys, self.identity)
        self._functions = FrameRouter(self.state)
        self.producer_.route = self._route

    def _route(self, partition: int, value: bytes) -> None:
        offset, self._ends[partition] = self._ends[partition], self._ends[partition] + 1
        for out in self._functions.route_record(value, partition, offset, int(time.time())).outs:
            self._write(out)

    def _write(self, out: OutputRecord) -> None:
        headers, value = out.headers or [], out.value or b""
        match out.topic.rpartition(".")[2]:
            case "raw":  # after all that this record makes
                asyncio.get_running_loop().call_soon(self._route, out.partition or 0, value)
            case "egress":
                self.reader_.put(egress_codec.decode(value))
            case "events":
                self.events += event_records.read(headers, value)
            case "rejected":
                self.refusals += [refusal.reason for refusal in rejected_frame.read(headers, value)]


@dataclass
class WholeMesh:
    edge: RunningEdge
    kafka: RoutedKafka

    async def dial(self, listener: str) -> Foreign:
        return Foreign(await self.edge.dial(listener))

    async def stands(self, listener: str) -> None:
        """Every session of the listener has what the listener wants for it."""
        wanted = self.edge.config.endpoint(listener)
        patterns = len(wanted.subscribe) + len(wanted.serve)

        def stand() -> bool:
            sessions = [one for one in self.edge.life.sessions if one.source.listener == listener]
            interests = [one for one in self.kafka.state.table if one.listener == listener]
            return bool(sessions) and len(interests) >= patterns * len(sessions)

        await until(stand)


@dataclass
class Foreign:
    """A peer that knows bytes and nothing of us. What it says and hears is written as hexadecimal digits."""

    peer: Peer

    def says(self, *parts: str | bytes) -> None:
        self.peer.sends(b"".join(part if isinstance(part, bytes) else bytes.fromhex(part) for part in parts))

    async def hears(self, *parts: str | bytes) -> None:
        """Exactly this comes next."""
        expected = b"".join(part if isinstance(part, bytes) else bytes.fromhex(part) for part in parts)
        heard = await self.peer.reads(len(expected))
        assert heard == expected, f"heard {heard.hex(' ')}, not {expected.hex(' ')}"

    async def reads(self, count: int) -> bytes:
        return await self.peer.reads(count)

    async def is_left(self) -> bytes:
        """The connection ends; what came before that."""
        return await self.peer.reads_all()


@asynccontextmanager
async def whole_mesh(*listeners: dict[str, Any], **trust: Any) -> AsyncIterator[WholeMesh]:
    """`trust`: `keys` and `identity`, where peers sign."""
    kafka = RoutedKafka(**trust)
    async with running(configured(*listeners), kafka) as edge:
        yield WholeMesh(edge, kafka)
