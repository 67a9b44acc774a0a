"""A frame's way as it is shown: a line for each step with its time, or one JSON document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gateway.inspect.history.frame_trace import FrameTrace, SentOutput
from gateway.inspect.history.rejections import Rejection
from gateway.records.cloud_event import rfc3339
from gateway.records.raw_log.control_frames import MESH

SHOWN_BYTES = 48
WHAT_WIDTH = len("undeliverable") + 2
"""The longest of what can be said to have become of a frame."""


def verdict_of(way: FrameTrace, key: str | None, repeats: str | None) -> str:
    """Returns the verdict on a frame. `pending` means that nothing has become of it yet, or nothing that is kept."""
    if way.event is not None:
        return "accepted"
    if way.refusals:
        return "rejected"
    if repeats:
        return "duplicate"
    return "pending" if key is not None and not way.sent else "control"


def way_as_json(way: FrameTrace, key: str | None, repeats: str | None) -> dict[str, Any]:
    logged, raw = way.logged, way.logged.raw
    event = way.event
    return {
        "event_id": raw.again.event_id if raw.again else logged.position.event_id,
        "raw": {
            "partition": logged.position.partition,
            "offset": logged.position.offset,
            "index": logged.position.frame_index,
            "received_at": rfc3339(raw.received_at),
            "logged_at": rfc3339(logged.logged_at),
            "edge": raw.source.edge,
            "listener": raw.source.listener,
            "protocol": raw.source.protocol,
            "session": raw.source.session_id,
            "peer": raw.source.peer,
            "node": raw.source.node,
            "facts": dict(raw.source.facts),
            "bytes": len(raw.data),
            "frame": raw.data.hex(),
            "record_bytes": logged.record_bytes,
            "record_frames": logged.record_frames,
            "put_in_again_at": rfc3339(raw.again.at) if raw.again else None,
        },
        "verdict": verdict_of(way, key, repeats),
        "auth": event.auth.value if event else None,
        "key_id": event.key_id if event else None,
        "key": key,
        "repeats": repeats or None,
        "event": None
        if event is None
        else {
            "kind": event.kind.value,
            "subject": event.subject,
            "node": event.node,
            "message_id": event.message_id,
            "correlation": event.correlation,
            "content_type": event.content_type,
            "body_bytes": len(event.body),
            "routed_at": rfc3339(way.event_at),
        },
        "rejected": [_refusal(refusal) for refusal in way.refusals],
        "deliveries": [_delivery(output) for output in way.sent],
    }


def _refusal(refusal: Rejection) -> dict[str, Any]:
    return {
        "reason": refusal.reason,
        "stage": refusal.stage,
        "detail": refusal.detail,
        "at": rfc3339(refusal.at),
        "again": refusal.again or None,
    }


def _delivery(output: SentOutput) -> dict[str, Any]:
    outcome = output.outcome
    return {
        "destination": output.destination,
        "node": outcome.node if outcome else "",
        "part": output.part,
        "kind": output.kind,
        "protocol": output.protocol,
        "sent_at": rfc3339(output.sent_at),
        "bytes": len(output.frame),
        "frame": output.frame.hex(),
        "outcome": outcome.outcome if outcome else None,
        "detail": outcome.detail if outcome else None,
        "outcome_at": rfc3339(outcome.at) if outcome else None,
    }


def way_as_text(way: FrameTrace, key: str | None, repeats: str | None) -> str:
    return "\n".join(
        f"{rfc3339(at) if at else '':<28}{what:<{WHAT_WIDTH}}{detail}" for at, what, detail in _steps(way, key, repeats)
    )


def _steps(way: FrameTrace, key: str | None, repeats: str | None) -> Iterator[tuple[int, str, str]]:
    logged, raw = way.logged, way.logged.raw
    source = raw.source
    by = f"{source.protocol} listener {source.listener} of {source.edge}" if source.listener else source.edge
    by_whom = source.session_id or source.peer
    yield raw.received_at, "received", f"{len(raw.data)} bytes by {by}{f' from {by_whom}' if by_whom else ''}"
    yield 0, "", _shown(raw.data)
    place = logged.position
    frame_number = f"frame {place.frame_index} of {logged.record_frames}"
    yield logged.logged_at, "logged", f"raw partition {place.partition}, offset {place.offset}, {frame_number}"
    if raw.again:
        yield raw.again.at, "put in again", f"first as {raw.again.event_id}"
    yield from _verdict(way, key, repeats)
    for output in way.sent:
        yield from _delivered(output)


def _verdict(way: FrameTrace, key: str | None, repeats: str | None) -> Iterator[tuple[int, str, str]]:
    event = way.event
    steps = [
        (refusal.at, "rejected", f"{refusal.reason} ({refusal.stage}): {refusal.detail}") for refusal in way.refusals
    ]
    if event is not None:
        proof = f"{event.auth.value}, key {event.key_id}" if event.key_id else event.auth.value
        steps.append(
            (way.event_at, "accepted", f"{event.kind} {event.subject} of {event.node or event.peer} ({proof})")
        )
    yield from sorted(steps)
    if key is not None:
        yield 0, "key", key
    match verdict_of(way, key, repeats):
        case "duplicate":
            yield 0, "duplicate", f"of {repeats}"
        case "pending":
            yield 0, "pending", "nothing has become of it that is found: not routed yet, or a repeat of what is older"
        case "control":
            yield 0, "control", "the mesh's own" if way.logged.raw.source.protocol == MESH else "for the mesh itself"
        case _:
            pass


def _delivered(output: SentOutput) -> Iterator[tuple[int, str, str]]:
    if output.kind:
        yield (
            output.sent_at,
            "sent",
            f"{output.kind} to {output.destination}, {len(output.frame)} bytes of {output.protocol}",
        )
        yield 0, "", _shown(output.frame)
    if output.outcome is None:
        yield 0, "in flight", f"to {output.destination}"
        return
    who = f"{output.destination} ({output.outcome.node})" if output.outcome.node else output.destination
    why = f": {output.outcome.detail}" if output.outcome.detail else ""
    yield (
        output.outcome.at,
        output.outcome.outcome,
        f"by {who}{why}" if output.outcome.outcome == "confirmed" else f"to {who}{why}",
    )


def _shown(data: bytes) -> str:
    more = f" … {len(data) - SHOWN_BYTES} more" if len(data) > SHOWN_BYTES else ""
    return data[:SHOWN_BYTES].hex(" ", 2) + more
