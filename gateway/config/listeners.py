"""Listeners and links: keys that all of them take, limits that may stand in any, and the protocol's own options.

In a file the three kinds stand side by side. Here they are told apart by name: what is a field below is common, what is
a field of `Limits` is a limit, and all else belongs to the protocol, whose `Options` says what it takes. So adding a
protocol edits nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, SerializeAsAny, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from gateway.config.section import Name, Pattern, RelativePath
from gateway.config.settings import Limits
from gateway.core.address import (
    PROXIED_SCHEMES,
    Address,
    AddressField,
    Network,
    NetworkField,
    is_private,
    is_this_machine,
    is_within,
)
from gateway.core.section import Section
from gateway.protocols import protocols
from gateway.protocols.spec import Options

_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s]+")

_DOMAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")

SPLIT = ("limits", "options")
"""Fields that hold keys which stand in the listener itself."""


class ListenTls(Section):
    """Files are PEM, and are read again when they change."""

    cert: RelativePath
    """The listener shows this certificate chain (PEM)."""
    key: RelativePath
    """This is the private key (PEM) of `cert`."""
    client_ca: RelativePath | None = None
    """Peers must show a certificate signed by one in this PEM file; it makes a client certificate compulsory."""
    crl: RelativePath | None = None
    """This PEM file lists the certificates that `client_ca` has revoked: one list for each authority that signs
    clients. A list that has run out lets nobody in."""
    node_from: Literal["san", "cn"] = "san"
    """This part of the peer's certificate names its node: `san` is the first URI, else the first DNS name; `cn` is the
    common name."""

    @model_validator(mode="after")
    def _judges_clients(self) -> Self:
        if self.crl is not None and self.client_ca is None:
            raise PydanticCustomError("tls", "crl needs client_ca: it lists certificates of clients")
        return self


class ConnectTls(Section):
    """Files are PEM, and are read again when they change."""

    ca: RelativePath | None = None
    """The peer's certificate must be signed by one in this PEM file. Without it, by whom the system trusts."""
    cert: RelativePath | None = None
    """The link shows this certificate (PEM) to peers that ask for one."""
    key: RelativePath | None = None
    """This is the private key (PEM) of `cert`."""
    server_name: str | None = None
    """The peer's certificate must hold this name, where it is not the host connected to."""
    node_from: Literal["san", "cn"] = "san"
    """This part of the peer's certificate names its node: `san` is the first URI, else the first DNS name; `cn` is the
    common name."""


def _domain(name: str) -> str:
    if not _DOMAIN.fullmatch(name):
        raise PydanticCustomError("domain", "expected the domain of a component, such as mesh.example.org")
    return name


class XmppComponent(Section):
    """Makes the listener an external component (XEP-0114) of the XMPP server at its address."""

    domain: Annotated[str, AfterValidator(_domain)]
    """Peers write to this domain, or to any name in it. Each edge needs one of its own."""
    secret: SecretStr
    """The XMPP server asks for this secret. The connection has no TLS: the server belongs on the same host."""


LINK_REDELIVER_SECONDS = 300
"""A link's peer is owed what it missed for so long, if its protocol can redeliver and the link says nothing else."""

TlsT = TypeVar("TlsT", ListenTls | None, ConnectTls | None)


class Endpoint(Section):
    """The settings that listeners and links have in common."""

    name: Name
    """The name is one of its own among listeners and links: frames, metrics and permissions name it."""
    protocol: str
    """Peers speak this protocol here. Which other settings there are depends on it."""
    subscribe: tuple[Pattern, ...] = ()
    """Each session is subscribed to these patterns while it lasts, for peers that know nothing of the mesh."""
    serve: tuple[Pattern, ...] = ()
    """Each session serves requests of these patterns while it lasts, for peers that know nothing of the mesh."""
    limits: dict[str, Any] = Field(default_factory=dict)
    """Those that stand here; all others are the mesh's."""
    options: SerializeAsAny[Options] = Field(default_factory=dict, validate_default=True)

    @property
    def address(self) -> Address:
        raise NotImplementedError

    @property
    def redeliver_seconds(self) -> int:
        """The time for which a node is owed what it misses; 0 if the protocol cannot redeliver."""
        return getattr(self.options, "redeliver_seconds", 0)

    def for_router(self) -> Self:
        """Returns the endpoint without the secrets that only its own connections use."""
        return self.model_copy(update={"options": self.options.for_router()})

    def limits_over(self, mesh: Limits) -> Limits:
        """Returns the mesh's limits with those that stand in this listener."""
        return mesh.model_copy(update=self.limits)

    @model_validator(mode="before")
    @classmethod
    def _split(cls, section: Any) -> Any:
        if not isinstance(section, Mapping):
            return section
        common = {name: value for name, value in section.items() if name in cls.model_fields and name not in SPLIT}
        limits = {name: value for name, value in section.items() if name in Limits.model_fields}
        options = {name: value for name, value in section.items() if name not in common and name not in limits}
        return common | {"limits": limits, "options": options}

    @field_validator("protocol")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in protocols():
            names = ", ".join(sorted(protocols()))
            raise PydanticCustomError("protocol", "expected one of the protocols {known}", {"known": names})
        return name

    @field_validator("limits", mode="plain")
    @classmethod
    def _said_here(cls, value: Any) -> dict[str, Any]:
        return Limits.model_validate(value).model_dump(exclude_unset=True)

    @field_validator("options", mode="plain")
    @classmethod
    def _of_protocol(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, Options):
            return value
        spec = protocols().get(info.data.get("protocol", ""))
        return Options() if spec is None else spec.options.model_validate(value, context=info.context)


def _origin(text: str) -> str:
    """Checks an origin as browsers send it. `null` is what a page from a file sends."""
    if text not in ("*", "null") and not _ORIGIN.fullmatch(text):
        raise PydanticCustomError("origin", "expected scheme://host[:port], null, or *")
    return text.lower()


def _hostname(url: str) -> str | None:
    """Returns the host of a header, or None where it has none or is no address: both headers are a peer's."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _carried(address: Address, protocol: str | None) -> Address:
    """A scheme the protocol runs over. Nothing to say while the protocol itself is at fault."""
    spec = protocols().get(protocol or "")
    if spec is not None and address.scheme not in spec.transports:
        schemes = ", ".join(f"{scheme}://" for scheme in sorted(spec.transports))
        raise PydanticCustomError(
            "scheme",
            "expected one of {schemes}: that is what {protocol} runs over",
            {"schemes": schemes, "protocol": protocol},
        )
    if "?" in address.path:
        # Addresses stand in logs, and a query may hold a secret. Only a peer's redirect brings one.
        raise PydanticCustomError("query", "expected an address without a query")
    return address


class Listener(Endpoint):
    listen: AddressField
    """Peers connect to this address, such as `tcp://127.0.0.1:5042`; port 0 lets the system choose. For xmpp:// it is
    the server's."""
    tls: ListenTls | None = Field(default=None, validate_default=True)
    """This section holds the listener's certificate. It is needed with tls://, wss:// and quic://, and its files are
    read again when they change."""
    xmpp: XmppComponent | None = Field(default=None, validate_default=True)
    """This section says what the listener is to the XMPP server at its address: an external component (XEP-0114)."""
    proxy_protocol: bool = Field(default=False, validate_default=True)
    """Each connection begins with a PROXY protocol v2 header, which names the peer behind a load balancer. Whoever may
    send one can claim any address with it: see `proxy_from`."""
    proxy_from: tuple[NetworkField, ...] | None = None
    """Only balancers at these addresses, or in these networks, may connect. Without it, everybody may."""
    origins: tuple[Annotated[str, AfterValidator(_origin)], ...] | None = None
    """Pages of these origins may open a WebSocket here: `scheme://host[:port]`, or `*` for all. Without it a page may
    that came from the host it connects to, over TLS or under an IP address, `localhost` or another name that is not
    public. Any page that a user visits could else speak to a mesh that the user's machine reaches."""

    require_login: bool = Field(default=False, validate_default=True)
    """A peer reaches the mesh by this listener only when it has proven who it is: by a certificate, by the protocol's
    own login, or by a token."""

    @property
    def address(self) -> Address:
        return self.listen

    @property
    def is_exposed(self) -> bool:
        """True if others than programs on this machine reach it: by its address, or through what stands before it."""
        return not self._is_on_loopback or self.proxy_protocol or not self.address.is_bound

    @property
    def _is_on_loopback(self) -> bool:
        return is_this_machine(self.address.host)

    @property
    def believes_any_balancer(self) -> bool:
        """True if PROXY headers are taken from whoever reaches the port, and not only programs on this machine do."""
        is_open = self.proxy_from is None or any(network.prefixlen == 0 for network in self.proxy_from)
        return self.proxy_protocol and is_open and not self._is_on_loopback

    def may_connect(self, host: str) -> bool:
        """Returns True if connections from this address are taken, whomever their PROXY header names."""
        return self.proxy_from is None or is_within(host, self.proxy_from)

    def for_router(self) -> Self:
        router = super().for_router()
        if router.xmpp is None:
            return router
        return router.model_copy(update={"xmpp": router.xmpp.model_copy(update={"secret": SecretStr("")})})

    def lets_in(self, origin: str | None, host: str) -> bool:
        """Returns True if a WebSocket with this Origin header may be opened to this Host header.

        Without an Origin it is no browser's.
        """
        if origin is None:
            return True
        if self.origins is None:
            page = _hostname(origin)
            is_ours = self.address.has_tls or is_private(host)
            return is_ours and page is not None and page == _hostname(f"//{host}")
        return "*" in self.origins or origin.lower() in self.origins

    @field_validator("listen")
    @classmethod
    def _transport(cls, address: Address, info: ValidationInfo) -> Address:
        if address.port == 0 and not address.is_bound:
            raise PydanticCustomError("listen", "expected the port where the server waits for its components")
        return _carried(address, info.data.get("protocol"))

    @field_validator("tls")
    @classmethod
    def _fitting(cls, tls: ListenTls | None, info: ValidationInfo) -> ListenTls | None:
        address = info.data.get("listen")
        if address is not None and address.has_tls and tls is None:
            raise PydanticCustomError("tls", "{scheme}:// needs tls: {cert, key}", {"scheme": address.scheme})
        return _only_with_tls(tls, address)

    @field_validator("xmpp")
    @classmethod
    def _component(cls, xmpp: XmppComponent | None, info: ValidationInfo) -> XmppComponent | None:
        address = info.data.get("listen")
        if address is not None and (address.scheme == "xmpp") != (xmpp is not None):
            message = (
                "xmpp:// needs xmpp: {domain, secret}" if xmpp is None else "only xmpp:// is a component of a server"
            )
            raise PydanticCustomError("xmpp", "{said}", {"said": message})
        return xmpp

    @field_validator("proxy_protocol")
    @classmethod
    def _proxied(cls, is_proxied: bool, info: ValidationInfo) -> bool:
        address = info.data.get("listen")
        if is_proxied and address is not None and address.scheme not in PROXIED_SCHEMES:
            raise PydanticCustomError("proxy_protocol", "{scheme}:// has no PROXY header", {"scheme": address.scheme})
        return is_proxied

    @field_validator("proxy_from")
    @classmethod
    def _balancers(cls, networks: tuple[Network, ...] | None, info: ValidationInfo) -> tuple[Network, ...] | None:
        if networks is not None and info.data.get("proxy_protocol") is False:
            raise PydanticCustomError("proxy_from", "proxy_from needs proxy_protocol: true")
        return networks

    @field_validator("require_login")
    @classmethod
    def _has_sessions(cls, is_required: bool, info: ValidationInfo) -> bool:
        address = info.data.get("listen")
        if is_required and address is not None and address.is_datagram:
            message = "packets prove their senders one by one: see `unauthenticated`"
            raise PydanticCustomError("require_login", "{said}", {"said": message})
        return is_required

    @field_validator("origins")
    @classmethod
    def _browsers(cls, origins: tuple[str, ...] | None, info: ValidationInfo) -> tuple[str, ...] | None:
        address = info.data.get("listen")
        if origins and address is not None and not address.is_websocket:
            raise PydanticCustomError("origins", "only ws:// and wss:// have an origin")
        return origins


class Link(Endpoint):
    """A peer that the edge dials and keeps."""

    connect: AddressField
    """The edge dials this address, such as `tls://10.1.0.5:5040`, again and again until the peer is there."""
    tls: ConnectTls | None = None
    """This section says whom a link with TLS trusts, and what it shows."""
    redirect_hosts: tuple[str, ...] = ()
    """A peer may send the link to these hosts, beside the one that it connects to; globs such as `*.plant.example` are
    allowed. The link shows its certificate there, and takes what it is sent."""

    @property
    def address(self) -> Address:
        return self.connect

    @property
    def redeliver_seconds(self) -> int:
        can = "redeliver_seconds" in type(self.options).model_fields
        is_said = "redeliver_seconds" in self.options.model_fields_set
        return LINK_REDELIVER_SECONDS if can and not is_said else super().redeliver_seconds

    def may_be_sent_to(self, address: Address) -> bool:
        """Returns True if its peer may redirect the link there: never from TLS to a connection without."""
        hosts = (self.connect.host, *self.redirect_hosts)
        is_known = any(fnmatchcase(address.host.lower(), host.lower().replace("[", "[[]")) for host in hosts)
        return is_known and address.has_tls >= self.connect.has_tls

    @field_validator("connect")
    @classmethod
    def _transport(cls, address: Address, info: ValidationInfo) -> Address:
        if address.port == 0:
            raise PydanticCustomError("connect", "expected a port from 1 to 65535")
        protocol = info.data.get("protocol", "")
        if not address.is_bound or (protocol in protocols() and protocols()[protocol].session is None):
            who = protocol if address.is_bound else "xmpp://"
            raise PydanticCustomError("connect", "{who} is a listener's: its peers come by themselves", {"who": who})
        return _carried(address, protocol)

    @field_validator("tls")
    @classmethod
    def _fitting(cls, tls: ConnectTls | None, info: ValidationInfo) -> ConnectTls | None:
        if tls is not None and (tls.cert is None) != (tls.key is None):
            raise PydanticCustomError("tls", "cert and key belong together")
        return _only_with_tls(tls, info.data.get("connect"))


def _only_with_tls(tls: TlsT, address: Address | None) -> TlsT:
    if tls is not None and address is not None and not address.has_tls:
        raise PydanticCustomError(
            "tls", "{scheme}:// has no TLS: drop this, or use another scheme", {"scheme": address.scheme}
        )
    return tls
