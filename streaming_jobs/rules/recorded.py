"""Recorded events to try rules on: one JSON object a line, as `meshgate tap --at events --format json` gives them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from gateway.core.event import Auth, Kind

Row = tuple[Any, ...]
_TEXTS = ("listener", "edge", "session", "peer", "node", "message_id", "correlation", "content_type")


class RecordedError(Exception):
    """A line that is no event."""


def read_recorded(lines: Iterable[str]) -> list[Row]:
    """Returns rows in the order of the table's columns. Raises RecordedError, which names the line."""
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append(_row(json.loads(line), number))
        except (ValueError, TypeError, AttributeError, KeyError, binascii.Error) as wrong:
            raise RecordedError(f"line {number}: {type(wrong).__name__}: {wrong}") from None
    return rows


def _row(fields: dict[str, Any], number: int) -> Row:
    body = _body(fields)
    texts = {name: str(fields.get(name, "")) for name in _TEXTS}
    return (
        str(fields.get("id", f"0-0-{number}")),
        Kind(fields.get("kind", Kind.EVENT)).value,
        fields["subject"],
        str(fields.get("protocol", "")),
        *(texts[name] for name in _TEXTS[:7]),
        texts["content_type"],
        body,
        _text(body),
        {str(name): str(value) for name, value in fields.get("headers", {}).items()},
        bool(fields.get("urgent", False)),
        _time(fields["sent_at"]) if fields.get("sent_at") else None,
        _time(fields.get("received_at") or fields["time"]),
        Auth(fields.get("auth", Auth.NONE)).value,
        str(fields.get("key_id", "")),
    )


def _body(fields: dict[str, Any]) -> bytes:
    """Returns the exact bytes where they stand there; else the text."""
    for name in ("base64", "body_base64"):
        if name in fields:
            return base64.b64decode(fields[name], validate=True)
    body = fields.get("body", fields.get("text")) or ""
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _time(fields: str) -> datetime:
    """Returns the time of a line. Without a zone it is UTC."""
    moment = datetime.fromisoformat(fields)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
