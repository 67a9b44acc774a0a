"""Measures what an edge spends on an event for many sessions: from its egress record to its receivers' sockets.

    python -m tests.bench.edge_fan [SESSIONS] [PROFILE]

A whole edge with yamp sessions on loopback, everything real but Kafka, which acknowledges at once. Each record of
egress holds so many events, each of which goes to all sessions. `one by one` handles the same records without runs;
`sockets` is what the system takes for the same writes alone. Microseconds of processor time a delivery, of which each
is the best round. With a second argument the hottest functions are shown instead.
"""

from __future__ import annotations

import asyncio
import cProfile
import gc
import pstats
import socket
import sys
import time
from contextlib import ExitStack, closing, nullcontext, suppress

from gateway.cli.edge import YOUNG_OBJECTS
from gateway.core.event import Kind
from gateway.edge.delivery import runs
from gateway.protocols.yamp.codec import encode
from gateway.protocols.yamp.frames import Format, Handshake
from gateway.records import egress_codec
from gateway.records.egress import Group
from gateway.records.egress_codec import EgressBuilder, Route
from tests.unit.edge.running import RunningEdge, configured, listener, running

NAME = "apps"
FRAME = b"x" * 200
EVENTS = (1, 4, 16)
ROUNDS = 12
RECORD_BYTES = 1_000_000
NEVER = 1_000_000_000


class Fan:
    """Sessions of an edge, and what is sent to all of them."""

    def __init__(self, edge: RunningEdge, peers: list[socket.socket]) -> None:
        self._edge, self._peers = edge, peers
        self._offset = 0

    def record(self, events: int) -> bytes:
        numbers = tuple(session.number for session in self._edge.life.sessions)
        route = Route(Kind.EVENT, "temp.high", "emm", self._edge.life.epoch, (Group("yamp", b"", sessions=numbers),))
        builder = EgressBuilder(0, self._offset, RECORD_BYTES)
        for index in range(events):
            builder.deliver(index, 0, route, time.time_ns() // 1000, FRAME)
        self._offset += 1
        [value] = builder.finish()
        return value

    async def deliver(self, events: int) -> float:
        """Seconds of processor time, until all of it is in the sockets and the outcomes are durable."""
        value, reader = self.record(events), self._edge.kafka.reader_
        begin = time.process_time()
        reader.put(egress_codec.decode(value))
        while not reader.commits or reader.commits[-1].checkpoint.offset < self._offset:
            await asyncio.sleep(0.01)
            self._edge.life.tick()
        spent = time.process_time() - begin
        assert self.read() == events * len(FRAME) * len(self._peers)
        return spent

    def read(self) -> int:
        """Returns how many bytes came to all peers."""
        taken = 0
        for peer in self._peers:
            with suppress(BlockingIOError):
                taken += len(peer.recv(1_000_000))
        return taken


def bare(events: int, count: int) -> float:
    """Seconds of processor time for one write to each of so many sockets."""
    data = FRAME * events
    with ExitStack() as ends:
        server = ends.enter_context(socket.create_server(("127.0.0.1", 0), backlog=count))
        pairs = []
        for _ in range(count):
            near = ends.enter_context(socket.create_connection(server.getsockname()))
            pairs.append((near, ends.enter_context(server.accept()[0])))
        best = float("inf")
        for _ in range(ROUNDS):
            begin = time.process_time()
            for near, _ in pairs:
                near.send(data)
            best = min(best, time.process_time() - begin)
            for _, far in pairs:
                far.recv(1_000_000)
    return best


async def connect(edge: RunningEdge, ends: ExitStack, count: int) -> list[socket.socket]:
    loop, peers = asyncio.get_running_loop(), []
    handshake = encode(Handshake(Format.JSON))
    for _ in range(count):
        peer = ends.enter_context(closing(socket.socket()))
        peer.setblocking(False)
        await loop.sock_connect(peer, ("127.0.0.1", edge.port(NAME)))
        await loop.sock_sendall(peer, handshake)
        await loop.sock_recv(peer, len(handshake))
        peers.append(peer)
    return peers


async def main(count: int, profiler: cProfile.Profile | None = None) -> None:
    shortest = runs.SHORTEST_RUN
    with ExitStack() as ends:
        async with running(configured(listener(NAME, "yamp"))) as edge:
            fan = Fan(edge, await connect(edge, ends, count))
            gc.freeze()  # as an edge does once it has begun
            gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
            for events in EVENTS if profiler is None else EVENTS[:1]:
                ways = (("one by one", NEVER), ("in runs", shortest)) if profiler is None else (("in runs", shortest),)
                for way, runs.SHORTEST_RUN in ways:
                    with profiler or nullcontext():
                        best = min([await fan.deliver(events) for _ in range(ROUNDS)])
                    print(
                        f"{count} sessions, records of {events:2} events  {way:10}  {best / count / events * 1e6:6.2f}"
                    )
                if profiler is None:
                    print(f"{'sockets':>52}  {bare(events, count) / count / events * 1e6:6.2f}")


def profile(count: int) -> None:
    profiler = cProfile.Profile()
    asyncio.run(main(count, profiler))
    pstats.Stats(profiler).sort_stats("tottime").print_stats(35)


if __name__ == "__main__":
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    profile(sessions) if len(sys.argv) > 2 else asyncio.run(main(sessions))
