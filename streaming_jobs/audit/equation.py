"""The loss equation with its terms filled in.

    frames in raw         = events + rejected(reason) + duplicates + control + put in again
    events × destinations = confirmed + written + undeliverable + expired + in flight

It balances when nothing is lost, altered or unknown, and nothing of the raw log itself is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.core.quantity import quantity
from gateway.records import cloud_event
from streaming_jobs.audit.account import Counted

LISTED = 100
"""The faults of each kind that are named: enough to look at, and a lost topic does not fill the terminal."""


class EquationFault(NamedTuple):
    kind: str
    event_id: str
    detail: str = ""


class Gap(NamedTuple):
    """A range of offsets that is gone before its time: what stood there can no longer be counted."""

    partition: int
    first: int
    last: int
    detail: str


class EdgeCount(NamedTuple):
    """The first line, for one edge: what its sockets received since it started. None where it could not be asked."""

    edge: str
    received: int
    refused: Mapping[str, int]
    kernel_dropped: int
    logged: int
    balanced: bool


@dataclass
class Equation:
    """The terms of the audit. Times are in microseconds; None is no bound."""

    mesh: str
    start: int | None = None
    end: int | None = None
    counted: Counter[str] = field(default_factory=Counter)
    mesh_frames: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    fault_counts: Counter[str] = field(default_factory=Counter)
    faults: list[EquationFault] = field(default_factory=list)
    differently_count: int = 0
    differently: list[EquationFault] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    edges: list[EdgeCount] | None = None

    @property
    def frames(self) -> int:
        return self.counted.total()

    @property
    def destinations(self) -> int:
        return self.outcomes.total()

    @property
    def balanced(self) -> bool:
        edges = self.edges or []
        return not self.fault_counts.total() and not self.gaps and all(edge.balanced for edge in edges)

    def fault(self, kind: str, event_id: str, detail: str = "") -> None:
        self.fault_counts[kind] += 1
        if self.fault_counts[kind] <= LISTED:
            self.faults.append(EquationFault(kind, event_id, detail))

    # -- showing it ----------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        return {
            "balanced": self.balanced,
            "mesh": self.mesh,
            "from": _time(self.start),
            "to": _time(self.end),
            "edges": None if self.edges is None else [edge._asdict() for edge in self.edges],
            "frames": self.frames,
            "mesh_frames": self.mesh_frames,
            "events": self.counted[Counted.EVENT],
            "rejected": self.counted[Counted.REJECTED],
            "rejected_by_reason": dict(sorted(self.reasons.items())),
            "duplicates": self.counted[Counted.DUPLICATE],
            "control": self.counted[Counted.CONTROL],
            "again": self.counted[Counted.AGAIN],
            "lost": self.counted[Counted.LOST],
            "destinations": self.destinations,
            **{name: self.outcomes[name] for name in OUTCOMES},
            "judged_differently_today": self.differently_count,
            "judged_differently": [fault._asdict() for fault in self.differently],
            "fault_counts": dict(sorted(self.fault_counts.items())),
            "faults": [fault._asdict() for fault in self.faults],
            "gaps": [gap._asdict() for gap in self.gaps],
        }

    def to_text(self) -> str:
        fields = self.to_json()
        frames = [(name, fields[name]) for name in ("events", "rejected", "duplicates", "control", "again", "lost")]
        lines = [
            f"audit of {self.mesh}, {fields['from'] or 'from the beginning'} to {fields['to']}",
            *self._edge_lines(),
            _line("frames in raw", self.frames, frames),
            _line("  of these rejected", fields["rejected"], sorted(self.reasons.items())),
            _line("events × destinations", self.destinations, [(name, fields[name]) for name in OUTCOMES]),
            f"{'judged differently today':<24}{self.differently_count:>10,}",
        ]
        lines += [f"  {account.event_id:<16} {account.detail}" for account in self.differently]
        lines += [f"gap in raw partition {gap.partition}: {gap.first} to {gap.last}, {gap.detail}" for gap in self.gaps]
        return "\n".join([*lines, self._verdict(), *self._fault_lines()])

    def _edge_lines(self) -> Iterable[str]:
        if self.edges is None:
            yield f"{'received by the sockets':<24}{'-':>10}  not included (--edge asks the edge for its counts)"
        for edge_counts in self.edges or ():
            terms = [("in raw", edge_counts.logged), *sorted(edge_counts.refused.items())]
            yield _line(f"received by {edge_counts.edge}", edge_counts.received, terms)
            yield f"{'  dropped by the kernel':<24}{edge_counts.kernel_dropped:>10,}"

    def _verdict(self) -> str:
        if self.balanced:
            return "balanced"
        faults = [f"{count:,} {kind}" for kind, count in sorted(self.fault_counts.items())]
        faults += [quantity(len(self.gaps), "gap")] if self.gaps else []
        faults += [f"counts of {edge.edge}" for edge in self.edges or () if not edge.balanced]
        return f"NOT balanced: {', '.join(faults)}"

    def _fault_lines(self) -> Iterable[str]:
        for fault in self.faults:
            yield f"  {fault.kind:<18} {fault.event_id:<16} {fault.detail}".rstrip()
        if (unlisted := self.fault_counts.total() - len(self.faults)) > 0:
            yield f"  and {unlisted:,} more"


OUTCOMES = ("confirmed", "written", "undeliverable", "expired", "in_flight")


def _line(name: str, total: int, terms: Iterable[tuple[str, int]]) -> str:
    sum_of_terms = " + ".join(f"{term.replace('_', ' ')} {count:,}" for term, count in terms)
    return f"{name:<24}{total:>10,}  {'= ' if sum_of_terms else ''}{sum_of_terms}".rstrip()


def _time(at_us: int | None) -> str | None:
    return None if at_us is None else cloud_event.rfc3339(at_us)
