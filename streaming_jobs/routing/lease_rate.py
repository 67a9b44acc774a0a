"""Bounds the changes of interests that nodes without sessions cause: each is written into every raw partition.

A session that asks for too much is read later (`control_frames_per_second_per_session`). A datagram cannot wait, so
a hello is refused whole, and what its node had asked for before still holds.
"""

from __future__ import annotations

from collections import OrderedDict

from gateway.config import Limits
from gateway.core.event import SECOND_US

MOST_NODES = 16_384
"""The node that asked longest ago is forgotten for one more. Only nodes that have proven who they are get here."""


class LeaseRate:
    """Counts the changes of each node by the time of the raw log, so that a router that catches up does as it did."""

    def __init__(self) -> None:
        self._changes: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def takes(self, node: str, changes: int, at_us: int, limits: Limits) -> bool:
        """Returns True, and counts them, if the node may cause so many changes now.

        As many as `subscriptions_per_session` may come at once, as for a session that comes back.
        """
        last_us, count = self._changes.pop(node, (at_us, 0.0))
        elapsed_seconds = max(at_us - last_us, 0) / SECOND_US
        count = max(count - elapsed_seconds * limits.control_frames_per_second_per_session, 0.0)
        is_taken = count + changes <= limits.subscriptions_per_session
        self._changes[node] = max(at_us, last_us), count + changes * is_taken
        if len(self._changes) > MOST_NODES:
            del self._changes[next(iter(self._changes))]
        return is_taken
