"""Reads the records of `egress`, of this version and of the first."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from gateway.core.reasons import Reason, Rejected
from gateway.records.egress import Deliver, Entry, Position
from gateway.records.egress_codec.entries import unpack_entry, unpack_route
from gateway.records.egress_codec.first_version import read_first_version
from gateway.records.egress_codec.layout import MAGIC, OWN_ENTRY, PREFIX, ROW_BYTES, VERSION, Route, unsupported_version
from gateway.records.egress_codec.writing import encode

KNOWN_ROUTE_BYTES = 2_097_152
"""The most bytes of packed routes that a reader remembers. In memory they take about ten times as much."""


@dataclass(slots=True)
class EgressRecord:
    """A record as it was read. The columns have one item for each entry.

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
        """Yields all entries, in the order of their positions."""
        return self.entries(0, len(self))

    def entries(self, begin: int, end: int) -> Iterator[Entry]:
        """Yields the entries of some rows."""
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
        """Returns the entry that a row with a route stands for."""
        route = self.routes[int(self.route[row])]
        return route.delivery(self.position(row), int(self.received_at[row]), self.frame(row))

    def frame(self, row: int) -> bytes:
        """Returns the value of a row: a frame, if the row is a plain delivery."""
        return self.data[int(self.ends[row - 1]) if row else self.begin : int(self.ends[row])]

    def frame_places(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns where in `data` the values of these rows begin, and how long they are."""
        begins = np.empty_like(self.ends)
        begins[0], begins[1:] = self.begin, self.ends[:-1]
        starts = begins[rows]
        return starts, self.ends[rows] - starts

    def position(self, row: int) -> Position:
        return Position(self.partition, self.offset, int(self.index[row]), int(self.part[row]))

    def after(self, position: Position | None) -> EgressRecord:
        """Returns the record without its entries at or before this position of its own raw partition."""
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
    """Returns numbers that are in the order of the positions."""
    return index.astype(np.int64) << 32 | part


def decode(data: bytes) -> EgressRecord:
    """Reads a record; raises Rejected for what no router of this version or the one before it wrote."""
    try:
        return _decode(data) if data[:3] == MAGIC else record_of(read_first_version(data))
    except (LookupError, ValueError, TypeError, struct.error, msgpack.exceptions.UnpackException) as error:
        raise Rejected(Reason.MALFORMED, f"egress record: {type(error).__name__}") from None


def is_newer(data: bytes) -> bool:
    """True if a build after this one wrote the record."""
    return data[:3] == MAGIC and data[3:4] > bytes([VERSION])


def _decode(data: bytes) -> EgressRecord:
    _, version, count, head_bytes = PREFIX.unpack_from(data)
    if version != VERSION:
        raise unsupported_version(version)
    at = PREFIX.size + head_bytes
    partition, offset, routes = _read_head(data[PREFIX.size : at])
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
        record.own[row] = unpack_entry(record.position(row), int(record.received_at[row]), record.frame(row))


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
        route = unpack_route(*msgpack.unpackb(packed, use_list=False))
        self._bytes += len(packed)
        if self._bytes > KNOWN_ROUTE_BYTES:
            self.clear()
            self._bytes = len(packed)
        self[packed] = route
        return route


_known_routes = _KnownRoutes()


def record_of(entry: Entry) -> EgressRecord:
    """Returns a record of one entry, as it would be read."""
    return _decode(encode(entry))
