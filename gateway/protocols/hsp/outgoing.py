"""Sends what an hsp session sends: deliveries and answers, with the ids that belong to the connection."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from gateway.core.content import JSON
from gateway.core.event import Kind
from gateway.core.reasons import MeshError, Reason, Rejected
from gateway.core.wire import U16, U32
from gateway.protocols.actions import (
    AbandonRequests,
    CloseReason,
    Delivered,
    Delivery,
    FrameRefused,
    FramesReceived,
    Outcome,
)
from gateway.protocols.error_bodies import error_body, mesh_error_in
from gateway.protocols.hsp.answer_bodies import AnswerBodies
from gateway.protocols.hsp.codec import encode
from gateway.protocols.hsp.frames import DATA_ACK_TYPE_OFFSET, ENVELOPE_TYPE, Command, Frame
from gateway.protocols.hsp.mapping import HspAnswer, answer
from gateway.protocols.hsp.names import Names
from gateway.protocols.hsp.options import HspOptions
from gateway.protocols.hsp.unconfirmed import UnconfirmedData
from gateway.protocols.session import TIMED_OUT, Session
from gateway.protocols.session_settings import SessionSettings
from gateway.protocols.stamps import stamped
from gateway.records.raw_log.frames import ReplyAddress


class OutgoingSession(Session):
    """The half of the session that writes; `HspSession` is the other."""

    def __init__(self, settings: SessionSettings, options: HspOptions) -> None:
        super().__init__(
            replace(settings, ping_seconds=options.ping_seconds, pong_timeout_seconds=options.pong_timeout_seconds)
        )
        self.reconfigure(options)
        self._draining: CloseReason | None = None
        self._unconfirmed = UnconfirmedData(settings.request_timeout_seconds)
        self._bodies = AnswerBodies()
        self._message_ids: dict[str, int] = {}
        self._names = Names()

    def reconfigure(self, options: HspOptions) -> None:
        self.options = options

    @property
    def held_bytes(self) -> int:
        return super().held_bytes + self._unconfirmed.bytes + self._bodies.held_bytes

    # -- deliveries --------------------------------------------------------------------------------------------

    def deliver(self, delivery: Delivery, now: float) -> None:
        if self.closed or (self._draining and not delivery.kind.answers):
            self._act(Delivered(delivery, Outcome.UNDELIVERABLE, "the session has ended"))
        elif delivery.kind.answers:
            self._deliver_answer(delivery, now)
        elif delivery.kind is Kind.CANCEL:
            self._deliver_cancel(delivery)
        elif delivery.frame[:1] == bytes([Command.DATA_ACK]):
            self._deliver_acknowledged(delivery, now)
        else:
            self._send(delivery.frame)
            self._act(Delivered(delivery, Outcome.WRITTEN))

    def _writes_events_as_they_are(self) -> bool:
        return not self.closed and not self._draining

    def _deliver_answer(self, delivery: Delivery, now: float) -> None:
        message_id = self._message_ids.get(delivery.request, 0)
        if self._answered(delivery, now):
            self._send(stamped(delivery.frame, delivery.stamps, U32, message_id))
            self._act(Delivered(delivery, Outcome.WRITTEN))

    def _deliver_cancel(self, delivery: Delivery) -> None:
        wire = self._served_id(delivery.reply) if delivery.reply else None
        if isinstance(wire, int):
            self._send(stamped(delivery.frame, delivery.stamps, U32, wire))
        self._act(Delivered(delivery, Outcome.WRITTEN))

    def _deliver_acknowledged(self, delivery: Delivery, now: float) -> None:
        nothing_waited = self._unconfirmed.due is None
        message_id = self._unconfirmed.add(delivery, now)
        for oldest in self._unconfirmed.superfluous():
            self._lose(oldest, "too many open requests")
        if nothing_waited or self._unconfirmed.are_too_many:
            self._give_up(now)
        if delivery.reply is not None:
            self._serve(message_id, delivery.reply)
            self._expect_body(delivery, delivery.reply)
        self._send(stamped(delivery.frame, delivery.stamps, U32, message_id))

    def _expect_body(self, delivery: Delivery, reply: ReplyAddress) -> None:
        """An answer in the envelope has its body there; any other may have it in a DATA of the `reply_type`."""
        reply_type = self.options.reply_type_for(delivery.subject)
        if reply_type is not None and U16.unpack_from(delivery.frame, DATA_ACK_TYPE_OFFSET)[0] != ENVELOPE_TYPE:
            self._bodies.expect(reply.key, reply_type)

    def _end_body(self, reply: ReplyAddress) -> None:
        """The request is over; a DATA that nobody can claim any more is an event after all."""
        if unclaimed := self._bodies.end(reply.key):
            self._act(FramesReceived(unclaimed, (len(unclaimed),)))

    def _lose(self, delivery: Delivery, detail: str) -> None:
        """Nothing more will come of it. A request that was answered in the envelope lacks no more than its ACK."""
        wire = self._served_id(delivery.reply) if delivery.reply is not None else None
        if delivery.reply is not None:
            self._end_body(delivery.reply)
        if delivery.reply is not None and wire is None:
            self._act(Delivered(delivery, Outcome.CONFIRMED))
            return
        if wire is not None and not self.closed and (reply := self._unserve(wire)):
            self._act(AbandonRequests((reply,), MeshError.TIMEOUT))
        self._act(Delivered(delivery, Outcome.UNDELIVERABLE, detail))

    def _give_up(self, now: float) -> None:
        for delivery in self._unconfirmed.overdue(now):
            self._lose(delivery, "not acknowledged in time")
        due = self._unconfirmed.due
        if due is not None:
            self.timers.set("unconfirmed", due)

    def _timer(self, name: Hashable, now: float) -> None:
        self._give_up(now)

    def _settle(self, frame: Frame) -> tuple[ReplyAddress | None, bytes]:
        """The peer acknowledges or refuses what it was sent.

        Returns who asked, if this is the answer to a request, and the DATA with the answer's body if one came ahead.
        """
        delivery = self._unconfirmed.take(frame.message_id)
        if delivery is None:
            if not self._unconfirmed.was_given_up(frame.message_id):
                raise Rejected(Reason.MALFORMED, f"{frame.command.name} for no open id", can_continue=False)
            self._act(FrameRefused(Reason.TIMEOUT, f"{frame.command.name} came too late"))
        elif delivery.kind is Kind.REQUEST or frame.command is Command.ACK:
            self._act(Delivered(delivery, Outcome.CONFIRMED))
        else:
            self._act(Delivered(delivery, Outcome.UNDELIVERABLE, _why_refused(frame), refused=True))
        return self._unserve(frame.message_id), self._settle_body(delivery, frame)

    def _settle_body(self, delivery: Delivery | None, frame: Frame) -> bytes:
        if delivery is None or delivery.reply is None:
            return b""
        body = self._bodies.claim(delivery.reply.key) if frame.command is Command.ACK else b""
        self._end_body(delivery.reply)
        return body

    def _end_served(self) -> None:
        for delivery in self._unconfirmed.take_all():
            self._lose(delivery, "the session ended first")

    # -- answers to the peer that the router did not write -----------------------------------------------------

    def _refuse(self, message_id: int, error: MeshError, message: str) -> None:
        body = error_body(error, message)
        self._send(encode(Frame(Command.ERROR, message_id, self.options.error_type, body)))

    def _answer_error(self, request: str, error: MeshError, message: str, now: float) -> None:
        said = HspAnswer(Kind.ERROR, self._asked[request].subject, JSON, error_body(error, message))
        encoded = answer(said, request, self.options)
        self._send(stamped(encoded.frame, encoded.stamps, U32, self._message_ids[request]))

    def _forget_asked(self, request: str, outcome: str) -> None:
        super()._forget_asked(request, outcome)
        self._message_ids.pop(request, None)
        self._names.end(request, late=outcome == TIMED_OUT)


def _why_refused(frame: Frame) -> str:
    """A mesh says why by one of its slugs. Anything else in an ERROR is the peer's own, and payload."""
    if frame.command is not Command.ERROR:
        return "ERROR_UNDEF"
    return mesh_error_in(frame.payload) or f"ERROR of type {frame.type}"
