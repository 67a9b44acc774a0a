"""Subscribers and servers of the stream protocols."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.bench.arrivals import Arrivals
from gateway.bench.marker import Marker
from gateway.bench.messages import Collected, Expect, Go, PeerPlace, Probed, Ready
from gateway.bench.quiescence import LOOK_SECONDS, Quiescence
from gateway.bench.stream_clients import BenchClient, close_all, echo, open_clients, open_subscribers, run_loop
from gateway.bench.worker_process import Orders, Stopwatch, settle_memory
from gateway.bench.workload import Workload


def receive_events(orders: Orders, work: Workload, place: PeerPlace, subscribers: int) -> None:
    run_loop(_receive(orders, work, place, subscribers), subscribers)


async def _receive(orders: Orders, work: Workload, place: PeerPlace, subscribers: int) -> None:
    marker = Marker(work.run)
    arrivals = [Arrivals(marker, work.sessions) for _ in range(subscribers)]
    clients = await open_subscribers(place, work.subject, arrivals)
    orders.report(Ready())
    go = asyncio.create_task(orders.wait_async(Go))
    await _until(lambda: len(arrivals[0].probed) == work.sessions or go.done())
    orders.report(Probed())
    await go
    settle_memory()
    watch = Stopwatch()
    expect = await orders.wait_async(Expect)
    await _until(Quiescence(arrivals, expect).is_over)
    orders.report(Collected(tuple(arrival.noted() for arrival in arrivals), watch.cpu_seconds))
    await close_all(clients)


async def _until(is_over: Callable[[], bool]) -> None:
    while not is_over():  # noqa: ASYNC110 - whoever notes an arrival does nothing besides
        await asyncio.sleep(LOOK_SECONDS)


def serve_requests(orders: Orders, work: Workload, place: PeerPlace, servers: int) -> None:
    run_loop(_serve(orders, work, place, servers), servers)


async def _serve(orders: Orders, work: Workload, place: PeerPlace, servers: int) -> None:
    """Answers requests. The requester measures, so there is nothing to note here."""
    clients = await open_clients(BenchClient, place, servers)
    await asyncio.gather(*(client.serve(work.subject, echo) for client in clients))
    orders.report(Ready())
    await orders.wait_async(Go)
    watch = Stopwatch()
    await orders.wait_async(Expect)
    orders.report(Collected((), watch.cpu_seconds))
    await close_all(clients)
