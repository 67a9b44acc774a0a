"""Slows down the sources of datagrams of which the router refuses nearly everything.

Of what a source sends from the router's word on, the first few thousand frames and a small rate are taken, and
everything again `KEPT_SECONDS` after its last word. So a forged source harms the one whose address it forges for as
long as it goes on, and nobody else; and a device whose key comes late is not kept out.
"""

from __future__ import annotations

from gateway.edge.carriers.read_control import TokenBucket

FRAMES_PER_SECOND = 500.0
"""Enough for a device that is set up wrongly to be found in `rejected`, and a fiftieth of what a router's lane can
judge of the dearest packets."""
BURST_FRAMES = 5_000
"""So many are taken before the rate holds: as many refused frames as have a record of `rejected` each."""
KEPT_SECONDS = 30.0
MOST_SOURCES = 1_024
"""The oldest is forgotten for one more: addresses can be forged. Each costs the edge a look at every datagram."""


class RefusedSources:
    """The sources by their addresses, and the rate of each. It is empty while nobody floods the edge."""

    def __init__(self) -> None:
        self._sources: dict[str, tuple[float, TokenBucket]] = {}

    def __len__(self) -> int:
        return len(self._sources)

    def add(self, peer: str, now: float) -> None:
        """Takes the router's word that nearly all of this source is refused."""
        known = self._sources.pop(peer, None)
        bucket = TokenBucket(FRAMES_PER_SECOND, now, BURST_FRAMES / FRAMES_PER_SECOND) if known is None else known[1]
        self._sources[peer] = now + KEPT_SECONDS, bucket
        if len(self._sources) > MOST_SOURCES:
            del self._sources[next(iter(self._sources))]

    def forget_old(self, now: float) -> None:
        """Lets go of the sources that were not named for a while."""
        while self._sources and (oldest := next(iter(self._sources.items())))[1][0] <= now:
            del self._sources[oldest[0]]

    def lets_in(self, peer: str, now: float) -> bool:
        """Returns True if a datagram of this source may come in."""
        source = self._sources.get(peer)
        return source is None or source[1].has_one(now)
