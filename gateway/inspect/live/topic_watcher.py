"""Watches topics on a thread of its own, lightly (see `topic_sampler`): the latest rows, and the busiest subjects."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from gateway.config import Config
from gateway.config.topics import TopicName
from gateway.inspect.live.busy_subjects import SubjectSample
from gateway.inspect.live.kafka_thread import KafkaThread
from gateway.inspect.live.rows import Row, RowFilter, rows_of
from gateway.inspect.live.topic_sampler import Seen, TopicSampler
from gateway.kafka.records import TopicRecord

if TYPE_CHECKING:
    from kafka import KafkaConsumer

INTERVAL_SECONDS = 1.0
ROWS_KEPT = 100
"""The rows kept of each topic: what a person can still read."""
EVERYTHING = RowFilter()

Names = Callable[[], frozenset[TopicName]]


class TopicWatcher(KafkaThread):
    """Watches topics. `names` is called before each look, and returns what to watch."""

    def __init__(self, config: Config, names: Names) -> None:
        super().__init__(config)
        self._names = names
        self._rows: dict[TopicName, deque[tuple[int, Row]]] = {}
        self._numbers: dict[TopicName, int] = {}
        self._first = time.time_ns() // 1_000_000  # whoever reads on from an earlier watch misses nothing
        self._skipped: dict[TopicName, int] = {}
        self._lock = threading.Lock()
        self.subjects = SubjectSample()
        self.nodes = SubjectSample()

    def rows(self, name: TopicName, after: int = 0) -> list[tuple[int, Row]]:
        """Returns the latest rows beyond `after`, each with its number."""
        with self._lock:
            return [(number, row) for number, row in self._rows.get(name, ()) if number > after]

    def skipped(self, name: TopicName) -> int:
        """Returns how many records passed unread since the topic is watched."""
        with self._lock:
            return self._skipped.get(name, 0)

    # -- on its thread -------------------------------------------------------------------------------------------

    def read(self, consumer: KafkaConsumer) -> None:
        sampler = TopicSampler(self.config, consumer)
        while not self.stopping.is_set():
            sampler.watch(self._names())
            self.take(sampler.look())
            self.stopping.wait(INTERVAL_SECONDS)

    def take(self, seen: Seen) -> None:
        with self._lock:
            for name, records in seen.records.items():
                self._skipped[name] = self._skipped.get(name, 0) + seen.skipped.get(name, 0)
                kept = self._rows.setdefault(name, deque(maxlen=ROWS_KEPT))
                for row in newest_rows(name, records):
                    number = self._numbers[name] = self._numbers.get(name, self._first) + 1
                    kept.append((number, row))
            if "events" in seen.records:
                rows = [row for record in seen.records["events"] for row in rows_of("events", record, EVERYTHING)]
                self.subjects.add(row.subject for row in rows if row.subject)
                self.nodes.add(row.node for row in rows if row.node)


def newest_rows(name: TopicName, records: list[TopicRecord]) -> list[Row]:
    """Returns as many rows as are kept, the oldest first. One record of `raw` alone may hold hundreds."""
    records = sorted(records, key=lambda each_record: each_record.logged_at, reverse=True)
    newest_first = (row for record in records for row in reversed(list(rows_of(name, record, EVERYTHING))))
    return list(islice(newest_first, ROWS_KEPT))[::-1]
