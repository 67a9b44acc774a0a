"""Reads a record of version 1, which held a single entry as one msgpack array."""

from __future__ import annotations

from typing import Any

import msgpack

from gateway.records.egress import (
    EdgeRestarted,
    Entry,
    InterestApplied,
    MigrationPhase,
    MigrationStep,
    Position,
    RecordConfirmed,
)
from gateway.records.egress_codec.entries import unpack_delivery
from gateway.records.egress_codec.layout import unsupported_version

_FIRST_VERSION = 1
_RARE: tuple[Any, ...] = ("", 0, (), None, None, None, None, "")
"""The values that few records of version 1 have. A record that ends sooner has these."""


def read_first_version(data: bytes) -> Entry:
    fields = msgpack.unpackb(data, use_list=False)
    if fields[0] != _FIRST_VERSION:
        raise unsupported_version(fields[0])
    _, place, epoch, kind, subject, origin, received_at, groups, applied, ticket, *rare = fields
    position = Position(*place)
    first_id, required, on_failure, confirm, confirmed, moved, restart, trace = [*rare, *_RARE[len(rare) :]][
        : len(_RARE)
    ]
    entry: Entry
    if applied:
        entry = InterestApplied(position, *applied)
    elif confirmed:
        ticket, part, failed = confirmed
        entry = RecordConfirmed(position, ticket, "", part, failed)
    elif restart:
        entry = EdgeRestarted(position, *restart)
    elif moved and moved[0] != "given":
        entry = MigrationStep(position, MigrationPhase(moved[0]), *moved[1:])
    else:
        others = ticket, first_id, required, on_failure, confirm, bool(moved), trace
        entry = unpack_delivery(position, received_at, epoch, kind, subject, origin, groups, *others)
    return entry
