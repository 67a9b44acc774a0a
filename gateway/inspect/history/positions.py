"""Positions in the log: event ids as positions, and spans of offsets."""

from __future__ import annotations

import re
from typing import NamedTuple

from gateway.records.egress import Position

_EVENT_ID = re.compile(r"(\d{1,9})-(\d{1,18})-(\d{1,9})", re.ASCII)


def position_of(event_id: str) -> Position:
    """Returns the position of the raw frame that an event id names. Raises ValueError.

    >>> position_of("3-1200-7")
    Position(partition=3, offset=1200, index=7, part=0)
    """
    found = _EVENT_ID.fullmatch(event_id)
    if found is None:
        raise ValueError(f"{event_id} is no event id such as 3-1200-7 (raw partition, offset, index)")
    partition, offset, index = map(int, found.groups())
    return Position(partition, offset, index)


class Span(NamedTuple):
    """A range of offsets of one partition: from `start`, up to and without `end`."""

    start: int
    end: int

    @property
    def size(self) -> int:
        return max(self.end - self.start, 0)

    def last(self, size: int) -> Span:
        """The end of it.

        >>> Span(10, 100).last(20), Span(10, 15).last(20)
        (Span(start=80, end=100), Span(start=10, end=15))
        """
        return Span(max(self.start, self.end - size), self.end)

    def before(self, later: Span) -> Span:
        """Returns what is left of this span in front of the later one."""
        return Span(self.start, later.start)
