"""An XMPP user as a client's carrier: each body that goes to its peer's JID, or comes from it, is one message.

    dialled ─► [STARTTLS] ─► logged in ─► our presence is told to the peer ─► messages
                                                                                 │
        the peer's presence says that it is gone, or what we wrote comes back, ──►│ over
        or it knows of no session of ours: it is asked now and then (XEP-0199)

The password is said within TLS, or proven (SCRAM) to a server on this machine: slixmpp takes no other mechanism. Our
presence is told to the peer alone; so the server tells it when we go, however we go.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any
from xml.etree import ElementTree as ET

from slixmpp import JID, ClientXMPP, Message, Presence
from slixmpp.jid import InvalidJID
from slixmpp.types import PresenceTypes
from slixmpp.xmlstream import StanzaBase

from gateway.carriers.xmpp import PING, body_of, for_now, let_go, write_stanza
from gateway.client.address import XmppAddress
from gateway.client.carriers.stream import CLOSE_SECONDS, Feed
from gateway.client.errors import UnreachableError

PING_SECONDS = 30.0
"""The interval of pings, as in the protocols that have a ping of their own."""
ALIVE = frozenset({"", "feature-not-implemented"})
"""The answers of a peer that is there: nothing is wrong, or it knows no pings."""

logging.getLogger("slixmpp.features.feature_mechanisms.mechanisms").addFilter(lambda _: False)
"""What it has to say ends the dialling, and is told by that."""


class ClientXmppCarrier(ClientXMPP):
    """Carries one stream, which is dialled once."""

    def __init__(self, address: XmppAddress, tls: ssl.SSLContext, feed: Feed) -> None:
        super().__init__(address.user, address.password)
        self._to = address
        self._peer = JID(address.peer)
        self._feed = feed
        self._stands: asyncio.Future[None] = self.loop.create_future()
        self._why: Exception | None = None
        self._cut: asyncio.TimerHandle | None = None
        self._lost = False
        self._pinged = ""
        self._pings: asyncio.TimerHandle | None = None
        self.ssl_context = tls
        self.enable_direct_tls = False
        self.plugin["feature_mechanisms"].unencrypted_scram = address.is_here
        self.add_filter("in", self._sort)
        for event, handler in (
            ("session_start", self._started),
            ("ssl_invalid_chain", self._failed),
            ("connection_failed", self._failed),
            ("failed_all_auth", self._not_let_in),
            ("stream_error", self._stream_error),
            ("disconnected", self._ended),
        ):
            self.add_event_handler(event, handler)

    @classmethod
    async def dial(cls, address: XmppAddress, tls: ssl.SSLContext, feed: Feed) -> None:
        """Raises OSError, UnreachableError."""
        try:
            carrier = cls(address, tls, feed)
        except InvalidJID as wrong:
            raise UnreachableError(str(address), f"no JID: {wrong}") from None
        carrier.connect(address.host, address.port)
        try:
            await carrier._stands
        except BaseException:
            carrier.abort()
            let_go(carrier)
            raise
        feed.connected(carrier)
        carrier._ping_later()

    # -- the client's side -------------------------------------------------------------------------------------

    def write(self, data: list[bytes]) -> None:
        for body in data:
            self._put_out(for_now(self.make_message(mto=self._peer, mbody=body.decode(), mtype="chat")))

    def close(self) -> None:
        """The server answers the end of our stream with the end of its own, after all that it had for us."""
        if self._cut is None and self.transport is not None:
            self._cut = self.loop.call_later(CLOSE_SECONDS, self.abort)
            self.send_raw(self.stream_footer)

    def pause_reading(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def _put_out(self, stanza: StanzaBase) -> None:
        if self.transport is not None and self._cut is None:
            write_stanza(self, stanza)

    def _tell_presence(self, kind: PresenceTypes | None = None) -> None:
        self._put_out(self.make_presence(pto=self._peer, ptype=kind))

    def _ping_later(self) -> None:
        self._pings = self.loop.call_later(PING_SECONDS, self._ping)

    def _ping(self) -> None:
        """A peer that has not answered the last one is gone. Our presence is told again: when it was told first, the
        peer may not have known us, and who is not present may not be silent for long.
        """
        if self._pinged:
            self._is_gone("it does not answer")
            return
        self._tell_presence()
        ping = self.make_iq_get(ito=self._peer)
        ET.SubElement(ping.xml, PING)
        self._pinged = ping["id"]
        self._put_out(ping)
        self._ping_later()

    # -- asyncio's and slixmpp's side --------------------------------------------------------------------------

    def pause_writing(self) -> None:
        self._feed.pause_writing()

    def resume_writing(self) -> None:
        self._feed.resume_writing()

    def _started(self, _: Any) -> None:
        self._tell_presence()
        if not self._stands.done():
            self._stands.set_result(None)

    def _failed(self, why: Exception | str) -> None:
        self._why = why if isinstance(why, Exception) else OSError(why)
        self._end()

    def _not_let_in(self, _: Any) -> None:
        reason = "it does not let us in: a wrong password, or it offers no TLS"
        self._failed(UnreachableError(str(self._to), reason))

    def _stream_error(self, error: StanzaBase) -> None:
        self._failed(UnreachableError(str(self._to), f"it ended the stream: {error['condition']}"))

    def _ended(self, why: object) -> None:
        if self._why is None and isinstance(why, Exception):
            self._why = why
        for timer in (self._cut, self._pings):
            if timer is not None:
                timer.cancel()
        let_go(self)
        self._end()

    def _end(self) -> None:
        """Ends the carrier once, whichever reason comes first."""
        if not self._stands.done():
            self._stands.set_exception(self._why or UnreachableError(str(self._to), "it closed the stream"))
        elif not self._stands.cancelled() and self._stands.exception() is None and not self._lost:
            self._lost = True
            self._feed.lost(self._why)
            self.abort()

    # -- what comes --------------------------------------------------------------------------------------------

    def _sort(self, stanza: StanzaBase) -> StanzaBase | None:
        """Messages and presence stay here: slixmpp would answer what it knows, in our user's name."""
        if self._pinged and stanza.name == "iq" and stanza["id"] == self._pinged:
            self._pinged = ""
            if (condition := _condition(stanza)) not in ALIVE:
                self._is_gone(condition)
            return None
        if not isinstance(stanza, Message | Presence):
            return stanza
        if stanza["from"].bare == self._peer.bare:
            if stanza["type"] in ("error", "unavailable"):
                self._is_gone(_condition(stanza))
            elif isinstance(stanza, Message) and (body := body_of(stanza)):
                self._feed.receive(body.encode())
        return None

    def _is_gone(self, why: str) -> None:
        self._why = OSError(f"{self._peer} is not there" + (f": {why}" if why else ""))
        self._end()


def _condition(stanza: StanzaBase) -> str:
    """Returns the condition of the error, if it is one."""
    return str(stanza["error"]["condition"]) if stanza["type"] == "error" else ""
