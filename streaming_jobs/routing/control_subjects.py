"""Control subjects: what peers ask of the mesh itself. Sent as requests they are answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gateway.core.content import JSON, TEXT, decode_value, media_type
from gateway.core.event import Event, Kind
from gateway.core.reasons import MeshError, Reason, Rejected, Stage
from gateway.core.subjects import check_pattern, dotted
from gateway.interests.interest import InterestKey, Verb
from streaming_jobs.routing.frame_context import FrameContext
from streaming_jobs.routing.interest_log import InterestLog
from streaming_jobs.routing.interest_requests import check_allowed, limits_of, session_interest, subscriber
from streaming_jobs.routing.mesh_state import MeshState

SUBSCRIBE, UNSUBSCRIBE = "mesh.subscribe", "mesh.unsubscribe"
SERVE, UNSERVE = "mesh.serve", "mesh.unserve"
PING = "mesh.ping"
MAX_GROUP_BYTES = 64
_NOT_GRANTED = frozenset({Reason.FORBIDDEN, Reason.OVERLOAD})
"""Nothing is wrong with the request itself."""


class ControlSubjects:
    def __init__(self, state: MeshState, interests: InterestLog) -> None:
        self._state = state
        self._interests = interests
        self._subjects: Mapping[str, Callable[[FrameContext, Event], None]] = {
            SUBSCRIBE: lambda work, event: self._subscribe(work, event, Verb.SUBSCRIBE),
            SERVE: lambda work, event: self._subscribe(work, event, Verb.SERVE),
            UNSUBSCRIBE: lambda work, event: self._unsubscribe(work, event, Verb.SUBSCRIBE),
            UNSERVE: lambda work, event: self._unsubscribe(work, event, Verb.SERVE),
            PING: self._ping,
        }

    def handle(self, work: FrameContext, event: Event) -> bool:
        """True if the event was for the mesh itself."""
        handler = self._subjects.get(event.subject.replace("/", "."))
        if handler is None:
            return False
        if event.kind is Kind.CANCEL:  # of what was done at once: there is nothing left to stop
            return True
        try:
            handler(work, event)
        except Rejected as refused:
            work.reject(refused, Stage.MATCH)
            if work.is_awaited(event):
                error = MeshError.FORBIDDEN if refused.reason in _NOT_GRANTED else MeshError.BAD_REQUEST
                work.answer_error(work.requester(event), error, refused.detail)
        return True

    def _subscribe(self, work: FrameContext, event: Event, verb: Verb) -> None:
        pattern, queue = _pattern_and_group(event)
        source = work.raw.source
        interest = session_interest(source, work.position, verb, pattern, queue)
        check_allowed(self._state, source, verb, pattern)
        existing = self._interests.of(interest.subscriber)
        limit = limits_of(self._state, source.listener).subscriptions_per_session
        if interest.key not in existing:
            if len(existing) >= limit:
                raise Rejected(Reason.TOO_LARGE, f"a session has at most {limit} subscriptions")
            self._interests.check_room(source.listener, source.node, 1)
        ticket = _ticket(work, event)
        self._interests.put(work, [interest], ticket=ticket)
        self._answer(work, event, ticket)

    def _unsubscribe(self, work: FrameContext, event: Event, verb: Verb) -> None:
        pattern, queue = _pattern_and_group(event)
        key = InterestKey(subscriber(work.raw.source, verb), verb, queue, dotted(pattern))
        if key not in self._interests.of(key.subscriber):  # a change goes into every partition: not for nothing
            if work.is_awaited(event):
                work.answer_value(work.requester(event), True)
            return
        ticket = _ticket(work, event)
        self._interests.remove(work, [key], ticket=ticket)
        self._answer(work, event, ticket)

    def _answer(self, work: FrameContext, event: Event, ticket: str) -> None:
        """Answers. The edge holds it until the change stands in every raw partition."""
        if ticket:
            work.answer_value(work.requester(event), True, ticket=ticket)

    def _ping(self, work: FrameContext, event: Event) -> None:
        """A probe of the whole path: the body it brought, when an edge had it, and when the router."""
        if not self._state.permissions.may_do_anything(event.principal, event.listener):
            raise Rejected(Reason.FORBIDDEN, "this node may do nothing here")
        if work.is_awaited(event):
            body = decode_value(event.body, event.content_type)
            if body == event.body and event.text is not None:  # bytes of no type that says more, and they are text
                body = event.text
            times = {"received_at": event.received_at, "routed_at": self._state.now_us()}
            work.answer_value(work.requester(event), {"body": body, **times})


def _ticket(work: FrameContext, event: Event) -> str:
    """Returns the ticket under which a waiting requester is told."""
    return event.id if work.is_awaited(event) else ""


def _pattern_and_group(event: Event) -> tuple[str, str]:
    """Returns the pattern and group that a control message names."""
    try:
        value: Any = decode_value(event.body, event.content_type or JSON)
        if isinstance(value, bytes) or media_type(event.content_type) == TEXT:  # its type says nothing of values
            value = decode_value(event.body, JSON)
    except Rejected:
        raise Rejected(Reason.MALFORMED, 'expected {"subject": PATTERN}') from None
    if not isinstance(value, dict):
        raise Rejected(Reason.MALFORMED, 'expected {"subject": PATTERN}')
    pattern, queue = value.get("subject"), value.get("group")
    check_pattern(pattern)
    if queue is None:
        queue = ""
    if not isinstance(queue, str) or len(queue.encode()) > MAX_GROUP_BYTES:
        raise Rejected(Reason.MALFORMED, f"a group is a name of at most {MAX_GROUP_BYTES} bytes")
    return str(pattern), queue
