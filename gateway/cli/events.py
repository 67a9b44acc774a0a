"""Events and answers as lines: for people, and as JSON for programs."""

from __future__ import annotations

from typing import Any

from gateway.cli.bodies import body_fields, body_text
from gateway.client import Answer
from gateway.core.event import Event
from gateway.records.cloud_event import rfc3339

NO_HEADERS = frozenset({"subject", "body", "body_base64"})
"""The fields that the line of an event has already."""


def event_fields(event: Event) -> dict[str, Any]:
    """Returns what a receiver knows of an event, without what its protocol does not say."""
    fields = {
        "node": event.node,
        "message_id": event.message_id,
        "correlation": event.correlation,
        "headers": dict(event.headers),
        "urgent": event.urgent,
        "sent_at": "" if event.sent_at is None else rfc3339(event.sent_at),
    }
    filled = {name: value for name, value in fields.items() if value}
    return {
        "subject": event.subject,
        "kind": event.kind.value,
        **body_fields(event.body),
        "content_type": event.content_type,
        **filled,
    }


def event_line(event: Event) -> str:
    return f"{event.subject}  {body_text(event.body)}"


def header_lines(event: Event) -> list[str]:
    """Returns what stands beside the body, a line each."""
    fields = {name: value for name, value in event_fields(event).items() if name not in NO_HEADERS and value}
    headers = fields.pop("headers", {})
    return [f"  {name}: {value}" for name, value in (fields | headers).items()]


def answer_fields(answer: Answer) -> dict[str, Any]:
    return {"kind": answer.kind.value, **body_fields(answer.body), "content_type": answer.content_type}
