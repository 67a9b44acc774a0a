"""The XMPP listener: a component of somebody else's server, to whose address peers write.

    resting ─► dialling ─► handshake ─► stands ─► over ─► resting, longer each time it fails
                                          │
        alice@… writes ──► a session for alice, whichever device she writes from
        her last device goes, or the stream is over ──► the session ends

A message is one body. Who wrote it is what the server says, so the node of a session is `xmpp:` and the bare JID.
XMPP has no word for the end of a session; presence says it, both ways.

Invariants
1. A JID has at most one session, and a session ends with the stream it came by.
2. Sessions begin at the listener's rate and no faster: the server's peers may have as many JIDs as they like.
3. What comes for a session that is not read at present waits, up to a bound; more is dropped and counted, for the
   stream belongs to all. Protocols over XMPP confirm their messages, and send again what was not confirmed.
"""

from __future__ import annotations

import asyncio
import logging

from slixmpp import JID
from slixmpp.types import MessageTypes

from gateway.config import Limits, Listener
from gateway.core.errors import SetupError
from gateway.core.event import Auth
from gateway.core.reasons import Reason
from gateway.edge.carriers.carrier import Carrier
from gateway.edge.carriers.links import BackOff
from gateway.edge.carriers.peer import Peer
from gateway.edge.carriers.reachability import Reachability
from gateway.edge.carriers.read_control import ARRIVALS_BURST_SECONDS, TokenBucket
from gateway.edge.carriers.xmpp_carrier import XmppCarrier
from gateway.edge.carriers.xmpp_stream import ComponentStream
from gateway.edge.connection import Connection
from gateway.edge.metrics import ConnectionGauge, ListenerMetrics
from gateway.edge.sessions import Sessions

log = logging.getLogger(__name__)

LONGEST_REST_SECONDS = 4.0
"""Shorter than a link's: behind one stream are the sessions of all, and few dial the one server."""
NODE = "xmpp:"


class XmppListener:
    """Keeps the stream until it is closed."""

    def __init__(self, listener: Listener, sessions: Sessions, metrics: ListenerMetrics) -> None:
        self._loop = asyncio.get_running_loop()
        self._sessions = sessions
        self._metrics = metrics
        self._carriers: dict[str, XmppCarrier] = {}
        self._arrivals = TokenBucket(
            sessions.limits(listener.name).connections_per_second, self._loop.time(), ARRIVALS_BURST_SECONDS
        )
        self._unsaid: dict[str, JID] = {}
        self._closed = False
        self._stood_at: float | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self.listener = listener
        self.reachability = Reachability(f"listener {listener.name}")
        self._stream = self._new_stream()

    def start(self) -> None:
        self._task = self._loop.create_task(self._keep(), name=f"listener {self.listener.name}")

    def reconfigure(self, listener: Listener) -> None:
        """Takes the new configuration. With another domain or secret the stream is begun again."""
        changed, self.listener = listener.xmpp != self.listener.xmpp, listener
        if changed:
            self._stream.give_up("the settings have changed")

    def close(self) -> None:
        """Stops taking new peers. A peer with a session keeps it, and the stream with it."""
        self._closed = True
        self._end_if_done()

    @property
    def is_gone(self) -> bool:
        return not self._carriers

    @property
    def _limits(self) -> Limits:
        return self._sessions.limits(self.listener.name)

    def _new_stream(self) -> ComponentStream:
        xmpp = self.listener.xmpp
        if xmpp is None:
            raise SetupError(f"listener {self.listener.name}: xmpp:// needs xmpp: {{domain, secret}}")
        return ComponentStream(xmpp.domain, xmpp.secret.get_secret_value(), self)

    # -- the stream --------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        back_off, at = BackOff(longest_seconds=LONGEST_REST_SECONDS), self.listener.address.at
        while True:
            stream, self._stood_at = self._stream, None
            stream.connect(at.host, at.port)
            self._deadline = self._loop.call_later(
                self._limits.handshake_seconds, stream.give_up, "it does not answer in time"
            )
            why = await stream.over
            self._deadline.cancel()
            stream.give_up(why)
            self.reachability.lost(f"the XMPP server at {at}: {why}")
            for jid, carrier in list(self._carriers.items()):
                self._unsaid[jid] = carrier.own
                carrier.connection_lost(None)
            if self._stood_at is not None:
                back_off.stood(self._loop.time() - self._stood_at)
            await asyncio.sleep(back_off.rest())
            self._stream = self._new_stream()

    def stands(self) -> None:
        """Tells the peers that lost a session with the last stream: their subscriptions are gone, unknown to them."""
        self._stood_at = self._loop.time()
        if self._deadline is not None:
            self._deadline.cancel()
        limits, unsaid = self._limits, self._unsaid
        self._stream.limit_writes(2 * limits.queue_bytes, limits.queue_bytes)
        self._unsaid = {}
        for jid, own in unsaid.items():
            self._stream.tell_presence(own, jid, "unavailable")
        self.reachability.reached(f"is a component of {self.listener.address.at}")

    def _end_if_done(self) -> None:
        if self._closed and not self._carriers and self._task is not None:
            self._stream.hang_up()
            self._task.cancel()

    # -- what comes on it --------------------------------------------------------------------------------------

    def message(self, sender: JID, own: JID, kind: MessageTypes, body: str) -> None:
        carrier = self._carriers.get(sender.bare)
        if carrier is None:
            carrier = self._arrive(sender, own, kind)
        if carrier is None:
            return
        carrier.wrote(sender, own, kind)
        if not carrier.hear(body.encode()):
            self._metrics.refused(Reason.OVERLOAD)

    def _arrive(self, sender: JID, own: JID, kind: MessageTypes) -> XmppCarrier | None:
        standing, limits = ConnectionGauge(self._metrics), self._limits
        if (why := self._refusal(limits)) is not None:
            standing.ended(why)
            standing.gone()
            self._stream.refuse(own, sender)
            return None
        deadline = self._loop.time() + limits.handshake_seconds
        carrier = self._carriers[sender.bare] = XmppCarrier(self, standing, sender.bare, deadline, self._stream)
        carrier.wrote(sender, own, kind)
        carrier.begin()
        self._stream.tell_presence(own, sender.bare)
        self._stream.ask_presence(own, sender)
        return carrier

    def _refusal(self, limits: Limits) -> str | None:
        """Returns why one more session cannot begin now; None if it can."""
        if self._closed:
            return "drain"
        if len(self._carriers) >= limits.connections:
            return Reason.OVERLOAD
        self._arrivals.rate = limits.connections_per_second
        return None if self._arrivals.has_one(self._loop.time()) else Reason.RATE_LIMITED

    def presence_asked(self, peer_id: JID) -> None:
        if (carrier := self._carriers.get(peer_id.bare)) is not None:
            carrier.presence_asked()

    def knows(self, sender: JID) -> bool:
        return sender.bare in self._carriers

    def bounced(self, sender: JID) -> None:
        self._lose(sender.bare)

    def present(self, sender: JID) -> None:
        if (carrier := self._carriers.get(sender.bare)) is not None:
            carrier.device_present(sender.resource)

    def absent(self, sender: JID) -> None:
        carrier = self._carriers.get(sender.bare)
        if carrier is not None and carrier.missed(sender.resource):
            self._lose(sender.bare)

    def _lose(self, jid: str) -> None:
        if (carrier := self._carriers.get(jid)) is not None:
            carrier.connection_lost(None)

    def server_reads_not(self) -> None:
        for carrier in self._carriers.values():
            carrier.pause_writing()

    def server_reads_again(self) -> None:
        for carrier in self._carriers.values():
            carrier.resume_writing()

    # -- for carriers ------------------------------------------------------------------------------------------

    def begin(self, carrier: Carrier) -> Connection:
        peer = Peer(carrier.address, f"{NODE}{carrier.address}", Auth.SESSION)
        return self._sessions.connect(self.listener, carrier, peer)

    def on_closed(self, carrier: Carrier) -> None:
        if self._carriers.get(carrier.address) is carrier:
            del self._carriers[carrier.address]
        self._end_if_done()
