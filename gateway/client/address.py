"""The address of a peer: `host`, `host:port`, or `scheme://host:port`, with the protocol's own port and TLS as wanted.

Behind an XMPP server it is `xmpp://USER@HOST/PEER`, as RFC 5122 writes who speaks to whom, with a port where it is not
XMPP's own. `user%40domain` is a user of a domain whose server stands elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from gateway.client.errors import UnreachableError
from gateway.core.address import Address, HostPort, is_this_machine, parse_address, parse_host_port
from gateway.protocols.spec import ProtocolSpec

XMPP_PORT = 5222

_XMPP = re.compile(r"xmpp://(?P<user>[^\s/?#@:]+)@(?P<at>[^\s/?#@]+)/(?P<peer>[^\s?#]+)")


@dataclass(frozen=True, slots=True)
class XmppAddress(Address):
    """The address of a peer behind an XMPP server.

    `user` is the JID that speaks to `peer`, which is another. `password` is what the server knows `user` by.
    """

    user: str = ""
    peer: str = ""
    password: str = field(default="", repr=False)

    def __str__(self) -> str:
        name, _, domain = self.user.partition("@")
        return f"xmpp://{name if domain == self.host else f'{name}%40{domain}'}@{self.at}/{self.peer}"

    @property
    def has_tls(self) -> bool:
        """True if the stream has TLS, by STARTTLS where the server offers it."""
        return True

    @property
    def is_here(self) -> bool:
        """True if the server is on this machine, as far as its name says."""
        return is_this_machine(self.host)


def peer_address(
    spec: ProtocolSpec[Any], where: str, port: int | None = None, *, tls: bool = False, password: str = ""
) -> Address:
    """Returns the address of a peer of this protocol.

    >>> from gateway.protocols import protocols
    >>> str(peer_address(protocols()["yamp"], "127.0.0.1")), str(peer_address(protocols()["yamp"], "mesh:1", tls=True))
    ('tcp://127.0.0.1:5042', 'tls://mesh:1')
    """
    try:
        address = _xmpp(where, password) if where.startswith("xmpp:") else _parse(spec, where, port, tls)
    except ValueError as wrong:
        raise UnreachableError(where, str(wrong)) from None
    if address.scheme not in spec.transports:
        schemes = ", ".join(f"{scheme}://" for scheme in sorted(spec.transports))
        raise UnreachableError(where, f"{spec.name} runs over {schemes}")
    return address


def _xmpp(where: str, password: str) -> XmppAddress:
    match = _XMPP.fullmatch(where)
    if match is None:
        raise ValueError("expected xmpp://USER@HOST/PEER, such as xmpp://alice@example.org/mesh.example.org")
    at = match["at"]
    place = parse_host_port(at if at.rpartition("]")[2].count(":") == 1 else f"{at}:{XMPP_PORT}")
    user = unquote(match["user"])
    return XmppAddress("xmpp", place, "", user if "@" in user else f"{user}@{place.host}", match["peer"], password)


def _parse(spec: ProtocolSpec[Any], where: str, port: int | None, tls: bool) -> Address:
    if "://" in where:
        return parse_address(where)
    scheme = ("quic" if tls else "udp") if spec.session is None else "tls" if tls else "tcp"
    if port is not None:
        return Address(scheme, HostPort(where.strip("[]"), port))
    has_port = where.rpartition("]")[2].count(":") == 1
    return Address(scheme, parse_host_port(where if has_port else f"{where}:{spec.default_port}"))
