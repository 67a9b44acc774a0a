"""The session of emp: a hello from both sides, then messages in any order until one says bye or error.

    state     | hello        | bye | error       | ping | pong           | data, 128–255 | anything else
    --------- | ------------ | --- | ----------- | ---- | -------------- | ------------- | -------------
    greeting  | check, open  | end | end         | error 3 and end, all of them
    open      | error 3      | end | end         | pong | settle or drop | take          | error 3

Invariants beside those of every session
1. Whatever is wrong with a message is said in an error message, and the session ends: 4 with the extension's id for a
   bad block, 2 for a timeout, 3 for the rest. Only a version we do not speak closes without a word (the text says so).
   A session that we end with nothing wrong in it ends with bye, or an error that says what bye cannot.
2. Our request ids count up from 1 and are never used again.
3. An id that we gave up on is remembered, so that its late response is dropped and counted; any other response to no
   open request is an error of the protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum, auto
from types import MappingProxyType
from typing import ClassVar

from gateway.core.content import JSON
from gateway.core.event import Kind
from gateway.core.reasons import MeshError, Reason, Rejected
from gateway.core.subjects import LOGIN, check_subject, is_control, is_login
from gateway.core.wire import U32, U64
from gateway.protocols.actions import CloseReason, Delivered, Delivery, FrameRefused, FramesReceived, Opened, Outcome
from gateway.protocols.emp.codec import (
    check_size,
    decode,
    decode_error,
    decode_hello,
    encode,
    encode_error,
    encode_hello,
    first_block,
)
from gateway.protocols.emp.extensions import EmpContent, understand
from gateway.protocols.emp.frames import (
    FLAG,
    TYPE_OFFSET,
    BadExtension,
    EmpErrorCode,
    Failure,
    Message,
    MessageType,
    carries_data,
    is_known,
)
from gateway.protocols.emp.mapping import EmpAnswer, answer, speaks_envelope
from gateway.protocols.emp.options import EmpOptions
from gateway.protocols.error_bodies import error_body
from gateway.protocols.frame_run import FrameRun
from gateway.protocols.recent_ids import RecentIds
from gateway.protocols.session import FRAME_EFFORT, INFLATED_BYTES_OF_EFFORT, Session
from gateway.protocols.session_settings import SessionSettings
from gateway.protocols.stamps import stamped
from gateway.records.raw_log.frames import Fact, ReplyAddress, RequestName

_BYE = encode(Message(MessageType.BYE))
_PING = encode(Message(MessageType.PING))
_PONG = encode(Message(MessageType.PONG))
_FAILURES: Mapping[CloseReason, Failure] = MappingProxyType(
    {
        CloseReason.IDLE: Failure(EmpErrorCode.TIMEOUT, "nothing has come for too long"),
        CloseReason.OVERLOAD: Failure(EmpErrorCode.UNSPECIFIED, "there are too many connections"),
        CloseReason.NOT_LOGGED: Failure(EmpErrorCode.UNSPECIFIED, "what was sent could not be kept"),
        CloseReason.INTERNAL: Failure(EmpErrorCode.UNSPECIFIED, "a fault of the mesh"),
        CloseReason.EXPIRED: Failure(EmpErrorCode.UNSPECIFIED, "what proved this peer has ended"),
        CloseReason.REVOKED: Failure(EmpErrorCode.UNSPECIFIED, "what proved this peer is not believed any more"),
        CloseReason.LOGIN_REQUIRED: Failure(EmpErrorCode.UNSPECIFIED, "this listener wants a proof of who connects"),
        CloseReason.OVER_BUDGET: Failure(EmpErrorCode.UNSPECIFIED, "too much was held for this session"),
    }
)
"""Bye is for a normal termination: none of these is one to the peer."""


class EmpState(Enum):
    GREETING = auto()
    OPEN = auto()


_size = U32.unpack_from

MAX_NAMES = 256
"""Few peers name more subjects in a session; each takes at most MAX_SIGHT_BYTES of our memory."""

MAX_ERROR_TEXT = 200
"""The most of a peer's own words: as much as a line of the log takes."""


Transition = Callable[["EmpSession", Message, EmpContent, float], bool]
"""What a message does; whether it goes to the log."""


class EmpSession(Session):
    protocol: ClassVar[str] = "emp"

    def __init__(self, settings: SessionSettings, options: EmpOptions) -> None:
        super().__init__(
            replace(settings, ping_seconds=options.ping_seconds, pong_timeout_seconds=options.pong_timeout_seconds)
        )
        self.reconfigure(options)
        self._ended: tuple[str, str] | None = None
        self._facts: dict[str, Fact] = {"envelope": True} if options.envelope == "always" else {}
        self._run = FrameRun()
        self._names: set[bytes] = set()
        self._last_request_id = 0
        self._given_up = RecentIds()

    def reconfigure(self, options: EmpOptions) -> None:
        self.options = options
        self._is_data = options.are_data

    def _started(self, now: float) -> None:
        self._send(encode_hello())

    # -- what the peer sends -----------------------------------------------------------------------------------

    def _parse(self, buffer: bytearray, now: float) -> int:
        """The hot loop: a message of data without blocks, or under a known name, makes no object but a length."""
        limit, add_length, pos, end = self.settings.frame_bytes, self._run.lengths.append, 0, len(buffer)
        is_data = self._is_data
        self._run.begin()
        try:
            while end - pos >= U32.size and self._ended is None:
                size = _size(buffer, pos)[0]
                check_size(size, limit)
                if end - pos < size:
                    break
                plain = buffer[pos + 5] < FLAG or first_block(buffer, pos, size) in self._names
                if plain and is_data[buffer[pos + 4]] and self.opened:
                    add_length(size)
                    pos += size
                    continue
                opened_bytes = self._take(pos, size, now)
                pos += size
                if self._spend(FRAME_EFFORT + opened_bytes // INFLATED_BYTES_OF_EFFORT):
                    break
        finally:
            self._emit(pos)
        if self._ended is not None:
            self._terminate(*self._ended)
        return pos

    def _emit(self, pos: int) -> None:
        """Sends what was received up to `pos`, and not left out, to the log."""
        frames, lengths = self._run.cut(self._buffer, pos)
        if lengths:
            self._act(FramesReceived(frames, lengths))

    def _take(self, pos: int, size: int, now: float) -> int:
        """Returns how many bytes the message has when it is decompressed."""
        raw = bytes(memoryview(self._buffer)[pos : pos + size])
        transition = self._transition(raw[TYPE_OFFSET])
        message = decode(raw)
        content = understand(message, self.options.uncompressed_bytes)
        if content.kind.answers:
            self._emit(pos)
            self._take_answer(content, raw)
        elif content.kind is Kind.CANCEL:
            self._take_cancel(content, raw, pos)
        elif content.kind is Kind.REQUEST and is_login(self._subject(message, content)):
            self._take_login(content, raw, pos, now)
        elif transition(self, message, content, now):
            self._run.lengths.append(size)
            self._remember(raw, message, content)
            return len(content.body)
        self._run.leave_out(self._buffer, pos, size)
        return len(content.body)

    def _transition(self, type_: int) -> Transition:
        """Returns what a message of this type does now. It is sought before the message is read: one that does not
        belong here may have a bad block too."""
        if not is_known(type_):
            raise Rejected(Reason.UNKNOWN_TYPE, f"message type {type_}", can_continue=False)
        message_type = MessageType.DATA if carries_data(type_) else MessageType(type_)
        transition = self._TRANSITIONS.get((EmpState.OPEN if self.opened else EmpState.GREETING, message_type))
        if transition is None:
            raise Rejected(Reason.MALFORMED, f"{message_type.name.lower()} does not belong here", can_continue=False)
        return transition

    def _remember(self, raw: bytes, message: Message, content: EmpContent) -> None:
        """A peer names the same subjects again and again: an envelope alone is understood once, then known by sight.
        Control subjects are not, for their frames are counted."""
        name = first_block(raw, 0, len(raw))
        is_enveloped_event = content.kind is Kind.EVENT and content.envelope is not None and len(message.blocks) == 1
        if name and is_enveloped_event and content.envelope and not is_control(content.envelope.subject):
            if len(self._names) >= MAX_NAMES:
                self._names.clear()
            self._names.add(name)

    def _take_hello(self, message: Message, content: EmpContent, now: float) -> bool:
        version = decode_hello(message.body)
        if version == 0:
            self._ended = (Reason.UNSUPPORTED_VERSION, "version 0")
        else:
            # A higher version is the highest the peer speaks; both go on with ours.
            self._open(now, dict(self._facts))
        return False

    def _take_bye(self, message: Message, content: EmpContent, now: float) -> bool:
        self._ended = ("bye", "")
        return False

    def _take_error(self, message: Message, content: EmpContent, now: float) -> bool:
        failure = decode_error(message.body)
        self._ended = ("peer_error", f"error {failure.code}: {failure.text[:MAX_ERROR_TEXT]!r}")
        return False

    def _take_ping(self, message: Message, content: EmpContent, now: float) -> bool:
        self._send(_PONG)
        return False

    def _take_pong(self, message: Message, content: EmpContent, now: float) -> bool:
        """Takes a pong. One that nobody asked for is as much a sign of life."""
        self._pong_received(now)
        return False

    def _take_data(self, message: Message, content: EmpContent, now: float) -> bool:
        self._learn(content)
        if content.kind is not Kind.REQUEST:
            subject = self._subject(message, content)
            if is_login(subject):
                self._refuse_token()
                return False
            self._count_control(subject)
            return True
        return self._open_request(str(content.request_id), self._subject(message, content), now)

    def _subject(self, message: Message, content: EmpContent) -> str:
        return content.envelope.subject if content.envelope else self.options.subject_of(message.type)

    def _take_login(self, content: EmpContent, raw: bytes, pos: int, now: float) -> None:
        self._learn(content)
        self._emit(pos)
        request = str(content.request_id)
        if self._open_request(request, LOGIN, now):
            self._ask_for_login(request, raw)

    _TRANSITIONS: ClassVar[dict[tuple[EmpState, MessageType], Transition]] = {
        (EmpState.GREETING, MessageType.HELLO): _take_hello,
        (EmpState.GREETING, MessageType.BYE): _take_bye,
        (EmpState.GREETING, MessageType.ERROR): _take_error,
        (EmpState.OPEN, MessageType.BYE): _take_bye,
        (EmpState.OPEN, MessageType.ERROR): _take_error,
        (EmpState.OPEN, MessageType.PING): _take_ping,
        (EmpState.OPEN, MessageType.PONG): _take_pong,
        (EmpState.OPEN, MessageType.DATA): _take_data,
    }

    def _learn(self, content: EmpContent) -> None:
        """Notes what the peer has used itself: that may be sent to it."""
        learned: dict[str, Fact] = {}
        if content.envelope is not None:
            learned["envelope"] = True
        if content.compressed:
            learned["compression"] = True
        if not learned.keys() <= self._facts.keys():
            self._facts |= learned
            self._act(Opened(dict(self._facts)))

    def _take_cancel(self, content: EmpContent, raw: bytes, pos: int) -> None:
        """The session logs a cancel by itself, with the subject of the request that it means."""
        self._learn(content)
        if content.envelope is not None and is_login(content.envelope.subject):
            self._refuse_token()
            return
        request = str(content.request_id)
        subject = self._open_request_to_cancel(request)
        if subject is not None:
            self._emit(pos)
            named = RequestName(request, subject, self.protocol)
            self._act(FramesReceived(raw, (len(raw),), replies=(named,)))

    def _open_request(self, request: str, subject: str, now: float) -> bool:
        try:
            check_subject(subject)
        except Rejected as refused:
            # Logged all the same: the router records it with its reason.
            self._say_error(request, "", MeshError.BAD_REQUEST, refused.detail)
            return True
        if self._open_peer_request(request, subject, now, progressive=speaks_envelope(self._facts, self.options)):
            return True
        if request in self._peer_requests:
            raise Rejected(Reason.MALFORMED, "the request id is that of an open request", can_continue=False)
        self._say_error(request, subject, MeshError.INTERNAL, "too many open requests")
        self._act(FrameRefused(Reason.OVERLOAD, "too many open requests"))
        return False

    def _take_answer(self, content: EmpContent, raw: bytes) -> None:
        self._learn(content)
        reply = self._served_requests.get(content.request_id)
        if reply is not None:
            self._act(FramesReceived(raw, (len(raw),), replies=(reply,)))
            if content.kind.ends_request:
                self._served_requests.end(content.request_id)
        elif content.kind.ends_request and not self._given_up.take(content.request_id):
            raise Rejected(Reason.MALFORMED, "a response to no open request", can_continue=False)
        else:
            # Progress ends no request: the text has no word against one that comes too late.
            self._act(FrameRefused(Reason.TIMEOUT, f"{content.kind} of a request that is over"))

    # -- deliveries --------------------------------------------------------------------------------------------

    def deliver(self, delivery: Delivery, now: float) -> None:
        if self.closed or not self.opened:
            self._act(Delivered(delivery, Outcome.UNDELIVERABLE, "the session is not open"))
        elif delivery.kind.answers:
            if self._answered(delivery, now):
                self._write(delivery)
        elif delivery.kind is Kind.CANCEL:
            wire = self._served_requests.id_of(delivery.reply)
            self._write(delivery, wire if isinstance(wire, int) else None)
        elif delivery.reply is not None:
            self._deliver_request(delivery, delivery.reply)
        else:
            self._write(delivery)

    def _writes_events_as_they_are(self) -> bool:
        return self.opened and not self.closed

    def _deliver_request(self, delivery: Delivery, reply: ReplyAddress) -> None:
        self._last_request_id += 1
        given_up = self._open_served_request(self._last_request_id, reply)
        if given_up is not None:
            self._given_up.add(given_up)
        self._write(delivery, self._last_request_id)

    def _write(self, delivery: Delivery, request_id: int | None = None) -> None:
        """emp confirms nothing. A cancel of a request that is over, or never came here, says nothing."""
        if not delivery.stamps or request_id is not None:
            self._send(stamped(delivery.frame, delivery.stamps, U64, request_id or 0))
        self._act(Delivered(delivery, Outcome.WRITTEN))

    def _answer_error(self, request: str, error: MeshError, message: str, now: float) -> None:
        self._say_error(request, self._peer_requests[request].subject, error, message)

    def _say_error(self, request: str, subject: str, error: MeshError, message: str) -> None:
        message_ = EmpAnswer(Kind.ERROR, subject, JSON, error_body(error, message))
        self._send(answer(message_, request, self._facts, self.options).frame)

    def logged(self, tag: int, now: float) -> None:
        """Does nothing: emp has no acknowledgements."""

    # -- keepalive and end -------------------------------------------------------------------------------------

    def _ping(self, now: float) -> None:
        self._send(_PING)

    def drain(self, now: float, redirect_url: str | None = None, why: CloseReason = CloseReason.DRAIN) -> None:
        failure = _FAILURES.get(why)
        self._send(_BYE if failure is None else encode_error(failure))
        self._terminate(why)

    def _end_broken(self, refused: Rejected, now: float) -> None:
        if isinstance(refused, BadExtension):
            failure = Failure(EmpErrorCode.EXTENSION, refused.detail, refused.extension, refused.code)
        else:
            code = EmpErrorCode.TIMEOUT if refused.reason is Reason.TIMEOUT else EmpErrorCode.PROTOCOL
            failure = Failure(code, refused.detail)
        self._send(encode_error(failure))
        self._terminate(str(refused.reason), refused.detail)
