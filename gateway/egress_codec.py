"""The record format of `egress`: all that one raw record means to one edge, in columns.

    b"MGE" | u8 version | u32 n | u32 head length | head
    | u16 index[n] | u32 part[n] | u16 route[n] | u32 length[n] | i64 received[n] | n values, side by side
                                                                                              (little-endian)

The head is msgpack: `[partition, offset, routes]`. Row by row, in the order of their positions, stand the entries that
the raw record made for this edge. Index and part complete an entry's position. Most entries are plain deliveries of one
frame; what such deliveries share (subject, origin, receivers) stands once in the head, as a *route*, and the row has
its number and the frame. Any other entry has the route number OWN_ENTRY, and its value is the entry in msgpack.

A raw record gives one Kafka record for each edge, or several where one would be larger than `kafka.message_bytes`. All
of them name the same raw record. A position may therefore fall inside a record: `EgressRecord.after` cuts there.

Version 1 held a single entry, as one msgpack array. It is still read, so that a router can be upgraded under load.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from gateway.egress import (
    Confirm,
    Deliver,
    EdgeRestarted,
    Entry,
    Group,
    InterestApplied,
    MigrationStep,
    Position,
    RecordConfirmed,
    Step,
)
from gateway.event import Kind
from gateway.reasons import Reason, Rejected

MAGIC = b"MGE"
VERSION = 2
OWN_ENTRY = 0xFFFF
"""As a route number: the row's value is a whole entry and not a frame."""
ROW_BYTES = 2 + 4 + 2 + 4 + 8
HEAD_BYTES = 64
"""At most so many bytes stand before the routes: the prefix, two numbers and the beginnings of two arrays."""
KNOWN_ROUTE_BYTES = 2_097_152
"""Of routes in their packed form that a reader remembers. In memory they take about ten times as much."""

_PREFIX = struct.Struct("<3sBII")
_U16, _U32, _I64 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<q")
_KINDS = {kind.value: kind for kind in Kind}
_NO_PARTS = np.zeros(0xFFFF + 1, "<u4")
_packer = msgpack.Packer()
"""Kept, because making one takes a third of the time of packing. Records are written in one thread."""


class Route:
    """What many deliveries share: all of an entry but its position, its time and its frame.

    The frames of `groups` are empty: every row brings its own. `packed` is the form in which a record's head has it.
    """

    __slots__ = ("epoch", "groups", "kind", "origin", "packed", "subject")

    def __init__(self, kind: Kind, subject: str, origin: str, epoch: int, groups: tuple[Group, ...]) -> None:
        self.kind, self.subject, self.origin, self.epoch, self.groups = kind, subject, origin, epoch, groups
        receivers = [(g.protocol, g.stamps, g.sessions, g.addresses, g.request, g.reply, g.owed) for g in groups]
        self.packed: bytes = _packer.pack((kind.value, subject, origin, epoch, receivers))

    def delivery(self, position: Position, received_at: int, frame: bytes) -> Deliver:
        """The entry that a row of this route stands for."""
        groups = [
            Group(g.protocol, frame, g.stamps, g.sessions, g.addresses, g.request, g.reply, g.owed)
            for g in self.groups
        ]  # fmt: skip
        return Deliver(position, self.epoch, self.kind, self.subject, self.origin, received_at, tuple(groups))


# -- writing -----------------------------------------------------------------------------------------------------------


class EgressBuilder:
    """Collects the entries of one raw record for one edge, in the order of their positions.

    Args:
        largest: no Kafka record that `finish` returns is larger, unless a single entry is.
    """

    def __init__(self, partition: int, offset: int, largest: int) -> None:
        self._place = partition, offset
        self._largest = largest
        self._records: list[bytes] = []
        self._begin()

    def _begin(self) -> None:
        self._size = HEAD_BYTES
        self._rows = 0
        self._routes: dict[int, tuple[int, Route]] = {}  # by identity: a route is made once and kept by its maker
        self._index, self._part, self._route = bytearray(), bytearray(), bytearray()
        self._length, self._received = bytearray(), bytearray()
        self._values: list[bytes] = []

    def deliver(self, index: int, part: int, route: Route, received_at: int, frame: bytes) -> None:
        """Adds a plain delivery."""
        self._make_room(len(frame) + len(route.packed))
        self._add_row(index, part, self._number(route), received_at, frame)

    def add(self, entry: Entry) -> None:
        """Adds an entry of any kind."""
        packed = _pack_entry(entry)
        self._make_room(len(packed))
        received_at = entry.received_at if isinstance(entry, Deliver) else 0
        self._add_row(entry.position.index, entry.position.part, OWN_ENTRY, received_at, packed)

    def deliver_run(
        self,
        index: NDArray[np.uint16],
        route: NDArray[np.intp],
        routes: Sequence[Route],
        received_at: NDArray[np.int64],
        frames: Sequence[bytes],
    ) -> None:
        """Adds a plain delivery for each of many frames, each of which made nothing else for this edge.

        Args:
            route: for each frame, the place of its route in `routes`.
        """
        lengths = np.fromiter(map(len, frames), "<u4", len(frames))
        sizes = np.cumsum(lengths + np.uint32(ROW_BYTES), dtype=np.int64)
        shared = sum(len(one.packed) for one in routes)
        begin, size_before = 0, 0
        while begin < len(frames):
            self._make_room(int(lengths[begin]) + shared, len(routes))
            numbers = np.array([self._number(one) for one in routes], "<u2")
            room = self._largest - self._size + size_before
            end = max(int(np.searchsorted(sizes, room, side="right")), begin + 1)
            self._index += index[begin:end].astype("<u2", copy=False).tobytes()
            self._part += _NO_PARTS[: end - begin].tobytes()
            self._route += numbers[route[begin:end]].tobytes()
            self._length += lengths[begin:end].tobytes()
            self._received += received_at[begin:end].astype("<i8", copy=False).tobytes()
            self._values += frames[begin:end]
            self._rows += end - begin
            self._size += int(sizes[end - 1]) - size_before
            begin, size_before = end, int(sizes[end - 1])

    def _number(self, route: Route) -> int:
        known = self._routes.get(id(route))
        if known is None:
            known = self._routes[id(route)] = len(self._routes), route
            self._size += len(route.packed)
        return known[0]

    def _make_room(self, size: int, routes: int = 1) -> None:
        """Closes the record that an entry of this size does not fit into any more."""
        is_full = self._size + size + ROW_BYTES > self._largest or len(self._routes) + routes > OWN_ENTRY
        if self._rows and is_full:
            self._close()

    def _add_row(self, index: int, part: int, route: int, received_at: int, value: bytes) -> None:
        received = _I64.pack(received_at)  # first: where it fails no column has grown
        self._index += _U16.pack(index)
        self._part += _U32.pack(part)
        self._route += _U16.pack(route)
        self._length += _U32.pack(len(value))
        self._received += received
        self._values.append(value)
        self._rows += 1
        self._size += len(value) + ROW_BYTES

    def _close(self) -> None:
        partition, offset = self._place
        head = b"".join(
            (
                _packer.pack_array_header(3),
                _packer.pack(partition),
                _packer.pack(offset),
                _packer.pack_array_header(len(self._routes)),
                *[route.packed for _, route in self._routes.values()],
            )
        )
        prefix = _PREFIX.pack(MAGIC, VERSION, self._rows, len(head))
        columns = self._index, self._part, self._route, self._length, self._received
        self._records.append(b"".join((prefix, head, *columns, *self._values)))
        self._begin()

    def finish(self) -> list[bytes]:
        """Returns the Kafka records, in their order."""
        if self._rows:
            self._close()
        return self._records


def encode(entry: Entry) -> bytes:
    """Returns a record of one entry."""
    builder = EgressBuilder(entry.position.partition, entry.position.offset, 0)
    builder.add(entry)
    return builder.finish()[0]


_DELIVER, _APPLIED, _CONFIRMED, _RESTARTED, _MIGRATION = range(5)


def _pack_entry(entry: Entry) -> bytes:
    """All but position and time, which the columns have."""
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
    packed: bytes = _packer.pack(fields)
    return packed


def _pack_groups(groups: Iterable[Group]) -> list[tuple[object, ...]]:
    return [(g.protocol, g.frame, g.stamps, g.sessions, g.addresses, g.request, g.reply, g.owed) for g in groups]


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class EgressRecord:
    """A record that was read. The columns have one item for each entry.

    `ends` says where in `data` each value ends; a value begins where the one before it ends, the first at `begin`.
    `own` holds the entries that are no plain deliveries, by row.
    """

    partition: int
    offset: int
    routes: tuple[Route, ...]
    index: NDArray[np.uint16]
    part: NDArray[np.uint32]
    route: NDArray[np.uint16]
    received_at: NDArray[np.int64]
    ends: NDArray[np.int64]
    begin: int
    data: bytes = field(repr=False)
    own: dict[int, Entry] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[Entry]:
        """All entries, in the order of their positions."""
        return self.entries(0, len(self))

    def entries(self, begin: int, end: int) -> Iterator[Entry]:
        """The entries of some rows."""
        rows = slice(begin, end)
        columns = [column[rows].tolist() for column in (self.index, self.part, self.route, self.received_at, self.ends)]
        at = int(self.ends[begin - 1]) if begin else self.begin
        for row, (index, part, route, received_at, frame_end) in enumerate(zip(*columns, strict=True), begin):
            if route == OWN_ENTRY:
                yield self.own[row]
            else:
                position = Position(self.partition, self.offset, index, part)
                yield self.routes[route].delivery(position, received_at, self.data[at:frame_end])
            at = frame_end

    def delivery(self, row: int) -> Deliver:
        """The entry that a row with a route stands for."""
        route = self.routes[int(self.route[row])]
        return route.delivery(self.position(row), int(self.received_at[row]), self.frame(row))

    def frame(self, row: int) -> bytes:
        """The value of a row: a frame, where the row is a plain delivery."""
        return self.data[int(self.ends[row - 1]) if row else self.begin : int(self.ends[row])]

    def frame_places(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where in `data` the values of these rows begin, and how long they are."""
        begins = np.empty_like(self.ends)
        begins[0], begins[1:] = self.begin, self.ends[:-1]
        starts = begins[rows]
        return starts, self.ends[rows] - starts

    def position(self, row: int) -> Position:
        return Position(self.partition, self.offset, int(self.index[row]), int(self.part[row]))

    def after(self, position: Position | None) -> EgressRecord:
        """The record without its entries at or before this position of its own raw partition."""
        if position is None or (self.partition, self.offset) > (position.partition, position.offset):
            return self
        if self.offset < position.offset:
            return self._from(len(self))
        keys = _order(self.index, self.part)
        return self._from(int(np.searchsorted(keys, position.index << 32 | position.part, side="right")))

    def _from(self, row: int) -> EgressRecord:
        if row == 0:
            return self
        return EgressRecord(
            self.partition, self.offset, self.routes, self.index[row:], self.part[row:], self.route[row:],
            self.received_at[row:], self.ends[row:], int(self.ends[row - 1]), self.data,
            {at - row: entry for at, entry in self.own.items() if at >= row},
        )  # fmt: skip


def _order(index: NDArray[np.uint16], part: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Numbers that are in the order of the positions."""
    return index.astype(np.int64) << 32 | part


def decode(data: bytes) -> EgressRecord:
    """Reads a record; raises Rejected for what no router of this version or the one before it wrote."""
    try:
        return _decode(data) if data[:3] == MAGIC else _decode_first_version(data)
    except (LookupError, ValueError, TypeError, struct.error, msgpack.exceptions.UnpackException) as error:
        raise Rejected(Reason.MALFORMED, f"egress record: {type(error).__name__}") from None


def _decode(data: bytes) -> EgressRecord:
    _, version, count, head_bytes = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise _unsupported(version)
    at = _PREFIX.size + head_bytes
    partition, offset, routes = _read_head(data[_PREFIX.size : at])
    index = np.frombuffer(data, "<u2", count, at)
    part = np.frombuffer(data, "<u4", count, at + 2 * count)
    route = np.frombuffer(data, "<u2", count, at + 6 * count)
    lengths = np.frombuffer(data, "<u4", count, at + 8 * count)
    received_at = np.frombuffer(data, "<i8", count, at + 12 * count)
    begin = at + ROW_BYTES * count
    ends = lengths.cumsum(dtype=np.int64)
    ends += begin
    if not (isinstance(partition, int) and isinstance(offset, int)):
        raise TypeError
    if (int(ends[-1]) if count else begin) != len(data):
        raise ValueError
    order = _order(index, part)
    if not (order[1:] > order[:-1]).all():
        raise ValueError
    record = EgressRecord(partition, offset, routes, index, part, route, received_at, ends, begin, data)
    if count and int(route.max()) >= len(routes):
        _read_own(record)
    return record


def _read_own(record: EgressRecord) -> None:
    """Reads the entries of rows without a route."""
    is_own = record.route == OWN_ENTRY
    if (record.route[~is_own] >= len(record.routes)).any():
        raise ValueError
    for row in np.flatnonzero(is_own).tolist():
        record.own[row] = _unpack_entry(record.position(row), int(record.received_at[row]), record.frame(row))


def _read_head(head: bytes) -> tuple[Any, Any, tuple[Route, ...]]:
    """Returns partition, offset and routes. A route is the same object as in earlier records that had it."""
    unpacker = msgpack.Unpacker(use_list=False)
    unpacker.feed(head)
    if unpacker.read_array_header() != 3:
        raise ValueError
    partition, offset = unpacker.unpack(), unpacker.unpack()
    routes = []
    for _ in range(unpacker.read_array_header()):
        begin = unpacker.tell()
        unpacker.skip()
        routes.append(_known_routes[head[begin : unpacker.tell()]])
    if unpacker.tell() != len(head):
        raise ValueError
    return partition, offset, tuple(routes)


class _KnownRoutes(dict[bytes, Route]):
    """Routes by their packed form. What was read once is kept, up to `KNOWN_ROUTE_BYTES`: then it starts over."""

    _bytes = 0

    def __missing__(self, packed: bytes) -> Route:
        route = _unpack_route(*msgpack.unpackb(packed, use_list=False))
        self._bytes += len(packed)
        if self._bytes > KNOWN_ROUTE_BYTES:
            self.clear()
            self._bytes = len(packed)
        self[packed] = route
        return route


_known_routes = _KnownRoutes()


def _unsupported(version: object) -> Rejected:
    return Rejected(Reason.UNSUPPORTED_VERSION, f"egress version {version}; this build reads 1 and {VERSION}")


def _unpack_route(kind: str, subject: str, origin: str, epoch: int, receivers: Any) -> Route:
    groups = [Group(protocol, b"", *others) for protocol, *others in receivers]
    return Route(_KINDS[kind], subject, origin, epoch, tuple(groups))


def _unpack_entry(position: Position, received_at: int, value: bytes) -> Entry:
    tag, *fields = msgpack.unpackb(value, use_list=False)
    if tag == _DELIVER:
        return _unpack_delivery(position, received_at, *fields)
    if tag == _MIGRATION:
        return MigrationStep(position, Step(fields[0]), *fields[1:])
    make: Any = {_APPLIED: InterestApplied, _CONFIRMED: RecordConfirmed, _RESTARTED: EdgeRestarted}[tag]
    entry: Entry = make(position, *fields)
    return entry


def _unpack_delivery(
    position: Position, received_at: int, epoch: int, kind: str, subject: str, origin: str, groups: Any,
    *others: Any,
) -> Deliver:  # fmt: skip
    ticket, first_id, required, on_failure, confirm, is_migrated, trace = others
    return Deliver(
        position, epoch, _KINDS[kind], subject, origin, received_at, _unpack_groups(groups), ticket, first_id,
        required, _unpack_groups(on_failure), Confirm(*confirm) if confirm else None, is_migrated, trace,
    )  # fmt: skip


def _unpack_groups(packed: Any) -> tuple[Group, ...]:
    return tuple([Group(*group) for group in packed])


# -- version 1 ---------------------------------------------------------------------------------------------------------

_FIRST_VERSION = 1
_RARE: tuple[Any, ...] = ("", 0, (), None, None, None, None, "")
"""What few records of version 1 have. Where one ends sooner, these are its values."""


def _decode_first_version(data: bytes) -> EgressRecord:
    fields = msgpack.unpackb(data, use_list=False)
    if fields[0] != _FIRST_VERSION:
        raise _unsupported(fields[0])
    _, place, epoch, kind, subject, origin, received_at, groups, applied, ticket, *rare = fields
    position = Position(*place)
    first_id, required, on_failure, confirm, confirmed, moved, begun, trace = [*rare, *_RARE[len(rare) :]][: len(_RARE)]
    entry: Entry
    if applied:
        entry = InterestApplied(position, *applied)
    elif confirmed:
        ticket, part, failed = confirmed
        entry = RecordConfirmed(position, ticket, "", part, failed)
    elif begun:
        entry = EdgeRestarted(position, *begun)
    elif moved and moved[0] != "given":
        entry = MigrationStep(position, Step(moved[0]), *moved[1:])
    else:
        others = ticket, first_id, required, on_failure, confirm, bool(moved), trace
        entry = _unpack_delivery(position, received_at, epoch, kind, subject, origin, groups, *others)
    return record_of(entry)


def record_of(entry: Entry) -> EgressRecord:
    """A record of one entry, as it would be read."""
    return _decode(encode(entry))
