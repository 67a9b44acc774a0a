"""The session of tick: open at once, no keepalive, requests both ways."""

from __future__ import annotations

from typing import ClassVar

from gateway.core.event import Kind
from gateway.core.reasons import MeshError, Reason, Rejected
from gateway.core.wire import U32
from gateway.protocols.actions import CloseReason, Delivered, Delivery, FramesReceived, Outcome
from gateway.protocols.error_bodies import error_body
from gateway.protocols.session import Session
from gateway.protocols.session_settings import SessionSettings
from gateway.protocols.stamps import stamped
from gateway.records.raw_log.frames import ReplyAddress

from .codec import decode, encode, split
from .frames import Frame
from .mapping import TickOptions


class TickSession(Session):
    protocol: ClassVar[str] = "tick"

    def __init__(self, settings: SessionSettings, options: TickOptions) -> None:
        super().__init__(settings)
        self.reconfigure(options)
        self._last_id = 0

    def reconfigure(self, options: TickOptions) -> None:
        self.options = options

    def _started(self, now: float) -> None:
        self._open(now)

    def _parse(self, buffer: bytearray, now: float) -> int:
        pos = 0
        while size := split(buffer, pos, self.settings.frame_bytes):
            self._take(bytes(buffer[pos : pos + size]), now)
            pos += size
        return pos

    def _take(self, raw: bytes, now: float) -> None:
        frame = decode(raw)
        replies: tuple[ReplyAddress, ...] = ()
        if frame.kind is Kind.REQUEST and not self._open_peer_request(str(frame.id), frame.subject, now):
            raise Rejected(Reason.MALFORMED, "the id is that of an open request", can_continue=False)
        if frame.kind.answers:
            reply = self._served_requests.end(frame.id)
            if reply is None:
                raise Rejected(Reason.MALFORMED, "an answer to no open request", can_continue=False)
            replies = (reply,)
        self._act(FramesReceived(raw, (len(raw),), replies=replies))

    def deliver(self, delivery: Delivery, now: float) -> None:
        if self.closed:
            self._act(Delivered(delivery, Outcome.UNDELIVERABLE, "the session has ended"))
        elif not delivery.kind.answers or self._answered(delivery, now):
            if delivery.reply is not None and delivery.kind is Kind.REQUEST:
                self._last_id += 1
                self._open_served_request(self._last_id, delivery.reply)
            self._send(stamped(delivery.frame, delivery.stamps, U32, self._last_id))
            self._act(Delivered(delivery, Outcome.WRITTEN))

    def logged(self, tag: int, now: float) -> None:
        """Nothing acknowledges."""

    def drain(self, now: float, redirect_url: str | None = None, why: CloseReason = CloseReason.DRAIN) -> None:
        self._terminate(why)

    def _ping(self, now: float) -> None:
        self._pong_received(now)

    def _answer_error(self, request: str, error: MeshError, message: str, now: float) -> None:
        subject = self._peer_requests[request].subject
        self._send(encode(Frame(Kind.ERROR, int(request), subject, error_body(error, message))))
