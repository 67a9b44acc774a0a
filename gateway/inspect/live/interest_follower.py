"""Follows who wants what, at a pace that disturbs nobody: from the start of the compacted topic, a little at a time."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from gateway.config import Config
from gateway.core.clock import now_us
from gateway.inspect.live.current_interests import order
from gateway.inspect.live.kafka_thread import KafkaThread
from gateway.interests import Interest, InterestTable
from gateway.interests.records import apply_record
from gateway.kafka.interest_reader import InterestReader

if TYPE_CHECKING:
    from kafka import KafkaConsumer

RECORDS_PER_POLL = 500
POLL_SECONDS = 0.25
"""So 2,000 records a second at most, which take a fiftieth of a core."""
MOST_INTERESTS = 20_000
"""Held in memory: a mesh may have many more, and nobody reads them on a page. Beyond it, what comes is left out."""
SHOWN_INTERESTS = 100


class InterestFollower(KafkaThread):
    """Follows the interests.

    `shown` are the first of those that hold. `count` counts all that were read. `is_whole` means that nothing was left
    out.
    """

    consumer_settings: ClassVar = {"max_poll_records": RECORDS_PER_POLL, "auto_offset_reset": "earliest"}

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.shown: Sequence[Interest] = ()
        self.count = 0
        self.is_whole = False

    def read(self, consumer: KafkaConsumer) -> None:
        reader, table, has_caught_up = InterestReader(self.config, lambda _: consumer), InterestTable(), False
        while not self.stopping.wait(POLL_SECONDS):
            for key, value in reader.poll(timeout_ms=0):
                if value is None or len(table) < MOST_INTERESTS:
                    apply_record(table, key, value)
            has_caught_up = has_caught_up or reader.is_at_end
            self._show(table, has_caught_up)

    def _show(self, table: InterestTable, has_caught_up: bool) -> None:
        now = now_us()
        alive = [interest for interest in table if interest.alive_at(now)]
        self.shown, self.count = heapq.nsmallest(SHOWN_INTERESTS, alive, key=order), len(alive)
        self.is_whole = has_caught_up and len(table) < MOST_INTERESTS
