"""Requests as they fall due; what is measured is the time from then to the answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from gateway.bench.arrivals import Arrivals
from gateway.bench.marker import Marker, probe_of
from gateway.bench.messages import Go, PeerPlace, Probed, Ready, SendProbe, SendReport
from gateway.bench.pacing import PROBE_SECONDS, due_now, now_ns, pause
from gateway.bench.schedule import Schedule
from gateway.bench.stream_clients import BenchClient, close_all, open_clients, run_loop
from gateway.bench.worker_process import Orders, Stopwatch
from gateway.bench.workload import Workload
from gateway.client import EndedError, NoAnswerError, StreamClient
from gateway.core.content import JSON
from gateway.core.event import Kind

ANSWERED = "answered"
NO_ANSWER = "no_answer"
"""Given up here; the mesh's own `timeout` is an answer."""


def generate_requests(orders: Orders, work: Workload, place: PeerPlace, answer_seconds: float) -> None:
    """Sends requests, and waits `answer_seconds` for each answer."""
    run_loop(_generate(orders, work, place, answer_seconds), work.sessions)


async def _generate(orders: Orders, work: Workload, place: PeerPlace, answer_seconds: float) -> None:
    clients = await open_clients(BenchClient, place, work.sessions)
    requester = Requester(work, clients, answer_seconds)
    orders.report(Ready())
    await orders.wait_async(SendProbe)
    go = asyncio.create_task(orders.wait_async(Go))
    await requester.probe(go)
    orders.report(Probed())
    orders.report(await requester.ask_all(Schedule((await go).start, work.rate, work.total)))
    await close_all(clients)


class Requester:
    def __init__(self, work: Workload, clients: Sequence[StreamClient], answer_seconds: float) -> None:
        self._work = work
        self._clients = clients
        self._seconds = answer_seconds
        self._marker = Marker(work.run)
        self._arrivals = Arrivals(self._marker, work.sessions)
        self._outcomes: Counter[str] = Counter()
        self._open: set[asyncio.Task[None]] = set()

    async def probe(self, go: asyncio.Task[Go]) -> None:
        """Asks by each session in turn, until each has been answered once or the order to go comes."""
        attempt = 0
        while len(self._arrivals.probed) < self._work.sessions and not go.done():
            missing = set(range(self._work.sessions)) - self._arrivals.probed
            probes = (self._ask(session, probe_of(session, attempt, self._work.sessions)) for session in missing)
            await asyncio.gather(*probes)
            attempt += 1
            if len(self._arrivals.probed) < self._work.sessions:
                await asyncio.wait((go,), timeout=PROBE_SECONDS)

    async def ask_all(self, schedule: Schedule) -> SendReport:
        self._outcomes.clear()
        watch, sent = Stopwatch(), 0
        while sent < schedule.total:
            now = now_ns()
            requests_due = due_now(schedule, sent, now)
            if requests_due <= sent:
                await asyncio.sleep(pause(schedule, sent, now))
                continue
            watch.woke(now - schedule.due(sent))
            for index in range(sent, requests_due):
                self._begin(index)
            sent = requests_due
            await asyncio.sleep(0)
        ended = now_ns()
        await asyncio.gather(*self._open)
        return SendReport(sent, ended, watch.late, watch.cpu_seconds, self._outcomes, self._arrivals.noted())

    def _begin(self, index: int) -> None:
        task = asyncio.create_task(self._ask(index % len(self._clients), index))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _ask(self, session: int, index: int) -> None:
        body = self._marker.body(index, self._work.size)
        try:
            answer = await self._clients[session].request(self._work.subject, body, JSON, timeout=self._seconds)
        except NoAnswerError:
            self._outcomes[NO_ANSWER] += 1
            return
        except EndedError as ended:
            self._outcomes[ended.reason] += 1
            return
        if answer.kind is Kind.RESPONSE:
            self._arrivals.take(answer.body)
        self._outcomes[ANSWERED if answer.ok else answer.code] += 1
