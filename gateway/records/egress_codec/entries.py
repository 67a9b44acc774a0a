"""Packs and unpacks one entry of `egress` that has no route, in msgpack. The columns hold its position and time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgpack

from gateway.core.event import Kind
from gateway.records.egress import (
    Confirm,
    Deliver,
    EdgeRestarted,
    Entry,
    Group,
    InterestApplied,
    MigrationPhase,
    MigrationStep,
    Position,
    RecordConfirmed,
    SourceRefused,
)
from gateway.records.egress_codec.layout import Route, packer

_KINDS = {kind.value: kind for kind in Kind}
_DELIVER, _APPLIED, _CONFIRMED, _RESTARTED, _MIGRATION, _REFUSED = range(6)
_PLAIN: dict[int, Any] = {
    _APPLIED: InterestApplied, _CONFIRMED: RecordConfirmed, _RESTARTED: EdgeRestarted, _REFUSED: SourceRefused
}  # fmt: skip


def pack_entry(entry: Entry) -> bytes:
    """Packs an entry without its position and its time, which the columns have."""
    fields: tuple[object, ...]
    match entry:
        case Deliver():
            confirm = (entry.confirm.edge, entry.confirm.ticket) if entry.confirm else None
            fields = (
                _DELIVER, entry.epoch, entry.kind.value, entry.subject, entry.origin, _pack_groups(entry.groups),
                entry.ticket, entry.first_id, entry.required_confirmations, _pack_groups(entry.groups_on_failure),
                confirm, entry.is_migrated, entry.trace,
            )  # fmt: skip
        case InterestApplied():
            fields = (_APPLIED, entry.ticket, entry.partition)
        case RecordConfirmed():
            fields = (_CONFIRMED, entry.ticket, entry.edge, entry.part, entry.failed)
        case EdgeRestarted():
            fields = (_RESTARTED, entry.edge, entry.epoch)
        case MigrationStep():
            fields = (_MIGRATION, entry.step.value, entry.node, entry.move, entry.edge, entry.session)
        case SourceRefused():
            fields = (_REFUSED, entry.listener, entry.peer)
    packed: bytes = packer.pack(fields)
    return packed


def _pack_groups(groups: Iterable[Group]) -> list[tuple[object, ...]]:
    return [(g.protocol, g.frame, g.stamps, g.sessions, g.addresses, g.request, g.reply, g.owed) for g in groups]


def unpack_entry(position: Position, received_at: int, value: bytes) -> Entry:
    tag, *fields = msgpack.unpackb(value, use_list=False)
    if tag == _DELIVER:
        return unpack_delivery(position, received_at, *fields)
    if tag == _MIGRATION:
        return MigrationStep(position, MigrationPhase(fields[0]), *fields[1:])
    entry: Entry = _PLAIN[tag](position, *fields)
    return entry


def unpack_delivery(
    position: Position,
    received_at: int,
    epoch: int,
    kind: str,
    subject: str,
    origin: str,
    groups: Any,
    *others: Any,
) -> Deliver:
    ticket, first_id, required, on_failure, confirm, is_migrated, trace = others
    return Deliver(
        position, epoch, _KINDS[kind], subject, origin, received_at, _unpack_groups(groups), ticket, first_id,
        required, _unpack_groups(on_failure), Confirm(*confirm) if confirm else None, is_migrated, trace,
    )  # fmt: skip


def _unpack_groups(packed: Any) -> tuple[Group, ...]:
    return tuple([Group(*group) for group in packed])


def unpack_route(kind: str, subject: str, origin: str, epoch: int, receivers: Any) -> Route:
    groups = [Group(protocol, b"", *others) for protocol, *others in receivers]
    return Route(_KINDS[kind], subject, origin, epoch, tuple(groups))
