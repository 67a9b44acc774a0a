"""A span of offsets of one partition."""

from __future__ import annotations

from typing import NamedTuple


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
