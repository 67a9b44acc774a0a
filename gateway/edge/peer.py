"""Who is at the other end of a transport."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

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


def host_port(host: str, port: int) -> str:
    """
    >>> host_port("::1", 5040)
    '[::1]:5040'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
