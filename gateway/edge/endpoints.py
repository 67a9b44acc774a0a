"""Every listener and link of this edge: opened at the start, kept to the configuration in force, closed at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from prometheus_client import Gauge

from gateway.config import Config, Endpoint, Link, Listener
from gateway.core.address import Address
from gateway.core.errors import SetupError
from gateway.edge.carriers.links import LinkKeeper
from gateway.edge.carriers.listeners import StreamListener
from gateway.edge.carriers.reachability import Reachability
from gateway.edge.carriers.tls import TlsContext
from gateway.edge.datagrams.listener import DatagramListener
from gateway.edge.datagrams.udp import UdpListener
from gateway.edge.metrics import EdgeMetrics
from gateway.edge.sessions import Sessions
from gateway.records.egress import SourceRefused

if TYPE_CHECKING:
    from gateway.edge.carriers.xmpp import XmppListener
    from gateway.edge.datagrams.quic import QuicListener
    from gateway.edge.datagrams.quic_tls import QuicContext

log = logging.getLogger(__name__)

ContextT = TypeVar("ContextT")


class Secured(Protocol[ContextT]):
    """A listener whose certificates may be replaced."""

    listener: Listener
    secured: ContextT


class Endpoints:
    """Holds the listeners and links. `datagrams` are the listeners that send to addresses, by name."""

    def __init__(self, sessions: Sessions, metrics: EdgeMetrics) -> None:
        self._sessions = sessions
        self._metrics = metrics
        self._streams: dict[str, StreamListener] = {}
        self._links: dict[str, LinkKeeper] = {}
        self._leaving: list[LinkKeeper] = []
        self._quic: dict[str, QuicListener] = {}
        self._xmpp: dict[str, XmppListener] = {}
        self.datagrams: dict[str, DatagramListener] = {}

    async def open(self, config: Config) -> None:
        """Binds and dials. Raises SetupError."""
        for listener in config.listeners:
            scheme = listener.address.scheme
            if scheme == "udp":
                self._open_udp(listener)
            elif scheme == "quic":
                self._open_quic(listener)
            elif scheme == "xmpp":
                self._open_xmpp(listener)
            else:
                await self._open_stream(listener)
        for link in config.peers:
            self._open_link(link)

    def _open_udp(self, listener: Listener) -> None:
        sessions, limits = self._sessions, self._sessions.limits(listener.name)
        udp = UdpListener(listener, sessions.publisher, self._metrics.of(listener), limits)
        self.datagrams[listener.name] = udp
        udp.start()

    def _open_quic(self, listener: Listener) -> None:
        """Imports late, for few edges listen so."""
        from gateway.edge.datagrams.quic import QuicListener

        sessions, limits, context = self._sessions, self._sessions.limits(listener.name), self._quic_context(listener)
        quic = QuicListener(listener, sessions.publisher, self._metrics.of(listener), limits, context)
        self.datagrams[listener.name] = self._quic[listener.name] = quic
        sessions.memory.include(lambda: quic.peers)
        quic.start()

    def _open_xmpp(self, listener: Listener) -> None:
        """Imports late, likewise."""
        from gateway.edge.carriers.xmpp import XmppListener

        xmpp = self._xmpp[listener.name] = XmppListener(listener, self._sessions, self._metrics.of(listener))
        xmpp.start()

    async def _open_stream(self, listener: Listener) -> None:
        stream = StreamListener(listener, self._sessions, self._context(listener), self._metrics.of(listener))
        await stream.bind()
        self._streams[listener.name] = stream

    def _open_link(self, link: Link) -> None:
        keeper = LinkKeeper(link, self._sessions, self._context(link), self._metrics.of(link))
        self._links[link.name] = keeper
        keeper.start()

    def _context(self, endpoint: Endpoint) -> TlsContext | None:
        return self._read(TlsContext, endpoint) if endpoint.address.has_tls else None

    def _quic_context(self, endpoint: Endpoint) -> QuicContext:
        from gateway.edge.datagrams.quic_tls import QuicContext

        return self._read(QuicContext, endpoint)

    def _read(self, kind: Callable[[Endpoint, Gauge, Gauge], ContextT], endpoint: Endpoint) -> ContextT:
        try:
            metrics = self._metrics
            return kind(endpoint, metrics.certificate_expiry(endpoint), metrics.revocation_list_expiry(endpoint))
        except (OSError, ValueError) as error:
            raise SetupError(f"{endpoint.name}: the files of `tls` cannot be used: {error}") from error

    def slow_down(self, refused: SourceRefused) -> None:
        """Takes less of a source that the router refuses. A listener that is gone needs no word."""
        if (datagrams := self.datagrams.get(refused.listener)) is not None:
            datagrams.slow_down(refused.peer)

    def address(self, listener: Listener) -> Address:
        """Returns the address that a listener is bound to. The system chooses the port if the configuration says 0."""
        address = listener.address
        return address.at_port(self.port(listener.name)) if address.is_bound else address

    def port(self, name: str) -> int:
        stream = self._streams.get(name)
        return stream.port if stream is not None else self.datagrams[name].port

    def away(self) -> list[dict[str, Any]]:
        """Returns the links and listeners whose other side is not there, and why. Asked from any thread."""
        keepers: list[tuple[Endpoint, Reachability]] = [
            (keeper.link, keeper.reachability) for keeper in list(self._links.values())
        ]
        keepers += [(listener.listener, listener.reachability) for listener in list(self._xmpp.values())]
        return [
            {
                "what": reachability.name,
                "listener": endpoint.name,
                "protocol": endpoint.protocol,
                "address": str(endpoint.address),
                "why": why,
                "since": reachability.since,
            }
            for endpoint, reachability in keepers
            if (why := reachability.why_away)
        ]

    # -- while it runs -----------------------------------------------------------------------------------------

    def reconfigure(self, config: Config) -> None:
        """Takes a new configuration whose sockets are the same: policies, and links."""
        self._sessions.reconfigure(config)
        for listener in config.listeners:
            if listener.name in self.datagrams and listener.name not in self._quic:
                self.datagrams[listener.name].listener = listener
        for name, udp in self.datagrams.items():
            udp.reconfigure(self._sessions.limits(name))
        for listener in config.listeners:
            if (stream := self._streams.get(listener.name)) is not None:
                _change(stream, listener, self._context)
            if (quic := self._quic.get(listener.name)) is not None:
                _change(quic, listener, self._quic_context)
            if (xmpp := self._xmpp.get(listener.name)) is not None:
                xmpp.reconfigure(listener)
        configured = {link.name: link for link in config.peers}
        for name, keeper in list(self._links.items()):
            if name not in configured or _differs(keeper.link, configured[name]):
                log.info("link %s is %s", name, "changed" if name in configured else "gone")
                self._leaving.append(self._links.pop(name))
                keeper.leave()
        for name, link in configured.items():
            if name not in self._links:
                self._try_link(link)
        self.judge_again()

    def judge_again(self) -> None:
        """Ends what stands by a proof that would not be taken any more."""
        self._sessions.judge_again()
        for quic in self._quic.values():
            quic.judge_again()

    def _try_link(self, link: Link) -> None:
        try:
            self._open_link(link)
        except SetupError as error:
            log.warning("%s; it is not dialled", error)

    def refresh_files(self) -> bool:
        """Takes over certificates and keys of tokens that have changed; returns whether there are any.

        Reads files: called in a thread.
        """
        contexts: list[TlsContext | None] = [stream.secured for stream in self._streams.values()]
        contexts += [keeper.secured for keeper in self._links.values()]
        contexts += [listener.secured for listener in self._quic.values()]
        changed = [context.refresh() for context in contexts if context is not None]
        return self._sessions.logins.refresh() or any(changed)

    def count_kernel_drops(self) -> None:
        for udp in self.datagrams.values():
            udp.count_kernel_drops()

    # -- the end -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stops taking new peers. Sessions go on."""
        for stream in self._streams.values():
            stream.close()
        for keeper in self._links.values():
            keeper.stop()
        for udp in self.datagrams.values():
            udp.stop()
        for xmpp in self._xmpp.values():
            xmpp.close()

    @property
    def are_gone(self) -> bool:
        """No socket of a session is left, not even one that is closing."""
        keepers: Sequence[LinkKeeper | XmppListener] = (*self._links.values(), *self._leaving, *self._xmpp.values())
        return not any(stream.places for stream in self._streams.values()) and all(keeper.is_gone for keeper in keepers)


def _change(secured_port: Secured[ContextT], listener: Listener, make: Callable[[Listener], ContextT]) -> None:
    if listener.tls != secured_port.listener.tls:
        try:
            secured_port.secured = make(listener)
        except SetupError as error:
            log.warning("%s; its old ones stay", error)
    secured_port.listener = listener


def _differs(link: Link, other: Link) -> bool:
    """Returns True if the endpoint differs in more than its limits, which need no other connection."""
    return link.model_copy(update={"limits": {}}) != other.model_copy(update={"limits": {}})
