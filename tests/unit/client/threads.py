"""A loopback mesh beside the test, for verbs that run a loop of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

from gateway.client import connect
from gateway.client.serving import Handler
from tests.unit.client.loopback import LoopbackMesh, loopback
from tests.unit.client.loops import SECONDS

ResultT = TypeVar("ResultT")


@contextmanager
def mesh_beside(protocol: str) -> Iterator[LoopbackMesh]:
    """Only to be looked at from here; what is to be done to it is done in its loop."""
    started: Future[LoopbackMesh] = Future()
    stop = threading.Event()

    async def live() -> None:
        async with loopback(protocol) as mesh:
            started.set_result(mesh)
            await asyncio.to_thread(stop.wait)

    ended = _in_thread(lambda: asyncio.run(live()))
    try:
        yield started.result(SECONDS)
    finally:
        stop.set()
        ended.result(SECONDS)


@contextmanager
def served(mesh: LoopbackMesh, pattern: str, handler: Handler) -> Iterator[None]:
    """A client of the mesh serves it while the block runs."""
    began: Future[None] = Future()
    stop = asyncio.run_coroutine_threadsafe(_event(), mesh.loop).result(SECONDS)

    async def live() -> None:
        async with connect(mesh.spec.name, "127.0.0.1", mesh.port) as client:
            await client.serve(pattern, handler)
            began.set_result(None)
            await stop.wait()

    ended = asyncio.run_coroutine_threadsafe(live(), mesh.loop)
    began.result(SECONDS)
    yield
    mesh.loop.call_soon_threadsafe(stop.set)
    ended.result(SECONDS)


async def _event() -> asyncio.Event:
    return asyncio.Event()


@contextmanager
def beside(work: Callable[[], ResultT]) -> Iterator[Future[ResultT]]:
    """The work goes on while the block runs, and must be over soon after it."""
    future = _in_thread(work)
    yield future
    future.result(SECONDS)


def _in_thread(work: Callable[[], ResultT]) -> Future[ResultT]:
    """Not one of a pool, which would wait for a thread that hangs."""
    future: Future[ResultT] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as failed:
            future.set_exception(failed)

    threading.Thread(target=run, daemon=True).start()
    return future
