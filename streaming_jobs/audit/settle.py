"""Waits for what was missing when the topics were read, and strikes it off as it arrives.

Only what was received before the audit began is judged (the cut), so whatever is missing can only be late or lost. It
is given the time that the mesh itself would give it; after that it is lost.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.config import Config
from gateway.config.topics import TopicName
from gateway.core.clock import now_us
from gateway.core.event import SECOND_US
from gateway.core.ids import is_durable_name
from gateway.core.reasons import Rejected, Stage
from gateway.inspect.history.rejections import rejections_of
from gateway.inspect.history.span import Span
from gateway.inspect.history.topics import History
from gateway.kafka.records import TopicRecord
from gateway.records import event_records
from streaming_jobs.audit.account import Counted, FaultKind
from streaming_jobs.audit.deliveries import SentBy, ended_in
from streaming_jobs.audit.equation import Equation

ROUTED_SECONDS = 30
"""The time from the raw log to the router's outputs. A router that was killed is back, and has caught up, well before
that."""
SPARE_SECONDS = 5
MOVED_SECONDS = 10
"""Interests that changed so near to a frame may have counted for it, or not."""
LOOK_SECONDS = 1.0

Pair = tuple[str, int, str]
"""Event id, part, destination."""
Ends = dict[TopicName, dict[int, int]]
"""Up to where each partition has been read."""


@dataclass(frozen=True)
class Patience:
    """The longest that things take which are not lost, in microseconds."""

    routed: int
    confirmed: int
    owed: int

    @classmethod
    def of(cls, config: Config) -> Patience:
        confirmed = [endpoint.options.confirmed_within_seconds for endpoint in config.endpoints]
        longest = max([config.request_timeout_seconds, *confirmed]) + SPARE_SECONDS
        owed = max((endpoint.redeliver_seconds for endpoint in config.endpoints), default=0) + longest
        return cls(ROUTED_SECONDS * SECOND_US, int(longest * SECOND_US), int(owed * SECOND_US))


class LateFrame(NamedTuple):
    """A frame of which nothing was found. `known_as`: the id of its event; `place`: under which it would be refused."""

    known_as: str
    place: str
    fault: str
    logged_at: int


class LateDelivery(NamedTuple):
    """A delivery without an outcome. `answered` is True if it is a request that has its answer."""

    event_id: str
    part: int
    destination: str
    kind: str
    logged_at: int
    answered: bool

    @property
    def pair(self) -> Pair:
        return self.event_id, self.part, self.destination

    @property
    def is_owed(self) -> bool:
        """True if the delivery goes to a node that may be away, by its durable name."""
        return is_durable_name(self.destination)


class Unsent(NamedTuple):
    """A receiver for whom nothing was found in `egress`. `written_at`: when the event was; 0 if that is not known."""

    event_id: str
    destination: str
    logged_at: int
    written_at: int
    wanted: int
    had: int


@dataclass
class Waiting:
    patience: Patience
    frames: list[LateFrame] = field(default_factory=list)
    deliveries: list[LateDelivery] = field(default_factory=list)
    unsent: list[Unsent] = field(default_factory=list)
    came: dict[LateFrame, str] = field(default_factory=dict)
    """Frames whose record came late: `event`, or the reason of the refusal."""
    ended: dict[Pair, str] = field(default_factory=dict)

    # -- while it lasts ------------------------------------------------------------------------------------------

    def deadline(self) -> int:
        """Returns when the last missing item has had its time; 0 if nothing is missing. A request may wait for ever."""
        patience = self.patience
        times = [frame.logged_at + patience.routed for frame in self.frames]
        times += [delivery.logged_at + patience.routed for delivery in self.unsent]
        times += [delivery.logged_at + patience.confirmed for delivery in self.deliveries if not delivery.is_owed]
        return max(times, default=0)

    def wait(self, history: History, ends: Ends, seconds: float, say: Callable[[str], None]) -> None:
        """Follows the topics until nothing is missing, or what is has had its time, or so many seconds are over."""
        give_up = now_us() + int(seconds * SECOND_US)
        while now_us() < min(self.deadline(), give_up):
            missing = len(self.frames) + len(self.deliveries) + len(self.unsent)
            say(f"waiting for {missing:,} that may still be on their way")
            time.sleep(LOOK_SECONDS)
            for name, read_to in ends.items():
                spans = {at: Span(read_to[at], span.end) for at, span in history.bounds(name).items()}
                for record in history.read(name, spans):
                    self.saw(name, record)
                read_to.update({at: span.end for at, span in spans.items()})

    def saw(self, name: TopicName, record: TopicRecord) -> None:
        """Takes a record that was written after the topics had been read."""
        match name:
            case "events":
                self._event(record)
            case "rejected":
                self._rejection(record)
            case "egress":
                self._egress(record)
            case "deliveries":
                self._outcomes(record)

    def _event(self, record: TopicRecord) -> None:
        with suppress(Rejected, KeyError, ValueError):
            event_ids = set(event_records.ids(record.headers, record.value or b""))
            self.came.update({frame: Counted.EVENT for frame in self.frames if frame.known_as in event_ids})
        self.frames = [frame for frame in self.frames if frame not in self.came]

    def _rejection(self, record: TopicRecord) -> None:
        reasons = {
            rejection.place: rejection.reason for rejection in rejections_of(record) if rejection.stage != Stage.DELIVER
        }
        self.came.update({frame: reasons[frame.place] for frame in self.frames if frame.place in reasons})
        self.frames = [frame for frame in self.frames if frame not in self.came]

    def _egress(self, record: TopicRecord) -> None:
        there = {(sent.event_id, sent.destination) for sent in SentBy().rows(record.value or b"", record.partition)}
        self.unsent = [delivery for delivery in self.unsent if (delivery.event_id, delivery.destination) not in there]

    def _outcomes(self, record: TopicRecord) -> None:
        outcomes = {
            (outcome.event_id, outcome.part, outcome.destination): outcome.outcome
            for outcome in ended_in(record.value or b"")
        }
        self.ended.update(
            {delivery.pair: outcomes[delivery.pair] for delivery in self.deliveries if delivery.pair in outcomes}
        )
        self.deliveries = [delivery for delivery in self.deliveries if delivery.pair not in self.ended]

    # -- in the end ----------------------------------------------------------------------------------------------

    def conclude(self, equation: Equation, changes: Mapping[str, list[int]], now: int) -> None:
        """Moves what came late to where it belongs. What did not come becomes a fault, or is in flight."""
        for frame, reason in self.came.items():
            _count(equation, frame, reason)
        equation.outcomes += Counter(self.ended.values())
        for frame in self.frames:
            equation.fault(frame.fault, frame.known_as)
        for delivery in self.deliveries:
            if self._is_in_flight(delivery, now):
                equation.outcomes["in_flight"] += 1
            else:
                equation.fault(FaultKind.LOST_DELIVERY, delivery.event_id, f"no outcome for {delivery.destination}")
        for missing in inexcusable(self.unsent, changes):
            detail = f"nothing was sent to {missing.destination}"
            equation.fault(FaultKind.UNSENT_DELIVERY, missing.event_id, detail)

    def _is_in_flight(self, delivery: LateDelivery, now: int) -> bool:
        if delivery.kind == "request":  # its server has all the time it wants; the answer is what confirms it
            return not delivery.answered
        return now < delivery.logged_at + (self.patience.owed if delivery.is_owed else self.patience.confirmed)


def _count(equation: Equation, frame: LateFrame, reason: str) -> None:
    equation.counted[Counted.LOST] -= 1
    if frame.known_as != frame.place:
        equation.counted[Counted.AGAIN] += 1
    elif reason == Counted.EVENT:
        equation.counted[Counted.EVENT] += 1
    else:
        equation.counted[Counted.REJECTED] += 1
        equation.reasons[reason] += 1


def inexcusable(unsent: list[Unsent], changes: Mapping[str, list[int]]) -> Iterator[Unsent]:
    """Yields the unsent frames except those whose receivers may have come or gone while the frame was under way.

    A worker that begins a task knows the interests as they are then, which is ahead of its own log. And where a group
    or the servers of a request have changed, another member got it: then it went to as many as it should.
    `changes`: when the interests of a destination changed, by the log.
    """
    margin = MOVED_SECONDS * SECOND_US
    for delivery in unsent:
        until = max(delivery.written_at, delivery.logged_at) + margin
        moved = any(delivery.logged_at - margin <= at <= until for at in changes.get(delivery.destination, ()))
        if not moved and delivery.had < delivery.wanted:
            yield delivery
