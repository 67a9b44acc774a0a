"""Writes each delivery's outcome into `deliveries`, many to a record, and undeliverable ones into `rejected` too."""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

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
MOST_OWED_OUTCOMES = 10_000_000
"""A restart reads at most so many outcomes of what was owed: 90 MB, and some fifteen seconds."""
MOST_SESSION_OUTCOMES = 2_000_000
"""A restart remembers at most so many outcomes of what sessions got. What it does not know of more is said a second
time, as undeliverable, which changes nothing: of two outcomes the better one counts."""


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
    """The outcomes that an earlier life of this edge has written, for records that are read again.

    Each takes nine bytes: its hash, with a secret of this process, and whether it was asked for. Of ten million that
    are known and as many that are asked for, two different ones are taken for the same once in 200,000 restarts.
    """

    def __init__(self) -> None:
        self._hashes = array("Q")
        self._taken: bytearray | None = None
        """None until the hashes are in order."""

    def clear(self) -> None:
        self._hashes, self._taken = array("Q"), None

    def add(self, row: DeliveryOutcome) -> None:
        self._hashes.append(_hash(row.event_id, row.part, row.destination))
        self._taken = None

    def take(self, event_id: str, part: int, destination: str) -> bool:
        """Returns True if the outcome is known, the first time: a delivery that is redriven has the same name."""
        if self._taken is None:
            np.frombuffer(self._hashes, np.uint64).sort()
            self._taken = bytearray(len(self._hashes))
        wanted = _hash(event_id, part, destination)
        at = bisect_left(self._hashes, wanted)
        if at == len(self._hashes) or self._hashes[at] != wanted or self._taken[at]:
            return False
        self._taken[at] = True
        return True


def _hash(event_id: str, part: int, destination: str) -> int:
    return hash((event_id, part, destination)) & 0xFFFF_FFFF_FFFF_FFFF


def look_back(config: Config, resumption: CommittedState) -> KnownOutcomes:
    """Reads `deliveries` from the time of what was committed. Blocks. Raises SetupError, TimeoutError."""
    since_ms = min(resumption.checkpoint.at_ms, resumption.sessions_ms) - CLOCK_STEP_MS
    topic = config.topic("deliveries")
    records = records_since(config, topic, partition_of(config), since_ms, LOOK_BACK_SECONDS)
    found = ((record.key() == OWED_KEY, record.timestamp()[1], record.value() or b"") for record in records)
    return known_outcomes(found, config.edge.id, resumption.sessions_ms - CLOCK_STEP_MS)


def known_outcomes(records: Iterable[tuple[bool, int, bytes]], edge: str, sessions_from_ms: int) -> KnownOutcomes:
    """Returns the outcomes in records of `deliveries`.

    Args:
        records: of each, whether it tells of what is owed, its time in milliseconds, and its value.
        edge: whose outcomes are meant.
        sessions_from_ms: what was delivered to sessions is left out of older records.
    """
    outcomes, room = KnownOutcomes(), MOST_SESSION_OUTCOMES
    for is_owed, at_ms, value in records:
        if is_owed or (at_ms >= sessions_from_ms and room > 0):
            added = _add_rows(outcomes, value, edge, None if is_owed else room)
            room -= 0 if is_owed else added
    return outcomes


def _add_rows(outcomes: KnownOutcomes, value: bytes, edge: str, most: int | None) -> int:
    """Returns how many rows were added, at most `most`."""
    try:
        record = deliveries.decode(value)
    except Rejected:
        return 0  # of another version: what it says is lost on us, and its deliveries are judged as open
    count = 0
    if record.edge == edge:
        for count, row in enumerate(islice(record, most), 1):  # noqa: B007 - the last count is what is asked for
            outcomes.add(row)
    return count
