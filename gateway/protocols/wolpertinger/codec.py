"""Layer 2 of wolpertinger: the three messages from XML and to XML, and lines from a byte stream.

What is read is held against `protocol.xsd`, in our namespace or in none, and its values against their types.

>>> decode(encode(RemoteError("Core", 304)))
RemoteError(component='Core', code=304, call_id='')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

from lxml import etree

from gateway.core.reasons import Reason, Rejected
from gateway.core.subjects import check_subject
from gateway.protocols.wolpertinger.frames import (
    MAX_OBJECTS,
    NAMESPACE,
    BadMessage,
    Call,
    CallResponse,
    Message,
    Object,
    RemoteError,
    RemoteErrorCode,
)
from gateway.protocols.wolpertinger.hardened_xml import escape, local_name, outer_text, parse
from gateway.protocols.wolpertinger.objects import FORMS, GUID, LIST, MAX_LISTS

_FOLDER = Path(__file__).parent
_CALL_ID_TAG = b"<CallId>"
_OBJECT_TAG = "<object "

MAX_NAMESPACES = 16
"""Declared around an object. Our peers declare ours, and at most the two of schemas."""

SALVAGED_ELEMENTS = 8
"""Of a message that fits no schema, so many elements are searched for whom to answer; the largest has four."""

SALVAGED_CHARACTERS = 255
"""Of a component's name repeated to a peer that sent something broken."""


_MANY_FAULTS = etree.XPath(
    f"boolean(/*/@*[5]) or boolean(/*/*/@*) or boolean(/*/*/*[not(@type)]) or boolean(/*/*/*/@*[name() != 'type'])"
    f" or count(/*/*/*) > {MAX_OBJECTS}"
)
"""True for what fits the schema nowhere: attributes that it does not know, and objects without a type. The schema
writes down each such fault, 30 us apiece, so that a kilobyte of gzip with 16,000 of them took half a second."""

# -- reading -------------------------------------------------------------------------------------------------------


def split(buffer: bytearray, pos: int, searched: int = 0) -> int:
    """Returns the end of the line at `pos`; -1 if it is not whole. The first `searched` bytes hold no newline."""
    return buffer.find(b"\n", pos + searched)


def decode(data: bytes) -> Message:
    """Returns the message in a layer-1 payload. Raises BadMessage."""
    try:
        root = parse(data)
    except ValueError as error:
        raise BadMessage(RemoteErrorCode.INVALID_XML, str(error)) from None
    schema_and_reader = _MESSAGES.get(str(root.tag))
    if schema_and_reader is None or _MANY_FAULTS(root) or not schema_and_reader[0](root):
        raise _misfit(root)
    return schema_and_reader[1](root)


def _misfit(root: etree._Element) -> BadMessage:
    name = local_name(root)
    if name not in _READERS:
        return BadMessage(RemoteErrorCode.UNKNOWN_MESSAGE, "none of the three messages")
    texts = {local_name(child): child.text or "" for child in islice(root, SALVAGED_ELEMENTS)}
    call_id = texts.get("CallId", "").strip()
    return BadMessage(
        RemoteErrorCode.INVALID_XML,
        f"no {name} by the schema",
        component=texts.get("ComponentName", "")[:SALVAGED_CHARACTERS],
        call_id=call_id if GUID.fullmatch(call_id) else "",
        answers=name != "RemoteMethodCall",
    )


def _call(root: etree._Element) -> Call:
    component, call_id, method, parameters = root
    call = Call(_text(component), _text(call_id).strip(), _text(method))
    try:
        check_subject(call.name)
    except Rejected as refused:
        raise _bad_call(call, refused.detail, refused.reason) from None
    try:
        return replace(call, parameters=_objects_in(parameters))
    except ValueError as error:
        raise _bad_call(call, str(error)) from None


def _bad_call(call: Call, detail: str, reason: Reason = Reason.BAD_XML) -> BadMessage:
    component = call.component[:SALVAGED_CHARACTERS]
    return BadMessage(
        RemoteErrorCode.INVALID_PARAMETERS, detail, component=component, call_id=call.call_id, reason=reason
    )


def _response(root: etree._Element) -> CallResponse:
    component, call_id, value = root
    names = _text(component), _text(call_id).strip()
    try:
        return CallResponse(*names, next(iter(_objects_in(value)), None))
    except ValueError as error:
        raise BadMessage(
            RemoteErrorCode.INVALID_RESPONSE, str(error), component=names[0], call_id=names[1], answers=True
        ) from None


def _remote_error(root: etree._Element) -> RemoteError:
    call_id = _text(root[2]).strip() if len(root) > 2 else ""
    try:
        return RemoteError(_text(root[0]), int(_text(root[1])), call_id)
    except ValueError:  # the schema takes thousands of zeros in front of a number, and `int` takes 4300 digits
        raise _misfit(root) from None


def _text(element: etree._Element) -> str:
    return element.text or ""


def _objects_in(parent: etree._Element) -> tuple[Object, ...]:
    if next(islice(parent.iter("{*}object"), MAX_OBJECTS, None), None) is not None:
        raise ValueError(f"more than {MAX_OBJECTS} objects")
    _check_namespaces(parent)
    return tuple(_object(item, 0) for item in parent)


def _check_namespaces(parent: etree._Element) -> None:
    """Each object of a peer's own type is kept with all namespaces that are declared around it, used or not: a
    thousand of them would make 15 MB of a thousand objects."""
    if len(parent.nsmap) > MAX_NAMESPACES:
        raise ValueError(f"more than {MAX_NAMESPACES} namespaces")


def _object(element: etree._Element, depth: int) -> Object:
    type_ = element.get("type", "")
    if type_ == LIST:
        return Object(LIST, _items(element, depth))
    form = FORMS.get(type_)
    if form is None:
        return Object(type_, outer_text(element))
    if len(element):
        raise ValueError(f"elements in a {type_}")
    return Object(type_, form.read(_text(element)))


def _items(element: etree._Element, depth: int) -> tuple[Object, ...]:
    """The schema does not look into an object, so a list's items are checked here."""
    if depth >= MAX_LISTS:
        raise ValueError(f"lists nested deeper than {MAX_LISTS}")
    for item in element:
        if local_name(item) != "object" or item.keys() != ["type"]:
            raise ValueError("a list of something else than objects")
    _check_namespaces(element)
    return tuple(_object(item, depth + 1) for item in element)


_READERS: dict[str, Callable[[etree._Element], Message]] = {
    "RemoteMethodCall": _call,
    "RemoteMethodResponse": _response,
    "RemoteError": _remote_error,
}


def _messages() -> dict[str, tuple[etree.XMLSchema, Callable[[etree._Element], Message]]]:
    """Returns the schema and the reader for each root, by its qualified name."""
    schemas = {"": "messages.xsd", f"{{{NAMESPACE}}}": "protocol.xsd"}
    by_tag = {}
    for prefix, file in schemas.items():
        schema = etree.XMLSchema(file=str(_FOLDER / file))
        by_tag.update({prefix + name: (schema, reader) for name, reader in _READERS.items()})
    return by_tag


_MESSAGES = _messages()


# -- writing -------------------------------------------------------------------------------------------------------


def encode(message: Message) -> bytes:
    """Raises Rejected(untranslatable) for text that XML cannot hold, and Rejected(too_large) for too many objects."""
    match message:
        case Call(component, call_id, method, parameters):
            inner = f"<MethodName>{escape(method)}</MethodName><Parameters>{_objects(parameters)}</Parameters>"
            return _message("RemoteMethodCall", component, f"<CallId>{escape(call_id)}</CallId>{inner}")
        case CallResponse(component, call_id, value):
            inner = f"<ResponseValue>{_objects(() if value is None else (value,))}</ResponseValue>"
            return _message("RemoteMethodResponse", component, f"<CallId>{escape(call_id)}</CallId>{inner}")
        case RemoteError(component, code, call_id):
            cause = f"<CallId>{escape(call_id)}</CallId>" if call_id else ""
            return _message("RemoteError", component, f"<ErrorCode>{code}</ErrorCode>{cause}")


def call_id_offset(data: bytes) -> int:
    """Returns where the CallId of an encoded message stands."""
    return data.index(_CALL_ID_TAG) + len(_CALL_ID_TAG)


def _message(name: str, component: str, inner: str) -> bytes:
    head = f'<{name} xmlns="{NAMESPACE}"><ComponentName>{escape(component)}</ComponentName>'
    return f"{head}{inner}</{name}>".encode()


def _objects(items: tuple[Object, ...]) -> str:
    written = "".join(_written(item) for item in items)
    if written.count(_OBJECT_TAG) > MAX_OBJECTS:
        raise Rejected(Reason.TOO_LARGE, f"more than {MAX_OBJECTS} objects")
    return written


def _written(item: Object) -> str:
    if isinstance(item.value, tuple):
        return f'<object type="{LIST}">{_objects(item.value)}</object>'
    form = FORMS.get(item.type)
    if form is None:
        return str(item.value)
    try:
        text = form.write(item.value)
    except ValueError as error:
        raise Rejected(Reason.UNTRANSLATABLE, str(error)) from None
    return f'<object type="{item.type}">{escape(text)}</object>'
