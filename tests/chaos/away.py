"""The broker is away for minutes while everybody goes on sending: streams wait, datagrams are dropped and counted.

What an edge does meanwhile is what its own `/metrics` and the system say. Afterwards each datagram must be in its
counts or in the kernel's, none of its sessions closed, and all must hold that a run of chaos asks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.chaos.mesh import BROKER
from tests.chaos.plan import Blow, How
from tests.chaos.scenario import Rates, Run
from tests.chaos.told import samples, total

IN_FLIGHT_BYTES = 4 * 2**20
"""Of each edge: full after a few seconds at these rates."""
RATES = Rates(hsp=200.0, udp=200.0, requests=2.0, unacknowledged=4_000, padding_bytes=4_096)
EDGES = ("edge-0", "edge-1")
OVER_BYTES = 512 * 1024
"""What sessions had read when they were told to stop, and what the mesh says of itself."""
MORE_MEMORY = 4
"""Times the bound: a frame that waits is in a record, in the producer's batch and perhaps in a compressed one."""
LOOK_SECONDS = 1.0
SETTLE_SECONDS = 60.0


def blow(seconds: float) -> Blow:
    return Blow(How.AWAY, (BROKER,), seconds)


@dataclass(frozen=True)
class Counts:
    """Returns what became of an edge's datagrams and of its sessions."""

    received: int
    overload: int
    kernel_dropped: int
    closed: int
    in_flight_bytes: int

    @classmethod
    def ask(cls, management: str) -> Counts:
        told = samples(management)
        return cls(
            received=total(told, "received_frames_total", listener="devices"),
            overload=total(told, "rejected_frames_total", listener="devices", reason="overload"),
            kernel_dropped=total(told, "udp_kernel_dropped_total", listener="devices"),
            closed=total(told, "connections_closed_total"),
            in_flight_bytes=total(told, "in_flight_bytes"),
        )


@dataclass
class Seen:
    """Counts of one edge, from before the load to the last look."""

    first: Counts
    memory_before: int
    last: Counts
    memory: int = 0
    in_flight_bytes: int = 0


@dataclass
class Watch:
    """Looks at the edges as long as the run lasts."""

    _run: Run = field(init=False)
    _seen: dict[str, Seen] = field(default_factory=dict)

    def begin(self, run: Run) -> None:
        self._run = run
        for edge in EDGES:
            counts = Counts.ask(run.mesh.management(edge))
            self._seen[edge] = Seen(counts, run.mesh.usage()[edge][1], counts)

    async def look(self) -> None:
        while True:
            for edge, seen in self._seen.items():
                await asyncio.to_thread(self._look, edge, seen)
            await asyncio.sleep(LOOK_SECONDS)

    def _look(self, edge: str, seen: Seen) -> None:
        seen.last = Counts.ask(self._run.mesh.management(edge))
        seen.memory = max(self._run.mesh.usage()[edge][1], seen.memory)
        seen.in_flight_bytes = max(seen.last.in_flight_bytes, seen.in_flight_bytes)

    def judge(self, say: Callable[[str], None]) -> Iterator[str]:
        """What it has seen is said; the faults are given."""
        for edge, seen in self._seen.items():
            yield from self._judge(edge, seen, say)

    def _judge(self, edge: str, seen: Seen, say: Callable[[str], None]) -> Iterator[str]:
        sent = self._settle(edge, seen)
        received, overload, dropped, closed = (
            getattr(seen.last, name) - getattr(seen.first, name)
            for name in ("received", "overload", "kernel_dropped", "closed")
        )
        grown = seen.memory - seen.memory_before
        say(
            f"{edge}: {sent} datagrams sent = {received} received ({overload} of them dropped for overload)"
            f" + {dropped} dropped by the kernel; {closed} sessions closed; at most {seen.in_flight_bytes:,} bytes"
            f" in flight; memory grew by {grown / 2**20:.1f} to {seen.memory / 2**20:.1f} MiB"
        )
        if sent != received + dropped:
            yield f"{edge}: {sent - received - dropped} datagrams are in nobody's counts"
        if not overload:
            yield f"{edge} never dropped a datagram: it was not put to the test"
        if closed:
            yield f"{edge} closed {closed} sessions"
        if seen.in_flight_bytes > IN_FLIGHT_BYTES + OVER_BYTES:
            yield f"{edge} had {seen.in_flight_bytes} bytes in flight"
        if grown > MORE_MEMORY * IN_FLIGHT_BYTES:
            yield f"{edge} grew by {grown} bytes"

    def _settle(self, edge: str, seen: Seen) -> int:
        """Datagrams that went to the edge, all of which it has counted by now. The kernel's it counts once a second."""
        deadline, before = time.monotonic() + SETTLE_SECONDS, seen.first.received + seen.first.kernel_dropped
        sent = self._run.network.forwarded[self._run.mesh.port(edge, "devices")]
        while seen.last.received + seen.last.kernel_dropped - before < sent and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            self._look(edge, seen)
        return sent
