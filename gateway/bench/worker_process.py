"""A child's own side: its orders, its end, and what it takes from the system before it begins."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from gateway.bench.messages import Failed, Order, Report
from gateway.bench.workload import WorkError
from gateway.client import ClientError
from gateway.client.driver import why
from gateway.core.reasons import Rejected

log = logging.getLogger(__name__)

OrderT = TypeVar("OrderT", bound=Order)


class Orders:
    """Raises EOFError where the measuring process is gone."""

    def __init__(self, pipe: Connection[Report, Order]) -> None:
        self._pipe = pipe

    def report(self, report: Report) -> None:
        self._pipe.send(report)

    def report_last(self, report: Report) -> None:
        """Sends the last report. If another child failed first, the measuring process has hung up by now."""
        with suppress(BrokenPipeError):
            self.report(report)

    def fileno(self) -> int:
        """Returns the descriptor that is readable when there is an order."""
        return self._pipe.fileno()

    def comes_within(self, seconds: float) -> bool:
        return self._pipe.poll(seconds)

    def wait(self, kind: type[OrderT]) -> OrderT:
        order = self._pipe.recv()
        if not isinstance(order, kind):
            raise TypeError(f"{type(order).__name__} instead of {kind.__name__}")
        return order

    async def wait_async(self, kind: type[OrderT]) -> OrderT:
        return await asyncio.to_thread(self.wait, kind)


Role = Callable[..., None]


def run(pipe: Connection[Report, Order], role: Role, arguments: tuple[Any, ...]) -> None:
    """The child's main. Ctrl-C is the parent's to handle, which ends its children."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    orders = Orders(pipe)
    try:
        allow_many_files()
        role(orders, *arguments)
    except (EOFError, BrokenPipeError):
        return
    except (ClientError, WorkError, Rejected) as failed:
        orders.report_last(Failed(str(failed)))
    except OSError as failed:
        orders.report_last(Failed(why(failed)))
    except Exception as fault:
        log.exception("a child failed")
        orders.report_last(Failed(f"internal: {type(fault).__name__}: {fault}"))


def allow_many_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def settle_memory() -> None:
    """Keeps all present objects until the end: a collection would take longer than a frame may be late."""
    gc.collect()
    gc.freeze()
    gc.disable()


class Stopwatch:
    """Measures the processor time of this process since it was made, and how late each wake-up was."""

    def __init__(self) -> None:
        self._started = time.process_time()
        self._late = array("q")

    def woke(self, late_ns: int) -> None:
        self._late.append(late_ns)

    @property
    def late(self) -> bytes:
        return self._late.tobytes()

    @property
    def cpu_seconds(self) -> float:
        return time.process_time() - self._started
