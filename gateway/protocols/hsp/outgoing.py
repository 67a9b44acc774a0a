"""Keeps data that the peer has not acknowledged yet, and the bodies that come ahead of its answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gateway.core.reasons import Reason, Rejected
from gateway.core.wire import U16
from gateway.protocols.actions import Delivery
from gateway.protocols.error_bodies import mesh_error_in
from gateway.protocols.hsp.answer_bodies import AnswerBodies
from gateway.protocols.hsp.frames import DATA_ACK_TYPE_OFFSET, ENVELOPE_TYPE, Command, Frame
from gateway.protocols.hsp.unconfirmed import UnconfirmedData
from gateway.protocols.timers import Timers

TIMER = "unconfirmed"


class Lost(NamedTuple):
    """A delivery of which nothing more will come. `unclaimed` is a DATA that is an event after all."""

    delivery: Delivery
    detail: str
    unclaimed: bytes


class Settled(NamedTuple):
    """One delivery that the peer has acknowledged or refused.

    Args:
        delivery: None if it came too late.
        body: the DATA with the answer's body, if one came ahead.
        unclaimed: a DATA that no open request can claim any more.
    """

    delivery: Delivery | None
    body: bytes = b""
    unclaimed: bytes = b""


class OutgoingData:
    """Keeps the deliveries that the peer must acknowledge. `timers` are told when the oldest has waited too long."""

    def __init__(self, seconds: float, timers: Timers) -> None:
        self._timers = timers
        self._unconfirmed = UnconfirmedData(seconds)
        self.bodies = AnswerBodies()

    @property
    def held_bytes(self) -> int:
        return self._unconfirmed.bytes + self.bodies.held_bytes

    def add(self, delivery: Delivery, now: float) -> tuple[int, list[Lost]]:
        """Returns the MessageID of a new delivery, and the older ones that are given up for it."""
        nothing_waited = self._unconfirmed.due is None
        message_id = self._unconfirmed.add(delivery, now)
        lost = self._lost(self._unconfirmed.superfluous(), "too many open requests")
        if nothing_waited or self._unconfirmed.are_too_many:
            lost += self.give_up(now)
        return message_id, lost

    def expect_body(self, delivery: Delivery, reply_type: int | None) -> None:
        """An answer in the envelope has its body there; any other may have it in a DATA of the `reply_type`."""
        is_enveloped = U16.unpack_from(delivery.frame, DATA_ACK_TYPE_OFFSET)[0] == ENVELOPE_TYPE
        if delivery.reply is not None and reply_type is not None and not is_enveloped:
            self.bodies.expect(delivery.reply.key, reply_type)

    def give_up(self, now: float) -> list[Lost]:
        """Gives up on what has waited too long."""
        lost = self._lost(self._unconfirmed.overdue(now), "not acknowledged in time")
        if (due := self._unconfirmed.due) is not None:
            self._timers.set(TIMER, due)
        return lost

    def take_all(self) -> list[Lost]:
        return self._lost(self._unconfirmed.take_all(), "the session ended first")

    def settle(self, frame: Frame) -> Settled:
        """The peer acknowledges or refuses what it was sent. Raises Rejected for an id that is not open."""
        delivery = self._unconfirmed.take(frame.message_id)
        if delivery is None:
            if not self._unconfirmed.was_given_up(frame.message_id):
                raise Rejected(Reason.MALFORMED, f"{frame.command.name} for no open id", can_continue=False)
            return Settled(None)
        if delivery.reply is None:
            return Settled(delivery)
        body = self.bodies.claim(delivery.reply.key) if frame.command is Command.ACK else b""
        return Settled(delivery, body, self.bodies.end(delivery.reply.key))

    def _lost(self, deliveries: Iterable[Delivery], detail: str) -> list[Lost]:
        return [Lost(delivery, detail, self._end_body(delivery)) for delivery in deliveries]

    def _end_body(self, delivery: Delivery) -> bytes:
        return self.bodies.end(delivery.reply.key) if delivery.reply is not None else b""


def why_refused(frame: Frame) -> str:
    """A mesh says why by one of its slugs. Anything else in an ERROR is the peer's own, and payload."""
    if frame.command is not Command.ERROR:
        return "ERROR_UNDEF"
    return mesh_error_in(frame.payload) or f"ERROR of type {frame.type}"
