"""The errors between a client and its peer. Each message names the peer."""

from __future__ import annotations

from gateway.core.reasons import Reason

REDIRECT = "redirect"
"""Why a session ended whose peer named another address; the detail is its url."""


class ClientError(Exception):
    def __init__(self, peer: str, why: str) -> None:
        super().__init__(f"{peer}: {why}")
        self.peer = peer
        self.why = why


class EndedError(ClientError):
    """The session is over. `reason` is the session's slug: `eof`, `bye`, `peer_error`, ..."""

    def __init__(self, peer: str, reason: str, detail: str = "") -> None:
        super().__init__(peer, f"the session ended: {reason}" + (f": {detail}" if detail else ""))
        self.reason = reason
        self.redirect_url = detail if reason == REDIRECT else None
        self.is_failure = bool(detail) and reason not in (REDIRECT, Reason.TIMEOUT)
        """The other side, or the network, has said what is wrong. A peer that is silent has not."""


class UnreachableError(ClientError):
    """No session came about: refused, no TLS, no handshake, not in time, or sent elsewhere."""

    def __init__(self, peer: str, why: str, redirect_url: str | None = None) -> None:
        super().__init__(peer, why)
        self.redirect_url = redirect_url


class NoAnswerError(ClientError):
    """The time a request was given is over."""


class UndeliveredError(ClientError):
    """The peer did not take, or never confirmed, what was sent to it."""


class RefusedError(UndeliveredError):
    """The mesh answered a subscription, an event, or the like, with an error. `code` is its slug."""

    def __init__(self, peer: str, code: str, message: str) -> None:
        super().__init__(peer, f"{code}: {message}" if message else code)
        self.code = code
