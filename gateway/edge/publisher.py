"""Publishes frames into the raw log: packed into records, bounded in memory, acknowledged by all in-sync replicas.

Records of all partitions leave together: at once when the last have left long enough ago (the linger), else when they
have, and each as soon as it is full. So an idle mesh waits for nothing, and a busy one wakes its broker, its router and
its edges a few hundred times a second at most: it is that, and not the frames, what costs.

Frames of streams wait less while few come: their peers wait for an acknowledgement, or for an answer, which itself
follows right behind its request.

For the same reason a busy datagram socket is read just before the records leave, and not sooner (`before_leaving`);
and an acknowledgement that nobody waits for wakes nobody: it is looked at when the next records leave.

This bounds what waits for Kafka in memory: what is received and not acknowledged counts as in flight, and when that is
too much listeners are told to stop (TCP is not read, UDP drops the newest and counts).

Invariants
1. What was added is settled once: accepted when Kafka has it, or not when Kafka says that it never will.
2. Runs of one partition are settled in the order they were added.
3. An error that is about one record refuses that record. Any other means that this producer is of no more use; then
   `failed` is set, and the process ends and is started again: what was not acknowledged was never promised.
4. Offsets of a partition grow. If they do not, the topic is another by the same name: then `failed` is set too, since
   what this life knows by its place in the old one, it would take for repeats in the new.
5. No record is larger than Kafka takes, whatever its frames bring with them. A record with a control frame that Kafka
   refuses all the same sets `failed`: without that frame, the router would keep a session that is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import NamedTuple
from zlib import crc32

from gateway.config.settings import RecordSettings
from gateway.core.errors import SetupError
from gateway.edge.in_flight import InFlightBytes
from gateway.edge.open_record import AckListener, OpenRecord, SentRecord
from gateway.edge.producer import NotTaken, Sends
from gateway.edge.run_parts import RUN_FRAMES, Settled, WholeRun, frames_that_fit, parts_of_replies, parts_of_run
from gateway.edge.traces import EdgeTraces
from gateway.records.raw_log.container import FRAME_BYTES, ContainerBuilder, size_of_replies
from gateway.records.raw_log.control_frames import MESH
from gateway.records.raw_log.frames import FrameSource, RawFrame, Replayed, Reply

log = logging.getLogger(__name__)

RUN_BYTES = 256
"""Charged for each run, for its callback. Without it a million frames of one byte would weigh a megabyte."""
AWAITED_SECONDS = 0.001
"""A frame that a peer waits for leaves so long after the last records, for each frame that was in them, and at most
after the linger. So one frame a record leaves soon, and from a thousand a second on they leave by the linger."""
SETTLE_SECONDS = 0.1
"""The longest time before a result that nobody waits for is looked at, if no record leaves before."""


class EdgeLife(NamedTuple):
    """One life of an edge: everything it writes carries its name and its epoch."""

    edge: str
    epoch: int


@dataclass(frozen=True, slots=True)
class RawTopic:
    """The raw topic as the publisher sees it. No record with several frames is larger than `largest_bytes`."""

    name: str
    partitions: int
    largest_bytes: int


class RawPublisher:
    """Publishes into the raw log. It lives in the event loop; the producer's own thread only hands results over.

    Args:
        bound_bytes: so much may wait for Kafka before listeners are told to stop.
        observe: is told how long each record took.
        traces: are told which frames each record held.
    """

    def __init__(
        self,
        producer: Sends,
        life: EdgeLife,
        topic: RawTopic,
        limits: RecordSettings,
        *,
        bound_bytes: int,
        observe: Callable[[float], None],
        traces: EdgeTraces | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._producer = producer
        self.life = life
        self._topic = topic.name
        self._limits = limits
        self._largest_bytes = topic.largest_bytes
        self._part_bytes = min(limits.bytes, topic.largest_bytes)
        self._observe = observe
        self._traces = traces
        self._linger = limits.linger_milliseconds / 1000
        self._partitions = [OpenRecord(ContainerBuilder(*life)) for _ in range(topic.partitions)]
        self._results: deque[tuple[SentRecord, NotTaken | None]] = deque()
        self._awake = False
        self._is_drained = False
        self._look: asyncio.TimerHandle | None = None
        self._before_leaving: list[Callable[[], None]] = []
        self._is_leaving = False
        self._departure: asyncio.TimerHandle | asyncio.Handle | None = None
        self._departs_at = inf
        self._left_at = 0.0
        self._left_frames = 0
        self._probed = 0
        self._probing = False
        self._empty = asyncio.Event()
        self.failed: asyncio.Future[BaseException] = self._loop.create_future()
        self.in_flight = InFlightBytes(bound_bytes)
        self.in_flight.when_full(self._settle_soon, lambda: None)  # from then on results are looked at when they come
        self._last_acknowledged = -inf

    @property
    def partitions(self) -> int:
        return len(self._partitions)

    @property
    def silent_seconds(self) -> float:
        """The seconds since Kafka last acknowledged something."""
        return self._loop.time() - self._last_acknowledged

    def partition_of(self, key: bytes) -> int:
        """Returns the partition of frames with this key: one node's frames always meet in one partition."""
        return crc32(key) % len(self._partitions)

    def before_leaving(self, take: Callable[[], None]) -> bool:
        """Calls `take` once, just before records leave the next time. Returns False if they leave at once.

        If another `take` calls this, records leave again after the linger even if nothing else makes them.
        """
        waits = self._linger > 0 if self._is_leaving else self._loop.time() < self._departs_at < inf
        if waits:
            self._before_leaving.append(take)
        return waits

    # -- frames in ---------------------------------------------------------------------------------------------

    def add_datagrams(
        self,
        partition: int,
        sources: Sequence[FrameSource],
        received_at: int,
        lengths: Sequence[int],
        data: bytes,
        listener: AckListener,
    ) -> None:
        """Adds datagrams side by side that were received at once, each with a source of its own."""
        into, most = self._partitions[partition], self._limits.frames
        part_bytes = self._part_bytes
        while len(lengths) > (
            room := frames_that_fit(lengths, len(data), max(most - len(into.builder), 1), part_bytes)
        ):
            size = sum(lengths[:room])
            self._add_some(into, partition, sources[:room], received_at, lengths[:room], data[:size], listener)
            sources, lengths, data = sources[room:], lengths[room:], data[size:]
        if lengths:
            self._add_some(into, partition, sources, received_at, lengths, data, listener)

    def _add_some(
        self,
        into: OpenRecord,
        partition: int,
        sources: Sequence[FrameSource],
        received_at: int,
        lengths: Sequence[int],
        data: bytes,
        listener: AckListener,
    ) -> None:
        weight = len(data) + FRAME_BYTES * len(lengths)
        self._make_room(into, partition, weight)
        into.builder.add_columns(sources, received_at, lengths, data)
        into.counted[listener] = into.counted.get(listener, 0) + len(lengths)
        self._added(into, partition, weight, self._linger)

    def add_run(
        self,
        partition: int,
        source: FrameSource,
        data: bytes,
        lengths: tuple[int, ...],
        *,
        replies: tuple[Reply, ...] = (),
        settled: Settled | None = None,
    ) -> None:
        """Adds frames of one source, side by side, received now. `settled`: told once, of the whole run."""
        if not replies and len(lengths) == frames_that_fit(lengths, len(data), RUN_FRAMES, self._part_bytes):
            self._add_part(partition, source, data, lengths, (), settled)
            return
        packed_replies = [reply.pack() for reply in replies]
        runs = list(parts_of_run(data, lengths, self._part_bytes))
        shares = list(parts_of_replies(packed_replies))
        if settled is not None and (parts := len(runs) * len(shares)) > 1:
            settled = WholeRun(settled, parts).settle_part
        for part, part_lengths in runs:
            for share in shares:
                self._add_part(partition, source, part, part_lengths, share, settled)

    def _add_part(
        self,
        partition: int,
        source: FrameSource,
        data: bytes,
        lengths: tuple[int, ...],
        packed_replies: Sequence[bytes],
        settled: Settled | None,
    ) -> None:
        into, weight = self._partitions[partition], len(data) + FRAME_BYTES * len(lengths) + RUN_BYTES
        if packed_replies:
            weight += size_of_replies(packed_replies) * len(lengths)
        self._make_room(into, partition, weight)
        into.builder.add_run(source, time.time_ns() // 1000, data, lengths, packed_replies)
        if source.protocol == MESH:
            into.waiting.append(self._control_settled)
        if settled is not None:
            into.waiting.append(settled)
        self._added(into, partition, weight, self._linger_if_awaited)

    def add_again(self, partition: int, frame: RawFrame, again: Replayed) -> None:
        """Adds a control frame that is known by the id of another frame."""
        into, weight = self._partitions[partition], len(frame.data) + FRAME_BYTES + RUN_BYTES
        self._make_room(into, partition, weight)
        into.builder.add_again(frame, again)
        into.waiting.append(self._control_settled)
        self._added(into, partition, weight, self._linger_if_awaited)

    def _control_settled(self, accepted: bool) -> None:
        if not accepted and not self.failed.done():
            self.failed.set_result(SetupError("kafka has refused a record with a control frame in it"))

    def _make_room(self, into: OpenRecord, partition: int, weight: int) -> None:
        """Closes a record that would be larger than Kafka takes with what comes now."""
        if into.builder.size + weight > self._largest_bytes and len(into.builder):
            self._close(partition)

    def _added(self, into: OpenRecord, partition: int, weight: int, linger: float) -> None:
        into.weight += weight
        into.opened_at = into.opened_at or self._loop.time()
        self.in_flight.add(weight)
        if self._left_at + linger < self._departs_at:
            self._schedule(linger)
        if len(into.builder) >= self._limits.frames or into.builder.size >= self._limits.bytes:
            self._close(partition)

    def probe(self) -> None:
        """Sends a record without frames, so that a silent edge knows whether Kafka acknowledges.

        There is one probe at a time, and each partition has its turn.
        """
        if not self._probing and not self.in_flight.bytes:
            self._probing = True
            self._probed = (self._probed + 1) % len(self._partitions)
            self._send(self._probed)

    def flush(self) -> None:
        """Closes every record now."""
        for partition in range(len(self._partitions)):
            self._close(partition)

    async def drained(self, seconds: float) -> bool:
        """Closes every record, and returns True if all are settled within so many seconds."""
        self._is_drained = True
        self.flush()
        self._look_at_results()
        if self.in_flight.bytes:
            self._empty.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), seconds)
        self._is_drained = False
        return not self.in_flight.bytes

    # -- closing records ---------------------------------------------------------------------------------------

    def _schedule(self, linger: float) -> None:
        """Lets records leave at the end of this turn of the loop, or when the last ones left long enough ago."""
        if self._departure is not None:
            self._departure.cancel()
        self._departs_at = self._left_at + linger
        if self._departs_at <= self._loop.time():
            self._departure = self._loop.call_soon(self._leave)
        else:
            self._departure = self._loop.call_at(self._departs_at, self._leave)

    @property
    def _linger_if_awaited(self) -> float:
        """The linger of a frame that a peer waits for: short while records hold few frames."""
        return min(self._left_frames * AWAITED_SECONDS, self._linger)

    def _leave(self) -> None:
        takers, self._before_leaving = self._before_leaving, []
        self._is_leaving, self._left_frames = True, 0
        self._departure, self._departs_at = None, -inf  # what is taken now leaves now
        try:
            for take in takers:
                take()
        finally:
            self._is_leaving = False
            self._departs_at = inf
            self.flush()
        self._left_at = self._loop.time()
        self._look_at_results()
        if self._before_leaving:
            self._schedule(self._linger)

    def _close(self, partition: int) -> None:
        if len(self._partitions[partition].builder):
            self._send(partition)

    def _send(self, partition: int) -> None:
        into = self._partitions[partition]
        sent, record = into.close(partition, self._loop.time(), traced=self._traces is not None)
        self._left_frames += sent.frames
        is_awaited = sent.is_awaited or self._is_hurried
        on_sent = partial(self._on_sent, sent)
        self._producer.send(self._topic, record, on_sent, partition=partition, is_awaited=is_awaited)

    @property
    def _is_hurried(self) -> bool:
        """True while every result is looked at when it comes."""
        return self.in_flight.is_full or self._is_drained

    # -- results, from the producer's thread or by `collect` ---------------------------------------------------

    def _on_sent(self, sent: SentRecord, error: NotTaken | None, offset: int, seconds: float) -> None:
        sent.offset, sent.ended_at = offset, sent.sent_at + seconds
        self._results.append((sent, error))  # before it is asked whether somebody waits, so that none is overlooked
        if not self._awake and (sent.is_awaited or error is not None or self._is_hurried):
            self._awake = True
            self._loop.call_soon_threadsafe(self._settle)

    def _look_at_results(self) -> None:
        """Settles what nobody waits for, and looks again after a while if something is on its way."""
        self._producer.collect()
        self._settle()
        if self._look is None and self.in_flight.bytes:
            self._look = self._loop.call_later(SETTLE_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._look = None
        self._look_at_results()

    def _settle_soon(self) -> None:
        self._loop.call_soon(self._settle)

    def _settle(self) -> None:
        self._awake = False  # before the queue is emptied: what is appended from here on wakes us again
        while self._results:
            sent, error = self._results.popleft()
            self._settle_one(sent, error)
        if not self.in_flight.bytes:
            self._empty.set()

    def _settle_one(self, sent: SentRecord, error: NotTaken | None) -> None:
        if not sent.frames:
            self._probing = False
        self.in_flight.add(-sent.weight)
        now = sent.ended_at
        if error is None:
            self._last_acknowledged = now
            self._observe(now - sent.sent_at)
            self._logged(sent)
            if self._traces is not None and sent.received:
                self._traces.logged(sent.received, sent.partition, sent.offset)
        else:
            self._refused(sent, error)
        for listener, frames in sent.counted.items():
            listener.settled(frames, now - sent.opened_at, error is None)
        for settled in sent.waiting:
            settled(error is None)

    def _logged(self, sent: SentRecord) -> None:
        record = self._partitions[sent.partition]
        if 0 <= sent.offset <= record.logged_to and not self.failed.done():
            self.failed.set_result(SetupError(f"{self._topic} is not the topic it was: it has been made anew"))
        record.logged_to = max(record.logged_to, sent.offset)

    def _refused(self, sent: SentRecord, error: NotTaken) -> None:
        log.error("a record of %d frames could not be logged: %s", sent.frames, error)
        if not error.only_this and not self.failed.done():
            self.failed.set_result(error)
