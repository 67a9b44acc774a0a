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


def _row(said: dict[str, Any], number: int) -> Row:
    body = _body(said)
    texts = {name: str(said.get(name, "")) for name in _TEXTS}
    return (
        str(said.get("id", f"0-0-{number}")),
        Kind(said.get("kind", Kind.EVENT)).value,
        said["subject"],
        str(said.get("protocol", "")),
        *(texts[name] for name in _TEXTS[:7]),
        texts["content_type"],
        body,
        _text(body),
        {str(name): str(value) for name, value in said.get("headers", {}).items()},
        bool(said.get("urgent", False)),
        _time(said["sent_at"]) if said.get("sent_at") else None,
        _time(said.get("received_at") or said["time"]),
        Auth(said.get("auth", Auth.NONE)).value,
        str(said.get("key_id", "")),
    )


def _body(said: dict[str, Any]) -> bytes:
    """Exactly, where the bytes stand there; else as text."""
    for name in ("base64", "body_base64"):
        if name in said:
            return base64.b64decode(said[name], validate=True)
    body = said.get("body", said.get("text")) or ""
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _time(said: str) -> datetime:
    """Without a zone it is UTC."""
    moment = datetime.fromisoformat(said)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
