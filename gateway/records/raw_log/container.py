"""The record format of the raw log: many frames in one Kafka record, in columns.

    b"MGR" | u8 version | u32 n | u32 head length | head
    | u32 lengths[n] | u16 source[n] | i64 received[n] | the frames, side by side                      (little-endian)

The head is msgpack: `[edge, epoch, sources, replies]`. A source says where frames came from, and stands once per
record; `replies` maps a frame's index to the requests that it answers. A record holds all that decoding needs: no
record depends on another, and `<partition>-<offset>-<index>` names a frame for ever.

In version 2 a fifth part of the head, `agains`, maps the index of a frame that stands here once more to what is known
of its first time. Only such records are written as version 2, so that an older build reads all others.

Why not a record per frame: it costs the producer 17 to 27 times more CPU.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from gateway.core.event import Auth
from gateway.core.reasons import Reason, Rejected
from gateway.records.raw_log.frames import NO_FACTS, FrameSource, RawFrame, Replayed, Reply, unpack_reply

MAGIC = b"MGR"
VERSION, VERSION_AGAIN = 1, 2
MAX_FRAMES = 65_535
"""The most frames of one record. A record closes at 200 frames; what is beyond this was not written by an edge."""

_PREFIX = struct.Struct("<3sBII")
FRAME_BYTES = 4 + 2 + 8
"""The cost of each frame in a record beside its bytes: its length, its source's number, its time."""
INDEX_BYTES = 5
"""The longest form in which msgpack writes a number of 32 bits, or the length of a list or of bytes."""
_HEAD_BYTES = 6 * INDEX_BYTES
"""The bytes that msgpack writes around the parts of a head."""
_SOURCE_TYPES = (str, str, str, int, int, str, str, str, dict)


@dataclass(slots=True)
class RawRecord:
    """A record read back."""

    edge: str
    epoch: int
    frames: tuple[RawFrame, ...]


class ContainerBuilder:
    """Collects frames until somebody closes the record with `build`.

    `size` counts everything that stands in the record: it is never less than what `build` returns, and little more.
    """

    __slots__ = (
        "_agains", "_bodies", "_edge_and_epoch", "_lengths", "_received", "_replies", "_source_index", "_sources",
        "size",
    )  # fmt: skip

    def __init__(self, edge: str, epoch: int) -> None:
        self._edge_and_epoch = msgpack.packb(edge) + msgpack.packb(epoch)
        self._clear()

    def _clear(self) -> None:
        self.size = _PREFIX.size + _HEAD_BYTES + len(self._edge_and_epoch)
        self._bodies: list[bytes] = []
        self._lengths: list[int] = []
        self._received: list[int] = []
        self._source_index: list[int] = []
        self._sources: dict[int, tuple[int, FrameSource]] = {}  # by identity: hashing every field would cost more
        self._replies: dict[int, Sequence[bytes]] = {}
        self._agains: dict[int, Replayed] = {}

    def __len__(self) -> int:
        return len(self._lengths)

    def add(self, source: FrameSource, received_at: int, frame: bytes) -> None:
        """Adds one frame."""
        self._source_index.append(self._index(source))
        self._bodies.append(frame)
        size = len(frame)
        self._lengths.append(size)
        self._received.append(received_at)
        self.size += size + FRAME_BYTES

    def add_columns(
        self, sources: Iterable[FrameSource], received_at: int, lengths: Sequence[int], data: bytes
    ) -> None:
        """Adds frames side by side that were received at once, each with a source of its own: the datagram path."""
        self._source_index += map(self._index, sources)
        self._bodies.append(data)
        self._lengths += lengths
        self._received += [received_at] * len(lengths)
        self.size += len(data) + FRAME_BYTES * len(lengths)

    def add_run(
        self,
        source: FrameSource,
        received_at: int,
        data: bytes,
        lengths: tuple[int, ...],
        packed_replies: Sequence[bytes] = (),
    ) -> None:
        """Adds frames of one source, side by side, received at once; the replies belong to each of them."""
        count = len(lengths)
        if packed_replies:
            self._replies.update((index, packed_replies) for index in range(len(self), len(self) + count))
            self.size += size_of_replies(packed_replies) * count
        self._source_index.extend([self._index(source)] * count)
        self._bodies.append(data)
        self._lengths.extend(lengths)
        self._received.extend([received_at] * count)
        self.size += len(data) + FRAME_BYTES * count

    def add_again(self, frame: RawFrame, again: Replayed) -> None:
        """Adds a frame of an earlier record once more, as it was received."""
        self._agains[len(self)] = again
        self.size += INDEX_BYTES + len(msgpack.packb(again.pack()))
        packed_replies = [reply.pack() for reply in frame.replies]
        self.add_run(frame.source, frame.received_at, frame.data, (len(frame.data),), packed_replies)

    def received(self) -> list[tuple[FrameSource, int]]:
        """Returns for each frame so far where it came from, and when."""
        sources = [source for _, source in self._sources.values()]
        return [(sources[index], at) for index, at in zip(self._source_index, self._received, strict=True)]

    def _index(self, source: FrameSource) -> int:
        indexed = self._sources.get(id(source))
        if indexed is None:
            indexed = self._sources[id(source)] = len(self._sources), source
            self.size += len(source.pack())
        return indexed[0]

    def build(self) -> bytes:
        """Returns the record, and empties the builder."""
        count = len(self._lengths)
        head = self._head()
        record = b"".join(
            (
                _PREFIX.pack(MAGIC, VERSION_AGAIN if self._agains else VERSION, count, len(head)),
                head,
                struct.pack(f"<{count}I", *self._lengths),
                struct.pack(f"<{count}H", *self._source_index),
                struct.pack(f"<{count}q", *self._received),
                *self._bodies,
            )
        )
        self._clear()
        return record

    def _head(self) -> bytes:
        array = msgpack.Packer().pack_array_header
        sources = [source.pack() for _, source in self._sources.values()]
        parts = [array(4), self._edge_and_epoch, array(len(sources)), *sources, msgpack.packb(self._replies)]
        if self._agains:
            parts[0] = array(5)
            parts.append(msgpack.packb({index: again.pack() for index, again in self._agains.items()}))
        return b"".join(parts)


def size_of_replies(packed_replies: Sequence[bytes]) -> int:
    """Returns how many bytes the replies of one frame take in a record."""
    return (len(packed_replies) + 2) * INDEX_BYTES + sum(map(len, packed_replies))


def decode_record(record: bytes | bytearray) -> RawRecord:
    """Reads a record; raises Rejected for anything an edge did not write."""
    columns = read_columns(record)
    return RawRecord(columns.edge, columns.epoch, tuple(columns.frames()))


@dataclass(slots=True)
class RecordColumns:
    """A record that was read, in columns with one item for each frame. A RawFrame is made where somebody asks for one.

    Args:
        source: for each frame, the place of its source in `sources`.
        starts: where in `data` each frame begins.
        replies, agains: what stands beside some of the frames, by their index.
    """

    edge: str
    epoch: int
    sources: tuple[FrameSource, ...]
    lengths: NDArray[np.uint32]
    source: NDArray[np.uint16]
    received_at: NDArray[np.int64]
    starts: NDArray[np.int64]
    replies: Mapping[int, tuple[Reply, ...]]
    agains: Mapping[int, Replayed]
    data: bytes = field(repr=False)
    _between: tuple[int, int] | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def received_between(self) -> tuple[int, int]:
        """Returns the first and the last time at which a frame of the record was received."""
        if self._between is None:
            times = self.received_at.tolist()
            self._between = min(times), max(times)
        return self._between

    def frame(self, index: int) -> RawFrame:
        start = int(self.starts[index])
        return RawFrame(
            self.data[start : start + int(self.lengths[index])],
            self.sources[self.source[index]],
            int(self.received_at[index]),
            self.replies.get(index, ()),
            self.agains.get(index),
        )

    def frames(self) -> list[RawFrame]:
        data, sources, replies, agains = self.data, self.sources, self.replies, self.agains
        frames: list[RawFrame] = []
        ends = (self.starts + self.lengths).tolist()
        rows = zip(self.starts.tolist(), ends, self.source.tolist(), self.received_at.tolist(), strict=True)
        for index, (start, end, source, received_at) in enumerate(rows):
            replied = replies.get(index, ()) if replies else ()
            again = agains.get(index) if agains else None
            frames.append(RawFrame(data[start:end], sources[source], received_at, replied, again))
        return frames


def read_columns(record: bytes | bytearray) -> RecordColumns:
    """Reads a record; raises Rejected for anything an edge did not write."""
    data = bytes(record)  # Spark hands over a bytearray, and what is cut out of one is another
    count, head, columns_at = _split(data)
    lengths = np.frombuffer(data, "<u4", count, columns_at)
    bodies_at = columns_at + count * FRAME_BYTES
    ends = np.cumsum(lengths, dtype=np.int64) + bodies_at
    if (int(ends[-1]) if count else bodies_at) != len(data):
        raise Rejected(Reason.TRUNCATED, "the frames do not fill the record")
    try:
        edge, epoch, packed_sources, packed_replies, *more = msgpack.unpackb(head, strict_map_key=False, use_list=False)
        sources = tuple([_unpack_source(edge, epoch, packed) for packed in packed_sources])
        replies = {at: tuple(map(unpack_reply, packed)) for at, packed in packed_replies.items()}
        agains = {at: Replayed.unpack(*packed) for at, packed in (more[0] if more else {}).items()}
        source = np.frombuffer(data, "<u2", count, columns_at + 4 * count)
        if count and (int(source.max()) >= len(sources) or not agains.keys() <= set(range(count))):
            raise IndexError
    except (ValueError, TypeError, IndexError, AttributeError, msgpack.exceptions.UnpackException) as error:
        raise Rejected(Reason.MALFORMED, f"record head: {type(error).__name__}") from None
    received_at = np.frombuffer(data, "<i8", count, columns_at + 6 * count)
    return RecordColumns(edge, epoch, sources, lengths, source, received_at, ends - lengths, replies, agains, data)


def _split(data: bytes) -> tuple[int, bytes, int]:
    """Returns the number of frames, the head, and where the columns begin."""
    if len(data) < _PREFIX.size:
        raise Rejected(Reason.TRUNCATED, "shorter than a record's prefix")
    magic, version, count, head_size = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise Rejected(Reason.MALFORMED, "not a record of the raw log")
    if version not in (VERSION, VERSION_AGAIN):
        raise Rejected(
            Reason.UNSUPPORTED_VERSION, f"record version {version}; this build reads {VERSION} to {VERSION_AGAIN}"
        )
    columns_at = _PREFIX.size + head_size
    if count > MAX_FRAMES or columns_at + count * FRAME_BYTES > len(data):
        raise Rejected(Reason.TRUNCATED, "the record ends inside its columns")
    return count, data[_PREFIX.size : columns_at], columns_at


SOURCES_REMEMBERED = 16_384
"""The most sources without facts that are remembered: all datagrams, and a record may have a hundred of them."""


def _unpack_source(edge: str, epoch: int, packed: Iterable[Any]) -> FrameSource:
    *fields, facts = packed
    return _source(edge, epoch, tuple(fields), facts) if facts else _plain_source(edge, epoch, tuple(fields))


@lru_cache(maxsize=SOURCES_REMEMBERED)
def _plain_source(edge: str, epoch: int, fields: tuple[Any, ...]) -> FrameSource:
    return _source(edge, epoch, fields, {})


def _source(edge: str, epoch: int, fields: tuple[Any, ...], facts: dict[str, Any]) -> FrameSource:
    """Returns the source of the fields that `FrameSource.pack` packs, in their order."""
    protocol, listener, session, peer, node, auth, key_id = fields
    given = (protocol, listener, edge, epoch, session, peer, node, key_id, facts)
    if tuple(map(type, given)) != _SOURCE_TYPES:
        raise TypeError("a source has fields of other types, as no edge writes them")
    source_facts = facts or NO_FACTS
    return FrameSource(protocol, listener, edge, epoch, session, peer, node, Auth(auth), key_id, source_facts)
