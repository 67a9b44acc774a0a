"""Finds the frames that would be decided otherwise today, and what is to be sent for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from gateway.core.event import Event
from gateway.core.quantity import quantity
from gateway.core.trace_context import TRACEPARENT
from gateway.records import cloud_event

LISTED = 100
UNCOMPARED = frozenset({"id", "raw"})


class ReplayChange(NamedTuple):
    """A frame that would be decided otherwise today. `fields` are the event's fields that read differently now."""

    event_id: str
    then: str
    today: str
    fields: tuple[str, ...] = ()


class ReplayOutcome(NamedTuple):
    """The outcome for a frame: sent again (`place` is its new position), or left alone, with the reason."""

    event_id: str
    because: str
    place: str = ""
    left_alone: str = ""


def differing(then: Event, today: Event) -> tuple[str, ...]:
    then, today = _untraced(then), _untraced(today)
    names = (entry.name for entry in fields(Event) if entry.name not in UNCOMPARED)
    return tuple(name for name in names if getattr(then, name) != getattr(today, name))


def _untraced(event: Event) -> Event:
    """Returns the event without its trace, which is no part of what it says."""
    if TRACEPARENT not in event.headers:
        return event
    return replace(event, headers={name: value for name, value in event.headers.items() if name != TRACEPARENT})


@dataclass
class Replay:
    """The result of a replay over a range of the raw log. Times are in microseconds."""

    mesh: str
    start: int | None
    end: int
    dry_run: bool
    frames: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    changes: list[ReplayChange] = field(default_factory=list)
    outcomes: list[ReplayOutcome] = field(default_factory=list)

    @property
    def sent(self) -> list[ReplayOutcome]:
        return [outcome for outcome in self.outcomes if not outcome.left_alone]

    def to_json(self) -> dict[str, Any]:
        untouched = [outcome for outcome in self.outcomes if outcome.left_alone]
        return {
            "mesh": self.mesh,
            "from": None if self.start is None else cloud_event.rfc3339(self.start),
            "to": cloud_event.rfc3339(self.end),
            "dry_run": self.dry_run,
            "frames": self.frames,
            "changed": self.kinds.total(),
            "changed_by_kind": dict(sorted(self.kinds.items())),
            "changes": [change._asdict() for change in self.changes],
            "to_send": len(self.sent),
            "sent": 0 if self.dry_run else len(self.sent),
            "sends": [
                {"event_id": outcome.event_id, "because": outcome.because, "put_in_as": outcome.place or None}
                for outcome in self.sent
            ],
            "left_alone": [{"event_id": outcome.event_id, "why": outcome.left_alone} for outcome in untouched],
        }

    def to_text(self, *, diff: bool) -> str:
        frames = quantity(self.frames, "frame")
        lines = [f"{frames} decoded again, {self.kinds.total():,} would be decided otherwise today"]
        lines += [f"  {count:>10,}  {kind}" for kind, count in self.kinds.most_common()]
        if diff:
            lines += ["", *self._diff()]
        sent = self.sent
        verb = "would be sent" if self.dry_run else "sent"
        lines.append(f"{quantity(len(sent), 'frame')} {verb} again" if sent else f"nothing {verb} again")
        lines += [
            f"  {outcome.event_id:<16} {outcome.because:<28} {outcome.place}".rstrip() for outcome in sent[:LISTED]
        ]
        untouched = [outcome for outcome in self.outcomes if outcome.left_alone]
        lines += [f"  {outcome.event_id:<16} left alone: {outcome.left_alone}" for outcome in untouched[:LISTED]]
        return "\n".join(lines)

    def _diff(self) -> Iterable[str]:
        for change in self.changes:
            fields_text = f" ({', '.join(change.fields)})" if change.fields else ""
            yield f"  {change.event_id:<16} - {change.then}"
            yield f"  {'':<16} + {change.today}{fields_text}"
        if (unlisted := self.kinds.total() - len(self.changes)) > 0:
            yield f"  and {unlisted:,} more"
