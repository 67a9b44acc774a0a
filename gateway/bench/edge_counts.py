"""Reads the edge's own counters of a run's frames. If frames are missing, they count those it never took."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.core.errors import SetupError
from gateway.inspect.live.exposition import read_samples
from gateway.inspect.live.mesh_parts import MeshPart

COUNTED = {
    "meshgate_received_frames_total": "received",
    "meshgate_udp_kernel_dropped_total": "kernel_dropped",
    "meshgate_rejected_frames_total": "rejected",
    "meshgate_egress_delivered_total": "delivered",
}
_DETAILS = ("reason", "outcome")


def read(edge: MeshPart | None) -> dict[str, float]:
    """Returns the counters by name, over all listeners; empty if no edge answers."""
    if edge is None:
        return {}
    try:
        return counts(edge.text("/metrics"))
    except SetupError:
        return {}


def counts(exposition: str) -> dict[str, float]:
    """Returns the counters in the text of `/metrics`.

    >>> counts('# TYPE meshgate_rejected_frames counter\\nmeshgate_rejected_frames_total{reason="overload"} 3.0\\n')
    {'rejected overload': 3.0}
    """
    totals: dict[str, float] = {}
    for sample in read_samples(exposition):
        if sample.name in COUNTED:
            details = (sample.labels[label] for label in _DETAILS if label in sample.labels)
            name = " ".join((COUNTED[sample.name], *details))
            totals[name] = totals.get(name, 0.0) + sample.value
    return totals


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, int]:
    """Returns the growth between the two readings, without what did not grow."""
    grown = {name: int(value - before.get(name, 0.0)) for name, value in after.items()}
    return {name: count for name, count in sorted(grown.items()) if count}
