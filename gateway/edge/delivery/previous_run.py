"""Tells what an earlier run of this edge has delivered already, so that it is not delivered twice."""

from __future__ import annotations

from gateway.edge.delivery.outcomes import KnownOutcomes
from gateway.protocols.actions import Delivery


class PreviousRun:
    """Knows what an earlier life of this edge has done.

    Every delivery to a session was handled below `sessions_to`. For all other records before `to`, `outcomes` says what
    is known.
    """

    def __init__(self, to: int = 0, sessions_to: int = 0, outcomes: KnownOutcomes | None = None) -> None:
        self._to = to
        self._sessions_to = sessions_to
        self._outcomes = outcomes or KnownOutcomes()

    def may_know(self, offset: int) -> bool:
        """Returns True if the earlier life may have handled the record."""
        return offset < self._to

    def knows(self, offset: int, delivery: Delivery, destination: str, *, owed: bool) -> bool:
        if offset >= self._to:
            self._outcomes.clear()  # offsets only grow: nothing will be asked for any more
            return False
        if not owed and offset < self._sessions_to:
            return True
        return self._outcomes.take(delivery.event_id, delivery.part, destination)
