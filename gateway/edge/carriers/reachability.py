"""Keeps whether each thing outside this edge is there that a link or listener depends on.

away ──reached──► there ──lost──► away        a line in the log for each change, and for each new reason
"""

from __future__ import annotations

import logging
import time

log = logging.getLogger(__name__)

NOT_YET = "not connected yet"


class Reachability:
    """Keeps whether the other side of one link or listener is there.

    `what` is the name of the link or listener for people. The management's threads read this too.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.why_away = NOT_YET
        """Why the other side is not there; empty while it is."""
        self.since = time.time()

    def reached(self, how: str) -> None:
        log.info("%s %s", self.name, how)
        self._change("")

    def lost(self, why: str) -> None:
        """Notes the loss. The same reason is logged again only after the other side was there."""
        log.log(logging.DEBUG if why == self.why_away else logging.WARNING, "%s: %s", self.name, why)
        self._change(why)

    def _change(self, why: str) -> None:
        if bool(why) != bool(self.why_away):
            self.since = time.time()
        self.why_away = why
