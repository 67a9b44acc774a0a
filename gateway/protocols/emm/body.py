"""Data fields ↔ the body of an event."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence

from gateway.core.content import BINARY, JSON, TEXT, binary_as_json, convert, from_json, media_type
from gateway.core.event import Event
from gateway.core.wire import F32, I32
from gateway.protocols.emm.frames import Field, FieldType

_CONTENT_TYPES: dict[int, str] = {
    FieldType.STRING: TEXT,
    FieldType.INTEGER: JSON,
    FieldType.FLOAT: JSON,
    FieldType.BINARY: BINARY,
    FieldType.JSON: JSON,
}


def content_of(fields: Sequence[Field]) -> tuple[str, bytes]:
    """Returns the content type and body that joined data fields stand for: none is empty, several are a JSON array."""
    if not fields:
        return "", b""
    if len(fields) == 1:
        return single_content(fields[0].type, fields[0].value)
    return JSON, b"[" + b",".join(_element(item) for item in fields) + b"]"


def single_content(kind: int, value: bytes) -> tuple[str, bytes]:
    return _CONTENT_TYPES[kind], _single_value(kind, value)


def _single_value(kind: int, value: bytes) -> bytes:
    number = _NUMBERS.get(kind)
    return value if number is None else number(value)


def _integer(value: bytes) -> bytes:
    return b"%d" % I32.unpack(value)[0]


def _float(value: bytes) -> bytes:
    """JSON has no NaN and no infinity: they become null, as in JavaScript. Verbatim forwarding still keeps them."""
    (number,) = F32.unpack(value)
    return repr(number).encode() if math.isfinite(number) else b"null"


_NUMBERS: dict[int, Callable[[bytes], bytes]] = {FieldType.INTEGER: _integer, FieldType.FLOAT: _float}


def _element(item: Field) -> bytes:
    """JSON fields stand as they came, so that no number in them is rounded."""
    match item.type:
        case FieldType.STRING:
            return json.dumps(item.value.decode(), ensure_ascii=False).encode()
        case FieldType.BINARY:
            return json.dumps(binary_as_json(item.value)).encode()
        case _:
            return _single_value(item.type, item.value)


def fields_of(event: Event) -> tuple[tuple[Field, ...], tuple[str, ...]]:
    """Returns the data fields for an event's body, and what of it emm cannot say."""
    if not event.body:
        return (), ()
    match media_type(event.content_type):
        case "application/json":
            from_json(event.body)
            return (Field(FieldType.JSON, event.body),), ()
        case "application/msgpack" | "application/x-msgpack" as given:
            return (Field(FieldType.JSON, convert(event.body, given, JSON)),), ()
        case "text/plain" if event.text is not None:
            return (Field(FieldType.STRING, event.body),), ()
        case given:
            is_binary = given in ("", BINARY)
            return (Field(FieldType.BINARY, event.body),), () if is_binary else ("content_type",)
