"""The numbers of RemoteErrors, and what an error says in the mesh: its body, and the code that one is told by."""

from __future__ import annotations

import re
from typing import Any

from gateway.core.content import decode_value, to_json
from gateway.core.event import MESH_ERROR_HEADER, SERVED_BESIDE_HEADER, Event, Kind
from gateway.core.reasons import MeshError, Rejected
from gateway.protocols.wolpertinger.frames import CODE_OF, SLUG_OF, RemoteErrorCode

CODE_HEADER = "wolpertinger-code"

_INT32_END = 1 << 31
_DECIMAL = re.compile("-?[0-9]{1,10}")
_NUMBERS = frozenset(int(code) for code in RemoteErrorCode)
_CODES = {code.name.lower(): code for code in RemoteErrorCode} | {str(slug): code for slug, code in CODE_OF.items()}


def body_of(code: int) -> bytes:
    """Returns the error in the mesh's form: its slug if it has one, else our name of it, else the number."""
    try:
        error_code = RemoteErrorCode(code)
    except ValueError:
        return to_json({"code": str(code), "message": f"wolpertinger error {code}"})
    name = error_code.name.lower()
    slug = str(SLUG_OF.get(error_code, name))
    return to_json({"code": slug, "message": f"wolpertinger error {code}: {name.replace('_', ' ')}"})


def code_of(event: Event) -> int | None:
    """Returns the number of an error that a wolpertinger peer gave it, or that its body names; None where it has none.

    A number that a body of another protocol names counts only if wolpertinger's schema lists it: the codes of other
    protocols mean something else, and a peer that validates refuses them.
    """
    if (number := _number(event.headers.get(CODE_HEADER))) is not None:
        return number
    value = event.headers.get(MESH_ERROR_HEADER) or _error_value(event)
    if value == MeshError.NO_RESPONDER and SERVED_BESIDE_HEADER in event.headers:
        return RemoteErrorCode.METHOD_NOT_FOUND
    return _code_named(value) if event.kind is Kind.ERROR else None


def _error_value(event: Event) -> Any:
    """The code in a body of the mesh's own form, which a peer's error may have too."""
    try:
        body = decode_value(event.body, event.content_type)
    except Rejected:
        return None
    return body.get("code") if isinstance(body, dict) else None


def _code_named(value: Any) -> RemoteErrorCode | None:
    """Returns the code by the mesh's name, by ours (`body_of` writes both), or by its number."""
    if isinstance(value, str) and value in _CODES:
        return _CODES[value]
    number = _number(value)
    return RemoteErrorCode(number) if number in _NUMBERS else None


def _number(value: Any) -> int | None:
    """Reads a number of 32 bits, as a number or in decimal digits."""
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        value = int(value)
    fits = isinstance(value, int) and not isinstance(value, bool) and -_INT32_END <= value < _INT32_END
    return value if fits else None
