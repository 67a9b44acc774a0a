"""A raw frame, and what the router made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.core.event import Event
from gateway.records.egress import Entry
from gateway.records.event_records import EventRow
from gateway.records.raw_log.frames import RawFrame
from gateway.records.rejected_frame import RefusedFrame
from streaming_jobs.routing.change_records import ChangeFrame
from streaming_jobs.routing.output_records import OutputRecord


@dataclass(slots=True)
class RoutedFrame:
    """The outputs of one frame.

    Args:
        key: by which a repeat of the frame is known; None if it can have none.
        outs: records of all topics but `events`, `egress` and `rejected`.
        entries: what edges get, by their ordinals.
        event: what is recorded of it in `events`; `event_row` is the same, ready to be written.
        changes: what the frame changes about the interests, for every raw partition.
        refusals: why it, or a part of it, was refused.
    """

    frame_index: int
    raw: RawFrame
    key: str | None
    outs: list[OutputRecord]
    entries: list[tuple[int, Entry]]
    event: Event | None
    event_row: EventRow | None
    changes: Sequence[ChangeFrame] = ()
    refusals: Sequence[RefusedFrame] = ()
