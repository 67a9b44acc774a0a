"""The router's Python worker: one per process that Spark forks, kept between tasks.

Spark hands tasks to any worker, and a worker's interest table knows only what passed by it. So at the beginning of
each task the worker reads the compacted topic `interests` to its end; what the last commit covers is in it. From there
on the table changes only by frames in the raw log.
"""

from __future__ import annotations

import logging
import time
from functools import cache
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from gateway.auth.trust_store import TrustStore
from gateway.clock import now_us
from gateway.config import Config, load
from gateway.config.watch import ConfigWatch, Reloaded
from gateway.kafka.interest_reader import InterestReader
from streaming_jobs.router.counts import CountFile, path_of
from streaming_jobs.router.steady_clock import SteadyClock
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.rows import RowFunctions
from streaming_jobs.routing.traces import RouterTraces

log = logging.getLogger(__name__)

PlainRow = tuple[str, int, list[tuple[Any, ...]]]
"""A Row without its class: the JVM's unpickler knows tuples."""


class Worker:
    def __init__(self, config_path: str, state_dir: str | None = None) -> None:
        self._watch = ConfigWatch(load(Path(config_path), state_dir=state_dir), time.monotonic, Config.for_router)
        config = self._watch.config
        self._trust = TrustStore(config.trust, time.monotonic, entry=config.identity.key)
        self._state = MeshState(config, self._trust.keys, self._trust.identity, now_us)
        self._state.traces = RouterTraces.of(config)
        self._rows = RowFunctions(self._state)
        self._interests = InterestReader(config)
        self._checkpoint = Path(config.router.checkpoint)
        self._counts: dict[int, CountFile] = {}
        self._task = -1

    def route(self, value: bytes, partition: int, offset: int, now_seconds: int) -> list[PlainRow]:
        context = TaskContext.get()
        if context is not None and context.taskAttemptId() != self._task:
            self._task = context.taskAttemptId()
            self._interests.catch_up(self._state.table)
        self._refresh()
        rows = self._rows.route_record(value, partition, offset, now_seconds)
        self._count_file(partition).add(offset, self._state.tally.take())
        return [(row.key, row.at, [tuple(out) for out in row.outs]) for row in rows]

    def _count_file(self, partition: int) -> CountFile:
        if partition not in self._counts:
            self._counts[partition] = CountFile(path_of(self._checkpoint, partition))
        return self._counts[partition]

    def _refresh(self) -> None:
        """New settings and keys; both look at their files at most once a second."""
        if isinstance(change := self._watch.poll(), Reloaded):
            self._state.reconfigure(change.config)
        if self._trust.changed():
            self._state.use_keys(self._trust.keys, self._trust.identity)


class Routes:
    """The row function as Spark ships it: two paths and a clock, so no key or setting ever stands in a closure."""

    def __init__(self, config_path: str, clock: SteadyClock, state_dir: str | None = None) -> None:
        self._config_path = config_path
        self._state_dir = state_dir
        self._clock = clock

    def __call__(self, value: bytes, partition: int, offset: int) -> list[PlainRow]:
        return worker(self._config_path, self._state_dir).route(value, partition, offset, self._clock.now())


@cache
def worker(config_path: str, state_dir: str | None) -> Worker:
    """The one of this process."""
    return Worker(config_path, state_dir)
