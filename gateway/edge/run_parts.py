"""Cuts a run of frames, and the replies of a frame, into parts that each fit into one record of the raw log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, takewhile

from gateway.records.raw_log.container import FRAME_BYTES, INDEX_BYTES

RUN_FRAMES = 8_192
"""Longer runs are cut: a record holds 65,535 frames at most."""
REPLIES_BYTES = 32_768
"""A frame that answers more requests than fit into this is logged once for each part of them. A peer may have 65,536
requests open, of several hundred bytes each, and answer or abandon all of them with one frame. Half of what a record
keeps free beside the largest frame (`RECORD_OVERHEAD_BYTES`)."""

Settled = Callable[[bool], None]
"""Is called once for a run: with True if Kafka has it, with False if Kafka never will."""


class WholeRun:
    """Settles a run that was cut into parts, once and with its last part: accepted if Kafka has all of them."""

    def __init__(self, settled: Settled, parts: int) -> None:
        self._settled = settled
        self._parts_left = parts
        self._is_accepted = True

    def settle_part(self, accepted: bool) -> None:
        """Counts one part as settled, and settles the run with the last one."""
        self._parts_left -= 1
        self._is_accepted = self._is_accepted and accepted
        if not self._parts_left:
            self._settled(self._is_accepted)


def parts_of_run(data: bytes, lengths: tuple[int, ...], part_bytes: int) -> Iterator[tuple[bytes, tuple[int, ...]]]:
    """Yields the run in parts that each fit into one record: their bytes, and the lengths of their frames."""
    while len(lengths) > (count := frames_that_fit(lengths, len(data), RUN_FRAMES, part_bytes)):
        size = sum(lengths[:count])
        yield data[:size], lengths[:count]
        data, lengths = data[size:], lengths[count:]
    yield data, lengths


def frames_that_fit(lengths: Sequence[int], size: int, most: int, part_bytes: int) -> int:
    """Returns how many of the frames may go into one record together: at least one, however large it is.

    Args:
        size: the bytes of all frames.
        most: never more frames than this.
        part_bytes: the bytes of one record.
    """
    if size + FRAME_BYTES * len(lengths) <= part_bytes:
        return min(len(lengths), most)
    ends = accumulate(length + FRAME_BYTES for length in lengths)
    return min(max(sum(1 for _ in takewhile(part_bytes.__ge__, ends)), 1), most)


def parts_of_replies(packed_replies: list[bytes]) -> Iterator[list[bytes]]:
    """Yields the replies in parts that each fit into a record beside a frame; one empty part if there are none."""
    part: list[bytes] = []
    size = 0
    for packed in packed_replies:
        size += len(packed) + INDEX_BYTES
        if size > REPLIES_BYTES and part:
            yield part
            part, size = [], len(packed) + INDEX_BYTES
        part.append(packed)
    yield part
