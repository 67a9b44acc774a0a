"""Reads this edge's egress partition, in a thread of its own, and hands what it reads to the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import replace

from confluent_kafka import KafkaException, Message, TopicPartition

from gateway.config import Config
from gateway.core.errors import SetupError
from gateway.core.reasons import Rejected
from gateway.edge.delivery.offset_tracker import Checkpoint, CommittedState
from gateway.edge.partitions import ASK_SECONDS, consumer, end_of, insist
from gateway.records import egress_codec
from gateway.records.egress_codec import EgressRecord

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
RECORDS_PER_POLL = 500
QUEUED_POLLS = 8
"""Polls handed over and not yet handled; then the reader waits. Bounds memory when sessions are slow to take."""
STOP_SECONDS = 5.0
FETCHED_KIBIBYTES = 16 * 1024
"""Fetched ahead of what is polled, at most."""

Batch = list[tuple[int, EgressRecord | None]]
"""Records with their offsets; None for one that no router wrote."""
Handle = Callable[[Batch], None]
"""Takes a batch, in the event loop; answers with `EgressReader.batch_handled` when it has been handled."""
Failed = Callable[[BaseException], None]


class EgressReader:
    """Reads the egress partition in a thread.

    `resumption` is where the last life of this edge had come to. `end` is the end of the partition at the start: that
    life may have handled what stands before it, but nothing after it.
    """

    def __init__(self, config: Config) -> None:
        self._place = TopicPartition(config.topic("egress"), config.edge_ordinal)
        self._raw, self._raw_partitions = config.topic("raw"), config.kafka.topic("raw").partitions
        self._consumer = consumer(config, **{"fetch.wait.max.ms": 500, "queued.max.messages.kbytes": FETCHED_KIBIBYTES})
        self.end = end_of(self._consumer, self._place)
        self.resumption = self._committed()
        self._consumer.assign([self._at(self.resumption)])
        self._stopping = threading.Event()
        self._room = threading.Semaphore(QUEUED_POLLS)
        self._thread: threading.Thread | None = None
        self._to_commit: CommittedState | None = None
        self._committed_last: CommittedState | None = None
        self._seen_to: int = self.end

    def _at(self, resumption: CommittedState) -> TopicPartition:
        offset, metadata = resumption.checkpoint.offset, resumption.to_metadata()
        return TopicPartition(self._place.topic, self._place.partition, offset, metadata)

    def _committed(self) -> CommittedState:
        [committed] = insist(lambda: self._consumer.committed([self._place], timeout=ASK_SECONDS))
        if committed.offset < 0:
            return CommittedState(0, Checkpoint(self.end))
        return self._plausible(CommittedState.from_metadata(committed.offset, committed.metadata or ""))

    def _plausible(self, committed: CommittedState) -> CommittedState:
        """Topics may have been made anew since. Positions beyond the end of the raw log would keep everything out, and
        an offset beyond the end of the partition says nothing."""
        positions = committed.checkpoint.positions
        plausible = {number: at for number, at in positions.items() if at.offset < self._raw_end(number)}
        if len(plausible) == len(positions) and committed.checkpoint.offset <= self.end:
            return committed
        log.warning("the topics are not those of this edge's last commit, of which only what fits them is kept")
        offset = min(committed.checkpoint.offset, self.end)
        return replace(committed, checkpoint=replace(committed.checkpoint, offset=offset, positions=plausible))

    def _raw_end(self, number: int) -> int:
        there_is = number < self._raw_partitions
        return end_of(self._consumer, TopicPartition(self._raw, number)) if there_is else 0

    def lag(self, handled_to: int) -> int:
        """Returns how many records stand in the partition and have not been handled."""
        return max(self._seen_to - handled_to, 0)

    def start(self, handle: Handle, failed: Failed) -> None:
        """Starts the thread. `failed` is called in the event loop with the error that ended the reader."""
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, args=(loop, handle, failed), name="egress", daemon=True)
        self._thread.start()

    def commit_now(self, resumption: CommittedState) -> None:
        """Commits at once. Is called before `start`, and blocks."""
        insist(lambda: self._commit_to(resumption))

    def _commit_to(self, resumption: CommittedState) -> None:
        self._consumer.commit(offsets=[self._at(resumption)], asynchronous=False)
        self._committed_last = resumption

    def commit(self, resumption: CommittedState) -> None:
        """Commits soon, in the reader's thread."""
        self._to_commit = resumption

    def batch_handled(self) -> None:
        """Notes that the loop has handled a batch."""
        self._room.release()

    def stop(self) -> None:
        """Stops the reader after its last commit. Blocks for a moment."""
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
        first = self._consumer.poll(POLL_SECONDS)
        if first is None:
            return []
        polled = [first, *self._consumer.consume(RECORDS_PER_POLL - 1, timeout=0)]
        self._seen_to = max(self._seen_to, self._consumer.get_watermark_offsets(self._place, cached=True)[1])
        return [(record.offset() or 0, read_record(record)) for record in polled if not _is_error(record)]

    def _commit(self) -> None:
        """An edge at rest has nothing new to commit."""
        resumption, self._to_commit = self._to_commit, None
        if resumption is None or resumption == self._committed_last:
            return
        try:
            self._commit_to(resumption)
        except KafkaException as error:
            log.warning("egress offset not committed: %s", error)


def read_record(record: Message) -> EgressRecord | None:
    """Reads a record; None for one that no router wrote.

    A newer build's record must not be skipped: its deliveries would be lost. Raises SetupError for it.
    """
    value = record.value() or b""
    try:
        return egress_codec.decode(value)
    except Rejected as refused:
        if egress_codec.is_newer(value):
            raise SetupError(
                f"egress offset {record.offset()}: {refused}; run the build that wrote it until this edge's lag is 0"
            ) from None
        log.error("egress offset %d: %s", record.offset(), refused)
        return None


def _is_error(record: Message) -> bool:
    """librdkafka hands errors over among the records. Of most it gets over by itself."""
    error = record.error()
    if error is None:
        return False
    if error.fatal():
        raise KafkaException(error)
    log.warning("egress: %s", error.str())
    return True
