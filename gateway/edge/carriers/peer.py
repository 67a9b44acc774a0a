"""The peer at the other end of a transport: its address, and who it has proven to be."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.core.address import host_port
from gateway.core.event import Auth

Holds = Callable[[], bool]
"""Returns True if a proof would be taken now as well, by the files and settings in force."""


def always() -> bool:
    """Holds for what no file and no setting can withdraw."""
    return True


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """A node that was proven. `until` is when its proof ends, in seconds since the epoch."""

    node: str
    until: float = math.inf
    holds: Holds = field(default=always, repr=False, compare=False)


NOBODY = PeerIdentity("")


@dataclass(frozen=True, slots=True)
class Peer:
    """The peer as its transport proves it.

    `node` is "" if the transport proves nothing. Then the protocol may, or the session stays anonymous.

    `proofs` are those that the session stands by: it ends with the first of them that ends. The first is the
    transport's own, which stays when a login gives the session another node.
    """

    address: str
    node: str = ""
    auth: Auth = Auth.NONE
    proofs: tuple[PeerIdentity, ...] = (NOBODY,)


def address_of(transport: asyncio.BaseTransport) -> str:
    name = transport.get_extra_info("peername")
    return host_port(*name[:2]) if name else ""
