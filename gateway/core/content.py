"""Values and their content types: JSON ↔ msgpack by value, text, and bytes (in JSON as `{"$base64": ...}`)."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from operator import eq
from typing import Any

import msgpack
import msgspec

from gateway.core.reasons import Reason, Rejected

JSON = "application/json"
MSGPACK = "application/msgpack"
TEXT = "text/plain"
BINARY = "application/octet-stream"

BASE64_KEY = "$base64"
MAX_DEPTH = 64
"""Deeper values are refused: the C parsers recurse, and no device nests this far."""


def decode_value(body: bytes, content_type: str) -> Any:
    """Returns the value that a body stands for: bytes for every type except JSON, msgpack and text.

    No bytes are no value: None.
    """
    if not body:
        return None
    match media_type(content_type):
        case "application/json":
            return from_json(body)
        case "application/msgpack" | "application/x-msgpack":
            return from_msgpack(body)
        case "text/plain":
            return _text(body)
        case _:
            return body


def encode_value(value: Any, content_type: str) -> bytes:
    """Returns a body of this type with the same value. Raises Rejected(untranslatable) if there is none."""
    match content_type:
        case "application/json":
            return to_json(value)
        case "application/msgpack":
            return to_msgpack(value)
        case "text/plain" if isinstance(value, str):
            return value.encode()
        case wanted if wanted != TEXT and isinstance(value, bytes):
            return value
        case _:
            raise Rejected(Reason.UNTRANSLATABLE, f"{type(value).__name__} has no form as {content_type}")


def convert(body: bytes, content_type: str, target_type: str) -> bytes:
    """Returns the body as `wanted`, untouched if it is that already. An empty body stays empty: it has no value."""
    if media_type(content_type) == target_type or not body:
        return body
    return encode_value(decode_value(body, content_type), target_type)


def media_type(content_type: str) -> str:
    """Returns the content type without its parameters.

    >>> media_type("application/JSON; charset=utf-8")
    'application/json'
    """
    return content_type.partition(";")[0].strip().lower()


def check(body: bytes, content_type: str) -> None:
    """Raises Rejected(bad_encoding) if a body is not what its type says. Its value may still have no other form."""
    match media_type(content_type):
        case "application/json" if body:
            _check_json(body)
        case "application/msgpack" | "application/x-msgpack" if body:
            _parse_msgpack(body, list_hook=len, object_pairs_hook=len, ext_hook=eq)
        case "text/plain":
            _text(body)


def from_json(body: bytes) -> Any:
    return _from_json_value(_parse_json(body), 0) if body else None


def from_msgpack(body: bytes) -> Any:
    if not body:
        return None
    value = _parse_msgpack(body, object_pairs_hook=_with_text_keys)
    _check_depth(value, 0)
    return value


def _with_text_keys(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    """Makes a map of msgpack. No other form that we write has keys that are no text.

    A sender can choose numbers that all meet in one slot of a dict: 80,000 of them in 700 KB would take seconds. The
    slots of texts are secret, because Python mixes a random number into their hashes.
    """
    if not all(type(key) is str for key, _ in pairs):
        raise Rejected(Reason.UNTRANSLATABLE, "a key that is no text")
    return dict(pairs)


def to_json(value: Any) -> bytes:
    try:
        return json.dumps(_to_json_value(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise Rejected(Reason.UNTRANSLATABLE, f"no form in JSON: {type(error).__name__}") from None


def to_msgpack(value: Any) -> bytes:
    try:
        packed: bytes = msgpack.packb(value)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise Rejected(Reason.UNTRANSLATABLE, f"no form in msgpack: {type(error).__name__}") from None
    return packed


def binary_as_json(data: bytes) -> dict[str, str]:
    return {BASE64_KEY: base64.b64encode(data).decode()}


def _no_constant(name: str) -> Any:
    raise ValueError(name)


JSON_DECODER = json.JSONDecoder(parse_constant=_no_constant)
"""Without NaN and infinities, which are no JSON. Made once: `json.loads` makes a decoder at each call that has an
option, which costs as much as the parsing."""
_decode_json = JSON_DECODER.decode
_skip_json = msgspec.json.Decoder(msgspec.Raw).decode


def _parse_json(body: bytes) -> Any:
    """UTF-8 alone (RFC 8259, 8.1): left to itself the parser would guess UTF-16 and UTF-32 too."""
    try:
        return _decode_json(body.decode())
    except (ValueError, RecursionError) as error:
        raise Rejected(Reason.BAD_ENCODING, f"not JSON: {error}") from None


def _check_json(body: bytes) -> None:
    """Checks without making the value: 300,000 empty lists in a megabyte took 45 ms, and take 2.

    Half a surrogate pair is JSON, and no JSON to this parser. So every half is replaced by another character.
    """
    try:
        body.decode()
        _skip_json(body.replace(rb"\ud", rb"\u0").replace(rb"\uD", rb"\u0"))
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise Rejected(Reason.BAD_ENCODING, f"not JSON: {error}") from None


def _parse_msgpack(body: bytes, **hooks: Callable[..., object]) -> Any:
    """`hooks` make something else of lists, maps and extensions. What is only checked becomes a number at once: to keep
    a million lists takes three times as long, and 70 MB; and no dict is made of keys that a sender has chosen."""
    try:
        return msgpack.unpackb(body, strict_map_key=False, **hooks)
    except (ValueError, msgpack.exceptions.UnpackException, TypeError, RecursionError) as error:
        raise Rejected(Reason.BAD_ENCODING, f"not msgpack: {type(error).__name__}") from None


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise Rejected(Reason.BAD_ENCODING, "text that is not UTF-8") from None


def _check_depth(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise Rejected(Reason.UNTRANSLATABLE, f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        for item in value.values():
            _check_depth(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_depth(item, depth + 1)


def _from_json_value(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise Rejected(Reason.UNTRANSLATABLE, f"nested deeper than {MAX_DEPTH}")
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, list):
        return [_from_json_value(item, depth + 1) for item in value]
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(value.get(BASE64_KEY), str):
            return _from_binary_as_json(value)
        return {_encodable(key): _from_json_value(item, depth + 1) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise Rejected(Reason.UNTRANSLATABLE, "a number beyond the range of a double")
    return value


def _encodable(text: str) -> str:
    """JSON can escape half a surrogate pair, which is no character and has no form in UTF-8 (RFC 8259, 8.2)."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Rejected(Reason.UNTRANSLATABLE, "half a surrogate pair") from None
    return text


def _from_binary_as_json(value: dict[str, str]) -> bytes | dict[str, str]:
    """An object that only looks like binary stays what it is."""
    try:
        return base64.b64decode(value[BASE64_KEY], validate=True)
    except ValueError:
        return value


def _to_json_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return binary_as_json(value)
    if isinstance(value, list):
        return [_to_json_value(item) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("a key that is no string")
        return {key: _to_json_value(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is not finite")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise TypeError(type(value).__name__)
