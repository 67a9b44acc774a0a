"""Turns what the row functions say about one frame into a row that the batch jobs compare with the topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from hashlib import md5
from typing import NamedTuple

from gateway.config.settings import ordinal_of
from gateway.core.ids import SessionId, datagram_name, event_id, session_id
from gateway.core.reasons import Stage
from gateway.records import cloud_event
from gateway.records.cloud_event import TRACE_HEADER
from gateway.records.egress import Deliver, Entry, Group
from gateway.records.rejected_frame import KEPT_BYTES
from streaming_jobs.routing.routed_frame import RoutedFrame

PROOF_ATTRIBUTES = ("ce_meshauth", "ce_meshkey")
FIXED_ATTRIBUTES = (
    "ce_id",
    "ce_time",
    "ce_meshprotocol",
    "ce_meshlistener",
    "ce_meshedge",
    "ce_meshsession",
    "ce_meshpeer",
)
READ_ATTRIBUTES = tuple(name for name in cloud_event.NAMES if name not in (*FIXED_ATTRIBUTES, TRACE_HEADER))


class VerdictDigests(StrEnum):
    EVENT = "event"
    REJECTED = "rejected"
    CONTROL = "control"


class FrameVerdict(NamedTuple):
    """One judged frame. `event_id` is its position; `first_id` is its first position if it was put in again.

    `reasons`: why it, or a part of it, was refused (what could not be encoded for a receiver is no matter of the frame
    and is left out). `destinations`: who is to get something for it. `touched`: whose interests it changed, and
    `causes`: the frame that asked for that.
    """

    event_id: str
    partition: int
    offset: int
    frame_index: int
    received_at: int
    protocol: str
    edge: str
    epoch: int
    verdict: str
    first_id: str = ""
    key: str | None = None
    reasons: tuple[str, ...] = ()
    event_print: str = ""
    frame_print: str = ""
    destinations: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()
    causes: str = ""


class Effect(NamedTuple):
    """The change that a frame of the mesh makes to the interests."""

    touched: tuple[str, ...] = ()
    causes: str = ""


NO_EFFECT = Effect()


def judged(routed: RoutedFrame, partition: int, offset: int, mesh: str, effect: Effect = NO_EFFECT) -> FrameVerdict:
    raw = routed.raw
    event = routed.event
    reasons = tuple(refusal.reason for refusal in routed.refusals if refusal.stage != Stage.DELIVER)
    verdict = VerdictDigests.EVENT if event else VerdictDigests.REJECTED if reasons else VerdictDigests.CONTROL
    return FrameVerdict(
        event_id(partition, offset, routed.frame_index),
        partition,
        offset,
        routed.frame_index,
        raw.received_at,
        raw.source.protocol,
        raw.source.edge,
        raw.source.epoch,
        verdict.value,
        raw.again.event_id if raw.again else "",
        routed.key,
        reasons,
        event_print(cloud_event.attributes(event, mesh), event.body) if event else "",
        frame_print(raw.data[:KEPT_BYTES]),
        tuple(name for ordinal, entry in routed.entries for name in destinations_of([entry], ordinal)),
        effect.touched,
        effect.causes,
    )


def destinations_of(entries: Iterable[Entry], edge_ordinal: int) -> Iterable[str]:
    """Returns everyone that these entries for an edge go to."""
    for entry in entries:
        if isinstance(entry, Deliver):
            for group in entry.groups:
                yield from receivers(group, entry.epoch, edge_ordinal)


def receivers(group: Group, epoch: int, edge_ordinal: int) -> Iterable[str]:
    """Returns the receivers. A session is named by its edge's number, because the record does not name the edge."""
    yield from (session_id(str(edge_ordinal), epoch, number) for number in group.sessions)
    yield from (datagram_name(*address) for address in group.addresses)
    yield from group.owed


def numbered(destination: str) -> str:
    """Returns a session's name as `receivers` gives it; anything else as it is.

    >>> numbered("edge-3.19f.7"), numbered("devices 127.0.0.1:5050")
    ('3.19f.7', 'devices 127.0.0.1:5050')
    """
    try:
        session = SessionId.parse(destination)
    except ValueError:
        return destination
    return session_id(str(ordinal_of(session.edge)), session.epoch, session.number)


def frame_print(data: bytes) -> str:
    return md5(data, usedforsecurity=False).hexdigest()


def event_print(attributes: Mapping[str, str], body: bytes) -> str:
    """Returns three words by which two records of an event are compared: how its sender was proven; what no
    configuration and no key has a say in; and how it is read. Whether it is traced is no part of it. `reading` computes
    the same in the engine, over the topic.
    """
    proof = "/".join(attributes.get(name, "") for name in PROOF_ATTRIBUTES)
    fixed = _joined(attributes, FIXED_ATTRIBUTES) + b"\0" + body
    return f"{proof} {frame_print(fixed)} {frame_print(_joined(attributes, READ_ATTRIBUTES))}"


def _joined(attributes: Mapping[str, str], names: Iterable[str]) -> bytes:
    return "\0".join([attributes.get(name, "") for name in names]).encode()
