"""Reads this edge's egress partition, in a thread of its own, and hands what it reads to the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from gateway import egress
from gateway.config import Config
from gateway.edge.ledger import Checkpoint, Resumption
from gateway.egress import Egress
from gateway.reasons import Rejected

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
RECORDS_PER_POLL = 500
QUEUED_POLLS = 8
"""Polls handed over and not yet handled; then the reader waits. Bounds memory when sessions are slow to take."""
STOP_SECONDS = 5.0

Batch = list[tuple[int, Egress | None]]
"""Records with their offsets; None for one that no router wrote."""
Handle = Callable[[Batch], None]
"""Takes a batch, in the event loop; answers with `EgressReader.taken` when it has been handled."""
Failed = Callable[[BaseException], None]


class EgressReader:
    """`resumption`: where the last life of this edge had come to. `end`: of the partition at the start; what stands
    before it may have been handled by that life, what comes later was not."""

    def __init__(self, config: Config) -> None:
        self._partition = TopicPartition(config.topic("egress"), config.edge_ordinal)
        self._raw = config.topic("raw")
        self._consumer = KafkaConsumer(
            **config.kafka.client_settings(),
            group_id=f"{config.mesh}.edge.{config.edge.id}",
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # out of range: what is left is judged by its position
            max_poll_records=RECORDS_PER_POLL,
            fetch_max_wait_ms=500,
        )
        self._consumer.assign([self._partition])
        self.end: int = self._consumer.end_offsets([self._partition])[self._partition]
        self.resumption = self._committed()
        self._consumer.seek(self._partition, self.resumption.checkpoint.offset)
        self._stopping = threading.Event()
        self._room = threading.Semaphore(QUEUED_POLLS)
        self._thread: threading.Thread | None = None
        self._to_commit: Resumption | None = None
        self._committed_last: Resumption | None = None
        self._seen_to: int = self.end

    def _committed(self) -> Resumption:
        committed = self._consumer.committed(self._partition, metadata=True)
        if committed is None:
            return Resumption(0, Checkpoint(self.end))
        return self._plausible(Resumption.from_metadata(committed.offset, committed.metadata))

    def _plausible(self, found: Resumption) -> Resumption:
        """Topics may have been made anew since. Positions beyond the end of the raw log would keep everything out, and
        an offset beyond the end of the partition says nothing."""
        positions = found.checkpoint.positions
        raw = {TopicPartition(self._raw, number): number for number in positions}
        ends = self._consumer.end_offsets(list(raw)) if raw else {}
        known = {raw[one]: positions[raw[one]] for one, end in ends.items() if positions[raw[one]].offset < end}
        if len(known) == len(positions) and found.checkpoint.offset <= self.end:
            return found
        log.warning("the topics are not those of this edge's last commit, of which only what fits them is kept")
        offset = min(found.checkpoint.offset, self.end)
        return replace(found, checkpoint=replace(found.checkpoint, offset=offset, positions=known))

    def lag(self, handled_to: int) -> int:
        """Records that stand in the partition and have not been handled."""
        return max(self._seen_to - handled_to, 0)

    def start(self, handle: Handle, failed: Failed) -> None:
        """`failed` is told, in the event loop, what the reader died of."""
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, args=(loop, handle, failed), name="egress", daemon=True)
        self._thread.start()

    def commit_now(self, resumption: Resumption) -> None:
        """Before `start`, or in the reader's thread; blocks. Raises KafkaError."""
        offset = OffsetAndMetadata(resumption.checkpoint.offset, resumption.to_metadata(), -1)
        self._consumer.commit({self._partition: offset})
        self._committed_last = resumption

    def commit(self, resumption: Resumption) -> None:
        """Soon, in the reader's thread."""
        self._to_commit = resumption

    def taken(self) -> None:
        """The loop has handled a batch."""
        self._room.release()

    def stop(self) -> None:
        """Blocks for a moment. The last commit goes out before."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=STOP_SECONDS)
        self._consumer.close()

    # -- in the reader's thread --------------------------------------------------------------------------------

    def _run(self, loop: asyncio.AbstractEventLoop, handle: Handle, failed: Failed) -> None:
        try:
            while not self._stopping.is_set():
                batch = self._poll()
                if batch and self._wait_for_room():
                    loop.call_soon_threadsafe(handle, batch)
                self._commit()
            self._commit()
        except Exception as error:
            # An edge that reads nothing any more must not look alive.
            log.exception("the egress partition is not read any more")
            loop.call_soon_threadsafe(failed, error)

    def _wait_for_room(self) -> bool:
        while not self._room.acquire(timeout=POLL_SECONDS):
            if self._stopping.is_set():
                return False
            self._commit()
        return True

    def _poll(self) -> Batch:
        """Kafka being away is waited for; a record that no router wrote is skipped and logged."""
        try:
            polled = self._consumer.poll(timeout_ms=int(POLL_SECONDS * 1000))
        except KafkaError as error:
            log.warning("egress: %s", type(error).__name__)
            self._stopping.wait(POLL_SECONDS)
            return []
        self._seen_to = self._consumer.highwater(self._partition) or self._seen_to
        return [(record.offset, _decode(record.offset, record.value)) for record in polled.get(self._partition, ())]

    def _commit(self) -> None:
        """An edge at rest has nothing new to commit."""
        resumption, self._to_commit = self._to_commit, None
        if resumption is None or resumption == self._committed_last:
            return
        try:
            self.commit_now(resumption)
        except KafkaError as error:
            log.warning("egress offset not committed: %s", type(error).__name__)


def _decode(offset: int, value: bytes) -> Egress | None:
    try:
        return egress.decode(value)
    except Rejected as refused:
        log.error("egress offset %d: %s", offset, refused)
        return None
