"""Requests of the peer: who handles which, and the tasks that do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gateway.client.translation import Answer
from gateway.core.event import Event, Kind
from gateway.core.reasons import MeshError
from gateway.core.subjects import matches

log = logging.getLogger(__name__)


class IncomingRequest:
    """A request to be answered."""

    def __init__(self, event: Event, send_answer: Callable[[Event, Answer], None]) -> None:
        self._event = event
        self._send_answer = send_answer

    @property
    def subject(self) -> str:
        return self._event.subject

    @property
    def body(self) -> bytes:
        return self._event.body

    @property
    def content_type(self) -> str:
        return self._event.content_type

    def progress(self, body: bytes = b"", content_type: str = "") -> None:
        """Sends progress. Requesters that want it hear it; for all of them it prolongs the time they wait."""
        self._send_answer(self._event, Answer(Kind.PROGRESS, body, content_type))


Handler = Callable[[IncomingRequest], Awaitable[Answer | bytes]]
"""Bytes are the body of a response. A handler whose request is cancelled is cancelled itself."""


class RequestHandlers:
    """Runs the handlers of requests. `say` sends an answer, or progress, to a request."""

    def __init__(self, send_answer: Callable[[Event, Answer], None]) -> None:
        self._send_answer = send_answer
        self._handlers: dict[str, Handler] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def add(self, pattern: str, handler: Handler) -> None:
        self._handlers[pattern] = handler

    def remove(self, pattern: str) -> None:
        self._handlers.pop(pattern, None)

    def take(self, request: Event) -> bool:
        """False if nobody here serves it."""
        handler = next(
            (registered for pattern, registered in self._handlers.items() if matches(pattern, request.subject)), None
        )
        if handler is None:
            return False
        task = asyncio.get_running_loop().create_task(self._serve(request, handler))
        self._tasks[request.message_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(request.message_id, None))
        return True

    async def _serve(self, request: Event, handler: Handler) -> None:
        try:
            answer = await handler(IncomingRequest(request, self._send_answer))
        except asyncio.CancelledError:
            answer = Answer(Kind.CANCELLED)
        except Exception as failed:
            log.exception("the handler of %s failed", request.subject)
            answer = Answer.error(MeshError.INTERNAL, type(failed).__name__)
        self._send_answer(request, answer if isinstance(answer, Answer) else Answer(body=answer))

    def cancel(self, request: str) -> None:
        """Cancels a request. One that is over, or never came here, is ignored."""
        if (task := self._tasks.get(request)) is not None:
            task.cancel()

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
