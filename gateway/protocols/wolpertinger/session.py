"""The session of wolpertinger: layer 1 and trust below, and of layer 2 what only the holder of the connection can do.

    RemoteMethodCall       `Authentication.*`   answered here, at once; never logged, for it carries secrets
                           too little trust     RemoteError 201
                           `Core.Heartbeat`     logged as progress of all calls that are open at this peer
                           any other            an open request, logged; the router answers it
    RemoteMethodResponse,  to an open call      logged with the address of who asked
    RemoteError            to none              dropped and counted
    `Core.SendResetNotice` the peer is about to leave: the session ends
    what is not encrypted  though a key was agreed: RemoteError 202, not encrypted either, and the session ends
    anything else          RemoteError 301, 302, 305 or 401; logged as it is, so that it is kept with its reason

What is logged is the decoded XML. A message is confirmed when its frame is logged, or at once if it never will be.

A call that nobody serves is an event, and then no response is owed. The router says so with a delivery of kind event,
without a frame, whose `request` is the CallId: the call is forgotten, and nothing is sent.

Invariants beside those of every session and of layer 1
1. Every frame is answered once: what the router refuses for its XML, this session answers, by the same `decode`.
2. Once draining, only confirmations are taken in, and the session ends when the last one that we owe is said.
"""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from gateway.core.event import Kind
from gateway.core.reasons import MeshError, Reason
from gateway.core.subjects import is_login
from gateway.protocols.actions import (
    AbandonRequests,
    CloseReason,
    Delivered,
    Delivery,
    FrameRefused,
    FramesReceived,
    Outcome,
)
from gateway.protocols.session_settings import SessionSettings
from gateway.protocols.wolpertinger.authentication import COMPONENT, is_authentication
from gateway.protocols.wolpertinger.codec import decode, encode
from gateway.protocols.wolpertinger.frames import (
    ANSWERED_TO_NOBODY,
    ASKED,
    CALL_ID_BYTES,
    CALL_ID_CHARACTERS,
    CODE_OF,
    BadMessage,
    Call,
    CallResponse,
    RemoteError,
    RemoteErrorCode,
    Result,
    new_call_id,
)
from gateway.protocols.wolpertinger.mapping import answering, subject_of
from gateway.protocols.wolpertinger.options import WolpertingerOptions
from gateway.protocols.wolpertinger.receipt_run import Receipt, ReceiptRun
from gateway.protocols.wolpertinger.receipts import SentMessage
from gateway.protocols.wolpertinger.trusting_session import TrustingSession
from gateway.records.raw_log.frames import ReplyAddress

PROGRESS_PER_SECOND = 4096
FEW_OPEN_CALLS = 64
"""A heartbeat goes to every call that is open at the peer. Of few nobody counts them; of more, a peer that leaves calls
open could make each message into thousands, so then the next is heeded when there is room for it."""

CORE = "Core"
"""The component that causes errors of which nobody else can be the cause."""

HEARTBEAT = "Heartbeat"
HEARTBEAT_BYTES = 4_096
"""Each call that is open at the peer gets a copy of what its heartbeat says, and there may be 65,536 of them."""
RESET_NOTICE = "SendResetNotice"

EVENT_IS_OVER = "event"


class WolpertingerSession(TrustingSession):
    protocol: ClassVar[str] = "wolpertinger"

    def __init__(self, settings: SessionSettings, options: WolpertingerOptions) -> None:
        super().__init__(settings, options)
        self._run = ReceiptRun()
        self._heartbeat_due = 0.0
        self._draining: CloseReason | None = None

    # -- what the peer sends -----------------------------------------------------------------------------------

    def _parse(self, buffer: bytearray, now: float) -> int:
        used = super()._parse(buffer, now)
        self._log_run()
        if used and self.settings.dialled and self._waiting_pong:
            self._pong_received(now)
        return used

    def _message(self, message_id: int, data: bytes, encrypted: bool, now: float) -> None:
        if self._draining:
            return
        trusted = self.trust >= self.options.require_trust
        lacks_encryption = self.cipher is not None and not encrypted
        try:
            message = decode(data)
        except BadMessage as bad:
            if lacks_encryption:
                self._reset(message_id, bad.call_id, now)
            else:
                self._take_bad(message_id, data, bad, trusted, now)
            return
        if isinstance(message, Call) and _is_of_core(message, RESET_NOTICE):
            self._confirm(message_id, Result.SUCCESS)
            self._terminate("bye")
        elif lacks_encryption:
            self._reset(message_id, message.call_id, now)
        elif isinstance(message, Call):
            self._take_call(message_id, data, message, trusted, now)
        else:
            self._take_answer(message_id, data, message, trusted, now)

    def _reset(self, message_id: int, call_id: str, now: float) -> None:
        """Whoever can write to the connection can send what is not encrypted, so trust and key end with the session."""
        detail = "not encrypted, though a key was agreed"
        self._act(FrameRefused(Reason.UNAUTHENTICATED, detail))
        self._confirm(message_id, Result.SUCCESS)
        self.cipher = None
        self._send_data(encode(RemoteError(COMPONENT, RemoteErrorCode.ENCRYPTION, call_id)), now)
        self._terminate(Reason.UNAUTHENTICATED, detail)

    def _take_bad(self, message_id: int, data: bytes, bad: BadMessage, trusted: bool, now: float) -> None:
        error = encode(RemoteError(bad.component or CORE, bad.code, bad.call_id))
        if bad.answers and trusted and (reply := self._served_requests.end(bad.call_id.lower())) is not None:
            self._act(AbandonRequests((reply,), MeshError.INTERNAL))
        if trusted and self.opened:
            self._run.add(data, Receipt(message_id, error))
        else:
            self._act(FrameRefused(bad.reason, bad.detail))
            self._confirm(message_id, Result.SUCCESS)
            self._send_data(error, now)

    def _take_call(self, message_id: int, data: bytes, call: Call, trusted: bool, now: float) -> None:
        if is_authentication(call):
            self._confirm(message_id, Result.SUCCESS)
            self._authenticate(call, now)
        elif not trusted or not self.opened:
            self._refuse_call(message_id, call, RemoteErrorCode.NOT_AUTHORISED, Reason.UNAUTHENTICATED, now)
        elif _is_of_core(call, HEARTBEAT) and len(data) > HEARTBEAT_BYTES:
            self._drop(message_id, Reason.TOO_LARGE, f"a heartbeat of more than {HEARTBEAT_BYTES} bytes")
        elif _is_of_core(call, HEARTBEAT):
            self._take_heartbeat(message_id, data, now)
        elif is_login(subject_of(call)):
            self._take_login(message_id, data, call, now)
        elif call.call_id in self._peer_requests or self._open_peer_request(call.call_id, subject_of(call), now):
            # A CallId that is open already is the same call once more: the router drops it, and answers once.
            self._run.add(data, Receipt(message_id, call_id=call.call_id))
        else:
            self._refuse_call(message_id, call, RemoteErrorCode.REQUEST, Reason.OVERLOAD, now)

    def _take_login(self, message_id: int, data: bytes, call: Call, now: float) -> None:
        if self._open_peer_request(call.call_id, subject_of(call), now):
            self._confirm(message_id, Result.SUCCESS)
            self._log_run()
            self._ask_for_login(call.call_id, data)
        else:
            self._refuse_call(message_id, call, RemoteErrorCode.REQUEST, Reason.OVERLOAD, now)

    def _refuse_call(self, message_id: int, call: Call, code: RemoteErrorCode, reason: Reason, now: float) -> None:
        self._act(FrameRefused(reason, f"answered with RemoteError {code}"))
        self._confirm(message_id, Result.SUCCESS)
        self._send_data(encode(RemoteError(call.component, code, call.call_id)), now)

    def _take_heartbeat(self, message_id: int, data: bytes, now: float) -> None:
        replies = tuple(self._served_requests.values())
        if not replies or now < self._heartbeat_due:
            self._confirm(message_id, Result.SUCCESS)
            return
        if len(replies) > FEW_OPEN_CALLS:
            self._heartbeat_due = now + len(replies) / PROGRESS_PER_SECOND
        self._log(data, Receipt(message_id), replies)

    def _take_answer(
        self, message_id: int, data: bytes, answer: CallResponse | RemoteError, trusted: bool, now: float
    ) -> None:
        call_id = answer.call_id.lower()
        if self._login.asked(call_id):
            self._confirm(message_id, Result.SUCCESS)
            self._logged_in(call_id, answer, now)
        elif not trusted or not self.opened:
            self._drop(message_id, Reason.UNAUTHENTICATED, "an answer of a peer that is not trusted")
        elif not call_id:
            self._run.add(data, Receipt(message_id))
        elif (reply := self._served_requests.end(call_id)) is not None:
            self._log(data, Receipt(message_id), (reply,))
        elif UUID(call_id).version == ANSWERED_TO_NOBODY:
            self._confirm(message_id, Result.SUCCESS)
        else:
            self._drop(message_id, Reason.TIMEOUT, "an answer to no open call")

    def _drop(self, message_id: int, reason: Reason, detail: str) -> None:
        self._act(FrameRefused(reason, detail))
        self._confirm(message_id, Result.SUCCESS)

    # -- the log -----------------------------------------------------------------------------------------------

    def _log(self, data: bytes, receipt: Receipt, replies: tuple[ReplyAddress, ...]) -> None:
        """Logs a message on its own, because it answers something. What came before it goes first."""
        self._log_run()
        self._run.add(data, receipt)
        self._log_run(replies)

    def _log_run(self, replies: tuple[ReplyAddress, ...] = ()) -> None:
        if self._run.frames:
            data, lengths, tag = self._run.close()
            self._act(FramesReceived(data, lengths, tag, replies))

    def logged(self, tag: int, now: float) -> None:
        receipts = self._run.logged(tag)
        if self.closed:
            return
        for receipt in receipts:
            self._confirm(receipt.message_id, Result.SUCCESS)
            if receipt.error:
                self._send_data(receipt.error, now)
        self._end_if_drained()

    # -- deliveries --------------------------------------------------------------------------------------------

    def deliver(self, delivery: Delivery, now: float) -> None:
        if delivery.kind.answers:
            self._confirm_answered(delivery.request)
        if self.closed:
            self._act(Delivered(delivery, Outcome.UNDELIVERABLE, "the session has ended"))
        elif delivery.kind is Kind.EVENT and delivery.request:
            self._end_peer_request(delivery.request, EVENT_IS_OVER)
            self._act(Delivered(delivery, Outcome.WRITTEN, "an event: no response is owed"))
        elif delivery.kind.answers and not self._answered(delivery, now):
            return
        elif delivery.only_ends_request:
            self._act(Delivered(delivery, Outcome.WRITTEN, "the protocol has no such message"))
        elif not self._deliver(delivery, now):
            self._undeliverable(delivery, "the peer has too much to confirm already")

    def _confirm_answered(self, call_id: str) -> None:
        """A call is confirmed before it is answered, also where the router's answer is quicker than Kafka's word."""
        if not self.closed and (message_id := self._run.answered(call_id)) is not None:
            self._confirm(message_id, Result.SUCCESS)

    def _deliver(self, delivery: Delivery, now: float) -> bool:
        if not delivery.stamps:
            return self._send_data(delivery.frame, now, delivery)
        asked_by = delivery.reply if delivery.kind is Kind.REQUEST else None
        call_id = new_call_id(self.settings.token(CALL_ID_BYTES), ASKED if asked_by else ANSWERED_TO_NOBODY)
        if asked_by is not None:
            self._open_served_request(call_id, asked_by)
        return self._send_data(_stamped(delivery, call_id), now, delivery)

    def _confirmed_sent(self, sent: SentMessage) -> None:
        if sent.delivery is not None:
            self._act(Delivered(sent.delivery, Outcome.CONFIRMED))

    def _lost_sent(self, sent: SentMessage, detail: str) -> None:
        if sent.delivery is not None:
            self._undeliverable(sent.delivery, detail)

    def _undeliverable(self, delivery: Delivery, detail: str) -> None:
        """Whoever waits for the answer of a request hears it at once."""
        if delivery.kind is Kind.REQUEST and delivery.reply is not None:
            call_id = self._served_requests.id_of(delivery.reply)
            if call_id is not None and (reply := self._served_requests.end(call_id)) is not None:
                self._act(AbandonRequests((reply,)))
        self._act(Delivered(delivery, Outcome.UNDELIVERABLE, detail))

    def _answer_error(self, request: str, error: MeshError, message: str, now: float) -> None:
        component = answering(self._peer_requests[request].subject)
        self._send_data(encode(RemoteError(component, CODE_OF[error], request)), now)

    def _ping(self, now: float) -> None:
        """The protocol has no keepalive, but its listeners let go of who is silent for long. So who has dialled calls
        `Core.Heartbeat`, which has no answer but its confirmation; where calls are open it would be taken for progress.
        """
        if not self.settings.dialled:
            super()._ping(now)
        elif self._peer_requests or self._served_requests:
            self._pong_received(now)
        else:
            call_id = new_call_id(self.settings.token(CALL_ID_BYTES), ANSWERED_TO_NOBODY)
            self._send_data(encode(Call(CORE, call_id, HEARTBEAT)), now)
            self.timers.set("pong", now + self.options.confirmed_within_seconds)

    # -- the end -----------------------------------------------------------------------------------------------

    def drain(self, now: float, redirect_url: str | None = None, why: CloseReason = CloseReason.DRAIN) -> None:
        """Ends the session once what is logged has been confirmed: wolpertinger has no goodbye."""
        self._draining = why
        self._end_if_drained()

    def _end_if_drained(self) -> None:
        if self._draining and not self._run.waits:
            self._terminate(self._draining)

    def _end_deliveries(self) -> None:
        self._log_run()
        for sent in self._unconfirmed.take_all():
            if sent.delivery is not None:
                self._act(Delivered(sent.delivery, Outcome.UNDELIVERABLE, "the session ended first"))


def _stamped(delivery: Delivery, call_id: str) -> bytes:
    frame = delivery.frame
    for at in delivery.stamps:
        frame = frame[:at] + call_id.encode() + frame[at + CALL_ID_CHARACTERS :]
    return frame


def _is_of_core(call: Call, method: str) -> bool:
    return call.component.lower() == CORE.lower() and call.method.lower() == method.lower()
