"""Finds where a frame stands in the raw log once more, with the id of its first time: after a redrive or a replay."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

from gateway.core.reasons import Rejected
from gateway.inspect.history.logged_frame import LoggedFrame, frames_of
from gateway.inspect.history.span import Span
from gateway.inspect.history.topics import History


def put_in_again(history: History, first: LoggedFrame, seconds: float) -> Iterator[LoggedFrame]:
    """Yields the frame's later places, the oldest first: they are in its own raw partition. Gives up after so long."""
    place, deadline = first.position, time.monotonic() + seconds
    end = history.bounds("raw")[place.partition].end
    id_bytes = place.event_id.encode()
    for record in history.read("raw", {place.partition: Span(place.offset + 1, end)}):
        if time.monotonic() > deadline:
            return
        if id_bytes in (record.value or b""):  # decodes hardly any other record
            with suppress(Rejected):
                yield from (again for again in frames_of(record) if _is_again(again, place.event_id))


def _is_again(logged: LoggedFrame, event_id: str) -> bool:
    return logged.raw.again is not None and logged.raw.again.event_id == event_id
