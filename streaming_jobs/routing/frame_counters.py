"""Counts frames by what became of them, and what translations lost.

Kept while a record is routed, and taken by the worker when it is done; labels come from closed sets. A frame costs one
entry in a dictionary, for there may be many thousands of them a second; what that means for each metric is worked out
once per record.
"""

from __future__ import annotations

from collections.abc import Iterator

from gateway.core.event import Auth
from gateway.core.reasons import Reason, Stage

Series = tuple[str, ...]
"""The name of a metric and the values of its labels, in the metric's own order."""

FRAMES = "frames"
"""stage, outcome, reason, protocol. Each frame counts once in `decode`; each that passed it, once in `match`:

    decode: accepted | rejected | control (a frame of the mesh itself; it can be refused here too)
    match: event (recorded) | control (meant for the mesh itself) | again (put in again: recorded before) | rejected

In `deliver`, `routed` counts destinations, and `rejected` what could not be said to them. A record that no edge wrote
is one frame `rejected` in `log`.
"""
LOSSES = "losses"
"""from, to, what."""
VERDICTS = "verdicts"
"""auth, protocol: how the senders of the accepted frames were proven."""
DUPLICATES = "duplicates"
"""protocol: frames that were accepted and then dropped as repeats."""

ACCEPTED, REJECTED, CONTROL, EVENT, AGAIN, ROUTED = "accepted", "rejected", "control", "event", "again", "routed"


class FrameCounters:
    __slots__ = ("_accepted", "_other", "_routed")

    def __init__(self) -> None:
        self._accepted: dict[tuple[str, Auth, str, str], int] = {}
        self._routed: dict[str, int] = {}
        self._other: dict[Series, int] = {}

    def accepted(self, protocol: str, auth: Auth, outcome: str, reason: str = "", count: int = 1) -> None:
        """Counts frames that were decoded and believed; `outcome` says what `match` made of them."""
        key = protocol, auth, outcome, reason
        self._accepted[key] = self._accepted.get(key, 0) + count

    def control(self, protocol: str) -> None:
        self._add((FRAMES, Stage.DECODE, CONTROL, "", protocol))

    def rejected(self, stage: Stage, reason: Reason, protocol: str) -> None:
        self._add((FRAMES, stage, REJECTED, reason.value, protocol))

    def routed(self, destinations: int, protocol: str) -> None:
        self._routed[protocol] = self._routed.get(protocol, 0) + destinations

    def repeated(self, protocol: str, count: int = 1) -> None:
        """Counts frames that were dropped as repeats."""
        self._add((DUPLICATES, protocol), count)

    def lost(self, origin: str, to: str, what: str) -> None:
        self._add((LOSSES, origin, to, what))

    def _add(self, series: Series, count: int = 1) -> None:
        self._other[series] = self._other.get(series, 0) + count

    def take(self) -> dict[Series, int]:
        """Returns what was counted since the last call."""
        for protocol, count in self._routed.items():
            self._add((FRAMES, Stage.DELIVER, ROUTED, "", protocol), count)
        for (protocol, auth, outcome, reason), count in self._accepted.items():
            for series in _of_accepted(protocol, auth, outcome, reason):
                self._add(series, count)
        counts, self._accepted, self._routed, self._other = self._other, {}, {}, {}
        return counts


def _of_accepted(protocol: str, auth: Auth, outcome: str, reason: str) -> Iterator[Series]:
    yield FRAMES, Stage.DECODE, ACCEPTED, "", protocol
    yield FRAMES, Stage.MATCH, outcome, reason, protocol
    yield VERDICTS, auth.value, protocol
