"""The stream to an XMPP server, as one of its external components (XEP-0114), on slixmpp.

slixmpp keeps something of everyone who ever wrote or was seen, for as long as it runs, and anyone may write to a
component. So messages and presence are taken out before it sees them; it keeps the stream, its handshake and its XML.
It would also dial again by itself, and knows one connection at a time: so each try has a stream of its own, and one
that has failed is let go of at once. What a connection of the past still says can then disturb no other.

What a server does not read waits as what waits for other peers does (see `backlog`). Texts for peers are bounded
by their sessions. Answers to presence and to requests are not, so a server that leaves too much unread is given up.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol, cast

from slixmpp import JID, ComponentXMPP, Message, Presence
from slixmpp.jid import InvalidJID
from slixmpp.types import MessageTypes, PresenceTypes
from slixmpp.xmlstream import StanzaBase

from gateway.carriers.xmpp import body_of, for_now, is_ping, let_go, write_stanza
from gateway.core.fault_log import RateLimitedFaultLog
from gateway.edge.carriers.backlog import PIECE_BYTES, Backlog

log = logging.getLogger(__name__)
_faults = RateLimitedFaultLog(log)

GIVEN_UP_SHARE = 2
"""A stream ends with so many times as much unread as its peers are stopped at."""


class User(Protocol):
    """The user of a stream is told of everything that comes. `own` is our address that was written to."""

    def stands(self) -> None:
        """Hears that the server has accepted us."""

    def message(self, sender: JID, own: JID, kind: MessageTypes, body: str) -> None: ...
    def bounced(self, sender: JID) -> None:
        """Hears that what was written to this peer could not be delivered."""

    def presence_asked(self, peer_id: JID) -> None:
        """Hears that its presence was asked for."""

    def knows(self, sender: JID) -> bool:
        """Returns True if this sender has a session."""

    def present(self, sender: JID) -> None: ...
    def absent(self, sender: JID) -> None: ...
    def server_reads_not(self) -> None: ...
    def server_reads_again(self) -> None: ...


class ComponentStream(ComponentXMPP):
    """Makes one attempt at a stream. `over` is done, with the reason, when the stream has ended or never came about."""

    def __init__(self, domain: str, secret: str, user: User) -> None:
        super().__init__(domain, secret)  # type: ignore[no-untyped-call]
        self._loop = asyncio.get_running_loop()
        self._user = user
        self._backlog = Backlog()
        self._is_unread = False
        self._high_bytes = self._low_bytes = PIECE_BYTES
        self._condition = ""
        self.over: asyncio.Future[str] = self._loop.create_future()
        self.add_filter("in", self._sort)
        self.add_event_handler("session_start", self._stands)
        self.add_event_handler("stream_error", self._stream_error)
        self.add_event_handler("connection_failed", self.give_up)
        self.add_event_handler("disconnected", self._ended)

    def give_up(self, why: object) -> None:
        """Ends the stream at once."""
        self._ended(why)
        self._backlog.clear()
        self.abort()
        let_go(self)

    def hang_up(self) -> None:
        """Ends the stream after what was written has gone out."""
        if self.transport is not None:
            self.transport.write(self._backlog.take_all() + self.stream_footer.encode())
            self.transport.close()
        let_go(self)

    # -- for the user ------------------------------------------------------------------------------------------

    def send_text(self, own: JID, to: JID, kind: MessageTypes, body: str) -> None:
        self._put_out(for_now(self.make_message(mto=to, mfrom=own, mtype=kind, mbody=body)))

    def refuse(self, own: JID, to: JID) -> None:
        """Answers a message with an error: there is no place for more sessions."""
        message = self.make_message(mto=to, mfrom=own, mtype="error")
        message["error"]["condition"] = "resource-constraint"
        message["error"]["type"] = "wait"
        self._put_out(message)

    def tell_presence(self, own: JID, to: str, kind: PresenceTypes | None = None) -> None:
        self._put_out(self.make_presence(pto=to, pfrom=own.bare, ptype=kind))

    def ask_presence(self, own: JID, peer_id: JID) -> None:
        self._user.presence_asked(peer_id)
        self.tell_presence(own, peer_id.bare, "subscribe")

    @property
    def queued_bytes(self) -> int:
        in_transport = self.transport.get_write_buffer_size() if self.transport is not None else 0
        return in_transport + len(self._backlog)

    def limit_writes(self, high: int, low: int) -> None:
        """Sets beyond how many unread bytes the server counts as one that does not read, and below how many no more."""
        self._high_bytes, self._low_bytes = high, low

    def _put_out(self, stanza: StanzaBase) -> None:
        if self.transport is not None:
            write_stanza(self, stanza)

    # -- asyncio's and slixmpp's side --------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport, send_event: bool = True) -> None:
        cast(asyncio.WriteTransport, transport).set_write_buffer_limits(high=1, low=0)
        super().connection_made(transport, send_event)

    def send_raw(self, data: str | bytes) -> None:
        """Writes, or keeps it while the server does not read. Everything that slixmpp writes passes here too."""
        if not self._backlog.is_held:
            super().send_raw(data)
        elif not self.over.done():
            self._backlog.add(data.encode() if isinstance(data, str) else data)
            self._judge_server()

    def pause_writing(self) -> None:
        self._backlog.is_held = True

    def resume_writing(self) -> None:
        if self.transport is not None:
            self._backlog.hand_over(self.transport)
        self._judge_server()

    def _judge_server(self) -> None:
        """Tells the user when the server begins and ceases to leave much unread."""
        queued_bytes = self.queued_bytes
        if queued_bytes > GIVEN_UP_SHARE * self._high_bytes:
            self.give_up("it does not read what it is sent")
        elif queued_bytes > self._high_bytes and not self._is_unread:
            self._is_unread = True
            self._user.server_reads_not()
        elif queued_bytes <= self._low_bytes and self._is_unread:
            self._is_unread = False
            self._user.server_reads_again()

    def _stands(self, _: Any) -> None:
        self._user.stands()

    def _stream_error(self, error: StanzaBase) -> None:
        self._condition = str(error["condition"])

    def _ended(self, why: object) -> None:
        if not self.over.done():
            self.over.set_result(self._condition or str(why or "the server closed the stream"))

    def _sort(self, stanza: StanzaBase) -> StanzaBase | None:
        if not (isinstance(stanza, Message | Presence) or is_ping(stanza)):
            return stanza
        try:
            if isinstance(stanza, Message):
                self._take_message(stanza)
            elif isinstance(stanza, Presence):
                self._take_presence(stanza)
            else:
                self._take_ping(stanza)
        except InvalidJID:
            log.debug("a stanza of an address that is none")
        except Exception:
            # An exception would end the stream, and with it the sessions of everyone.
            _faults.log_exception("while reading a stanza of XMPP")
        return None

    def _take_message(self, message: Message) -> None:
        if message["type"] == "error":
            self._user.bounced(message["from"])
        elif body := body_of(message):
            self._user.message(message["from"], message["to"], message["type"], body)

    def _take_ping(self, ping: StanzaBase) -> None:
        """XEP-0199, and who has no session learns that: an edge that began anew knows none of those it had."""
        reply = ping.reply()
        if not self._user.knows(ping["from"]):
            reply["error"]["condition"] = "item-not-found"
        self._put_out(reply)

    def _take_presence(self, presence: Presence) -> None:
        """Whoever wants to know of us may, and is asked the same."""
        sender, own = presence["from"], presence["to"]
        match presence.xml.get("type", "available"):
            case "available":
                self._user.present(sender)
            case "unavailable":
                self._user.absent(sender)
            case "probe":
                self.tell_presence(own, sender.bare)
            case "subscribe":
                self.tell_presence(own, sender.bare, "subscribed")
                self.ask_presence(own, sender)
                self.tell_presence(own, sender.bare)
