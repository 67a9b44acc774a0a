"""One client for every protocol that has sessions: the protocol's own session, dialled, and its own mapping.

    publish, request, answer ──► Translator ──► Driver ──► session ──► carrier
    carrier ──► session ──► frames ──► Translator ──► an event, a request to serve, or an answer to one of ours

Invariants
1. Whatever was begun ends: a request in its answer or an error, a publication in its outcome, also when the session
   ends first.
2. What the peer sends counts as durable at once: a client has no log.
3. A request of the peer is answered once: by its handler, by what the handler raised, or with `no_responder`.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Any

from gateway.client.awaited_answers import AwaitedAnswers, OnProgress
from gateway.client.driver import Driver, why
from gateway.client.errors import EndedError, NoAnswerError, RefusedError, UndeliveredError, UnreachableError
from gateway.client.inbox import Inbox
from gateway.client.serving import Handler, RequestHandlers
from gateway.client.translation import Answer, Translator
from gateway.core.address import Address
from gateway.core.clock import now_us
from gateway.core.content import JSON
from gateway.core.event import Event, Kind
from gateway.core.reasons import MeshError, Rejected
from gateway.core.subjects import LOGIN
from gateway.protocols.actions import (
    AbandonRequests,
    Action,
    Delivered,
    Delivery,
    FramesReceived,
    Opened,
    Outcome,
    Terminated,
)
from gateway.protocols.session_settings import SessionSettings
from gateway.protocols.spec import Options, ProtocolSpec

CONTROL_SECONDS = 30.0
"""The time for the mesh to acknowledge a subscription: it must stand in every partition of the log first."""
REQUEST_SECONDS = 30.0
SETTLE_SECONDS = 5.0
"""The time for a peer to read what was published to it. A peer that answers no ping is believed to have."""

OnEvent = Callable[[Event], None]


class StreamClient:
    """A client with a session, made by `connect`."""

    def __init__(
        self, spec: ProtocolSpec[Any], options: Options, settings: SessionSettings, peer: str, on_event: OnEvent | None
    ) -> None:
        if spec.session is None:
            raise UnreachableError(peer, f"{spec.name} has no sessions")
        self.peer = peer
        self._loop = asyncio.get_running_loop()
        self._spec = spec
        self._driver = Driver(spec.session(settings, options), peer, self._act, text=spec.text_messages)
        self._translator = Translator(spec, options, peer, secrets.token_hex(8), now_us)
        self._inbox = Inbox(self._driver.pause_reading, self._driver.resume_reading)
        self._on_event = on_event or self._inbox.put
        self._servants = RequestHandlers(self._answer)
        self._requests = AwaitedAnswers()
        self._waiting: dict[str, Delivery] = {}
        self._sent: dict[str, asyncio.Future[Delivered]] = {}
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ended: EndedError | None = None
        self._closing = False

    async def begin(self, address: Address, tls: ssl.SSLContext | None, server_name: str | None) -> None:
        """Opens the session. Called once, first. Raises UnreachableError."""
        opened = False
        try:
            await self._driver.dial(address, tls, server_name)
            await self._ready
            opened = True
        except EndedError as ended:
            # A server that misses our certificate says so in an alert, which not every TLS library gets out in time.
            hint = " (does it ask for a certificate?)" if address.has_tls and ended.reason == "eof" else ""
            raise UnreachableError(self.peer, ended.why + hint, ended.redirect_url) from ended
        finally:
            if not opened:
                self._ready.cancel()
                await self._driver.abort()

    async def close(self) -> None:
        """Says goodbye. `events()` ends; what is open besides fails with EndedError, and is cancelled: not every
        protocol has a goodbye, and the peer would go on to answer whom it can still reach."""
        self._closing = True
        for request in self._waiting.values():
            self._cancel(request)
        await self._driver.close()

    # -- publishing and asking ---------------------------------------------------------------------------------

    def post(self, subject: str, body: bytes = b"", content_type: str = "") -> asyncio.Future[Delivered]:
        """Publishes and does not wait: the future tells what became of it, and never raises.

        Raises Rejected where the protocol has no form for it, EndedError where there is no session any more.
        """
        self._check_open()
        delivery = self._translator.event(subject, body, content_type)
        delivered: asyncio.Future[Delivered] = self._loop.create_future()
        self._sent[delivery.event_id] = delivered
        self._driver.deliver(delivery)
        return delivered

    async def publish(self, subject: str, body: bytes = b"", content_type: str = "") -> Outcome:
        """Publishes, and waits until the peer has confirmed it, where its protocol confirms.

        Raises RefusedError, UndeliveredError, and what `post` raises.
        """
        await self._driver.writable()
        delivered = await self.post(subject, body, content_type)
        if delivered.refused:
            raise RefusedError(self.peer, delivered.detail, f"{subject} was not taken")
        if delivered.outcome is Outcome.UNDELIVERABLE:
            raise self._ended or UndeliveredError(self.peer, f"{subject} was not taken: {delivered.detail}")
        return delivered.outcome

    async def settle(self, seconds: float = SETTLE_SECONDS) -> None:
        """Waits until the peer has read what was published: where a protocol confirms nothing, it says only by ending
        the session that it did not take it. Raises EndedError if it has."""
        await self._driver.answered(seconds)
        if self._ended is not None and self._ended.is_failure:
            raise self._ended

    async def request(
        self,
        subject: str,
        body: bytes = b"",
        content_type: str = "",
        *,
        timeout: float = REQUEST_SECONDS,  # noqa: ASYNC109 - progress prolongs it
        on_progress: OnProgress | None = None,
    ) -> Answer:
        """Asks and waits. An error is an answer too; `timeout` seconds without an answer or progress are not.

        Cancelling the task that waits cancels the request. Raises NoAnswerError, EndedError, Rejected.
        """
        self._check_open()
        delivery = self._translator.request(subject, body, content_type)
        self._driver.deliver(delivery)
        self._waiting[delivery.event_id] = delivery
        try:
            return await self._requests.answer(delivery.event_id, timeout, on_progress)
        except TimeoutError:
            self._cancel(delivery)
            raise NoAnswerError(self.peer, f"no answer on {subject} within {timeout:g} s") from None
        except asyncio.CancelledError:
            self._cancel(delivery)
            raise
        finally:
            del self._waiting[delivery.event_id]

    def _cancel(self, request: Delivery) -> None:
        """Said to the peer where its protocol can say so; what it answers, nobody waits for."""
        if self._ended is None:
            self._driver.deliver(self._translator.cancel(request))

    # -- interests ---------------------------------------------------------------------------------------------

    async def subscribe(self, pattern: str, group: str | None = None) -> None:
        """Subscribes. Each event that the mesh receives after this returns comes. Raises RefusedError."""
        await self._control("mesh.subscribe", pattern, group)

    async def log_in(self, token: str) -> None:
        """Makes the session the node that a token names, with all it has subscribed to. Raises RefusedError."""
        await self._ask_mesh(LOGIN, token)

    async def unsubscribe(self, pattern: str, group: str | None = None) -> None:
        await self._control("mesh.unsubscribe", pattern, group)

    async def serve(self, pattern: str, handler: Handler) -> None:
        """Requests that match are given to the handler, each in a task of its own. Raises RefusedError."""
        self._servants.add(pattern, handler)
        try:
            await self._control("mesh.serve", pattern)
        except BaseException:
            self._servants.remove(pattern)
            raise

    async def unserve(self, pattern: str) -> None:
        await self._control("mesh.unserve", pattern)
        self._servants.remove(pattern)

    async def _control(self, subject: str, pattern: str, group: str | None = None) -> None:
        await self._ask_mesh(subject, {"subject": pattern} | ({"group": group} if group else {}))

    async def _ask_mesh(self, subject: str, value: Any) -> None:
        answer = await self.request(subject, json.dumps(value).encode(), JSON, timeout=CONTROL_SECONDS)
        if not answer.ok:
            raise RefusedError(self.peer, answer.code, answer.message)

    async def wait_ended(self) -> None:
        """Raises EndedError when the session ends; returns when `close` ended it."""
        await self._driver.wait_closed()
        if not self._closing:
            self._check_open()

    def events(self) -> AsyncIterator[Event]:
        """Yields the events that come by subscription, in order. Raises EndedError unless `close` ends the session."""
        return self._inbox

    # -- what the session does ---------------------------------------------------------------------------------

    def _act(self, action: Action) -> None:
        match action:
            case FramesReceived(tag=tag, replies=replies):
                if tag is not None:
                    self._driver.logged(tag)
                requests = [reply.request for reply in replies]
                for event in self._translator.events(action):
                    self._take(event, requests)
            case Delivered():
                self._delivered(action)
            case Opened(facts):
                self._translator.agreed(dict(facts))
                if not self._ready.done():
                    self._ready.set_result(None)
            case AbandonRequests(replies, error):
                requests = [reply.request for reply in replies]
                self._abandoned(requests, error, "the peer cannot answer this request any more")
            case Terminated(reason, detail):
                self._terminated(reason, detail)

    def _take(self, event: Event | Rejected, requests: list[str]) -> None:
        """A frame that says nothing we understand may still be the answer to something."""
        if isinstance(event, Rejected):
            self._answered(requests, Answer.error(event.reason, event.detail))
        elif event.kind is Kind.PROGRESS:
            for request in requests:
                self._requests.add_progress(request, event)
        elif event.kind.answers:
            self._answered(requests, Answer(event.kind, event.body, event.content_type, event.headers))
        elif event.kind is Kind.REQUEST:
            self._take_request(event)
        elif event.kind is Kind.CANCEL:
            self._servants.cancel(event.correlation)
        else:
            self._on_event(event)

    def _delivered(self, delivered: Delivered) -> None:
        delivery = delivered.delivery
        if (waiter := self._sent.pop(delivery.event_id, None)) is not None and not waiter.done():
            waiter.set_result(delivered)
        elif delivery.kind is Kind.REQUEST and delivered.outcome is Outcome.UNDELIVERABLE:
            self._abandoned([delivery.event_id], MeshError.UNDELIVERABLE, delivered.detail)

    def _abandoned(self, requests: list[str], error: MeshError, why: str) -> None:
        """Fails the open requests. If the session is over, the error that ended it says more."""
        if not self._driver.closed:
            self._answered(requests, Answer.error(error, why))

    def _answered(self, requests: list[str], answer: Answer) -> None:
        for request in requests:
            self._requests.answered(request, answer)

    def _take_request(self, request: Event) -> None:
        if self._servants.take(request):
            return
        if self._spec.calls_may_be_events:
            self._driver.deliver(self._translator.no_answer(request))
            self._on_event(request)
        else:
            self._answer(request, Answer.error(MeshError.NO_RESPONDER, f"{request.subject} is not served here"))

    def _answer(self, request: Event, answer: Answer) -> None:
        if self._driver.closed:
            return
        try:
            delivery = self._translator.answer(request, answer)
        except Rejected as refused:
            refusal = Answer.error(MeshError.INTERNAL, f"the answer has no form here: {refused.reason}")
            delivery = self._translator.answer(request, refusal)
        self._driver.deliver(delivery)

    def _terminated(self, reason: str, detail: str) -> None:
        lost_by = self._driver.lost_by
        ended = self._ended = EndedError(self.peer, reason, detail or (why(lost_by) if lost_by else ""))
        if not self._ready.done():
            self._ready.set_exception(ended)
        self._requests.fail(ended)
        self._servants.stop()
        self._inbox.end(None if self._closing else ended)

    def _check_open(self) -> None:
        if self._ended is not None:
            raise self._ended
