"""Who is at the other end of a transport."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from gateway.address import host_port
from gateway.event import Auth


@dataclass(frozen=True, slots=True)
class Identity:
    """A node that was proven. `until` is when its proof ends, in seconds since the epoch."""

    node: str
    until: float = math.inf


@dataclass(frozen=True, slots=True)
class Peer:
    """`node` is "" where the transport proves nothing; then the protocol may, or the session stays anonymous.

    `until` is as that of an Identity.
    """

    address: str
    node: str = ""
    auth: Auth = Auth.NONE
    until: float = math.inf


def address_of(transport: asyncio.BaseTransport) -> str:
    name = transport.get_extra_info("peername")
    return host_port(*name[:2]) if name else ""
