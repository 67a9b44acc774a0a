"""Events of the stream protocols as they fall due, by turns over many sessions."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from gateway.bench.capacity import check_memory
from gateway.bench.marker import Marker, probe_of
from gateway.bench.messages import Go, PeerPlace, Ready, SendProbe, SendReport
from gateway.bench.pacing import PROBE_SECONDS, due_now, now_ns, pause
from gateway.bench.schedule import Schedule
from gateway.bench.stream_clients import StreamPublisher, close_all, open_clients, run_loop
from gateway.bench.worker_process import Orders, Stopwatch, settle_memory
from gateway.bench.workload import Workload
from gateway.protocols.actions import Delivery

CONFIRM_SECONDS = 5.0
"""The time for the last publications to be confirmed, if the protocol confirms."""
LOOK_SECONDS = 0.02


def generate_events(orders: Orders, work: Workload, place: PeerPlace) -> None:
    run_loop(_generate(orders, work, place), work.sessions)


async def _generate(orders: Orders, work: Workload, place: PeerPlace) -> None:
    clients = await open_clients(StreamPublisher, place, work.sessions)
    generator = StreamGenerator(work, clients)
    generator.prepare()
    settle_memory()
    orders.report(Ready())
    await orders.wait_async(SendProbe)
    go = asyncio.create_task(orders.wait_async(Go))
    attempt = 0
    while not go.done():
        generator.probe(attempt)
        attempt += 1
        await asyncio.wait((go,), timeout=PROBE_SECONDS)
    orders.report(await generator.send_all(Schedule(go.result().start, work.rate, work.total)))
    await close_all(clients)


class StreamGenerator:
    def __init__(self, work: Workload, clients: Sequence[StreamPublisher]) -> None:
        self._work = work
        self._clients = clients
        self._marker = Marker(work.run)
        self._frames: list[Delivery] = []

    def prepare(self) -> None:
        work = self._work
        check_memory(work.frames_bytes)
        self._frames = [self._frame(index, index % work.sessions) for index in range(work.total)]

    def _frame(self, index: int, session: int) -> Delivery:
        return self._clients[session].prepared(self._work.subject, self._marker.body(index, self._work.size))

    def probe(self, attempt: int) -> None:
        for session, client in enumerate(self._clients):
            client.put(self._frame(probe_of(session, attempt, self._work.sessions), session))

    async def send_all(self, schedule: Schedule) -> SendReport:
        """A session whose peer takes no more holds the others back too: what is sent late counts from when it was due,
        and nothing piles up here that the mesh has not taken."""
        watch, sent, total = Stopwatch(), 0, schedule.total
        for client in self._clients:
            client.outcomes.clear()
        while sent < total:
            now = now_ns()
            frames_due = due_now(schedule, sent, now)
            if frames_due <= sent:
                await asyncio.sleep(pause(schedule, sent, now))
                continue
            watch.woke(now - schedule.due(sent))
            self._burst(sent, frames_due)
            sent = frames_due
            await asyncio.sleep(0)  # the burst is written at the end of this turn of the loop
            for client in self._clients:
                await client.writable()
        ended = now_ns()
        return SendReport(sent, ended, watch.late, watch.cpu_seconds, await self._outcomes(sent))

    async def _outcomes(self, sent: int) -> Counter[str]:
        """Probes that are confirmed late are among them, so there may be more than there were frames."""
        deadline = asyncio.get_running_loop().time() + CONFIRM_SECONDS
        while (counts := sum((client.outcomes for client in self._clients), Counter[str]())).total() < sent:
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(LOOK_SECONDS)
        return counts

    def _burst(self, start: int, end: int) -> None:
        clients, frames = self._clients, self._frames
        count = len(clients)
        for index in range(start, end):
            clients[index % count].put(frames[index])
