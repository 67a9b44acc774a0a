"""Layer 1 as a state machine: lines or messages in, whole XML documents up; XML documents down, confirmed or given up.

    in    piece ─► known id? ── confirmed again, not delivered again
                └► joined ─► unpacked ─► `_message`          refused on the way: confirmed with its result code
    out   `_send_data` ─► unconfirmed ─► result 0                  `_confirmed_sent`
                       │      └──► any other result          `_lost_sent`
                       └ confirm_seconds ─► sent again, three times in all, then `_lost_sent`

Invariants
1. A complete message is confirmed exactly once for each time it was sent, a refused one with its result code, anything
   without a usable id never; a confirmation is never confirmed.
2. What is held for a peer is bounded: one line, the open fragment sets, the ids remembered, what it has to confirm.
3. A session ends at its fifth message that does not decrypt: its key holds as long, and so does what can be guessed.
4. A line that is too long is skipped, not kept; only one that does not end at all ends the session.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable

from gateway.core.reasons import Reason, Rejected
from gateway.protocols.actions import Delivery, FrameRefused
from gateway.protocols.session import FRAME_EFFORT, Session
from gateway.protocols.session_settings import SessionSettings
from gateway.protocols.wolpertinger import transmission
from gateway.protocols.wolpertinger.cipher import Cipher
from gateway.protocols.wolpertinger.codec import split
from gateway.protocols.wolpertinger.fragments import Fragments
from gateway.protocols.wolpertinger.frames import BadTransmission, Confirmation, Piece, Result
from gateway.protocols.wolpertinger.options import WolpertingerOptions
from gateway.protocols.wolpertinger.receipts import ReceivedIds, SentMessage, UnconfirmedMessages

REFUSED_EFFORT = 65_536
"""A message that is refused may have cost as much as a kilobyte of gzip can, so others have their turn then."""
HEAD_BYTES = 256
"""The part of a line too long to be kept that is read for an id to answer to; all six keys need 106."""


BEFORE_LOGIN_BYTES = 65_536
"""Gzip may make so much of a message while the session is not open: two kilobytes can hold a megabyte of XML. To parse
that takes 57 ms of all sessions' time. The largest call of a login has less than a kilobyte."""
MAX_UNDECRYPTABLE = 5
"""Then the session ends. A peer with the right key sends none; who changes messages on their way needs thousands."""


class LayerOne(Session):
    def __init__(self, settings: SessionSettings, options: WolpertingerOptions) -> None:
        super().__init__(settings)
        self.cipher: Cipher | None = None
        self._end = b"" if settings.message_transport else b"\n"
        self._fragments = Fragments(settings.frame_bytes)
        self._received = ReceivedIds()
        self._unconfirmed = UnconfirmedMessages()
        self._compress = False
        self._searched = 0
        self._skipped = 0
        self._undecryptable = 0
        self.reconfigure(options)

    def reconfigure(self, options: WolpertingerOptions) -> None:
        self.options = options
        self._compress = options.compress == "always" or (self._compress and options.compress == "auto")

    @property
    def held_bytes(self) -> int:
        return super().held_bytes + self._fragments.cost + self._unconfirmed.bytes

    # -- in ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def _message(self, message_id: int, data: bytes, encrypted: bool, now: float) -> None:
        """Takes a whole message, which must be confirmed sooner or later."""

    @abstractmethod
    def _confirmed_sent(self, sent: SentMessage) -> None:
        """Hears that the peer has it."""

    @abstractmethod
    def _lost_sent(self, sent: SentMessage, detail: str) -> None:
        """Hears that the peer refused it, or never confirmed it."""

    def _parse(self, buffer: bytearray, now: float) -> int:
        if not self.settings.message_transport:
            return self._parse_lines(buffer, now)
        if len(buffer) > self.options.line_bytes:
            self._refuse_long(bytes(buffer[:HEAD_BYTES]))
        else:
            # Who has one writer for all transports ends its messages as it ends its lines.
            self._take(bytes(buffer).removesuffix(b"\n"), now)
        return len(buffer)

    def _parse_lines(self, buffer: bytearray, now: float) -> int:
        pos = 0
        while not self.closed and (end := split(buffer, pos, self._searched)) >= 0:
            if self._skipped:
                self._skipped = 0
            elif end - pos > self.options.line_bytes:
                self._refuse_long(bytes(buffer[pos : pos + HEAD_BYTES]))
            else:
                self._take(bytes(buffer[pos:end]), now)
            pos, self._searched = end + 1, 0
            if self._spend(FRAME_EFFORT):
                return pos
        self._searched = len(buffer) - pos
        if self._skipped or self._searched > self.options.line_bytes:
            return self._skip(buffer, pos)
        return pos

    def _skip(self, buffer: bytearray, pos: int) -> int:
        if not self._skipped:
            self._refuse_long(bytes(buffer[pos : pos + HEAD_BYTES]))
        self._skipped += self._searched
        self._searched = 0
        if self._skipped > self.settings.frame_bytes:
            raise Rejected(Reason.TOO_LARGE, "a line without an end", can_continue=False)
        return len(buffer)

    def _refuse_long(self, head: bytes) -> None:
        """Refuses a message that should have been split. If the id stands in its head, the peer hears that."""
        self._act(FrameRefused(Reason.TOO_LARGE, f"a message of more than {self.options.line_bytes} bytes"))
        try:
            message = transmission.decode(head[: head.rfind(b";") + 1])
        except BadTransmission as bad:
            self._confirm(bad.message_id, bad.result)
        except Rejected:
            return
        else:
            if isinstance(message, Piece):
                self._confirm(message.message_id, Result.SPLITTING)

    def _take(self, line: bytes, now: float) -> None:
        line = line.removesuffix(b"\r")
        if not line:
            return
        try:
            message = transmission.decode(line)
            if isinstance(message, Confirmation):
                self._take_confirmation(message)
            else:
                self._take_piece(message, now)
        except BadTransmission as bad:
            self._spend(REFUSED_EFFORT)
            self._confirm(bad.message_id, bad.result)
            self._undecryptable += bad.result is Result.ENCRYPTION
            if self._undecryptable >= MAX_UNDECRYPTABLE:
                self._terminate(str(bad.reason), "too many messages that do not decrypt")
            else:
                self._act(FrameRefused(bad.reason, bad.detail))
        except Rejected as refused:
            self._act(FrameRefused(refused.reason, refused.detail))

    def _take_piece(self, piece: Piece, now: float) -> None:
        if self._received.is_repeat(piece.message_id, now):
            # Of a repeated message in pieces the last one stands for all.
            if piece.index == piece.count - 1 and self._received.was_confirmed(piece.message_id):
                self._confirm(piece.message_id, Result.SUCCESS)
            return
        whole = self._fragments.add(piece, now)
        self._watch_fragments()
        if whole is None:
            return
        limit = self.options.decompressed_bytes
        data = transmission.unpack(whole, self.cipher, limit if self.opened else min(limit, BEFORE_LOGIN_BYTES))
        self._compress |= whole.gzip is not None and self.options.compress == "auto"
        self._spend(len(data))
        self._received.add(whole.message_id, now)
        self._message(whole.message_id, data, whole.encrypted, now)

    def _confirm(self, message_id: int, result: Result) -> None:
        if result is Result.SUCCESS:
            self._received.confirmed(message_id)
        self._send(transmission.encode_confirmation(message_id, result) + self._end)

    def _take_confirmation(self, confirmation: Confirmation) -> None:
        """Takes a confirmation. One that nothing waits for came twice: the first just after we had repeated."""
        sent = self._unconfirmed.take(confirmation.message_id)
        if sent is None:
            return
        self.timers.clear(("confirm", confirmation.message_id))
        if confirmation.result == Result.SUCCESS:
            self._confirmed_sent(sent)
        else:
            self._lost_sent(sent, f"refused with result {confirmation.result}")

    # -- out ---------------------------------------------------------------------------------------------------

    def _send_data(self, data: bytes, now: float, delivery: Delivery | None = None) -> bool:
        """Returns False if the peer has too much to confirm already."""
        if self._unconfirmed.full:
            return False
        compress = self._compress and len(data) > self.options.compress_over_bytes
        message_id = self._unconfirmed.next_id()
        packed = transmission.pack(data, self.cipher, compress=compress)
        messages = [message + self._end for message in transmission.encode(message_id, packed)]
        self._unconfirmed.add(message_id, SentMessage(messages, delivery))
        self._put_out(message_id, messages, now)
        return True

    def _put_out(self, message_id: int, messages: list[bytes], now: float) -> None:
        for message in messages:
            self._send(message)
        self.timers.set(("confirm", message_id), now + self.options.confirm_seconds)

    def _timer(self, name: Hashable, now: float) -> None:
        match name:
            case ("confirm", int(message_id)):
                self._unconfirmed_in_time(message_id, now)
            case "fragments":
                for _ in range(self._fragments.expire(now)):
                    self._act(FrameRefused(Reason.TIMEOUT, "a message of which pieces are missing"))
                self._watch_fragments()

    def _unconfirmed_in_time(self, message_id: int, now: float) -> None:
        sent = self._unconfirmed.again(message_id)
        if sent is not None:
            self._put_out(message_id, sent.messages, now)
        elif (given_up := self._unconfirmed.take(message_id)) is not None:
            self._lost_sent(given_up, "never confirmed")

    def _watch_fragments(self) -> None:
        due = self._fragments.due
        if due is None:
            self.timers.clear("fragments")
        else:
            self.timers.set("fragments", due)

    def _ping(self, now: float) -> None:  # noqa: ARG002
        """The protocol has no keepalive: waiting for a pong, but without a deadline, we never ask again."""
        self.timers.clear("pong")
