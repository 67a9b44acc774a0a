"""Records the arrival of each frame: its index and the time, eight bytes each, with no work beside."""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass

from gateway.bench.marker import PROBE, Marker, probed_session


@dataclass(frozen=True, slots=True)
class Noted:
    """The arrivals of one subscriber, in the order they came; times in nanoseconds of the monotonic clock."""

    indices: bytes
    times: bytes


class Arrivals:
    """The arrivals of one subscriber."""

    __slots__ = ("_find", "_indices", "_sessions", "_times", "probed")

    def __init__(self, marker: Marker, sessions: int) -> None:
        self._find = marker.indices
        self._sessions = sessions
        self._indices = array("q")
        self._times = array("q")
        self.probed: set[int] = set()
        """Sessions a probe has come from."""

    def take(self, data: bytes) -> None:
        """Notes that all the frames in these bytes came now."""
        now = time.monotonic_ns()
        for index in self._find(data):
            if index < PROBE:
                self._indices.append(index)
                self._times.append(now)
            else:
                self.probed.add(probed_session(index, self._sessions))

    def __len__(self) -> int:
        return len(self._indices)

    @property
    def last(self) -> int:
        """The time of the last arrival; 0 if there was none."""
        return self._times[-1] if self._times else 0

    def noted(self) -> Noted:
        return Noted(self._indices.tobytes(), self._times.tobytes())
