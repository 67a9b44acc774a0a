"""The sessions of this edge: made for carriers, known by number, ended."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator

from gateway.config import Config, Endpoint, Limits, Link, Listener
from gateway.core.event import Auth
from gateway.core.ids import durable_parts
from gateway.core.quantity import quantity
from gateway.edge.carriers.carrier import Carrier
from gateway.edge.carriers.peer import Peer
from gateway.edge.carriers.read_queue import ReadQueue
from gateway.edge.connection import Connection
from gateway.edge.delivery.session_deliveries import SessionDeliveries
from gateway.edge.logins import Logins
from gateway.edge.memory_budget import MemoryBudget
from gateway.edge.metrics import EdgeMetrics
from gateway.edge.outbox import Outbox
from gateway.edge.process_limits import most_connections, return_freed_memory
from gateway.edge.publisher import RawPublisher
from gateway.edge.session_terms import SessionTerms
from gateway.protocols import protocols
from gateway.protocols.actions import CloseReason, LoginAsked, Terminated
from gateway.protocols.request_budget import RequestBudget
from gateway.protocols.session import Session
from gateway.protocols.session_settings import SessionSettings
from gateway.records.egress import EdgeRestarted

log = logging.getLogger(__name__)

QUIET_SECONDS = 5.0
"""While draining, a session may go on so long with what is under way before it hears the goodbye."""
LOOK_SECONDS = 0.01
SLICE_EFFORT = 65_536
"""A session takes as many frames in one slice as cost about so many bytes of JSON: a millisecond or two. What is behind
them waits for the session's next turn."""


class Sessions:
    """Holds the sessions of an edge. `deliveries` hears what becomes of what they are given.

    `places` counts the connections of all listeners, of which there are never more than `most_places`.
    """

    def __init__(
        self, config: Config, publisher: RawPublisher, deliveries: SessionDeliveries, metrics: EdgeMetrics
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._config, self._permissions = config, config.permissions_policy()
        self.publisher = publisher
        self.deliveries = deliveries
        self._metrics = metrics
        self.logins = Logins(config)
        self.requests = RequestBudget(config.limits.open_requests)
        self.memory = MemoryBudget(config.limits.held_bytes, self._everyone, self._loop.call_soon, return_freed_memory)
        self.reads = ReadQueue(self._loop, lambda: not publisher.in_flight.is_behind)
        self.places, self.most_places = 0, most_connections()
        self._open: dict[int, Connection] = {}
        self._arriving: set[Connection] = set()
        self._next_number = 1
        publisher.in_flight.when_full(self._hold, self._release)

    def __iter__(self) -> Iterator[Connection]:
        """May be asked from any thread."""
        yield from list(self._open.values())

    def outbox(self, number: int) -> Outbox | None:
        """Returns the outbox of an open session."""
        connection = self._open.get(number)
        return None if connection is None else connection.outbox

    def open_requests(self, listener: str) -> int:
        return sum(connection.session.open_requests for connection in self if connection.source.listener == listener)

    @property
    def pending(self) -> int:
        """The number of deliveries that sessions have been given and that have no end yet."""
        return sum(connection.outbox.pending for connection in self)

    # -- for listeners and links -------------------------------------------------------------------------------

    def limits(self, name: str) -> Limits:
        """Returns the limits of a listener or link. One that the configuration no longer has gets the mesh's."""
        try:
            return self._config.listener_limits(name)
        except KeyError:
            return self._config.limits

    def connect(self, endpoint: Endpoint, carrier: Carrier, peer: Peer) -> Connection:
        proven = peer.auth is Auth.TLS or isinstance(endpoint, Link)
        terms = SessionTerms(
            endpoint.name,
            self.limits(endpoint.name),
            endpoint.subscribe,
            endpoint.serve,
            endpoint.redeliver_seconds if proven else 0,
            isinstance(endpoint, Listener) and endpoint.require_login,
        )
        session = self._session(endpoint, carrier)
        connection = Connection(self, session, carrier, peer, terms, self._metrics.of(endpoint))
        session.may_publish = self._judge_of(connection)
        self._arriving.add(connection)
        return connection

    def _judge_of(self, connection: Connection) -> Callable[[str], bool] | None:
        """Asks the permissions in force; None where none concern the listener, for asking costs the session time."""

        def may_publish(subject: str) -> bool:
            source = connection.source
            return self._permissions.may_publish(source.node, source.listener, subject)

        return may_publish if self._permissions.concern(connection.terms.listener) else None

    def _session(self, endpoint: Endpoint, carrier: Carrier) -> Session:
        spec = protocols()[endpoint.protocol]
        settings = SessionSettings(
            token=os.urandom,
            dialled=isinstance(endpoint, Link),
            frame_bytes=self.limits(endpoint.name).frame_bytes,
            handshake_seconds=max(carrier.deadline - self._loop.time(), 0.0),
            request_timeout_seconds=self._config.request_timeout_seconds,
            message_transport=endpoint.address.keeps_messages,
            request_budget=self.requests,
            slice_effort=SLICE_EFFORT,
        )
        if spec.session is None:
            raise TypeError(f"{spec.name} has no sessions")
        return spec.session(settings, endpoint.options)

    # -- for connections ---------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> int:
        """Takes in a new connection, and returns its number."""
        number, self._next_number = self._next_number, self._next_number + 1
        self._arriving.discard(connection)
        self._open[number] = connection
        return number

    def log_in(self, connection: Connection, login: LoginAsked) -> None:
        """Judges the token in a request, and answers it."""
        self.logins.answer(connection, login, self._config.endpoint(connection.terms.listener))

    def ended(self, connection: Connection, end: Terminated) -> None:
        self._arriving.discard(connection)
        self._open.pop(connection.number, None)
        self.deliveries.closed(connection)
        number, source = connection.number, connection.source
        level = logging.INFO if number else logging.DEBUG  # who never had a session may come in thousands
        peer = {"listener": source.listener, "session": number, "peer": source.peer}
        log.log(level, "session closed", extra=peer | {"reason": end.reason, "detail": end.detail})

    def drop_requests(self, begun: EdgeRestarted) -> None:
        """Tells the peers that serve requests from ended lives of another edge that nobody waits for the answers."""
        for connection in self:
            for reply in connection.session.served_for(begun.edge, begun.epoch):
                connection.session_log.drop(reply)

    # -- for all of them ---------------------------------------------------------------------------------------

    def reconfigure(self, config: Config) -> None:
        """Puts a configuration into force. Limits, permissions and protocol options hold at once, all else for new
        sessions."""
        if config.auth != self._config.auth:
            self.logins.reconfigure(config)
        self._config, self._permissions = config, config.permissions_policy()
        self.requests.most = config.limits.open_requests
        self.memory.reconfigure(config.limits.held_bytes)
        options = {(endpoint.name, endpoint.protocol): endpoint.options for endpoint in config.endpoints}
        for connection in self._everyone():
            connection.reconfigure(self.limits(connection.terms.listener))
            connection.session.may_publish = self._judge_of(connection)
            named = connection.terms.listener, connection.session.protocol
            if named in options:  # a link of this name may speak something else by now
                connection.session.reconfigure(options[named])

    def judge_again(self) -> None:
        """Ends the sessions whose proof holds no more: withdrawn by a file, or by the configuration in force."""
        endpoints = {(endpoint.name, endpoint.protocol): endpoint for endpoint in self._config.endpoints}
        for connection in self._everyone():
            endpoint = endpoints.get((connection.terms.listener, connection.session.protocol))
            if endpoint is not None:
                must_log_in = isinstance(endpoint, Listener) and endpoint.require_login
                connection.judge_again(endpoint.options, require_login=must_log_in)

    def _everyone(self) -> list[Connection]:
        return [*self._open.values(), *self._arriving]

    def _hold(self) -> None:
        """The raw log takes no more: nobody is read until it does."""
        waiting = self.publisher.in_flight.bytes
        log.warning("%d bytes wait for Kafka: sessions are not read, datagrams are dropped", waiting)
        for connection in self._everyone():
            connection.hold()

    def _release(self) -> None:
        log.warning("Kafka has caught up: sessions are read again")
        for connection in self._everyone():
            connection.release()

    def abort(self) -> None:
        """Ends all sessions without a goodbye."""
        for connection in self._everyone():
            connection.abort()

    async def drain(self, redirect_url: str | None, seconds: float) -> None:
        """Says goodbye to all peers in their protocols' words.

        A peer with nothing under way hears it at once, the others when they are done or have had their time.
        """
        begun = self._loop.time()
        patience = min(QUIET_SECONDS, seconds / 2)
        while self._everyone():
            elapsed = self._loop.time() - begun
            if elapsed >= seconds:
                log.warning("cut, because they did not end in time: %s", quantity(len(self._everyone()), "session"))
                return
            for connection in self._everyone():
                if connection.is_quiet or elapsed >= patience:
                    connection.leave(CloseReason.DRAIN, redirect_url, seconds=seconds - elapsed)
            await asyncio.sleep(LOOK_SECONDS)


def patience(config: Config, durable_name: str) -> float:
    """Returns how long to wait for a node of which only the durable name is known."""
    _, listener = durable_parts(durable_name)
    return next((float(endpoint.redeliver_seconds) for endpoint in config.endpoints if endpoint.name == listener), 0.0)
