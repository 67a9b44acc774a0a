"""Decides when to stop looking: what the router writes about a frame stands before what it writes about later ones.

All frames of a raw partition leave the router in their order. So in each partition of a topic, once something about a
later frame of the same raw partition has come, nothing more about this one will, but for the little by which writes of
one batch overtake each other, and the repeats after a crash, which only say the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from gateway.core.ids import FramePosition
from gateway.inspect.history.topics import Scan
from gateway.kafka.records import TopicRecord

OVERTAKEN_US = 1_000_000
"""The largest time by which records of one batch overtake each other."""


class RecordSubject(NamedTuple):
    """Says which frame a record is about, and where the frame stands that it was written for.

    Both differ for a frame that was put in again: it keeps the name of its first time. A record without a position
    stands in no order.
    """

    name: str
    place: FramePosition | None


class PositionCursor:
    """Looks at one partition's positions, in the order they come, for the one that is searched."""

    def __init__(self, target: FramePosition) -> None:
        self._target = target
        self._passed_at: dict[int, int] = {}

    def is_over(self, record: TopicRecord, position: FramePosition | None) -> bool:
        """Returns True if the search may stop at this record.

        `position` is that of the raw frame that the record is about, if it is about one.
        """
        if position is not None and position.partition == self._target.partition and position > self._target:
            self._passed_at.setdefault(record.partition, record.logged_at)
        passed_at = self._passed_at.get(record.partition)
        return passed_at is not None and record.logged_at > passed_at + OVERTAKEN_US


def records_about(
    scan: Scan, place: FramePosition, name: str, subjects_in: Callable[[TopicRecord], Iterable[RecordSubject]]
) -> Iterator[TopicRecord]:
    """Yields the records about an event, or a place, that were written when the frame at `place` was routed.

    It stops in each partition when that has been passed.

    told: what a record is about, in the order of its frames, where it holds several.
    """
    passed = PositionCursor(place)
    for record in scan:
        subjects = list(subjects_in(record))
        if any(subject.name == name for subject in subjects):
            yield record
        elif passed.is_over(record, subjects[-1].place if subjects else None):
            scan.leave(record.partition)
