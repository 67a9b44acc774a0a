"""Finds the busiest subjects from a sample of the events."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

LOOKS_KEPT = 15
"""The number of looks that are remembered; older ones are forgotten."""
SUBJECTS_PER_LOOK = 2_000
"""A mesh where every event has a subject of its own must not fill our memory; a sample of them is counted."""


class BusySubject(NamedTuple):
    subject: str
    seen: int
    share: float


class SubjectSample:
    """Looks come one after another; the latest together say what is busy."""

    def __init__(self) -> None:
        self._looks: deque[Counter[str]] = deque(maxlen=LOOKS_KEPT)

    def add(self, subjects: Iterable[str]) -> None:
        self._looks.append(Counter(dict(Counter(subjects).most_common(SUBJECTS_PER_LOOK))))

    @property
    def seen(self) -> int:
        return sum(look.total() for look in self._looks)

    def busiest(self, most: int) -> Sequence[BusySubject]:
        """Returns the subjects that were seen most often.

        >>> subjects = SubjectSample()
        >>> subjects.add(["a", "b", "a"])
        >>> subjects.add(["a"])
        >>> subjects.busiest(1)
        [BusySubject(subject='a', seen=3, share=0.75)]
        """
        together: Counter[str] = Counter()
        for look in self._looks:
            together.update(look)
        whole = together.total()
        ranked = sorted(together.items(), key=lambda item: (-item[1], item[0]))
        return [BusySubject(subject, seen, seen / whole) for subject, seen in ranked[:most]]


def shares_of(busiest: Iterable[BusySubject], events_per_second: float | None) -> list[dict[str, Any]]:
    """Returns the busiest subjects as JSON. A sample knows shares; the router counts how many events there are."""
    return [
        {
            **subject._asdict(),
            "per_second": None if events_per_second is None else round(subject.share * events_per_second, 2),
        }
        for subject in busiest
    ]
