"""The measuring process's side of its children: started, waited for, and ended whatever happens."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import wait as wait_for
from types import TracebackType
from typing import Any, TypeVar

from gateway.bench import worker_process
from gateway.bench.messages import Collected, Failed, Order, Report, SendReport
from gateway.bench.worker_process import Role

END_SECONDS = 5.0
ReportT = TypeVar("ReportT", bound=Report)


class BenchError(Exception):
    """The run cannot begin or go on. The message names the peer or option at fault."""


class Child:
    """A process of its own, with an interpreter of its own: nothing of ours is copied into it."""

    def __init__(self, name: str, role: Role, *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = name
        self.is_done = False
        self._pipe, child_end = context.Pipe()
        self._process = context.Process(
            target=worker_process.run, args=(child_end, role, arguments), name=name, daemon=True
        )
        self._process.start()
        child_end.close()

    def tell(self, order: Order) -> None:
        """Sends an order. A child that has failed meanwhile says so when it is waited for."""
        try:
            self._pipe.send(order)
        except BrokenPipeError:
            return

    def wait(self, kind: type[ReportT], deadline: float, waiting_for: str) -> ReportT:
        """Returns the child's next report. `deadline` is in seconds, monotonic. Raises BenchError."""
        if not self._pipe.poll(max(deadline - time.monotonic(), 0.0)):
            raise BenchError(f"{self.name}: {waiting_for}")
        try:
            report: Report = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(END_SECONDS)
            raise BenchError(f"{self.name}: its process ended with code {self._process.exitcode}") from None
        if isinstance(report, Failed):
            raise BenchError(report.why)
        if not isinstance(report, kind):
            raise BenchError(f"{self.name}: internal: {type(report).__name__} instead of {kind.__name__}")
        self.is_done = isinstance(report, SendReport | Collected)
        return report

    @property
    def pipe(self) -> Any:
        return self._pipe

    def end(self) -> None:
        self._pipe.close()
        self._process.join(END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class Children:
    """Ends them when the block ends. `generator` sends; `receivers` get."""

    def __init__(self, generator: Child, receivers: Sequence[Child]) -> None:
        self.generator = generator
        self.receivers = tuple(receivers)

    @property
    def all(self) -> tuple[Child, ...]:
        return (*self.receivers, self.generator)

    def tell(self, order: Order) -> None:
        for child in self.all:
            child.tell(order)

    def each(self, kind: type[ReportT], seconds: float, waiting_for: str, children: Sequence[Child]) -> list[ReportT]:
        """Returns one report of each child. A child that fails is heard first. Raises BenchError."""
        deadline = time.monotonic() + seconds
        reports: dict[Child, ReportT] = {}
        while len(reports) < len(children):
            missing = {child.pipe: child for child in self.all if child not in reports and not child.is_done}
            ready = wait_for(list(missing), max(deadline - time.monotonic(), 0.0))
            if not ready:
                raise BenchError(waiting_for)
            for pipe in ready:
                child = missing[pipe]
                reports[child] = child.wait(kind, deadline, waiting_for)
        return [reports[child] for child in children]

    def __enter__(self) -> Children:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for child in self.all:
            child.end()
