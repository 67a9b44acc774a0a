"""Decides whether one session may go on: it has proven who it is where it must, and its proof still holds.

opened, nothing proven, `require_login` ──► held back from the mesh ──► login_required, after `handshake_seconds`
proven ──► may go on until the proof ends ──► expired
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

from gateway.edge.carriers.peer import PeerIdentity
from gateway.protocols.actions import CloseReason

MAX_FAILED_LOGINS = 5
"""A peer that has been refused so often does not hold a good token. Each try costs us a verification of a signature."""


class Admission:
    """Decides whether one session may go on.

    Args:
        leave: ends the session with a goodbye.
        proofs: what the connection has proven before the session began.
    """

    def __init__(
        self, leave: Callable[[CloseReason], None], proofs: tuple[PeerIdentity, ...], *, must_log_in: bool
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._leave = leave
        self._must_log_in = must_log_in
        self._failed_logins = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._rely_on(proofs)

    def lacks_login(self, node: str) -> bool:
        """True if a session of this node, "" where nothing is proven, must not reach the mesh yet."""
        return self._must_log_in and not node

    def wait_for_login(self, seconds: float) -> None:
        """Ends the session after so long, unless somebody is proven before."""
        if self._deadline is None:
            self._deadline = self._loop.call_later(seconds, self._leave, CloseReason.LOGIN_REQUIRED)

    def proven(self, identity: PeerIdentity) -> None:
        """Lets the session go on for as long as its first proof holds, and that of its latest login."""
        self._rely_on((self._proofs[0], identity))

    def is_still_proven(self) -> bool:
        """True while no proof of the session has been withdrawn."""
        return all(proof.holds() for proof in self._proofs)

    def _rely_on(self, proofs: tuple[PeerIdentity, ...]) -> None:
        self._proofs = proofs
        until = min(proof.until for proof in proofs)
        self.ended()
        if until < math.inf:
            self._deadline = self._loop.call_later(max(until - time.time(), 0.0), self._leave, CloseReason.EXPIRED)

    def login_refused(self) -> None:
        """Ends the session of a peer that only tries."""
        self._failed_logins += 1
        if self._failed_logins >= MAX_FAILED_LOGINS:
            self._leave(CloseReason.LOGIN_REQUIRED)

    def ended(self) -> None:
        """Cancels the deadline: nothing is waited for any more."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
