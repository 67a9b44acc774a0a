"""Finds the sources of datagrams of which nearly everything is refused, so that their edge takes less of them.

Anybody may send 50,000 packets a second, each of which costs the router up to 50 µs: then its lane falls behind, and
all other frames of the partition with it. An edge cannot tell a forged packet from another, because it has no keys.
So the router names the source, by what stands in one raw record alone: the same record gives the same words again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gateway.core.reasons import Stage
from gateway.records.raw_log.container import RecordColumns
from gateway.records.rejected_frame import RefusedFrame

FEWEST_REFUSED = 16
"""A source with fewer refused frames in a record is no flood. Records leave each 3 ms, so that is 5,000 a second."""
SHARE_REFUSED = 0.9
"""Whoever is taken for a flood sends so little that is good. A sender that is trusted and forged by another, from its
own address and port, has to be outnumbered nine times."""


def flooding_sources(
    refusals: Sequence[RefusedFrame], columns: RecordColumns, is_datagram: Callable[[str], bool]
) -> Iterator[tuple[str, str]]:
    """Yields listener and peer of the sources that flood the record with frames that are refused as they stand.

    Args:
        is_datagram: tells whether a protocol has no sessions: those are slowed down by their edge for themselves.
    """
    if len(refusals) < FEWEST_REFUSED:
        return
    refused_by = Counter(
        (refusal.listener, refusal.peer)
        for refusal in refusals
        if refusal.stage == Stage.DECODE and is_datagram(refusal.protocol)
    )
    frames_of = np.bincount(columns.source, minlength=len(columns.sources)).tolist()
    sent_by: Counter[tuple[str, str]] = Counter()
    for source, frames in zip(columns.sources, frames_of, strict=True):
        sent_by[source.listener, source.peer] += frames
    for source_name, refused in refused_by.items():
        if refused >= max(FEWEST_REFUSED, SHARE_REFUSED * sent_by[source_name]):
            yield source_name
