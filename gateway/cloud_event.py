"""Events as records of the `events` topic: CloudEvents 1.0 in Kafka's binary mode.

What the specification has a name for stands under it; what only the mesh knows stands in extensions `mesh…`, so that a
reader gets the whole event back (`read`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache

from gateway.event import SECOND_US, Auth, Event, Kind
from gateway.trace_context import TRACEPARENT

Headers = list[tuple[str, bytes]]
SPEC_VERSION = b"1.0"
TYPE_PREFIX = "meshgate."
TRACE_HEADER = "ce_traceparent"
"""Of the extension "Distributed Tracing"."""
_TYPES = {kind: f"{TYPE_PREFIX}{kind}".encode() for kind in Kind}


NAMES = (
    "ce_id", "ce_type", "ce_subject", "ce_time",
    "ce_specversion", "ce_source", "ce_partitionkey", "ce_meshauth", "ce_meshprotocol", "ce_meshlistener",
    "ce_meshedge", "ce_meshsession", "ce_meshkey", "ce_meshnode", "ce_meshpeer",
    "content-type", "ce_meshmessageid", "ce_meshcorrelation", "ce_meshurgent", "ce_meshsentat", TRACE_HEADER,
    "ce_meshheaders",
)  # fmt: skip
"""Of all headers there are."""
Values = list[bytes | None]
"""In the order of `NAMES`."""


def headers(given: Values) -> Headers:
    """What is empty is left out."""
    return [(name, value) for name, value in zip(NAMES, given, strict=True) if value is not None]


def values(event: Event, mesh: str) -> Values:
    """Of the event's record. What all events of one sender share is made once."""
    node, peer = event.node, event.peer
    of_sender = _of_sender(
        mesh, event.protocol, node or peer, event.auth, event.listener, event.edge, event.session, event.key_id, node,
        peer,
    )  # fmt: skip
    traceparent, told = _told(event.headers) if event.headers else (None, None)
    return [
        event.id.encode(),
        _TYPES[event.kind],
        event.subject.encode(),
        _time(event.received_at),
        *of_sender,
        event.content_type.encode() or None,
        event.message_id.encode() or None,
        event.correlation.encode() if event.correlation else None,
        b"true" if event.urgent else None,
        None if event.sent_at is None else _time(event.sent_at),
        traceparent,
        told,
    ]


def _told(event_headers: Mapping[str, str]) -> tuple[bytes | None, bytes | None]:
    """The trace has a header of its own."""
    others = dict(event_headers)
    traceparent = others.pop(TRACEPARENT, "")
    return traceparent.encode() or None, json.dumps(others).encode() if others else None


@lru_cache(maxsize=65_536)
def _of_sender(
    mesh: str, protocol: str, name: str, auth: Auth, listener: str, edge: str, session: str, key_id: str, node: str,
    peer: str,
) -> tuple[bytes | None, ...]:  # fmt: skip
    said = (
        f"/mesh/{mesh}/{protocol}/{name}", name, auth.value, protocol, listener, edge, session, key_id, node, peer,
    )  # fmt: skip
    return (SPEC_VERSION, *(value.encode() or None for value in said))


def read(record_headers: Iterable[tuple[str, bytes]], body: bytes) -> Event:
    """The event in a record of the `events` topic."""
    given = {name: value.decode() for name, value in record_headers}
    headers = json.loads(given.get("ce_meshheaders", "{}"))
    if TRACE_HEADER in given:
        headers[TRACEPARENT] = given[TRACE_HEADER]
    return Event(
        id=given["ce_id"],
        kind=Kind(given["ce_type"].removeprefix(TYPE_PREFIX)),
        subject=given["ce_subject"],
        protocol=given.get("ce_meshprotocol", ""),
        listener=given.get("ce_meshlistener", ""),
        edge=given.get("ce_meshedge", ""),
        session=given.get("ce_meshsession", ""),
        peer=given.get("ce_meshpeer", ""),
        node=given.get("ce_meshnode", ""),
        received_at=microseconds(given["ce_time"]),
        message_id=given.get("ce_meshmessageid", ""),
        correlation=given.get("ce_meshcorrelation", ""),
        content_type=given.get("content-type", ""),
        body=body,
        headers=headers,
        urgent=given.get("ce_meshurgent") == "true",
        sent_at=microseconds(given["ce_meshsentat"]) if "ce_meshsentat" in given else None,
        auth=Auth(given.get("ce_meshauth", "none")),
        key_id=given.get("ce_meshkey", ""),
    )


def rfc3339(at_us: int) -> str:
    """
    >>> rfc3339(1_759_190_400_000_001)
    '2025-09-30T00:00:00.000001Z'
    """
    return _time(at_us).decode()


@lru_cache(maxsize=1_024)
def _time(at_us: int) -> bytes:
    """Frames that an edge has received at once have it in common, and so have those sent within one second."""
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
