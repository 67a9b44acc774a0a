"""The record format of `deliveries`: what became of what was to be delivered, many outcomes in one record."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgpack

from gateway.reasons import Reason, Rejected

VERSION = 1


class DeliveryOutcome(NamedTuple):
    """`destination`: a session's id, or `listener host:port` of a datagram peer. `at`: microseconds.

    `part`: of the position that the delivery had; with event and destination it names one delivery. `node`: whose
    session it was, where the edge knows.
    """

    event_id: str
    destination: str
    outcome: str
    detail: str
    at: int
    part: int = 0
    node: str = ""


def encode(edge: str, outcomes: Iterable[DeliveryOutcome]) -> bytes:
    packed: bytes = msgpack.packb((VERSION, edge, list(outcomes)))
    return packed


def decode(data: bytes) -> tuple[str, list[DeliveryOutcome]]:
    """The edge that wrote the record, and the outcomes in it."""
    try:
        version, edge, rows = msgpack.unpackb(data)
        if version != VERSION:
            raise Rejected(Reason.UNSUPPORTED_VERSION, f"deliveries version {version}; this build reads {VERSION}")
        return edge, [DeliveryOutcome(*row) for row in rows]
    except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
        raise Rejected(Reason.MALFORMED, f"deliveries record: {type(error).__name__}") from None
