"""wolpertinger messages to events, and events to wolpertinger messages.

A raw frame is the layer-2 XML, decoded by the session: joined, decrypted, uncompressed. So a record can be read alone,
and the keys of a connection never leave its edge.

    RemoteMethodCall       a request on `Component.Method`; the body is the JSON array of its parameters
    `Core.Heartbeat`       by a peer that is working on requests: progress of all of them
    `Mesh.Subscribe(...)`  and the other control calls: a request on `mesh.subscribe`, its body as the mesh wants it
    RemoteMethodResponse   a response; its value is the body
    RemoteError            an error, its code in the header `wolpertinger-code`; without CallId, which is an error that
                           no call caused, an event `wolpertinger.error`

JSON knows fewer types than wolpertinger: those it does not say travel in the header `wolpertinger-types`, for peers who
speak wolpertinger too.
"""

from __future__ import annotations

import json
from typing import Any

from gateway.core.content import JSON, decode_value, to_json
from gateway.core.event import Event, Kind
from gateway.core.reasons import Reason, Rejected
from gateway.core.subjects import is_control
from gateway.protocols.repeat_key import repeat_key
from gateway.protocols.spec import CodecContext, Encoded, Target
from gateway.protocols.wolpertinger import objects
from gateway.protocols.wolpertinger.codec import call_id_offset, decode, encode
from gateway.protocols.wolpertinger.error_codes import CODE_HEADER, body_of, code_of
from gateway.protocols.wolpertinger.frames import (
    MAX_XML_BYTES,
    Call,
    CallResponse,
    Message,
    Object,
    RemoteError,
    RemoteErrorCode,
)
from gateway.protocols.wolpertinger.options import WolpertingerOptions
from gateway.records.raw_log.frames import FrameContent, RawFrame, event_of

TYPES_HEADER = "wolpertinger-types"
COMPONENT_HEADER = "wolpertinger-component"
ERROR_SUBJECT = "wolpertinger.error"

MAX_TYPES_CHARACTERS = 4096
"""The most characters of the types header. Values with more types to tell arrive as what their JSON says."""

UNSTAMPED_CALL_ID = "00000000-0000-0000-0000-000000000000"
"""Stands where the session writes a CallId of its own."""

_MESH = "mesh"
_INTERESTS = frozenset({"subscribe", "unsubscribe", "serve", "unserve"})
_INTEREST_NAMES = ("subject", "group")


# -- from the peer -------------------------------------------------------------------------------------------------


def to_event(raw: RawFrame, event_id: str, options: WolpertingerOptions, env: CodecContext, /) -> Event:
    content = _content(decode(raw.data), raw)
    return event_of(raw, event_id, content._replace(content_type=JSON) if content.body else content)


def _content(message: Message, raw: RawFrame) -> FrameContent:
    match message:
        case Call() if raw.replies:
            body, headers = _parameters(message)
            return FrameContent(Kind.PROGRESS, raw.replies[0].subject, "", body, message.call_id, headers=headers)
        case Call():
            return _request(message)
        case RemoteError(component, code, ""):
            headers = {CODE_HEADER: str(code), COMPONENT_HEADER: component}
            return FrameContent(Kind.EVENT, ERROR_SUBJECT, "", body_of(code), headers=headers)
        case RemoteError(_, code, call_id):
            headers = {CODE_HEADER: str(code)}
            return FrameContent(
                Kind.ERROR, raw.asked_subject(), "", body_of(code), correlation=call_id, headers=headers
            )
        case CallResponse(_, call_id, value):
            body = b"" if value is None else to_json(objects.to_json(value))
            headers = _types_header(() if value is None else (value,))
            return FrameContent(Kind.RESPONSE, raw.asked_subject(), "", body, correlation=call_id, headers=headers)


def _request(call: Call) -> FrameContent:
    if is_interest_call(call):
        body = _interest_body([objects.to_json(item) for item in call.parameters])
        return FrameContent(Kind.REQUEST, subject_of(call), "", body, call.call_id)
    body, headers = _parameters(call)
    return FrameContent(Kind.REQUEST, subject_of(call), "", body, call.call_id, headers=headers)


def subject_of(call: Call) -> str:
    """Returns `Component.Method` as the subject.

    The mesh's own component, which may have any case, becomes lower case.
    """
    return call.name.lower() if call.component.lower() == _MESH else call.name


def is_interest_call(call: Call) -> bool:
    return call.component.lower() == _MESH and call.method.lower() in _INTERESTS


def _interest_body(parameters: list[Any]) -> bytes:
    """Names as many parameters as the call may have. The mesh refuses what is wrong with them."""
    if len(parameters) > 2:
        return to_json(parameters)
    return to_json(dict(zip(_INTEREST_NAMES, parameters, strict=False)))


def _parameters(call: Call) -> tuple[bytes, dict[str, str]]:
    return to_json([objects.to_json(item) for item in call.parameters]), _types_header(call.parameters)


def _types_header(items: tuple[Object, ...]) -> dict[str, str]:
    """Returns the header, or nothing where JSON's own types say it all."""
    hints = [objects.hint_of(item) for item in items]
    if hints == [objects.hint_of(objects.from_json(objects.to_json(item))) for item in items]:
        return {}
    text = json.dumps(hints, separators=(",", ":"))
    return {TYPES_HEADER: text} if len(text) <= MAX_TYPES_CHARACTERS else {}


def dedup_key(event: Event, options: WolpertingerOptions, /) -> str | None:
    """Returns the key of a repeat. A CallId is a UUID, in either case; its answer goes to the session that used it."""
    if event.kind is not Kind.REQUEST:
        return None
    return repeat_key("wolpertinger", event.session, event.message_id.lower())


# -- towards the peer ----------------------------------------------------------------------------------------------


def from_event(event: Event, target: Target, options: WolpertingerOptions, env: CodecContext, /) -> Encoded:
    match event.kind:
        case Kind.CANCEL:
            return Encoded.nothing("cancel")
        case Kind.PROGRESS:
            return _encoded(Call("Core", UNSTAMPED_CALL_ID, "Heartbeat"), _body_loss(event))
        case Kind.EVENT | Kind.REQUEST:
            component, method = _names(event.subject)
            if not method:
                raise Rejected(Reason.UNTRANSLATABLE, "a subject that ends in a dot names no method")
            return _encoded(Call(component, UNSTAMPED_CALL_ID, method, _arguments(event)))
        case Kind.RESPONSE:
            return _encoded(CallResponse(answering(event.subject), target.request, _response_value(event)))
        case Kind.ERROR | Kind.CANCELLED:
            code = code_of(event)
            losses = _body_loss(event) if code is None else ()
            error_code = RemoteErrorCode.UNSPECIFIED if code is None else code
            return _encoded(RemoteError(answering(event.subject), error_code, target.request), losses)


def _encoded(message: Message, losses: tuple[str, ...] = ()) -> Encoded:
    frame = encode(message)
    if len(frame) > MAX_XML_BYTES:
        raise Rejected(Reason.TOO_LARGE, f"XML of more than {MAX_XML_BYTES} bytes")
    return Encoded(frame, (call_id_offset(frame),) if isinstance(message, Call) else (), losses)


def _names(subject: str) -> tuple[str, str]:
    component, _, method = subject.rpartition(".")
    return component, method


def answering(subject: str) -> str:
    """Returns the component that answers a call on this subject."""
    component, _ = _names(subject)
    return component.capitalize() if component.lower() == _MESH else component


def _arguments(event: Event) -> tuple[Object, ...]:
    if not event.body:
        return ()
    value = decode_value(event.body, event.content_type)
    if isinstance(value, dict) and _wants(event.subject):
        value = [value[name] for name in _INTEREST_NAMES if name in value]
    values = value if isinstance(value, list) else [value]
    objects.check_number(values)
    hints = _hints(event)[: len(values)]
    hints += [None] * (len(values) - len(hints))
    return tuple(objects.from_json(item, hint) for item, hint in zip(values, hints, strict=True))


def _response_value(event: Event) -> Object | None:
    if _wants(event.subject):
        return objects.from_json(True)
    value = decode_value(event.body, event.content_type)
    objects.check_number([value])
    return None if value is None else objects.from_json(value, next(iter(_hints(event)), None))


def _wants(subject: str) -> bool:
    return is_control(subject) and _names(subject)[1].lower() in _INTERESTS


def _hints(event: Event) -> list[objects.Hint]:
    try:
        hints = json.loads(event.headers.get(TYPES_HEADER, "[]"))
    except (ValueError, RecursionError):
        return []
    return hints if isinstance(hints, list) else []


def _body_loss(event: Event) -> tuple[str, ...]:
    return ("body",) if event.body else ()
