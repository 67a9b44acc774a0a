"""Changes of the interests as records of `raw`: each partition gets them all, as few records as hold them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gateway.records.raw_log.container import MAX_FRAMES, ContainerBuilder
from gateway.records.raw_log.control_frames import MESH
from gateway.records.raw_log.frames import FrameSource

ROUTER = "router"
FRAME_OVERHEAD_BYTES = 14
"""The cost of a frame in a record beside its bytes: its length, its source and its time."""
_SOURCE = FrameSource(MESH, "", ROUTER, 0)


class ChangeFrame(NamedTuple):
    """A change as a frame of the mesh. `received_at` is that of the frame that caused it."""

    received_at: int
    data: bytes


def change_records(changes: Iterable[ChangeFrame], largest: int) -> Iterator[bytes]:
    """Packs changes in their order.

    Args:
        largest: no record is larger, unless a single change is.
    """
    builder, size = ContainerBuilder(ROUTER, 0), 0
    for change in changes:
        more = len(change.data) + FRAME_OVERHEAD_BYTES
        if len(builder) == MAX_FRAMES or (len(builder) and size + more > largest):
            yield builder.build()
            builder, size = ContainerBuilder(ROUTER, 0), 0
        builder.add(_SOURCE, change.received_at, change.data)
        size += more
    if len(builder):
        yield builder.build()
