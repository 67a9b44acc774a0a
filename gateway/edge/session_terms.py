"""The terms of a listener's or a link's sessions: their limits and what they may do."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.config import Limits
from gateway.records.raw_log.frames import LINK_FACT, REDELIVER_FACT, Facts


@dataclass(frozen=True, slots=True)
class SessionTerms:
    """The terms of a session. `redeliver_seconds` counts only if the node is proven.

    `require_login`: a peer that has not proven who it is does not reach the mesh.
    """

    listener: str
    limits: Limits
    subscribe: tuple[str, ...] = ()
    serve: tuple[str, ...] = ()
    redeliver_seconds: int = 0
    require_login: bool = False

    def facts(self, negotiated: Facts, *, dialled: bool) -> Facts:
        """Returns what was negotiated, and what the router must know of the session beside."""
        facts = dict(negotiated)
        if dialled:
            facts[LINK_FACT] = True
        if self.redeliver_seconds:
            facts[REDELIVER_FACT] = self.redeliver_seconds
        return facts
