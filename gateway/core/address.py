"""Addresses as they stand in a configuration: `scheme://host:port` for peers, `host:port` for our own services."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

MAX_PORT = 65_535
LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound to
WILDCARD_HOSTS = frozenset(LOOPBACK)

DATAGRAM_SCHEMES = frozenset({"udp", "quic"})
TLS_SCHEMES = frozenset({"tls", "wss", "quic"})
WEBSOCKET_SCHEMES = frozenset({"ws", "wss"})
MESSAGE_SCHEMES = WEBSOCKET_SCHEMES | {"xmpp"}
COMPONENT_SCHEMES = frozenset({"xmpp"})
"""A listener with such a scheme is a part of somebody else's server: it goes to the address, and binds nothing."""
PROXIED_SCHEMES = frozenset({"tcp", "tls", "ws", "wss"})
"""A load balancer can put a PROXY protocol header before the peer's first byte on these."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

PRIVATE_DOMAINS = (".svc", ".svc.cluster.local", ".localhost")

_HOST = r"(?P<host>\[[0-9A-Fa-f:.%a-z]+\]|[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?)"
_HOST_PORT = re.compile(rf"{_HOST}:(?P<port>\d{{1,5}})")
_URL = re.compile(rf"(?P<scheme>[a-z]+)://{_HOST}:(?P<port>\d{{1,5}})(?P<path>/[^\s#]*)?")


def host_port(host: str, port: int) -> str:
    """Returns the address as one text, with brackets around an IPv6 host.

    >>> host_port("::1", 5040)
    '[::1]:5040'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_name(host: str) -> str:
    """Returns the name in a Host header, without port, brackets and final dot, in small letters.

    >>> host_name("Mesh.example.org.:9640"), host_name("[::1]:9640"), host_name("::1")
    ('mesh.example.org', '::1', '::1')
    """
    name, _, port = host.rpartition(":")
    host_only = name if port.isdigit() and (":" not in name or name.endswith("]")) else host
    return host_only.strip("[]").rstrip(".").lower()


def is_loopback(host: str) -> bool:
    """Tells whether an address is this machine's own, as an IPv4 address within IPv6 too.

    >>> [is_loopback(host) for host in ("127.0.0.2", "::1", "::ffff:127.0.0.1", "10.0.0.1", "localhost", "")]
    [True, True, True, False, False, False]
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def is_this_machine(host: str) -> bool:
    """Tells whether a host is this machine, by its address or by a usual name of it."""
    return host in ("localhost", "ip6-localhost") or is_loopback(host)


def is_private(host: str) -> bool:
    """Tells whether a Host header holds an address, or a name that public DNS knows nothing of.

    A browser on a page of a stranger's name sends that name, even when the name leads here (DNS rebinding).

    >>> [is_private(host) for host in ("127.0.0.1:9640", "[::1]:9640", "localhost:9640", "edge-0.edges.mesh.svc:9640")]
    [True, True, True, True]
    >>> [is_private(host) for host in ("", "evil.example.com:9640", "127.0.0.1.evil.example.com")]
    [False, False, False]
    """
    name = host_name(host)
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.endswith(PRIVATE_DOMAINS) or (name != "" and "." not in name)
    return True


def is_within(host: str, networks: Iterable[Network]) -> bool:
    """Tells whether an address lies in one of the networks. An IPv4 address within IPv6 counts as what it is.

    >>> ten = [parse_network("10.0.0.0/8")]
    >>> [is_within(host, ten) for host in ("10.1.2.3", "::ffff:10.1.2.3", "192.0.2.1", "::1", "")]
    [True, True, False, False, False]
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return any((mapped or address) in network for network in networks)


@dataclass(frozen=True, slots=True)
class HostPort:
    """A host and a port. The host of an IPv6 address is without its brackets. Port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return host_port(self.host, self.port)

    @property
    def reachable(self) -> HostPort:
        """The address at which this machine finds a server that listens everywhere."""
        return HostPort(LOOPBACK.get(self.host, self.host), self.port)

    def clashes(self, other: HostPort) -> bool:
        """Returns True if both cannot be bound at once, for one transport."""
        one_host = self.host == other.host or bool({self.host, other.host} & WILDCARD_HOSTS)
        return one_host and self.port == other.port != 0


@dataclass(frozen=True, slots=True)
class Address:
    """The address where a listener listens or a link connects. Only WebSockets have a path, which may have a query."""

    scheme: str
    at: HostPort
    path: str = ""

    def __str__(self) -> str:
        return f"{self.scheme}://{self.at}{self.path}"

    @property
    def host(self) -> str:
        return self.at.host

    @property
    def port(self) -> int:
        return self.at.port

    @property
    def is_datagram(self) -> bool:
        """Binds a UDP port."""
        return self.scheme in DATAGRAM_SCHEMES

    @property
    def has_tls(self) -> bool:
        return self.scheme in TLS_SCHEMES

    @property
    def is_websocket(self) -> bool:
        return self.scheme in WEBSOCKET_SCHEMES

    @property
    def keeps_messages(self) -> bool:
        """True if one message that is sent is one message when it is received."""
        return self.scheme in MESSAGE_SCHEMES

    @property
    def is_bound(self) -> bool:
        return self.scheme not in COMPONENT_SCHEMES

    def at_port(self, port: int) -> Address:
        return replace(self, at=HostPort(self.host, port))

    def clashes(self, other: Address) -> bool:
        return self.is_bound and other.is_bound and self.is_datagram == other.is_datagram and self.at.clashes(other.at)


def parse_host_port(text: Any) -> HostPort:
    """Parses `host:port` or `[ipv6]:port`."""
    if isinstance(text, HostPort):
        return text
    match = _HOST_PORT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise PydanticCustomError("host_port", "expected host:port with a port up to 65535")
    return HostPort(match["host"].strip("[]"), _port(match))


def parse_address(text: Any) -> Address:
    """Parses `scheme://host:port`, with a path for WebSockets."""
    if isinstance(text, Address):
        return text
    match = _URL.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise PydanticCustomError("address", "expected scheme://host:port, such as tcp://127.0.0.1:5040")
    at = HostPort(match["host"].strip("[]"), _port(match))
    address = Address(match["scheme"], at, match["path"] or "")
    if address.path and not address.is_websocket:
        raise PydanticCustomError("address", "expected scheme://host:port: only ws:// and wss:// have a path")
    return address


def parse_network(text: Any) -> Network:
    """Parses an address or a network, such as `192.0.2.7` or `10.0.0.0/8`."""
    if isinstance(text, Network):
        return text
    try:
        return ipaddress.ip_network(text if isinstance(text, str) else "")
    except ValueError:
        raise PydanticCustomError("network", "expected an address or a network, such as 10.0.0.0/8") from None


def _port(match: re.Match[str]) -> int:
    port = int(match["port"])
    if port > MAX_PORT:
        raise PydanticCustomError("port", f"port {port} is above {MAX_PORT}")
    return port


def _has_port(at: HostPort) -> HostPort:
    if at.port == 0:
        raise PydanticCustomError("host_port", "expected a port from 1 to 65535: others have to know where it is")
    return at


HostPortField = Annotated[
    HostPort,
    BeforeValidator(parse_host_port),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^\S+:\d{1,5}$"}),
]
NetworkField = Annotated[
    Network,
    BeforeValidator(parse_network),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9A-Fa-f:.]+(/\d{1,3})?$"}),
]
KnownHostPortField = Annotated[HostPortField, AfterValidator(_has_port)]
AddressField = Annotated[
    Address,
    BeforeValidator(parse_address),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^[a-z]+://\S+:\d{1,5}(/\S*)?$"}),
]
