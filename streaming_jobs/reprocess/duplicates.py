"""Finds the event that a repeat repeats: the earlier frame in its own raw partition that has the same key.

Repeats are mostly the same bytes, and bytes are found in a whole record at once. Only where those are not found is each
frame of the window decoded, from the repeat backwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from gateway.core.event import SECOND_US
from gateway.core.ids import event_id
from gateway.core.reasons import Rejected
from gateway.inspect.history.logged_frame import LoggedFrame
from gateway.inspect.history.span import Span
from gateway.inspect.history.topics import History
from gateway.kafka.records import TopicRecord
from gateway.records.raw_log.container import decode_record
from gateway.records.raw_log.frames import RawFrame
from streaming_jobs.reprocess.reprocessor import Reprocessor

STEP_RECORDS = 200


class Duplicates:
    """Finds the frames that a logged frame repeats.

    `key` is the key by which a repeat of the frame is known today; None for what has no repeats. `reach_seconds` is how
    long the router knows a frame.
    """

    def __init__(self, history: History, judge: Reprocessor, logged: LoggedFrame, reach_seconds: int) -> None:
        self._history, self._judge, self._logged = history, judge, logged
        self._reach = reach_seconds * SECOND_US
        self.key = judge.key_of(logged.raw)

    def earlier(self, seconds: float) -> Iterator[str]:
        """Yields the ids of the frames with this key, the latest first. It gives up after so many seconds."""
        if self.key is None:
            return
        deadline = time.monotonic() + seconds
        found = False
        for name in self._same_bytes(deadline):
            found = True
            yield name
        if not found:
            yield from self._same_key(deadline)

    def _same_bytes(self, deadline: float) -> Iterator[str]:
        data = self._logged.raw.data
        for record in self._before(deadline):
            if data in (record.value or b""):
                yield from self._ids(record, lambda raw: raw.data == data)

    def _same_key(self, deadline: float) -> Iterator[str]:
        source = self._logged.raw.source
        for record in self._before(deadline):
            yield from self._ids(
                record, lambda raw: raw.source.protocol == source.protocol and self._judge.key_of(raw) == self.key
            )

    def _ids(self, record: TopicRecord, is_same: Callable[[RawFrame], bool]) -> Iterator[str]:
        try:
            frames = decode_record(record.value or b"").frames
        except Rejected:
            return
        place = self._logged.position
        for index in range(len(frames) - 1, -1, -1):
            if (record.offset, index) < (place.offset, place.frame_index) and is_same(frames[index]):
                yield event_id(record.partition, record.offset, index)

    def _before(self, deadline: float) -> Iterator[TopicRecord]:
        place = self._logged.position
        since = self._logged.logged_at - self._reach
        start = self._history.between("raw", since, None)[place.partition].start
        spans = {place.partition: Span(start, place.offset + 1)}
        for record in self._history.newest_first("raw", spans, step=STEP_RECORDS):
            if time.monotonic() > deadline:
                return
            yield record
