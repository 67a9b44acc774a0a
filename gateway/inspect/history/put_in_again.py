"""Finds where a frame stands in the raw log once more, with the id of its first time: after a redrive or a replay."""

from __future__ import annotations

import time
from collections.abc import Iterator

from gateway.core.ids import FramePosition
from gateway.core.reasons import Rejected
from gateway.inspect.history.logged_frame import LoggedFrame
from gateway.inspect.history.span import Span
from gateway.inspect.history.topics import History
from gateway.kafka.records import TopicRecord
from gateway.records.raw_log.container import decode_record


def put_in_again(history: History, first: LoggedFrame, seconds: float) -> Iterator[LoggedFrame]:
    """Yields the frame's later places, the oldest first: they are in its own raw partition. Gives up after so long."""
    place, deadline = first.position, time.monotonic() + seconds
    end = history.bounds("raw")[place.partition].end
    id_bytes = place.event_id.encode()
    for record in history.read("raw", {place.partition: Span(place.offset + 1, end)}):
        if time.monotonic() > deadline:
            return
        if id_bytes in (record.value or b""):  # decodes hardly any other record
            yield from _frames_of(record, place.event_id)


def _frames_of(record: TopicRecord, event_id: str) -> Iterator[LoggedFrame]:
    value = record.value or b""
    try:
        frames = decode_record(value).frames
    except Rejected:
        return
    for index, raw in enumerate(frames):
        if raw.again is not None and raw.again.event_id == event_id:
            position = FramePosition(record.partition, record.offset, index)
            yield LoggedFrame(position, raw, record.logged_at, len(value), len(frames))
