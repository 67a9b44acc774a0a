"""The topics of a mesh: one table of what each holds, how long it is kept, who writes it and who reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

TopicName = Literal["raw", "egress", "events", "rejected", "interests", "deliveries"]
Part = Literal["edge", "router", "rules"]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of the mesh.

    Args:
        key: what decides the partition of a record, or its key.
        retention_hours: how long records are kept; None for a compacted topic, which keeps the last of each key.
        share_percent: its part of what all topics may take on disk. Whole numbers, because the chart computes the same.
        writers: the parts of the mesh that write it.
        readers: the parts of the mesh that read it. Commands read all topics.
    """

    key: str
    retention_hours: float | None
    share_percent: int
    writers: frozenset[Part]
    readers: frozenset[Part]

    @property
    def is_compacted(self) -> bool:
        return self.retention_hours is None


def _parts(*parts: Part) -> frozenset[Part]:
    return frozenset(parts)


TOPICS: Mapping[TopicName, Topic] = {
    "raw": Topic("the CRC of the sender's node", 7 * 24, 50, _parts("edge", "router", "rules"), _parts("router")),
    "egress": Topic("the edge's ordinal", 24, 10, _parts("router"), _parts("edge")),
    "events": Topic("the node, or the raw partition for a batch", 7 * 24, 25, _parts("router"), _parts("rules")),
    "rejected": Topic("none", 30 * 24, 5, _parts("router", "edge"), _parts()),
    "interests": Topic("subscriber, verb, group, pattern", None, 0, _parts("router"), _parts("router", "rules")),
    "deliveries": Topic("one partition an edge", 7 * 24, 10, _parts("edge", "router"), _parts("edge")),
}
"""The raw log and what was made of it are kept equally long, or `audit` could not compare them. Refusals are kept
longer, because they wait for a person. Egress only has to outlive an edge's restart. An event takes about half of its
frame's container; what is compacted stays small."""
