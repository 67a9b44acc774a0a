"""Who is at the other end of a transport."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gateway.address import host_port
from gateway.event import Auth


@dataclass(frozen=True, slots=True)
class Peer:
    """`node` is "" where the transport proves nothing; then the protocol may, or the session stays anonymous."""

    address: str
    node: str = ""
    auth: Auth = Auth.NONE


def address_of(transport: asyncio.BaseTransport) -> str:
    name = transport.get_extra_info("peername")
    return host_port(*name[:2]) if name else ""
