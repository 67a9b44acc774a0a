"""The deadlines of a session, by name; the clock is whoever asks."""

from __future__ import annotations

import heapq
from collections.abc import Hashable


class Timers:
    """Keeps named deadlines. Setting a name again moves it; the heap drops what was moved when it comes up."""

    __slots__ = ("_due", "_heap")

    def __init__(self) -> None:
        self._due: dict[Hashable, float] = {}
        self._heap: list[tuple[float, int, Hashable]] = []

    def set(self, name: Hashable, due: float) -> None:
        self._due[name] = due
        heapq.heappush(self._heap, (due, id(name), name))
        if len(self._heap) > 64 + 4 * len(self._due):
            self._heap = [(at, id(key), key) for key, at in self._due.items()]
            heapq.heapify(self._heap)

    def clear(self, name: Hashable) -> None:
        self._due.pop(name, None)

    def clear_all(self) -> None:
        self._due.clear()
        self._heap.clear()

    def next(self) -> float | None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def expired(self, now: float) -> list[Hashable]:
        """Names that are due, removed, earliest first."""
        names: list[Hashable] = []
        while (due := self.next()) is not None and due <= now:
            name = heapq.heappop(self._heap)[2]
            del self._due[name]
            names.append(name)
        return names
