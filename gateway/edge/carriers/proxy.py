"""The PROXY protocol, version 2: who the peer is, as a load balancer in front of us says.

    12 signature | 1 version and command | 1 family and transport | u16 length | addresses | TLVs         (big-endian)
    0d0a0d0a000d0a515549540a               11 TCP/IPv4  12 bytes of addresses: source, destination, both ports
    20 LOCAL (a health check), 21 PROXY    21 TCP/IPv6  36 bytes

Version 1 is a line of text of unknown length and is refused: a reader could not tell where the peer's own bytes begin
without reading them one by one. TLVs are passed over.
"""

from __future__ import annotations

import ipaddress

from gateway.core.address import host_port
from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import WireReader

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
HEAD_BYTES = 16
MAX_REST_BYTES = 4_096
"""Addresses and TLVs. The text asks for 536 at least; certificates in TLVs need more, and no balancer sends this."""

_LOCAL, _PROXY = 0x20, 0x21
_TCP4, _TCP6 = 0x11, 0x21
_UNSPECIFIED = 0x00


def rest_length(head: bytes) -> int:
    """Returns how many bytes of the header follow the first sixteen. Raises Rejected."""
    reader = WireReader(head)
    signature = reader.take(len(SIGNATURE))
    if signature.startswith(b"PROXY "):
        raise _refused(Reason.UNSUPPORTED_VERSION, "version 1 of the PROXY protocol; version 2 is spoken here")
    if signature != SIGNATURE:
        raise _refused(Reason.MALFORMED, "no PROXY header")
    if reader.u8() not in (_LOCAL, _PROXY):
        raise _refused(Reason.UNSUPPORTED_VERSION, "an unknown version or command of the PROXY protocol")
    reader.u8()
    length = reader.u16()
    if length > MAX_REST_BYTES:
        raise _refused(Reason.TOO_LARGE, f"a PROXY header of more than {MAX_REST_BYTES} bytes")
    return length


def source(head: bytes, rest: bytes) -> str | None:
    """Returns the peer as `host:port`; None if the balancer speaks for itself, or cannot say. Raises Rejected."""
    command, family = head[len(SIGNATURE)], head[len(SIGNATURE) + 1]
    if command == _LOCAL or family == _UNSPECIFIED:
        return None
    if family not in (_TCP4, _TCP6):
        raise _refused(Reason.MALFORMED, "a PROXY header of another transport than TCP")
    size = 4 if family == _TCP4 else 16
    reader = WireReader(rest)
    host = ipaddress.ip_address(reader.take(size))
    reader.take(size)
    port = reader.u16()
    reader.u16()
    return host_port(str(host), port)


def _refused(reason: Reason, detail: str) -> Rejected:
    return Rejected(reason, detail, can_continue=False)
