"""Writes each delivery's outcome into `deliveries`, many to a record, and undeliverable ones into `rejected` too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from gateway.config import Config
from gateway.core.reasons import Reason, Rejected, Stage
from gateway.edge.delivery.offset_tracker import CommittedState, OffsetTracker
from gateway.edge.partitions import records_since
from gateway.edge.producer import NotTaken, Sends
from gateway.records import deliveries
from gateway.records.deliveries import DeliveryOutcome, RunOutcome
from gateway.records.rejected_frame import TRUNCATED_HEADER, kept_part

FLUSH_SECONDS = 0.05
OUTCOMES_PER_RECORD = 1_000
RUN_BYTES_PER_OUTCOME = 256
"""So many bytes of a run count as one more outcome. A record of outcomes stays below half a megabyte by that."""

OWED_KEY = b"owed"
"""The key of records with outcomes of owed deliveries, so that a start that looks far back for them reads no others."""
CLOCK_STEP_MS = 10_000
"""The most by which this host's clock may have been set back between two starts."""
LOOK_BACK_SECONDS = 60.0


def partition_of(config: Config) -> int:
    """Returns the one partition that this edge writes its outcomes to, so that it need not read all of them back."""
    return config.edge_ordinal % config.kafka.topic("deliveries").partitions


class OutcomeLog:
    """Writes outcomes, in the event loop. `failed` is called if Kafka will not take an outcome at all."""

    def __init__(
        self, config: Config, producer: Sends, tracker: OffsetTracker, failed: Callable[[BaseException], None]
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._producer = producer
        self._tracker = tracker
        self._failed = failed
        self._edge = config.edge.id
        self._deliveries, self._rejected = config.topic("deliveries"), config.topic("rejected")
        self._partition = partition_of(config)
        self._rows: dict[bool, list[DeliveryOutcome]] = {False: [], True: []}
        self._runs: list[RunOutcome] = []
        self._run_weight = 0
        self._offsets: dict[bool, dict[int, int]] = {False: {}, True: {}}
        self._flush_is_due = False

    def add(self, row: DeliveryOutcome, offset: int, *, owed: bool = False) -> None:
        """Adds an outcome. `offset` is that of the egress record, which was opened in the tracker for this."""
        self._rows[owed].append(row)
        self._added(offset, 1, owed)

    def add_run(self, run: RunOutcome, offset: int, deliveries: int) -> None:
        """Adds the outcome of a run, which stands for so many `deliveries`."""
        self._runs.append(run)
        self._run_weight += 1 + (len(run.indices) + len(run.receivers)) // RUN_BYTES_PER_OUTCOME
        self._added(offset, deliveries, owed=False)

    def _added(self, offset: int, deliveries: int, owed: bool) -> None:
        offsets = self._offsets[owed]
        offsets[offset] = offsets.get(offset, 0) + deliveries
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_later(FLUSH_SECONDS, self.flush)
        if len(self._rows[owed]) + (0 if owed else self._run_weight) >= OUTCOMES_PER_RECORD:
            self._write(owed)

    def reject(self, row: DeliveryOutcome, frame: bytes, headers: dict[str, str], offset: int, *, owed: bool) -> None:
        """Writes an undeliverable frame into `rejected`, where it can be looked at and sent through again."""
        why = {"reason": Reason.UNDELIVERABLE, "stage": Stage.DELIVER, "detail": row.detail}
        kept, truncated_bytes = kept_part(frame)
        cut = {TRUNCATED_HEADER: str(truncated_bytes)} if truncated_bytes else {}
        fields = why | {"event_id": row.event_id} | headers | cut
        encoded = [(name, value.encode()) for name, value in fields.items()]
        self._tracker.open(offset, owed=owed)
        self._send(self._rejected, kept, {offset: 1}, owed, headers=encoded)

    def flush(self) -> None:
        self._flush_is_due = False
        for owed in self._rows:
            self._write(owed)

    def _write(self, owed: bool) -> None:
        rows, self._rows[owed] = self._rows[owed], []
        offsets, self._offsets[owed] = self._offsets[owed], {}
        runs: list[RunOutcome] = []
        if not owed:
            runs, self._runs, self._run_weight = self._runs, [], 0
        if rows or runs:
            value, key = deliveries.encode(self._edge, rows, runs), OWED_KEY if owed else None
            self._send(self._deliveries, value, offsets, owed, key=key, partition=self._partition)

    def _send(self, topic: str, value: bytes, offsets: Mapping[int, int], owed: bool, **settings: Any) -> None:
        self._producer.send(topic, value, partial(self._sent, offsets, owed), **settings)

    def _sent(self, offsets: Mapping[int, int], owed: bool, error: NotTaken | None, _at: int, _took: float) -> None:
        """Notes that a record was sent. It is called in the producer's thread."""
        self._loop.call_soon_threadsafe(self._settle, offsets, owed, error)

    def _settle(self, offsets: Mapping[int, int], owed: bool, error: NotTaken | None) -> None:
        if error is not None:
            self._failed(error)
            return
        for offset, count in offsets.items():
            self._tracker.settle(offset, count, owed=owed)


class KnownOutcomes:
    """The outcomes that an earlier life of this edge has written, for records that are read again."""

    def __init__(self) -> None:
        self._outcomes: set[tuple[str, int, str]] = set()

    def __len__(self) -> int:
        return len(self._outcomes)

    def clear(self) -> None:
        self._outcomes.clear()

    def add(self, row: DeliveryOutcome) -> None:
        self._outcomes.add((row.event_id, row.part, row.destination))

    def take(self, event_id: str, part: int, destination: str) -> bool:
        """Returns True if the outcome is known, and forgets it: nobody asks for it again."""
        key = event_id, part, destination
        is_known = key in self._outcomes
        self._outcomes.discard(key)
        return is_known


def look_back(config: Config, resumption: CommittedState) -> KnownOutcomes:
    """Reads `deliveries` from the time of what was committed. Blocks. Raises SetupError, TimeoutError."""
    outcomes = KnownOutcomes()
    since_ms = min(resumption.checkpoint.at_ms, resumption.sessions_ms) - CLOCK_STEP_MS
    all_from_ms = resumption.sessions_ms - CLOCK_STEP_MS
    topic = config.topic("deliveries")
    for record in records_since(config, topic, partition_of(config), since_ms, LOOK_BACK_SECONDS):
        if record.key() == OWED_KEY or record.timestamp()[1] >= all_from_ms:
            _add_rows(outcomes, record.value() or b"", config.edge.id)
    return outcomes


def _add_rows(outcomes: KnownOutcomes, value: bytes, edge: str) -> None:
    try:
        record = deliveries.decode(value)
    except Rejected:
        return  # of another version: what it says is lost on us, and its deliveries are judged as open
    if record.edge == edge:
        for row in record:
            outcomes.add(row)
