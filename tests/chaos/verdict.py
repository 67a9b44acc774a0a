"""Judges what must hold from the records alone: each function names the faults it has found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from prometheus_client.samples import Sample

from gateway.core.reasons import Reason
from gateway.records.raw_log.control_frames import MESH
from tests.chaos.record import Message, Received, Requests, Sent
from tests.chaos.told import by

NAMED = 5
"""Of each kind of fault; one is bad enough, and the others are most often its neighbours."""

EXCUSED_ANSWERS = frozenset({"answered", "timeout", "undeliverable", "ended"})
"""What a requester may hear while parts are killed: that it took too long, or that somebody on the way is gone."""

GRACE_SECONDS = 0.5
"""What is sent within this after a blow may still be on its way through what is about to stop."""


def lost(received: Received, promised: Set[Message]) -> Iterator[str]:
    """Promised and not delivered."""
    missing = promised - received.counts.keys()
    yield from _named(f"{received.name} never got", sorted(missing))


def invented(received: Received, sent: Sent) -> Iterator[str]:
    """Delivered and never sent."""
    yield from _named(f"{received.name} got what nobody sent:", sorted(received.counts.keys() - sent.at.keys()))


def doubled(received: Received) -> Iterator[str]:
    twice = sorted(message for message, count in received.counts.items() if count > 1)
    yield from _named(f"{received.name} got more than once", twice)


def disordered(received: Received) -> Iterator[str]:
    """Numbers of one session of a publisher only grow."""
    last: dict[tuple[str, int], int] = {}
    wrong = []
    for message, _ in received.messages:
        stream = message.publisher, message.session
        if message.number < last.get(stream, -1):
            wrong.append(message)
        last[stream] = message.number
    yield from _named(f"{received.name} got out of order", wrong)


def broken_requests(requests: Requests, asked: Iterable[int]) -> Iterator[str]:
    unheard = sorted(set(asked) - requests.answers.keys())
    yield from _named("no answer, not even an error, to request", unheard)
    twice = sorted(number for number, count in requests.asked.items() if count > 1)
    yield from _named("the server was asked more than once for request", twice)
    wrong = [(number, said) for number, said in requests.answers.items() if said not in EXCUSED_ANSWERS]
    yield from _named("a requester was told", sorted(wrong))


def miscounted(told: Sequence[Sample], audited: Mapping[str, Any]) -> Iterator[str]:
    """Of the router's counters, which outlive it, against what stands in the topics: each frame of a peer counts once,
    however often it was routed, and each refusal under its reason. What counts is the first time: a frame may have been
    refused for a key that was read before a repeat of it."""
    decoded = by(told, "frames_total", "protocol", stage="decode")
    counted = sum(count for protocol, count in decoded.items() if protocol != MESH)
    logged = audited["frames"] - audited["mesh_frames"]
    if counted != logged:
        yield f"the router counts {counted} frames, and the raw log has {logged}"
    refused = by(told, "frames_total", "reason", stage="decode", outcome="rejected")
    refused += by(told, "frames_total", "reason", stage="match", outcome="rejected")
    recorded = Counter(audited["rejected_by_reason"])
    later_accepted = refused[Reason.UNKNOWN_KEY] - recorded[Reason.UNKNOWN_KEY]
    if later_accepted < 0 or refused != recorded + Counter({Reason.UNKNOWN_KEY.value: later_accepted}):
        yield f"the router counts as refused {dict(refused)}, and {dict(recorded)} were"


def recovery_seconds(received: Received, sent: Sent, publisher: str, at: float) -> float | None:
    """Returns the time from a blow to the first delivery of what was sent after it; None if there was none."""
    for message, came in received.since(at):
        if message.publisher == publisher and sent.at[message] > at + GRACE_SECONDS:
            return came - at
    return None


def _named(what: str, faults: list[Message] | list[int] | list[tuple[int, str]]) -> Iterator[str]:
    yield from (f"{what} {fault}" for fault in faults[:NAMED])
    if len(faults) > NAMED:
        yield f"{what} {len(faults) - NAMED} more"
