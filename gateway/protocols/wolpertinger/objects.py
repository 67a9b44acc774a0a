"""The typed values of wolpertinger, and JSON's.

Reading gives JSON what it can hold: numbers, booleans, text (of a dateTime, a guid, and of NaN and the infinities
too), arrays for lists, and an object of a type we do not know as its XML. JSON says less than a type does, so the types
travel beside it as a *hint*, a type's name or for a list an array of hints; between two peers of wolpertinger a value
that still fits its hint arrives as what it was.

>>> from_json([1, "a"]).value
(Object(type='int32', value=1), Object(type='string', value='a'))
>>> from_json(1, "uint64"), from_json("no number", "uint64").type
(Object(type='uint64', value=1), 'string')
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, NamedTuple

from gateway.core.content import to_json as json_of
from gateway.core.reasons import Reason, Rejected
from gateway.protocols.wolpertinger.frames import MAX_OBJECTS, Object
from gateway.protocols.wolpertinger.hardened_xml import local_name, outer_text, parse

Hint = str | list[Any] | None

LIST = "list"
MAX_LISTS = 32
"""Lists within lists: half of what JSON bodies may nest, which has no precedent either."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_DOUBLE = re.compile(r"[+-]?([0-9]++(\.[0-9]*+)?|\.[0-9]++)([eE][+-]?[0-9]++)?")
"""Digits fit one part of it alone, and are never given back. If they fit two, a megabyte of them and a letter would
take an hour."""
_NOT_FINITE = {
    "nan": "NaN",
    "inf": "INF",
    "+inf": "INF",
    "infinity": "INF",
    "+infinity": "INF",
    "-inf": "-INF",
    "-infinity": "-INF",
}
GUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_DATE_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})?")
_LIMITS = {"int32": (-(1 << 31), 1 << 31), "int64": (-(1 << 63), 1 << 63), "uint64": (0, 1 << 64)}


class _Form(NamedTuple):
    """`read` makes a value of text, `write` text of a value; both raise ValueError where it does not fit."""

    read: Callable[[str], Any]
    write: Callable[[Any], str]


def _read_boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("no boolean")
    return lowered == "true"


def _write_boolean(value: Any) -> str:
    if not isinstance(value, bool):
        raise ValueError("no boolean")
    return str(value)


def _whole_number(low: int, end: int) -> _Form:
    def within(number: int) -> int:
        if not low <= number < end:
            raise ValueError("a number out of its range")
        return number

    def read(text: str) -> int:
        if not _INTEGER.fullmatch(text.strip()):
            raise ValueError("no whole number")
        return within(int(text))

    def write(value: Any) -> str:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError("no whole number")
        return str(within(value))

    return _Form(read, write)


def _read_double(text: str) -> float | str:
    text = text.strip()
    if (name := _NOT_FINITE.get(text.lower())) is not None:
        return name
    if not _DOUBLE.fullmatch(text) or not math.isfinite(number := float(text)):
        raise ValueError("no double")
    return number


def _write_double(value: Any) -> str:
    if isinstance(value, str) and value in _NOT_FINITE.values():
        return value
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError("no double")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError("too large for a double") from None
    return repr(number) if math.isfinite(number) else _NOT_FINITE[repr(number)]


def _date_time(text: Any) -> str:
    """Returns the time in UTC. A text in UTC stays to the last digit, which may be finer than we can count."""
    if not isinstance(text, str) or not _DATE_TIME.fullmatch(text := text.strip()):
        raise ValueError("no dateTime")
    at = datetime.fromisoformat(text)
    if text.endswith("Z"):
        return text
    if at.tzinfo is None:
        return f"{text}Z"
    try:
        return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except OverflowError:
        raise ValueError("a dateTime out of its range") from None


def _guid(text: Any) -> str:
    if not isinstance(text, str) or not GUID.fullmatch(text := text.strip()):
        raise ValueError("no guid")
    return text


def _string(text: Any) -> str:
    if not isinstance(text, str):
        raise ValueError("no string")
    return text


FORMS = {
    "string": _Form(_string, _string),
    "boolean": _Form(_read_boolean, _write_boolean),
    "double": _Form(_read_double, _write_double),
    "dateTime": _Form(_date_time, _date_time),
    "guid": _Form(_guid, _guid),
    **{name: _whole_number(*limits) for name, limits in _LIMITS.items()},
}
"""Every type but list; what is neither is kept as XML."""


def to_json(item: Object) -> Any:
    return [to_json(inner) for inner in item.value] if isinstance(item.value, tuple) else item.value


def hint_of(item: Object) -> Hint:
    return [hint_of(inner) for inner in item.value] if isinstance(item.value, tuple) else item.type


def check_number(values: list[Any]) -> None:
    """Raises Rejected(too_large) if these would be more objects than a message holds, before any is made: a megabyte of
    JSON may be 340,000 empty lists."""
    number, lists = 0, [values]
    while lists:
        items = lists.pop()
        number += len(items)
        if number > MAX_OBJECTS:
            raise Rejected(Reason.TOO_LARGE, f"more than {MAX_OBJECTS} objects")
        lists += [item for item in items if isinstance(item, list)]


def from_json(value: Any, hint: Hint = None) -> Object:
    """Returns the object for a JSON value: of the hinted type if it fits that, else of its kind's usual type."""
    if isinstance(value, list):
        hints = hint if isinstance(hint, list) else []
        paired = zip_longest(value, hints[: len(value)])
        return Object(LIST, tuple(from_json(item, inner) for item, inner in paired))
    if isinstance(hint, str):
        try:
            return _as_hinted(value, hint)
        except ValueError:
            pass
    return _by_kind(value)


def _as_hinted(value: Any, type_: str) -> Object:
    """Raises ValueError where the value does not fit the type."""
    form = FORMS.get(type_)
    if form is None:
        return Object(type_, _unknown_object(_string(value), type_))
    form.write(value)
    return Object(type_, value)


def _unknown_object(text: str, type_: str) -> str:
    """The XML of an object of a type we do not know, written again by us: it goes into a message as it is."""
    element = parse(text.encode(errors="surrogatepass"))
    if local_name(element) != "object" or dict(element.attrib) != {"type": type_} or type_ == LIST:
        raise ValueError("no object of that type")
    return outer_text(element)


def _by_kind(value: Any) -> Object:
    match value:
        case str():
            return Object("string", value)
        case bool():
            return Object("boolean", value)
        case int():
            return _by_size(value)
        case float():
            return Object("double", value)
        case None:
            return Object("string", "")
        case _:
            return Object("string", json_of(value).decode())


def _by_size(value: int) -> Object:
    for type_ in ("int32", "int64", "double"):
        try:
            return _as_hinted(value, type_)
        except ValueError:
            continue
    raise Rejected(Reason.UNTRANSLATABLE, "a number too large for a double")
