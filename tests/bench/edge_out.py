"""Measures what an edge spends on a frame, by part: from a datagram to a raw record, and from egress to a datagram.

    python -m tests.bench.edge_out [PROFILE]

One egress record for each raw record, as the router writes them, with so many events for datagram peers. `decode` is
the reader's, `handle` the dispatch with nobody to send to, `send` the same to a real socket on loopback less that,
`outcomes` writing down what became of them and hearing that it is durable; `in` takes datagrams from a socket and makes
records of them. `one by one` handles the same records without runs. There is no Kafka: what is written is acknowledged
at once. With an argument the hottest functions are shown instead.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import pstats
import socket
import sys
import time
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from typing import Any

from prometheus_client import CollectorRegistry

from gateway.cli.edge import YOUNG_OBJECTS
from gateway.config import Config
from gateway.config.settings import RecordSettings
from gateway.core.event import Kind
from gateway.edge import producer
from gateway.edge.datagrams.calls import AT_ONCE
from gateway.edge.datagrams.outgoing import OnSent
from gateway.edge.datagrams.sending import Datagram, DatagramRun, OfT
from gateway.edge.datagrams.udp import UdpListener
from gateway.edge.delivery import runs
from gateway.edge.delivery.dispatch import DeliveryBooks, Dispatch, Peers
from gateway.edge.delivery.egress_delivery import OutcomeRecorder
from gateway.edge.delivery.offset_tracker import Checkpoint, OffsetTracker
from gateway.edge.delivery.outcomes import OutcomeLog
from gateway.edge.delivery.previous_run import PreviousRun
from gateway.edge.delivery.reader import Batch
from gateway.edge.edge_log import EdgeLog
from gateway.edge.metrics import EdgeMetrics
from gateway.edge.publisher import EdgeLife, RawPublisher, RawTopic
from gateway.records import egress_codec
from gateway.records.egress import Group
from gateway.records.egress_codec import EgressBuilder, Route
from tests.unit.edge.running import configured, listener

FRAME = b"x" * 200
PEERS = (1, 16)
SIZES = (3, 10, 30, 100, 400)
FRAMES = 1_200
"""A round."""
ROUNDS = 25
RECORD_BYTES = 1_000_000
NEVER = 1_000_000_000
AT_ONCE_LOGGED = RecordSettings(linger_milliseconds=0)
"""No waiting for more frames, which would be measured."""
NAME = "devices"
EPOCH = 1_759_190_400_000


class Acknowledged:
    """Kafka takes all, and says so when it is asked."""

    def __init__(self) -> None:
        self._on_sent: list[producer.OnSent] = []
        self._offset = 0

    def send(self, topic: str, value: bytes, on_sent: producer.OnSent, **settings: Any) -> None:
        self._on_sent.append(on_sent)

    def collect(self) -> None:
        """Reports nothing: `acknowledge` does."""

    def acknowledge(self) -> None:
        waiting, self._on_sent = self._on_sent, []
        for on_sent in waiting:
            on_sent(None, self._offset, 0.0)
            self._offset += 1


class Nobody:
    """Sends nothing, and says that it has."""

    def send(self, datagrams: Sequence[Datagram[OfT]], on_sent: OnSent[OfT]) -> None:
        on_sent(datagrams, "")

    def send_run(self, run: DatagramRun) -> int:
        return len(run)


class Out:
    """A dispatch with all that is behind it, and the outcomes that come of it."""

    def __init__(
        self, config: Config, metrics: EdgeMetrics, publisher: RawPublisher, datagrams: Mapping[str, Any]
    ) -> None:
        self._kafka, self._ledger = Acknowledged(), OffsetTracker(EPOCH, Checkpoint(0))
        self._outcomes = OutcomeLog(config, self._kafka, self._ledger, _raise)
        ends = OutcomeRecorder(self._outcomes, metrics)
        unused: Any = None  # sessions and nodes have no part in this
        self._dispatch = Dispatch(
            DeliveryBooks(self._ledger, ends, unused, unused),
            EdgeLog(publisher),
            Peers(unused, datagrams, unused, unused),
            PreviousRun(),
            confirm_seconds=unused,
            on_batch_handled=self._one_taken,
        )
        self._taken = 0
        self._offset = 0

    def _one_taken(self) -> None:
        self._taken += 1

    async def handle(self, batches: list[Batch]) -> None:
        self._taken = 0
        for batch in batches:
            self._dispatch.take(batch)
        while self._taken < len(batches):  # noqa: ASYNC110 - waiting on the clock would be measured
            await asyncio.sleep(0)

    async def write_down(self) -> None:
        self._outcomes.flush()
        self._kafka.acknowledge()
        await asyncio.sleep(0)
        assert self._ledger.ended_to == self._ledger.handled_to

    def batches(self, values: list[bytes]) -> list[Batch]:
        """A batch for each record, at a new place of the egress partition."""
        made: list[Batch] = []
        for value in values:
            made.append([(self._offset, egress_codec.decode(value))])
            self._offset += 1
        return made


class Rig:
    """A listener on loopback and its peers, whose buffers are emptied while nothing is measured."""

    def __init__(self, ends: ExitStack, peers: int) -> None:
        self._raw_offset = 0
        config, self.kafka = configured(listener(NAME, "emm", "udp")), Acknowledged()
        metrics = EdgeMetrics(config, CollectorRegistry())
        self.publisher = RawPublisher(
            self.kafka,
            EdgeLife("edge-0", EPOCH),
            RawTopic("raw", 2, config.kafka.largest_frame),
            AT_ONCE_LOGGED,
            bound_bytes=config.limits.in_flight_bytes,
            observe=metrics.produced,
        )
        [of] = config.listeners
        self.udp = UdpListener(of, self.publisher, metrics.of(of), config.listener_limits(NAME))
        ends.callback(self.udp.close)
        ends.callback(self.udp.stop)
        self.udp.start()
        self.peers = [ends.enter_context(closing(self._peer())) for _ in range(peers)]
        self.nobody, self.out = (
            Out(config, metrics, self.publisher, {NAME: Nobody()}),
            Out(config, metrics, self.publisher, {NAME: self.udp}),
        )
        self._routes = [self._route(peer) for peer in self.peers]

    def _peer(self) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_194_304)
        made.connect(("127.0.0.1", self.udp.port))
        made.setblocking(False)
        return made

    def _route(self, peer: socket.socket) -> Route:
        host, port = peer.getsockname()
        group = Group("emm", b"", addresses=((NAME, f"{host}:{port}"),))
        return Route(Kind.EVENT, "temp.high", "emm", EPOCH, (group,))

    def records(self, size: int) -> list[bytes]:
        """New records, each of a new raw record: a restarted router's would be dropped as repeats."""
        made = []
        for _ in range(FRAMES // size):
            builder, at = EgressBuilder(0, self._raw_offset, RECORD_BYTES), time.time_ns() // 1000
            for index in range(size):
                builder.deliver(index, 0, self._routes[index % len(self._routes)], at, FRAME)
            self._raw_offset += 1
            made += builder.finish()
        return made

    def send_to_edge(self, frames: int) -> None:
        for number in range(frames):
            self.peers[number % len(self.peers)].send(FRAME)

    async def log(self) -> None:
        """What has been sent to the edge and not been looked at."""
        before = self.publisher.in_flight.bytes
        while self.publisher.in_flight.bytes == before:  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0)

    async def close_records(self) -> None:
        self.publisher.flush()
        self.kafka.acknowledge()
        assert await self.publisher.drained(1.0)

    def empty(self) -> int:
        """Returns how many datagrams there were."""
        found = 0
        for peer in self.peers:
            with suppress(BlockingIOError):
                while peer.recv(2048):
                    found += 1
        return found


Costs = dict[str, float]


async def spent(run: Awaitable[object]) -> float:
    start = time.process_time()
    await run
    return time.process_time() - start


async def decode(values: list[bytes]) -> None:
    for value in values:
        egress_codec.decode(value)


async def one_round(rig: Rig, size: int) -> Costs:
    """Seconds by part."""
    values = rig.records(size)
    costs: Costs = {"decode": await spent(decode(values))}
    for name, out in (("handle", rig.nobody), ("send", rig.out)):
        costs[name] = await spent(out.handle(out.batches(values)))
        costs["outcomes"] = await spent(out.write_down())
    assert rig.empty() == FRAMES // size * size
    costs["in"] = 0.0
    for _ in range(FRAMES // size):
        rig.send_to_edge(min(size, AT_ONCE))
        costs["in"] += await spent(rig.log())
    costs["in"] += await spent(rig.close_records())
    return costs


async def measure(rig: Rig, size: int) -> Costs:
    """Microseconds a frame by part; of each the best round, since noise only adds."""
    rounds = [await one_round(rig, size) for _ in range(ROUNDS)]
    best = {part: min(one[part] for one in rounds) / (FRAMES // size * size) * 1e6 for part in rounds[0]}
    best["in"] *= size / min(size, AT_ONCE)
    out = best["decode"] + best["send"] + best["outcomes"]
    return best | {"send": best["send"] - best["handle"], "out in all": out}


async def main(profiler: cProfile.Profile | None = None) -> None:
    shortest = runs.SHORTEST_RUN
    for peers in PEERS:
        with ExitStack() as ends:
            rig = Rig(ends, peers)
            gc.freeze()  # as an edge does once it has begun
            gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
            if profiler is not None:
                ends.enter_context(profiler)
            for size in SIZES if profiler is None else SIZES[-2:-1]:
                for way, runs.SHORTEST_RUN in (("one by one", NEVER), ("in runs", shortest)):
                    costs = await measure(rig, size)
                    told = "  ".join(f"{part} {cost:5.2f}" for part, cost in costs.items())
                    print(f"{peers:2} peers, records of {size:3} {way:10}  {told}")


def profile() -> None:
    profiler = cProfile.Profile()
    asyncio.run(main(profiler))
    pstats.Stats(profiler).sort_stats("tottime").print_stats(45)


def _raise(error: BaseException) -> None:
    raise error


if __name__ == "__main__":
    profile() if len(sys.argv) > 1 else asyncio.run(main())
