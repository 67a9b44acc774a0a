"""Writes the records of `egress`."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gateway.records.egress import Deliver, Entry
from gateway.records.egress_codec.entries import pack_entry
from gateway.records.egress_codec.layout import HEAD_BYTES, MAGIC, OWN_ENTRY, PREFIX, ROW_BYTES, VERSION, Route, packer

_U16, _U32, _I64 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<q")
_NO_PARTS = np.zeros(0xFFFF + 1, "<u4")


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
        packed = pack_entry(entry)
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
        shared = sum(len(route.packed) for route in routes)
        begin, size_before = 0, 0
        while begin < len(frames):
            self._make_room(int(lengths[begin]) + shared, len(routes))
            numbers = np.array([self._number(route) for route in routes], "<u2")
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
        numbered = self._routes.get(id(route))
        if numbered is None:
            numbered = self._routes[id(route)] = len(self._routes), route
            self._size += len(route.packed)
        return numbered[0]

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
                packer.pack_array_header(3),
                packer.pack(partition),
                packer.pack(offset),
                packer.pack_array_header(len(self._routes)),
                *[route.packed for _, route in self._routes.values()],
            )
        )
        prefix = PREFIX.pack(MAGIC, VERSION, self._rows, len(head))
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
