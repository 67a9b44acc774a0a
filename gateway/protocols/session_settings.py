"""The settings of a sans-IO session, which it is given instead of a configuration, a clock and randomness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.protocols.request_budget import RequestBudget


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The settings of one session.

    Args:
        token: returns that many random bytes.
        dialled: we connected to the peer (a link or a client), so we speak first where the protocol has an order.
        message_transport: the transport keeps the bounds of messages (WebSocket, XMPP). `receive` is given one whole
            message, and each item of `data_to_send` is one.
        request_budget: shared by all sessions of an edge.
        slice_effort: `receive` stops behind the frame with which it has cost so much; None takes all that there is.
    """

    token: Callable[[int], bytes]
    dialled: bool = False
    frame_bytes: int = 1_048_576
    handshake_seconds: float = 5.0
    request_timeout_seconds: float = 30.0
    ping_seconds: float = 30.0
    pong_timeout_seconds: float = 10.0
    message_transport: bool = False
    request_budget: RequestBudget = field(default_factory=RequestBudget)
    slice_effort: int | None = None
