"""The Python worker of a lane: one process, kept from batch to batch.

It routes the records of one raw partition in their order, and keeps two things in memory that follow from the log up to
the record at hand: the interests that stand, and the ids that have passed (see `ordered_pass`).

At the beginning of each task the worker reads the compacted topic `interests` to its end, for what
the last commit covers is in it. From there on the table changes only by frames in the raw log.
"""

from __future__ import annotations

import logging
import time
from functools import cache
from pathlib import Path

from kafka import KafkaConsumer, TopicPartition
from pyspark import TaskContext

from gateway.auth.trust_store import TrustStore
from gateway.clock import now_us
from gateway.config import Config, load
from gateway.config.watch import ConfigWatch, Reloaded
from gateway.event import SECOND_US
from gateway.interests.records import apply_record
from gateway.interests.table import InterestTable
from streaming_jobs.router.counts import KNOWN_IDS, KNOWN_IDS_BYTES, REBUILD_MILLISECONDS, CountFile, path_of
from streaming_jobs.router.ordered_pass import OrderedPass
from streaming_jobs.router.plan import PlainRow
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.rows import RowFunctions
from streaming_jobs.routing.traces import RouterTraces

log = logging.getLogger(__name__)
SYNC_SECONDS = 30
"""Kafka must answer within this at the start of a task; else the task fails and Spark tries again."""


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
        self._pass = OrderedPass(self._rows, self._checkpoint)
        self._counts: dict[int, CountFile] = {}
        self._task = -1

    def route(self, value: bytes, partition: int, offset: int) -> PlainRow:
        """Routes a record."""
        context = TaskContext.get()
        if context is not None and context.taskAttemptId() != self._task:
            self._task = context.taskAttemptId()
            self._interests.catch_up(self._state.table)
        self._refresh()
        routed = self._pass.route(value, partition, offset, now_us() // SECOND_US)
        self._count(partition, offset)
        return routed.log_seconds, offset, routed.ids, [tuple(out) for out in routed.outs]

    def _count(self, partition: int, offset: int) -> None:
        if partition not in self._counts:
            self._counts[partition] = CountFile(path_of(self._checkpoint, partition))
        known = self._rows.known
        states = {
            KNOWN_IDS: len(known),
            KNOWN_IDS_BYTES: known.memory_bytes,
            REBUILD_MILLISECONDS: int(self._pass.rebuild_seconds * 1000),
        }
        self._counts[partition].add(offset, self._state.tally.take(), states)

    def _refresh(self) -> None:
        """New settings and keys; both look at their files at most once a second."""
        if isinstance(change := self._watch.poll(), Reloaded):
            self._state.reconfigure(change.config)
        if self._trust.changed():
            self._state.use_keys(self._trust.keys, self._trust.identity)


class InterestReader:
    """Reads the compacted topic from where it stopped to its end."""

    def __init__(self, config: Config) -> None:
        self._topic = config.topic("interests")
        self._settings = config.kafka.client_settings()
        self._consumer: KafkaConsumer | None = None

    def catch_up(self, table: InterestTable) -> None:
        consumer = self._consumer = self._consumer or self._connect()
        ends = consumer.end_offsets(consumer.assignment())
        deadline = time.monotonic() + SYNC_SECONDS
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._topic} could not be read to its end in {SYNC_SECONDS} s")
            for records in consumer.poll(timeout_ms=500).values():
                for record in records:
                    apply_record(table, record.key, record.value)

    def _connect(self) -> KafkaConsumer:
        consumer = KafkaConsumer(**self._settings, enable_auto_commit=False, auto_offset_reset="earliest")
        partitions = consumer.partitions_for_topic(self._topic) or set()
        consumer.assign([TopicPartition(self._topic, partition) for partition in partitions])
        return consumer


class RoutePass:
    """The row function as Spark ships it: two paths, so no key or setting ever stands in a closure."""

    def __init__(self, config_path: str, state_dir: str | None = None) -> None:
        self._config_path = config_path
        self._state_dir = state_dir

    def __call__(self, value: bytes, partition: int, offset: int) -> PlainRow:
        return worker(self._config_path, self._state_dir).route(value, partition, offset)


@cache
def worker(config_path: str, state_dir: str | None) -> Worker:
    """The one of this process."""
    return Worker(config_path, state_dir)
