"""The session of hsp: no handshake, keepalive by PING, and each DATA_ACK acknowledged, both ways.

    the peer's DATA_ACK    ACK when logged              an event, `ack: durable`; ERROR at once if it is forbidden
                           ACK or ERROR when answered   a request, a control subject, or `ack: delivered`
    our DATA_ACK           open until the peer's ACK, ERROR or ERROR_UNDEF, or until we give up on it

Invariants beside those of every session
1. The ACK for a frame leaves only after `logged` of its tag, or with the router's answer.
2. What the peer says of an id that we gave up on ourselves is dropped and counted; of any other id that is not open,
   it ends the session, which is all that hsp can say.
3. A DATA that is the body of an answer waits for the answer's ACK, and stands in the log in front of it, as one frame
   (see `answer_bodies`).
4. Once draining, no more data is taken in, and the session ends when the last ACK owed for a logged frame is said.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable
from dataclasses import replace
from typing import ClassVar

from gateway.core.content import JSON
from gateway.core.envelope import Envelope
from gateway.core.envelope import decode as decode_envelope
from gateway.core.event import Kind
from gateway.core.reasons import MeshError, Reason, Rejected
from gateway.core.subjects import check_subject, is_control, is_login
from gateway.core.wire import U32
from gateway.protocols.actions import (
    CloseReason,
    Delivered,
    Delivery,
    FrameRefused,
    FramesReceived,
    Opened,
    Outcome,
)
from gateway.protocols.error_bodies import error_body
from gateway.protocols.frame_run import FrameRun
from gateway.protocols.hsp.codec import decode, encode, is_plain_event, split, too_large
from gateway.protocols.hsp.frames import DATA_ACK_HEAD_BYTES, DATA_HEAD_BYTES, ENVELOPE_TYPE, Command, Frame
from gateway.protocols.hsp.logged_acks import LoggedAcks
from gateway.protocols.hsp.mapping import HspAnswer, answer, enveloped_request, is_enveloped
from gateway.protocols.hsp.names import Names
from gateway.protocols.hsp.options import HspOptions
from gateway.protocols.hsp.outgoing import OutgoingData
from gateway.protocols.session import FRAME_EFFORT, TIMED_OUT, Session
from gateway.protocols.session_settings import SessionSettings
from gateway.protocols.stamps import stamped
from gateway.records.raw_log.frames import NO_FACTS, Facts, RequestName

ENVELOPE_SPOKEN: Facts = {"envelope": True}

_LAST_DATA, _DATA_ACK = int(Command.DATA_ACK), bytes([Command.DATA_ACK])
_ACK = encode(Frame(Command.ACK))[:1]
_PING, _PONG = encode(Frame(Command.PING)), encode(Frame(Command.PONG))
_type_and_length = struct.Struct(">HI").unpack_from


class HspSession(Session):
    protocol: ClassVar[str] = "hsp"

    def __init__(self, settings: SessionSettings, options: HspOptions) -> None:
        super().__init__(
            replace(settings, ping_seconds=options.ping_seconds, pong_timeout_seconds=options.pong_timeout_seconds)
        )
        self.reconfigure(options)
        self._draining: CloseReason | None = None
        self._outgoing = OutgoingData(settings.request_timeout_seconds, self.timers, self._served_requests, self._act)
        self._names = Names()
        self._envelope_spoken = options.envelope == "always"
        self._run = FrameRun()
        self._acks = LoggedAcks()

    def reconfigure(self, options: HspOptions) -> None:
        self.options = options
        self._confirmed = options.ack == "delivered"
        self._waits = options.ack != "durable"
        self._waits_otherwise = frozenset(type_ for type_ in options.types if options.waits(type_) != self._waits)
        self._login_types = frozenset(type_ for type_ in options.types if is_login(options.subject_of(type_)))

    @property
    def held_bytes(self) -> int:
        return super().held_bytes + self._outgoing.held_bytes

    def _started(self, now: float) -> None:
        self._open(now, ENVELOPE_SPOKEN if self._envelope_spoken else NO_FACTS)

    # -- what the peer sends -----------------------------------------------------------------------------------

    def _parse(self, buffer: bytearray, now: float) -> int:
        """The hot loop: a frame that is only to be logged makes no object, but a length and perhaps an ACK.

        It splits as `codec.split` does, which a test holds it to.
        """
        limit, acks, pos, end = self.settings.frame_bytes, self._acks.run, 0, len(buffer)
        add_length, waits, waits_otherwise = self._run.lengths.append, self._waits, self._waits_otherwise
        judged, logins = self.may_publish is not None, self._login_types
        awaited = self._outgoing.bodies.open_requests
        self._run.begin()
        try:
            while pos < end:
                command = buffer[pos]
                if command > _LAST_DATA:
                    if not (size := self._take_control(pos, now)):
                        break
                    pos += size
                    if self._spend(FRAME_EFFORT):
                        break
                    continue
                head = DATA_ACK_HEAD_BYTES if command else DATA_HEAD_BYTES
                if end - pos < head:
                    break
                type_, length = _type_and_length(buffer, pos + head - 6)
                if length > limit:
                    raise too_large(length, limit)
                size = head + length
                if end - pos < size:
                    break
                if command:
                    is_special = judged or (type_ in waits_otherwise) is not waits
                else:
                    is_special = type_ in awaited or type_ in logins
                if is_special or type_ == ENVELOPE_TYPE or self._draining:
                    self._take_closely(pos, size, type_, now)
                    pos += size
                    if self._spend(FRAME_EFFORT):
                        break
                    continue
                add_length(size)
                if command:
                    acks += _ACK + buffer[pos + 1 : pos + 5]
                pos += size
        finally:
            self._emit(pos)
        return pos

    def _emit(self, pos: int) -> None:
        """Sends what was received up to `pos`, and not left out, to the log."""
        frames, lengths = self._run.cut(self._buffer, pos)
        if lengths:
            self._act(FramesReceived(frames, lengths, self._acks.close_run()))

    def _frame(self, pos: int, size: int) -> bytes:
        return bytes(memoryview(self._buffer)[pos : pos + size])

    def _take_control(self, pos: int, now: float) -> int:
        """Takes any frame but DATA and DATA_ACK. Returns its length, or 0 if it is not whole."""
        size = split(self._buffer, pos, self.settings.frame_bytes)
        if size:
            raw = self._frame(pos, size)
            frame = decode(raw)
            if frame.command is Command.PING:
                self._send(_PONG)
            elif frame.command is Command.PONG:
                if not self._waiting_pong:
                    raise Rejected(Reason.MALFORMED, "a PONG without a PING", can_continue=False)
                self._pong_received(now)
            else:
                self._take_acknowledgement(frame, raw, pos)
            self._run.leave_out(self._buffer, pos, size)
        return size

    def _take_acknowledgement(self, frame: Frame, raw: bytes, pos: int) -> None:
        acknowledged = self._outgoing.settle(frame)
        if acknowledged is not None:
            self._emit(pos)
            data = acknowledged.body + raw
            self._act(FramesReceived(data, (len(data),), replies=(acknowledged.reply,)))

    # -- frames that are more than something to log ------------------------------------------------------------

    def _take_closely(self, pos: int, size: int, type_: int, now: float) -> None:
        is_data = self._buffer[pos] == Command.DATA
        bodies = self._outgoing.bodies
        is_body = is_data and type_ in bodies.open_requests and bodies.hold(type_, self._frame(pos, size))
        is_stray_token = is_data and not is_body and type_ in self._login_types
        if is_stray_token:
            self._refuse_token()
        if is_body or is_stray_token or self._draining:
            self._run.leave_out(self._buffer, pos, size)
            return
        is_plain = self._is_plain(pos, size) if type_ == ENVELOPE_TYPE else is_data
        if is_plain:
            self._run.lengths.append(size)
            return
        raw = self._frame(pos, size)
        frame = decode(raw)
        if type_ == ENVELOPE_TYPE:
            logged = self._take_envelope(frame, raw, pos, now)
        elif (type_ in self._waits_otherwise) is self._waits:
            logged = self._take_event(frame.message_id, self.options.subject_of(type_))
        else:
            logged = self._open_request(str(frame.message_id), self.options.subject_of(type_), frame, raw, pos, now)
        if logged:
            self._run.lengths.append(size)
        else:
            self._run.leave_out(self._buffer, pos, size)

    def _is_plain(self, pos: int, size: int) -> bool:
        """An enveloped event that is only to be logged; its ACK is owed from here on. May say no to one that is."""
        acknowledged = self._buffer[pos]
        at = pos + (DATA_ACK_HEAD_BYTES if acknowledged else DATA_HEAD_BYTES)
        if not self._envelope_spoken or not is_plain_event(self._buffer, at, pos + size):
            return False
        if acknowledged:
            if self._confirmed or self.may_publish is not None:
                return False
            self._acks.run += _ACK + self._buffer[pos + 1 : pos + 5]
        return True

    def _take_envelope(self, frame: Frame, raw: bytes, pos: int, now: float) -> bool:
        acknowledged = frame.command is Command.DATA_ACK
        try:
            head, _ = decode_envelope(frame.payload)
            check_subject("" if head.kind.answers else head.subject)
        except Rejected as refused:
            # Logged all the same: the router records it with its reason.
            if acknowledged:
                self._refuse(frame.message_id, MeshError.BAD_REQUEST, refused.detail)
            return True
        self._peer_speaks_envelope()
        if head.kind.answers:
            self._take_answer(head, frame, raw, pos)
            return False
        if acknowledged and head.kind is Kind.REQUEST:
            return self._open_request(enveloped_request(head.correlation), head.subject, frame, raw, pos, now)
        if acknowledged and head.kind is Kind.EVENT and (self._confirmed or is_control(head.subject)):
            return self._open_request(str(frame.message_id), head.subject, frame, raw, pos, now)
        if acknowledged and head.kind is Kind.EVENT:
            return self._take_event(frame.message_id, head.subject)
        if is_login(head.subject):
            if acknowledged:
                self._refuse(frame.message_id, MeshError.FORBIDDEN, "a token is sent in a request")
            self._refuse_token()
            return False
        if head.kind is Kind.CANCEL:
            self._take_cancel(head, frame, raw, pos)
            return False
        self._count_control(head.subject)
        return True

    def _take_cancel(self, head: Envelope, frame: Frame, raw: bytes, pos: int) -> None:
        """The session logs a cancel by itself, with the name and the subject of the request that it means."""
        acknowledged = frame.command is Command.DATA_ACK
        name = self._names.of(enveloped_request(head.correlation))
        subject = self._open_request_to_cancel(name)
        if subject is not None:
            acknowledgement = encode(Frame(Command.ACK, frame.message_id)) if acknowledged else b""
            self._log_named(name, subject, raw, pos, acknowledgement)
        elif acknowledged:
            self._refuse(frame.message_id, MeshError.BAD_REQUEST, "a cancel of no open request")

    def _take_event(self, message_id: int, subject: str) -> bool:
        """Takes an event that is acknowledged when it is logged. What the router will refuse is refused here too."""
        if self.may_publish is None or self.may_publish(subject):
            self._acks.run += encode(Frame(Command.ACK, message_id))
        else:
            self._refuse(message_id, MeshError.FORBIDDEN, "this node may not publish that")
        return True

    def _peer_speaks_envelope(self) -> None:
        if not self._envelope_spoken:
            self._envelope_spoken = True
            self._act(Opened(ENVELOPE_SPOKEN))

    def _take_answer(self, head: Envelope, frame: Frame, raw: bytes, pos: int) -> None:
        """An answer in the envelope; the ACK or ERROR of the request's own MessageID comes after the final one."""
        acknowledged = frame.command is Command.DATA_ACK
        reply = self._served_requests.get(head.correlation)
        if reply is None:
            if acknowledged:
                self._refuse(frame.message_id, MeshError.BAD_REQUEST, "an answer to no open request")
            self._act(FrameRefused(Reason.TIMEOUT, "an answer to no open request"))
            return
        self._emit(pos)
        tag = self._acks.owe(encode(Frame(Command.ACK, frame.message_id))) if acknowledged else None
        self._act(FramesReceived(raw, (len(raw),), tag, (reply,)))
        if head.kind.ends_request:
            self._served_requests.end(head.correlation)

    # -- requests of the peer ----------------------------------------------------------------------------------

    def _open_request(self, request: str, subject: str, frame: Frame, raw: bytes, pos: int, now: float) -> bool:
        """A frame that is answered by the router; whether it may be logged with its neighbours."""
        if self._names.of(request) in self._peer_requests:
            self._refuse_second(request, frame)
            return False
        name = self._names.give(request, frame.message_id)
        if not self._open_peer_request(name, subject, now, progressive=is_enveloped(request)):
            self._names.end(name)
            self._refuse(frame.message_id, MeshError.INTERNAL, "too many open requests")
            self._act(FrameRefused(Reason.OVERLOAD, "too many open requests"))
            return False
        if is_login(subject):
            self._emit(pos)
            self._ask_for_login(name, raw)
            return False
        return True if name == request else self._log_named(name, subject, raw, pos)

    def _refuse_second(self, request: str, frame: Frame) -> None:
        if not is_enveloped(request):
            raise Rejected(Reason.MALFORMED, "the MessageID is that of an open request", can_continue=False)
        self._refuse(frame.message_id, MeshError.BAD_REQUEST, "the correlation is that of an open request")
        self._act(FrameRefused(Reason.MALFORMED, "the correlation is that of an open request"))

    def _log_named(self, name: str, subject: str, raw: bytes, pos: int, ack: bytes = b"") -> bool:
        """Logs a frame by itself, with the request that it opens or cancels. `ack` goes out when it is logged."""
        self._emit(pos)
        named = RequestName(name, subject, self.protocol)
        self._act(FramesReceived(raw, (len(raw),), self._acks.owe(ack), (named,)))
        return False

    def logged(self, tag: int, now: float) -> None:
        acks = self._acks.take(tag)
        if self.closed:
            return
        if acks:
            self._send(acks)
        self._end_if_drained()

    # -- deliveries --------------------------------------------------------------------------------------------

    def deliver(self, delivery: Delivery, now: float) -> None:
        if self.closed or (self._draining and not delivery.kind.answers):
            self._act(Delivered(delivery, Outcome.UNDELIVERABLE, "the session has ended"))
        elif delivery.kind.answers:
            message_id = self._names.message_ids.get(delivery.request, 0)
            if self._answered(delivery, now):
                self._write(delivery, message_id)
        elif delivery.kind is Kind.CANCEL:
            wire = self._served_requests.id_of(delivery.reply)
            if isinstance(wire, int):
                self._write(delivery, wire)
            else:
                self._act(Delivered(delivery, Outcome.WRITTEN))
        elif delivery.frame[:1] == _DATA_ACK:
            self._deliver_acknowledged(delivery, now)
        else:
            self._send(delivery.frame)
            self._act(Delivered(delivery, Outcome.WRITTEN))

    def _write(self, delivery: Delivery, message_id: int) -> None:
        self._send(stamped(delivery.frame, delivery.stamps, U32, message_id))
        self._act(Delivered(delivery, Outcome.WRITTEN))

    def _deliver_acknowledged(self, delivery: Delivery, now: float) -> None:
        message_id = self._outgoing.add(delivery, now)
        if delivery.reply is not None:
            self._open_served_request(message_id, delivery.reply)
            self._outgoing.expect_body(delivery, self.options.reply_type_for(delivery.subject))
        self._send(stamped(delivery.frame, delivery.stamps, U32, message_id))

    def _writes_events_as_they_are(self) -> bool:
        return not self.closed and not self._draining

    def _timer(self, name: Hashable, now: float) -> None:
        self._outgoing.give_up(now)

    def _end_deliveries(self) -> None:
        self._outgoing.end_all()

    # -- answers to the peer that the router did not write -----------------------------------------------------

    def _refuse(self, message_id: int, error: MeshError, message: str) -> None:
        body = error_body(error, message)
        self._send(encode(Frame(Command.ERROR, message_id, self.options.error_type, body)))

    def _answer_error(self, request: str, error: MeshError, message: str, now: float) -> None:
        failure = HspAnswer(Kind.ERROR, self._peer_requests[request].subject, JSON, error_body(error, message))
        encoded = answer(failure, request, self.options)
        self._send(stamped(encoded.frame, encoded.stamps, U32, self._names.message_ids[request]))

    def _end_peer_request(self, request: str, outcome: str) -> None:
        super()._end_peer_request(request, outcome)
        self._names.end(request, late=outcome == TIMED_OUT)

    # -- keepalive and end -------------------------------------------------------------------------------------

    def _ping(self, now: float) -> None:
        self._send(_PING)

    def drain(self, now: float, redirect_url: str | None = None, why: CloseReason = CloseReason.DRAIN) -> None:
        """Ends the session once what is logged has been acknowledged: hsp has no goodbye."""
        self._draining = why
        self._end_if_drained()

    def _end_if_drained(self) -> None:
        if self._draining and not self._acks.are_owed:
            self._terminate(self._draining)
