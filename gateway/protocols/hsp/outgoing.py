"""Keeps data that the peer has not acknowledged yet, and the bodies that come ahead of its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gateway.core.event import Kind
from gateway.core.reasons import MeshError, Reason, Rejected
from gateway.core.wire import U16
from gateway.protocols.actions import (
    AbandonRequests,
    Action,
    Delivered,
    Delivery,
    FrameRefused,
    FramesReceived,
    Outcome,
)
from gateway.protocols.error_bodies import mesh_error_in
from gateway.protocols.hsp.answer_bodies import AnswerBodies
from gateway.protocols.hsp.frames import DATA_ACK_TYPE_OFFSET, ENVELOPE_TYPE, Command, Frame
from gateway.protocols.hsp.unconfirmed import UnconfirmedData
from gateway.protocols.open_requests import ServedRequests
from gateway.protocols.timers import Timers
from gateway.records.raw_log.frames import ReplyAddress

TIMER = "unconfirmed"


class Acknowledged(NamedTuple):
    """A request that the peer has acknowledged or refused, and that waits for an answer.

    `reply` is where the answer goes, `body` the DATA that came ahead with the answer's body, or nothing.
    """

    reply: ReplyAddress
    body: bytes


class OutgoingData:
    """Keeps the deliveries that the peer must acknowledge, and says by `act` what becomes of them.

    Args:
        timers: are told when the oldest delivery has waited too long.
        served: the requests that the peer was sent and has not answered.
    """

    def __init__(self, seconds: float, timers: Timers, served: ServedRequests, act: Callable[[Action], None]) -> None:
        self._timers = timers
        self._served = served
        self._act = act
        self._unconfirmed = UnconfirmedData(seconds)
        self.bodies = AnswerBodies()

    @property
    def held_bytes(self) -> int:
        return self._unconfirmed.bytes + self.bodies.held_bytes

    def add(self, delivery: Delivery, now: float) -> int:
        """Returns the MessageID of a new delivery. Older ones may be given up for it."""
        nothing_waited = self._unconfirmed.due is None
        message_id = self._unconfirmed.add(delivery, now)
        self._lose(self._unconfirmed.superfluous(), "too many open requests")
        if nothing_waited or self._unconfirmed.are_too_many:
            self.give_up(now)
        return message_id

    def expect_body(self, delivery: Delivery, reply_type: int | None) -> None:
        """An answer in the envelope has its body there; any other may have it in a DATA of the `reply_type`."""
        is_enveloped = U16.unpack_from(delivery.frame, DATA_ACK_TYPE_OFFSET)[0] == ENVELOPE_TYPE
        if delivery.reply is not None and reply_type is not None and not is_enveloped:
            self.bodies.expect(delivery.reply.key, reply_type)

    def give_up(self, now: float) -> None:
        """Gives up on what has waited too long."""
        self._lose(self._unconfirmed.overdue(now), "not acknowledged in time")
        if (due := self._unconfirmed.due) is not None:
            self._timers.set(TIMER, due)

    def end_all(self) -> None:
        """Ends what waits, because the session is over, which abandons its open requests itself."""
        self._lose(self._unconfirmed.take_all(), "the session ended first", abandons=False)

    def settle(self, frame: Frame) -> Acknowledged | None:
        """Ends the delivery that the peer acknowledges or refuses. Returns the request that is answered by that.

        Raises Rejected for an id that is not open.
        """
        delivery = self._unconfirmed.take(frame.message_id)
        if delivery is None:
            if not self._unconfirmed.was_given_up(frame.message_id):
                raise Rejected(Reason.MALFORMED, f"{frame.command.name} for no open id", can_continue=False)
            self._act(FrameRefused(Reason.TIMEOUT, f"{frame.command.name} came too late"))
            return None
        if delivery.kind is Kind.REQUEST or frame.command is Command.ACK:
            self._act(Delivered(delivery, Outcome.CONFIRMED))
        else:
            self._act(Delivered(delivery, Outcome.UNDELIVERABLE, _why_refused(frame), refused=True))
        if delivery.reply is None:
            return None
        body = self.bodies.claim(delivery.reply.key) if frame.command is Command.ACK else b""
        reply = self._served.end(frame.message_id)
        self._log_unclaimed(delivery)
        if reply is not None:
            return Acknowledged(reply, body)
        if body:
            self._act(FrameRefused(Reason.TIMEOUT, "the body of an answer to no open request"))
        return None

    def _lose(self, deliveries: Iterable[Delivery], detail: str, *, abandons: bool = True) -> None:
        """Ends deliveries of which nothing more will come. A request answered in the envelope lacks only its ACK."""
        for delivery in deliveries:
            self._log_unclaimed(delivery)
            message_id = self._served.id_of(delivery.reply)
            if delivery.reply is not None and message_id is None:
                self._act(Delivered(delivery, Outcome.CONFIRMED))
                continue
            if message_id is not None and abandons and (reply := self._served.end(message_id)):
                self._act(AbandonRequests((reply,), MeshError.TIMEOUT))
            self._act(Delivered(delivery, Outcome.UNDELIVERABLE, detail))

    def _log_unclaimed(self, delivery: Delivery) -> None:
        """Logs a DATA that nobody can claim as an answer's body any more: it is an event after all."""
        data = self.bodies.end(delivery.reply.key) if delivery.reply is not None else b""
        if data:
            self._act(FramesReceived(data, (len(data),)))


def _why_refused(frame: Frame) -> str:
    """A mesh says why by one of its slugs. Anything else in an ERROR is the peer's own, and payload."""
    if frame.command is not Command.ERROR:
        return "ERROR_UNDEF"
    return mesh_error_in(frame.payload) or f"ERROR of type {frame.type}"
