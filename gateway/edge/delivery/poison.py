"""Detects a delivery on which a node's sessions end, so that it does not block everything that comes after it.

A protocol may have no word for "too large", or a peer may break on a frame: then it ends the session, and would end
the next one on the same. But peers leave for other reasons too, and what is owed must survive all of those.

    trusting ── the peer ends `WARY_AFTER` sessions, with the same one open as the oldest ──► wary
    wary     one at a time, and only to a peer that has just given a sign of life
      │ one after the other, all that were open then are over ──► trusting
      └ `GIVE_UP_AFTER` sessions in a row, and it was the only one that was open ──► given up

So a node that is away behind a balancer which accepts for it, or that comes and goes, loses nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.edge.delivery.egress_delivery import EgressDelivery

WARY_AFTER = 2
"""One end says nothing, and sessions with one delivery open are slow."""
GIVE_UP_AFTER = 5
"""Three of these, at least, ended with nothing else open, after the peer had answered. A link is back after some ten
seconds then."""
GIVEN_UP = f"{GIVE_UP_AFTER} sessions of the node have ended on it"


class PoisonDetector:
    """Suspects the deliveries of one node. Each is known by its event, also when it comes back from another edge."""

    def __init__(self) -> None:
        self._oldest: tuple[str, int] | None = None
        self._ended_count = 0
        self._suspects = 0

    @property
    def is_cautious(self) -> bool:
        return self._suspects > 0

    def finished(self) -> None:
        """Notes that a delivery finished, or left this session: one suspect fewer."""
        self._suspects = max(self._suspects - 1, 0)

    def ended(self, open_: Sequence[EgressDelivery]) -> EgressDelivery | None:
        """Notes that the peer ended the session with these deliveries open, the oldest first.

        Returns the one to give up, if any.
        """
        if not open_:
            return None
        oldest = open_[0].event_id, open_[0].part
        self._ended_count = self._ended_count + 1 if oldest == self._oldest else 1
        self._oldest = oldest
        if self._ended_count >= GIVE_UP_AFTER and len(open_) == 1:
            return open_[0]
        if self._ended_count >= WARY_AFTER:
            self._suspects = max(self._suspects, len(open_))
        return None
