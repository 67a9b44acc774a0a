"""Records of the mesh's topics as rows for people and programs. Pure: what is read is given.

A record of `raw` holds many frames and one of `egress` many encodings: a row for each.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.core.event import Event
from gateway.core.ids import datagram_name, event_id
from gateway.core.reasons import Reason, Rejected
from gateway.core.subjects import matches
from gateway.kafka.records import TopicRecord
from gateway.protocols import protocols
from gateway.records import cloud_event, egress_codec, event_records, rejected_frame
from gateway.records.egress import Deliver, InterestApplied
from gateway.records.raw_log.container import decode_record
from gateway.records.raw_log.control_frames import MESH
from gateway.records.raw_log.frames import RawFrame
from gateway.records.rejected_frame import TRUNCATED_HEADER

BYTES_PER_LINE = 16
SHOWN_CHARACTERS = 160
"""The characters of a body that a line of text shows."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a topic.

    `at` is in microseconds. `data` is the frame, or an event's body. `more` is what only this topic knows.
    """

    id: str
    at: int
    protocol: str
    node: str = ""
    subject: str = ""
    reason: str = ""
    data: bytes = b""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Selects rows. An empty field lets everything pass. `subject` is a pattern."""

    protocol: str = ""
    node: str = ""
    subject: str = ""
    reason: str = ""
    message_id: str = ""

    def passes(self, row: Row) -> bool:
        return (
            self.protocol in ("", row.protocol)
            and self.node in ("", row.node)
            and self.message_id.lower() in ("", row.more.get("message_id", "").lower())
            and self.reason in ("", row.reason)
            and (not self.subject or (row.subject != "" and matches(self.subject, row.subject)))
        )


# -- records to rows ---------------------------------------------------------------------------------------------


def raw_rows(record: TopicRecord) -> Iterator[Row]:
    frames = decode_record(record.value or b"").frames
    for index, frame in enumerate(frames):
        source = frame.source
        more = {"listener": source.listener, "edge": source.edge, "session": source.session_id, "peer": source.peer}
        yield Row(
            event_id(record.partition, record.offset, index),
            frame.received_at,
            source.protocol,
            source.node or _claimed_node(frame),
            data=frame.data,
            more=_filled(more | {"auth": source.auth.value}),
        )


def _claimed_node(frame: RawFrame) -> str:
    """Returns what a datagram says of itself; nobody has judged it yet."""
    spec = protocols().get(frame.source.protocol)
    return "" if spec is None else spec.claimed_node(frame.data)


def event_rows(record: TopicRecord) -> Iterator[Row]:
    return map(_event_row, event_records.read(record.headers, record.value or b""))


def _event_row(event: Event) -> Row:
    more = {
        "kind": event.kind.value,
        "content_type": event.content_type,
        "peer": event.peer,
        "session": event.session,
        "auth": event.auth.value,
        "key_id": event.key_id,
        "message_id": event.message_id,
        "correlation": event.correlation,
        "headers": dict(event.headers),
        "urgent": event.urgent,
    }
    return Row(event.id, event.received_at, event.protocol, event.node, event.subject, "", event.body, _filled(more))


def rejected_rows(record: TopicRecord) -> Iterator[Row]:
    for refusal in rejected_frame.read(record.headers, record.value or b""):
        more = {
            "stage": refusal.stage,
            "detail": refusal.detail,
            "peer": refusal.peer,
            "listener": refusal.listener,
            "edge": refusal.edge,
            TRUNCATED_HEADER: refusal.truncated_bytes or None,
        }
        yield Row(
            refusal.event_id,
            record.logged_at,
            refusal.protocol,
            refusal.node,
            reason=refusal.reason,
            data=refusal.kept,
            more=_filled(more),
        )


def egress_rows(record: TopicRecord) -> Iterator[Row]:
    for entry in egress_codec.decode(record.value or b""):
        if isinstance(entry, InterestApplied):
            more = {"applied": entry.ticket, "raw_partition": entry.partition, "edge_partition": record.partition}
            yield Row(entry.position.event_id, record.logged_at, MESH, more=_filled(more))
        elif isinstance(entry, Deliver):
            yield from _delivery_rows(entry, record.partition)


def _delivery_rows(entry: Deliver, edge_partition: int) -> Iterator[Row]:
    for group in entry.groups:
        more = {
            "kind": entry.kind.value,
            "from": entry.origin,
            "edge_partition": edge_partition,
            "part": entry.position.part,
            "sessions": list(group.sessions),
            "addresses": [datagram_name(*address) for address in group.addresses],
            "owed": list(group.owed),
            "request": group.request,
            "ticket": entry.ticket,
        }
        yield Row(
            entry.position.event_id,
            entry.received_at,
            group.protocol,
            subject=entry.subject,
            data=group.frame,
            more=_filled(more),
        )


def _filled(more: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields without those that are empty; a zero is not."""
    return {name: value for name, value in more.items() if value is not False and value not in ("", None, [], {})}


ROWS: Mapping[str, Callable[[TopicRecord], Iterator[Row]]] = {
    "raw": raw_rows,
    "events": event_rows,
    "rejected": rejected_rows,
    "egress": egress_rows,
}
FILTERS = {
    "raw": frozenset({"protocol", "node"}),
    "events": frozenset({"protocol", "node", "subject", "message_id"}),
    "rejected": frozenset({"protocol", "node", "reason"}),
    "egress": frozenset({"protocol", "subject"}),
}
"""The fields by which a topic's rows can be chosen. A row without the field fits no filter."""


def rows_of(at: str, record: TopicRecord, chosen: RowFilter) -> Iterator[Row]:
    """Yields the rows of a record that pass. A record that cannot be read is a row with the reason."""
    try:
        rows: Iterable[Row] = list(ROWS[at](record))
    except (Rejected, KeyError, ValueError) as wrong:
        reason = wrong.reason if isinstance(wrong, Rejected) else Reason.MALFORMED
        name = f"{record.partition}-{record.offset}"
        rows = [
            Row(name, record.logged_at, "", reason=reason, data=record.value or b"", more={"unreadable": str(wrong)})
        ]
    return (row for row in rows if chosen.passes(row))


# -- rows to lines -----------------------------------------------------------------------------------------------


def as_json(row: Row) -> dict[str, Any]:
    named = {"protocol": row.protocol, "node": row.node, "subject": row.subject, "reason": row.reason}
    fields = {name: value for name, value in named.items() if value}
    time = cloud_event.rfc3339(row.at)
    return {"id": row.id, "event_id": row.id, "time": time, **fields, **row.more, **_data(row.data)}


def _data(data: bytes) -> dict[str, Any]:
    """Returns bytes always, and as text too where they are text."""
    text: dict[str, Any] = {}
    try:
        text["text"] = data.decode()
    except UnicodeDecodeError:
        pass
    return {"bytes": len(data), "base64": base64.b64encode(data).decode(), **text}


def as_text(row: Row) -> str:
    """Returns the row as one line: when, which, what, and as much of it as a line takes."""
    more = row.more
    named = [row.protocol, row.node, row.reason, row.subject, more.get("kind"), more.get("detail"), _receivers(more)]
    body = row.data[: 2 * SHOWN_CHARACTERS].decode(errors="backslashreplace")
    shown = body if len(body) <= SHOWN_CHARACTERS else f"{body[:SHOWN_CHARACTERS]}…"
    words = [cloud_event.rfc3339(row.at), row.id, *(str(word) for word in named if word), f"{len(row.data)}B", shown]
    return "  ".join(word for word in words if word)


def _receivers(more: Mapping[str, Any]) -> str:
    sessions = [f"#{number}" for number in more.get("sessions", ())]
    receivers = [*sessions, *more.get("addresses", ()), *more.get("owed", ())]
    return "→ " + ", ".join(receivers) if receivers else ""


def as_hex(row: Row) -> str:
    """Returns the line without its body, and the bytes below it."""
    head = as_text(Row(row.id, row.at, row.protocol, row.node, row.subject, row.reason, b"", row.more))
    head = head.removesuffix("  0B") + f"  {len(row.data)}B"
    return "\n".join([head, *hex_lines(row.data)])


def hex_lines(data: bytes) -> Iterator[str]:
    """Yields the lines of a hex dump.

    >>> print(*hex_lines(b"hello \\x00 world, hello"), sep="\\n")
    00000000  68 65 6c 6c 6f 20 00 20  77 6f 72 6c 64 2c 20 68  |hello . world, h|
    00000010  65 6c 6c 6f                                       |ello|
    """
    for start in range(0, len(data), BYTES_PER_LINE):
        line = data[start : start + BYTES_PER_LINE]
        half = BYTES_PER_LINE // 2
        octets = f"{line[:half].hex(' '):<23}  {line[half:].hex(' '):<23}"
        text = "".join(chr(octet) if 0x20 <= octet < 0x7F else "." for octet in line)
        yield f"{start:08x}  {octets}  |{text}|"
