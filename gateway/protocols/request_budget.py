"""Bounds the requests that all sessions of an edge hold open together, with a fair share for each session.

    a session may open one more  <=>  it has fewer open than are left for everybody

One greedy session gets half of the budget, and whoever comes then half of what is left. As requests end, in seconds,
those who have more than the others get no new ones, until all have the same and something is left for the next.
"""

from __future__ import annotations

MOST_OPEN_REQUESTS = 131_072
"""Twice what one session may have open, so that it may have that on an edge that is otherwise idle. Each takes up to a
kilobyte."""


class RequestBudget:
    """Counts the open requests of all sessions: requests of peers, and requests delivered to peers."""

    def __init__(self, most: int = MOST_OPEN_REQUESTS) -> None:
        self.most = most
        self.open_requests = 0

    def has_room(self, own: int) -> bool:
        """True if a session that has so many open may open one more."""
        return own < self.most - self.open_requests
