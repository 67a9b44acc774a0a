"""A raw frame by its event id: straight to its record, without a scan."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.core.ids import FramePosition, record_id
from gateway.core.quantity import quantity
from gateway.core.reasons import Rejected
from gateway.inspect.history.topics import History
from gateway.kafka.records import TopicRecord
from gateway.records.raw_log.container import decode_record
from gateway.records.raw_log.frames import RawFrame


class NotFoundError(Exception):
    """Raised if there is no such frame, or no longer; the message says which."""


@dataclass(frozen=True, slots=True)
class LoggedFrame:
    """A frame as it is in the raw log. `logged_at` is when its record was written, in microseconds."""

    position: FramePosition
    raw: RawFrame
    logged_at: int
    record_bytes: int = 0
    record_frames: int = 0


def find_frame(history: History, position: FramePosition) -> LoggedFrame:
    """Raises NotFoundError."""
    record = history.record("raw", position.partition, position.offset)
    if record is None:
        raise NotFoundError(_why_missing(history, position))
    try:
        frames = frames_of(record)
    except Rejected as refused:
        record_name = record_id(position.partition, position.offset)
        raise NotFoundError(f"the raw record {record_name} cannot be read: {refused}") from None
    if position.frame_index >= len(frames):
        held = quantity(len(frames), "frame")
        raise NotFoundError(f"{position.event_id}: its raw record holds {held}, counted from 0")
    return frames[position.frame_index]


def frames_of(record: TopicRecord) -> list[LoggedFrame]:
    """Returns the frames of a record of the raw log. Raises Rejected."""
    value = record.value or b""
    frames = decode_record(value).frames
    return [
        LoggedFrame(
            FramePosition(record.partition, record.offset, index), raw, record.logged_at, len(value), len(frames)
        )
        for index, raw in enumerate(frames)
    ]


def _why_missing(history: History, position: FramePosition) -> str:
    span = history.bounds("raw").get(position.partition)
    if span is None:
        return f"{position.event_id}: the raw log has no partition {position.partition}"
    if position.offset < span.start:
        return f"{position.event_id} is older than what the raw log keeps: it begins at offset {span.start} there"
    return f"{position.event_id}: the raw log has not come so far; its next offset there is {span.end}"
