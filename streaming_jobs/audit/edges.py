"""The first line of the equation: what an edge's sockets received, by its own count, and what it put into the log.

The counts are of one process, so the line holds for an epoch of an edge that the judged stretch covers wholly. An edge
under load counts a little ahead of the log; it is asked before the cut and after it, and the log must lie in between.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from gateway.inspect.live.exposition import read_samples
from gateway.inspect.live.mesh_parts import MeshPart
from streaming_jobs.audit.equation import EdgeCount

RECEIVED, REJECTED = "meshgate_received_frames_total", "meshgate_rejected_frames_total"
KERNEL, IN_FLIGHT = "meshgate_udp_kernel_dropped_total", "meshgate_in_flight_bytes"


@dataclass
class Counters:
    """An edge's counters at one moment."""

    edge: str
    received: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    kernel_dropped: int = 0
    in_flight_bytes: int = 0

    @property
    def taken(self) -> int:
        """The number of frames received and not refused: logged, or about to be."""
        return self.received - self.refused.total()


def read(exposition: str) -> Counters:
    counters = Counters("")
    for sample in read_samples(exposition):
        counters.edge = sample.labels.get("edge", counters.edge)
        value = int(sample.value)
        if sample.name == RECEIVED:
            counters.received += value
        elif sample.name == REJECTED:
            counters.refused[sample.labels["reason"]] += value
        elif sample.name == KERNEL:
            counters.kernel_dropped += value
        elif sample.name == IN_FLIGHT:
            counters.in_flight_bytes += value
    return counters


class AskedEdge:
    """An edge that is asked before the cut and after it. Raises SetupError where it does not answer."""

    def __init__(self, part: MeshPart) -> None:
        self._part = part
        self._before = self._after = self._ask()

    @property
    def edge(self) -> str:
        return self._after.edge

    def ask_again(self) -> None:
        self._after = self._ask()

    def _ask(self) -> Counters:
        return read(self._part.text("/metrics"))

    def compare(self, logged: int) -> EdgeCount:
        return edge_count(self._before, self._after, logged)


def edge_count(before: Counters, after: Counters, logged: int) -> EdgeCount:
    """Returns an edge's counters beside the frames in the raw log.

    `logged` counts the frames of its peers in the raw log up to the cut, of the epoch it is in.
    """
    least = before.taken if not before.in_flight_bytes else 0
    balanced = least <= logged <= after.taken
    refused = dict(sorted(after.refused.items()))
    return EdgeCount(after.edge, after.received, refused, after.kernel_dropped, logged, balanced)
