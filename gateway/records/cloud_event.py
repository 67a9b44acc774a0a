"""An event's CloudEvents 1.0 attributes, under the names of Kafka's binary mode (`ce_…`); see `event_records`.

What the specification has a name for stands under it; what only the mesh knows stands in extensions `mesh…`, so that a
reader gets the whole event back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from gateway.core.event import SECOND_US, Auth, Event, Kind
from gateway.core.trace_context import TRACEPARENT

Header = tuple[str, bytes]
SPEC_VERSION = "1.0"
TYPE_PREFIX = "meshgate."
TRACE_HEADER = "ce_traceparent"
"""Of the extension "Distributed Tracing"."""
NAMES = (
    "ce_id", "ce_type", "ce_subject", "ce_time",
    "ce_specversion", "ce_source", "ce_partitionkey", "ce_meshauth", "ce_meshprotocol", "ce_meshlistener",
    "ce_meshedge", "ce_meshsession", "ce_meshkey", "ce_meshnode", "ce_meshpeer",
    "content-type", "ce_meshmessageid", "ce_meshcorrelation", "ce_meshurgent", "ce_meshsentat", TRACE_HEADER,
    "ce_meshheaders",
)  # fmt: skip
"""The names of all attributes there are."""
Shared = tuple[tuple[str, str], ...]
"""Names and values, without those that are empty."""


def shared_attributes(event: Event, mesh: str) -> Shared:
    """Returns all attributes but those that differ from one event of a sender to the next: id, time, message id and
    the time at which it was sent."""
    sender = _Sender(
        event.protocol, event.auth, event.listener, event.edge, event.session, event.key_id, event.node, event.peer
    )
    of_sender = _of_sender(mesh, sender)
    of_event = [("ce_type", f"{TYPE_PREFIX}{event.kind}"), ("ce_subject", event.subject)]
    if event.content_type:
        of_event.append(("content-type", event.content_type))
    if event.correlation:
        of_event.append(("ce_meshcorrelation", event.correlation))
    if event.urgent:
        of_event.append(("ce_meshurgent", "true"))
    return (*of_event, *of_sender, *(_of_headers(event.headers) if event.headers else ()))


def attributes(event: Event, mesh: str) -> dict[str, str]:
    """Returns all attributes of the event."""
    own = {"ce_id": event.id, "ce_time": rfc3339(event.received_at)}
    if event.message_id:
        own["ce_meshmessageid"] = event.message_id
    if event.sent_at is not None:
        own["ce_meshsentat"] = rfc3339(event.sent_at)
    return {**own, **dict(shared_attributes(event, mesh))}


def _of_headers(event_headers: Mapping[str, str]) -> Shared:
    """The trace has an attribute of its own."""
    others = dict(event_headers)
    traceparent = others.pop(TRACEPARENT, "")
    attributes = [(TRACE_HEADER, traceparent)] if traceparent else []
    return (*attributes, *([("ce_meshheaders", json.dumps(others))] if others else ()))


class _Sender(NamedTuple):
    """Holds all that an event says of its sender."""

    protocol: str
    auth: Auth
    listener: str
    edge: str
    session: str
    key_id: str
    node: str
    peer: str


@lru_cache(maxsize=65_536)
def _of_sender(mesh: str, sender: _Sender) -> Shared:
    name = sender.node or sender.peer
    attributes = {
        "ce_specversion": SPEC_VERSION,
        "ce_source": f"/mesh/{mesh}/{sender.protocol}/{name}",
        "ce_partitionkey": name,
        "ce_meshauth": sender.auth.value,
        "ce_meshprotocol": sender.protocol,
        "ce_meshlistener": sender.listener,
        "ce_meshedge": sender.edge,
        "ce_meshsession": sender.session,
        "ce_meshkey": sender.key_id,
        "ce_meshnode": sender.node,
        "ce_meshpeer": sender.peer,
    }
    return tuple((attribute, value) for attribute, value in attributes.items() if value)


def from_attributes(attributes: Mapping[str, str], body: bytes) -> Event:
    """Returns the event with these attributes. Raises KeyError or ValueError where one is missing or no such value."""
    headers = _headers(attributes.get("ce_meshheaders", "{}"))
    if TRACE_HEADER in attributes:
        headers[TRACEPARENT] = attributes[TRACE_HEADER]
    return Event(
        id=attributes["ce_id"],
        kind=Kind(attributes["ce_type"].removeprefix(TYPE_PREFIX)),
        subject=attributes["ce_subject"],
        protocol=attributes.get("ce_meshprotocol", ""),
        listener=attributes.get("ce_meshlistener", ""),
        edge=attributes.get("ce_meshedge", ""),
        session=attributes.get("ce_meshsession", ""),
        peer=attributes.get("ce_meshpeer", ""),
        node=attributes.get("ce_meshnode", ""),
        received_at=microseconds(attributes["ce_time"]),
        message_id=attributes.get("ce_meshmessageid", ""),
        correlation=attributes.get("ce_meshcorrelation", ""),
        content_type=attributes.get("content-type", ""),
        body=body,
        headers=headers,
        urgent=attributes.get("ce_meshurgent") == "true",
        sent_at=microseconds(attributes["ce_meshsentat"]) if "ce_meshsentat" in attributes else None,
        auth=Auth(attributes.get("ce_meshauth", "none")),
        key_id=attributes.get("ce_meshkey", ""),
    )


def _headers(text: str) -> dict[str, str]:
    try:
        headers = json.loads(text)
    except RecursionError:
        raise ValueError("headers nested too deep") from None
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise ValueError("headers that are no names with texts")
    return headers


def rfc3339(at_us: int) -> str:
    """Returns the time as RFC 3339 writes it.

    >>> rfc3339(1_759_190_400_000_001)
    '2025-09-30T00:00:00.000001Z'
    """
    return rfc3339_bytes(at_us).decode()


@lru_cache(maxsize=1_024)
def rfc3339_bytes(at_us: int) -> bytes:
    """Returns the time as bytes, and keeps it: frames received at once, or sent within one second, share it."""
    seconds, fraction = divmod(at_us, SECOND_US)
    try:
        return b"%b.%06dZ" % (_whole_seconds(seconds), fraction)
    except (OverflowError, ValueError, OSError):  # a peer may claim any time
        return b"9999-12-31T23:59:59.999999Z"


@lru_cache(maxsize=1_024)
def _whole_seconds(seconds: int) -> bytes:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()


def microseconds(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return int(moment.replace(microsecond=0).timestamp()) * SECOND_US + moment.microsecond
