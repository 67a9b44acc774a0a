"""The session of yamp: a handshake, then user frames both ways and pings between them, until one side closes.

            listener                                  dialled
    AWAITING_HANDSHAKE                        AWAITING_ECHO (the handshake is sent)
         │ handshake: echo it                      │ handshake: must be ours again
         └────────────────────► OPEN ◄─────────────┘
                                 │ close, close-redirect, or anything that does not belong
                                 ▼
                               ENDED

Invariants beside those of every session
1. The echo is byte for byte what the peer sent.
2. Whatever ends the session from our side is said in a close frame (or a close-redirect) first.
3. What reaches the log has a uri in UTF-8, true booleans and a body that parses in the agreed format.
   A request whose body does not is answered with an error; any other frame ends the session.
4. The peer has one open request for each uid; correlation is by that uid alone.
5. A pong answers our ping by its payload; any other is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar

from gateway.core.content import JSON, check, convert
from gateway.core.event import Kind
from gateway.core.reasons import MeshError, Reason, Rejected
from gateway.core.subjects import check_subject, is_login
from gateway.protocols.actions import CloseReason, Delivered, Delivery, FrameRefused, FramesReceived, Outcome
from gateway.protocols.error_bodies import error_body
from gateway.protocols.session import FRAME_EFFORT, Session
from gateway.protocols.session_settings import SessionSettings
from gateway.protocols.yamp.codec import decode, encode, frame_length, is_kill, shortened, uid_of, with_uid_at
from gateway.protocols.yamp.frames import (
    UID_BYTES,
    VERSION,
    Cancel,
    Close,
    CloseRedirect,
    Format,
    FrameType,
    Handshake,
    Ping,
    Pong,
    Request,
    Response,
    ResponseType,
    UserEvent,
)
from gateway.protocols.yamp.mapping import FORMAT_FACT, PROTOCOL_NAME
from gateway.protocols.yamp.options import YampOptions
from gateway.protocols.yamp.states import TRANSITIONS, YampState
from gateway.records.raw_log.frames import RequestName

PING_PAYLOAD_BYTES = 8
"""Random bytes in a ping's payload. They are sent as hexadecimal digits: the text calls the payload a string, and
stock peers decode it as one."""
SHOWN_REASON_CHARACTERS = 200
"""The most of a peer's own words that goes into our logs."""
MAX_REDIRECT_CHARACTERS = 512
"""The longest address that a peer may send us to: a name has at most 255, and the rest is for a path. It is logged."""
CLOSE_REASONS: Mapping[CloseReason, str] = MappingProxyType(
    {
        CloseReason.DRAIN: "shutting down",
        CloseReason.KICKED: "kicked: an operator has ended this session",
        CloseReason.IDLE: "idle: nothing has come for too long",
        CloseReason.OVERLOAD: "overload: there are too many connections",
        CloseReason.NOT_LOGGED: "not_logged: what was sent could not be kept",
        CloseReason.INTERNAL: "internal: a fault of the mesh",
        CloseReason.EXPIRED: "expired: what proved this peer has ended",
        CloseReason.REVOKED: "revoked: what proved this peer is not believed any more",
        CloseReason.LOGIN_REQUIRED: "login_required: this listener wants a proof of who connects",
        CloseReason.OVER_BUDGET: "over_budget: too much was held for this session",
    }
)


class YampSession(Session):
    protocol: ClassVar[str] = PROTOCOL_NAME

    def __init__(self, settings: SessionSettings, options: YampOptions) -> None:
        super().__init__(
            replace(settings, ping_seconds=options.ping_seconds, pong_timeout_seconds=options.pong_timeout_seconds)
        )
        self.reconfigure(options)
        self._state = YampState.AWAITING_ECHO if settings.dialled else YampState.AWAITING_HANDSHAKE
        self._handshake = encode(Handshake(options.formats[0]))
        self._content_type = options.formats[0].content_type
        self._to_log: list[bytes] = []
        self._ping_payload = b""

    def reconfigure(self, options: YampOptions) -> None:
        self._options = options

    @property
    def state(self) -> YampState:
        return YampState.ENDED if self.closed else self._state

    def _started(self, now: float) -> None:
        if self.settings.dialled:
            self._send(self._handshake)

    def logged(self, tag: int, now: float) -> None:
        """Does nothing: yamp acknowledges nothing."""

    # -- what the peer sends -----------------------------------------------------------------------------------

    def _parse(self, buffer: bytearray, now: float) -> int:
        used = 0
        if self.state is not YampState.OPEN:
            used = self._parse_beginning(buffer, now)
        if self.state is YampState.OPEN:
            used += self._parse_frames(buffer, used, now)
        return used

    def _parse_beginning(self, buffer: bytearray, now: float) -> int:
        """Parses one frame. What does not belong before the handshake is refused by its first byte, never buffered."""
        if not buffer:
            return 0
        length = frame_length(buffer, 0, self.settings.frame_bytes)
        self._check_belongs(FrameType(buffer[0]))
        if length is None or length > len(buffer):
            return 0
        self._take(bytes(memoryview(buffer)[:length]), now)
        return length

    def _parse_frames(self, buffer: bytearray, start: int, now: float) -> int:
        pos, end, limit = start, len(buffer), self.settings.frame_bytes
        try:
            while pos < end and not self.closed:
                length = frame_length(buffer, pos, limit)
                if length is None or length > end - pos:
                    break
                self._take(bytes(memoryview(buffer)[pos : pos + length]), now)
                pos += length
                if self._spend(FRAME_EFFORT + length):
                    break
        finally:
            self._log()
        return pos - start

    def _take(self, raw: bytes, now: float) -> None:
        frame = decode(raw)
        self._check_belongs(frame.type)
        match frame:
            case UserEvent():
                self._take_event(raw, frame)
            case Request():
                self._take_request(raw, frame, now)
            case Cancel():
                self._take_cancel(raw, frame)
            case Response():
                self._take_response(raw, frame)
            case Handshake():
                self._take_handshake(raw, frame, now)
            case Ping(payload):
                self._send(encode(Pong(payload)))
            case Pong(payload):
                if self._waiting_pong and payload == self._ping_payload:
                    self._pong_received(now)
            case Close(reason):
                # Before the handshake is done this is how a server says no.
                self._end("bye" if self._state is YampState.OPEN else "peer_error", reason[:SHOWN_REASON_CHARACTERS])
            case CloseRedirect(url):
                self._end("redirect", url if len(url) <= MAX_REDIRECT_CHARACTERS else "")

    def _take_event(self, raw: bytes, frame: UserEvent) -> None:
        check(frame.body, self._content_type)
        self._count_control(frame.uri)
        if is_login(frame.uri):
            self._refuse_token()
        else:
            self._to_log.append(raw)

    def _check_belongs(self, kind: FrameType) -> None:
        if kind not in TRANSITIONS[self.state]:
            when = "after" if self.state is YampState.OPEN else "before"
            raise Rejected(Reason.MALFORMED, f"a frame {kind.name} {when} the handshake", can_continue=False)

    def _take_handshake(self, raw: bytes, handshake: Handshake, now: float) -> None:
        if self.settings.dialled:
            if raw != self._handshake:
                raise Rejected(Reason.MALFORMED, "the echo of the handshake differs", can_continue=False)
            agreed = self._options.formats[0]
        else:
            agreed = self._agree(handshake)
            self._send(raw)
        self._content_type = agreed.content_type
        self._state = YampState.OPEN
        self._open(now, {FORMAT_FACT: agreed.value})

    def _agree(self, handshake: Handshake) -> Format:
        if handshake.version != VERSION:
            detail = f"version {handshake.version} is not supported here, {VERSION} is"
            raise Rejected(Reason.UNSUPPORTED_VERSION, detail, can_continue=False)
        if not handshake.serializer and self._options.unnamed_format is not None:
            return self._options.unnamed_format
        for supported in self._options.formats:
            if handshake.serializer == supported:
                return supported
        names = ", ".join(self._options.formats)
        detail = f"serializer {handshake.serializer!r} is not supported here, these are: {names}"
        raise Rejected(Reason.BAD_ENCODING, detail, can_continue=False)

    def _take_request(self, raw: bytes, frame: Request, now: float) -> None:
        request = frame.uid.hex()
        try:
            check(frame.body, self._content_type)
        except Rejected as refused:
            self._refuse(frame, refused.reason, refused.detail)
            return
        try:
            check_subject(frame.uri)
        except Rejected as refused:
            # Logged all the same: the router records it with its reason.
            self._say_error(frame.uid, frame.uri, MeshError.BAD_REQUEST, refused.detail)
            self._to_log.append(raw)
            return
        if request in self._peer_requests:
            self._refuse(frame, Reason.REPLAY, "a request with this uid is open")
        elif not self._open_peer_request(request, frame.uri, now, progressive=frame.progressive):
            self._refuse(frame, Reason.OVERLOAD, "too many open requests")
        elif is_login(frame.uri):
            self._log()
            self._ask_for_login(request, raw)
        else:
            self._to_log.append(raw)

    def _refuse(self, frame: Request, reason: Reason, detail: str) -> None:
        self._act(FrameRefused(reason, detail))
        self._say_error(frame.uid, frame.uri, MeshError.BAD_REQUEST, detail)

    def _take_cancel(self, raw: bytes, frame: Cancel) -> None:
        request = frame.request_uid.hex()
        subject = self._open_request_to_cancel(request)
        if subject == frame.uri:
            self._to_log.append(raw)
        elif subject is not None:
            self._log()
            self._act(FramesReceived(raw, (len(raw),), replies=(RequestName(request, subject),)))
        if frame.kill:
            self._end_peer_request(request, str(Kind.CANCELLED))

    def _take_response(self, raw: bytes, frame: Response) -> None:
        check(frame.body, self._content_type)
        reply = self._served_requests.get(frame.request_uid)
        if reply is None:
            self._act(FrameRefused(Reason.UNDELIVERABLE, "a response to no open request"))
            return
        self._log()
        self._act(FramesReceived(raw, (len(raw),), replies=(reply,)))
        if frame.outcome.is_final:
            self._served_requests.end(frame.request_uid)

    def _log(self) -> None:
        if self._to_log:
            frames, self._to_log = self._to_log, []
            self._act(FramesReceived(b"".join(frames), tuple(map(len, frames))))

    # -- what the peer is sent ---------------------------------------------------------------------------------

    def deliver(self, delivery: Delivery, now: float) -> None:
        if self.state is not YampState.OPEN:
            self._act(Delivered(delivery, Outcome.UNDELIVERABLE, "the session is not open"))
        elif delivery.kind.answers:
            self._deliver_answer(delivery, now)
        elif delivery.kind is Kind.CANCEL:
            self._deliver_cancel(delivery)
        else:
            if delivery.kind is Kind.REQUEST and delivery.reply is not None:
                self._open_served_request(uid_of(delivery.frame), delivery.reply)
            self._write(delivery, delivery.frame)

    def _writes_events_as_they_are(self) -> bool:
        return self.state is YampState.OPEN

    def _deliver_answer(self, delivery: Delivery, now: float) -> None:
        """Progress that was not asked for still shows that the request is alive."""
        peer_request = self._peer_requests.get(delivery.request)
        if self._answered(delivery, now):
            unwanted = delivery.kind is Kind.PROGRESS and peer_request is not None and not peer_request.progressive
            self._write(delivery, b"" if unwanted else delivery.frame)

    def _deliver_cancel(self, delivery: Delivery) -> None:
        uid = self._served_requests.id_of(delivery.reply)
        if not isinstance(uid, bytes):
            self._write(delivery, b"")
            return
        frame = with_uid_at(delivery.frame, delivery.stamps, uid)
        self._write(delivery, frame)
        if is_kill(frame):
            self._served_requests.end(uid)

    def _write(self, delivery: Delivery, frame: bytes) -> None:
        if not delivery.only_ends_request:
            self._send(frame)
        self._act(Delivered(delivery, Outcome.WRITTEN))

    def _answer_error(self, request: str, error: MeshError, message: str, now: float) -> None:
        self._say_error(bytes.fromhex(request), self._peer_requests[request].subject, error, message)

    def _say_error(self, request_uid: bytes, uri: str, error: MeshError, message: str) -> None:
        body = convert(error_body(error, message), JSON, self._content_type)
        uid = self.settings.token(UID_BYTES)
        self._send(encode(Response(uid, uri, request_uid, ResponseType.ERROR, body)))

    def _ping(self, now: float) -> None:
        self._ping_payload = self.settings.token(PING_PAYLOAD_BYTES).hex().encode()
        self._send(encode(Ping(self._ping_payload)))

    # -- the end -----------------------------------------------------------------------------------------------

    def drain(self, now: float, redirect_url: str | None = None, why: CloseReason = CloseReason.DRAIN) -> None:
        """Says goodbye. Only a server may send its peer elsewhere (system.close-redirect)."""
        if self.closed:
            return
        if redirect_url is not None and not self.settings.dialled:
            self._send(encode(CloseRedirect(redirect_url)))
        else:
            self._send(encode(Close(CLOSE_REASONS[why])))
        self._terminate(why)

    def _end_broken(self, refused: Rejected, now: float) -> None:
        self._send(encode(Close(shortened(f"{refused.reason}: {refused.detail}"))))
        self._terminate(refused.reason, refused.detail)

    def _end(self, reason: str, detail: str) -> None:
        self._log()
        self._terminate(reason, detail)
