"""Traces one frame through the topics alone. Each topic is searched only around the time the frame passed it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from gateway.config import Config
from gateway.config.topics import TopicName
from gateway.core.event import SECOND_US, Event
from gateway.core.ids import FramePosition, datagram_name, session_id
from gateway.core.reasons import Rejected, Stage
from gateway.inspect.history.logged_frame import LoggedFrame
from gateway.inspect.history.rejections import Rejection, rejections_of
from gateway.inspect.history.search_end import RecordSubject, records_about
from gateway.inspect.history.topics import History, Scan
from gateway.kafka.records import TopicRecord
from gateway.protocols.actions import REACHED
from gateway.records import deliveries, egress_codec, event_records
from gateway.records.deliveries import DeliveryOutcome
from gateway.records.egress import Deliver, Group

SKEW_SECONDS = 2
"""Clocks of the edge, the router and us agree within this."""
ROUTED_SECONDS = 600
"""The longest that the router may have been away, for its outputs to be found."""
ENDED_SECONDS = 120
"""The longest from handing a frame to an edge to its outcome (three transmissions and a minute to spare)."""


@dataclass(frozen=True, slots=True)
class SentOutput:
    """One receiver that the frame was sent to. `outcome` is None until it is known."""

    destination: str
    part: int
    kind: str
    protocol: str
    frame: bytes = field(repr=False)
    sent_at: int
    outcome: DeliveryOutcome | None = None


@dataclass(frozen=True, slots=True)
class FrameTrace:
    logged: LoggedFrame
    event: Event | None
    event_at: int
    refusals: tuple[Rejection, ...]
    sent: tuple[SentOutput, ...]

    @property
    def may_be_put_in_again(self) -> bool:
        """True if a redrive or a replay finds something to do: it was refused, or somebody has not got it."""
        outcomes = [output.outcome.outcome for output in self.sent if output.outcome is not None]
        return self.logged.raw.again is None and (bool(self.refusals) or not REACHED.issuperset(outcomes))


def way_of(history: History, config: Config, logged: LoggedFrame) -> FrameTrace:
    name = logged.raw.again.event_id if logged.raw.again else logged.position.event_id
    search = _Search(history, logged, name)
    event, event_at = search.event()
    refusals = tuple(search.refusals())
    edge = logged.raw.source.edge or config.edge.id  # edges differ in their ordinal alone, by which `egress` knows them
    sent = tuple(search.sent(edge.rstrip("0123456789")))
    unsaid = [refusal.at for refusal in refusals if refusal.stage == Stage.DELIVER]
    ended_from = min([output.sent_at for output in sent] + unsaid, default=0)
    return FrameTrace(logged, event, event_at, refusals, tuple(search.with_outcomes(sent, ended_from)))


class _Search:
    def __init__(self, history: History, logged: LoggedFrame, name: str) -> None:
        self._history = history
        self._logged = logged
        self._place = logged.position
        self._name = name

    def event(self) -> tuple[Event | None, int]:
        for record in records_about(self._around("events"), self._place, self._name, _events_told):
            for event in event_records.read(record.headers, record.value or b""):
                if event.id == self._name:
                    return event, record.logged_at
        return None, 0

    def refusals(self) -> Iterator[Rejection]:
        """Yields the router's refusals. What an edge could not deliver has an outcome."""
        place = self._place.event_id
        for record in records_about(self._around("rejected"), self._place, place, _refusals_told):
            yield from (rejection for rejection in rejections_of(record) if rejection.place == place)

    def sent(self, edge_prefix: str) -> Iterator[SentOutput]:
        for record in records_about(self._around("egress"), self._place, self._name, _egress_told):
            for entry in egress_codec.decode(record.value or b""):
                if isinstance(entry, Deliver) and entry.event_id == self._name:
                    yield from _sent_by(entry, f"{edge_prefix}{record.partition}", record.logged_at)

    def with_outcomes(self, sent: tuple[SentOutput, ...], ended_from: int) -> Iterator[SentOutput]:
        """Yields the outputs with their outcomes, which are looked for from `ended_from` until each has one."""
        open_ = {(output.destination, output.part) for output in sent}
        outcome_of: dict[tuple[str, int], DeliveryOutcome] = {}
        if ended_from:
            since = ended_from - SKEW_SECONDS * SECOND_US
            spans = self._history.between("deliveries", since, since + ENDED_SECONDS * SECOND_US)
            for outcome in self._outcomes(self._history.read("deliveries", spans)):
                outcome_of.setdefault((outcome.destination, outcome.part), outcome)
                if open_ and outcome_of.keys() >= open_:
                    break
        yield from (replace(output, outcome=outcome_of.get((output.destination, output.part))) for output in sent)
        yield from (_never_sent(one) for key, one in outcome_of.items() if key not in open_)

    def _outcomes(self, scan: Scan) -> Iterator[DeliveryOutcome]:
        for record in scan:
            with suppress(Rejected):
                outcomes = deliveries.decode(record.value or b"")
                yield from (outcome for outcome in outcomes if outcome.event_id == self._name)

    def _around(self, name: TopicName) -> Scan:
        since = self._logged.logged_at - SKEW_SECONDS * SECOND_US
        return self._history.read(name, self._history.between(name, since, since + ROUTED_SECONDS * SECOND_US))


def _events_told(record: TopicRecord) -> Iterator[RecordSubject]:
    with suppress(Rejected, KeyError, ValueError):
        for event_id in event_records.ids(record.headers, record.value or b""):
            yield RecordSubject(event_id, _position(event_id))


def _refusals_told(record: TopicRecord) -> Iterator[RecordSubject]:
    """Yields the positions where the frames stood then. Edges name none, and write when they know: in no order."""
    for rejection in rejections_of(record):
        if rejection.stage != Stage.DELIVER or rejection.edge:
            yield RecordSubject(rejection.place, _position(rejection.place))


def _egress_told(record: TopicRecord) -> Iterator[RecordSubject]:
    with suppress(Rejected):
        for entry in egress_codec.decode(record.value or b""):
            name = entry.event_id if isinstance(entry, Deliver) else entry.position.event_id
            yield RecordSubject(name, entry.position.frame)


def _position(event_id: str) -> FramePosition | None:
    try:
        return FramePosition.parse(event_id)
    except ValueError:
        return None


def _sent_by(entry: Deliver, edge: str, sent_at: int) -> Iterator[SentOutput]:
    for group in entry.groups:
        for destination in _receivers(entry, group, edge):
            yield SentOutput(destination, entry.position.part, entry.kind.value, group.protocol, group.frame, sent_at)


def _receivers(written: Deliver, group: Group, edge: str) -> Iterator[str]:
    yield from (session_id(edge, written.epoch, number) for number in group.sessions)
    yield from (datagram_name(*address) for address in group.addresses)
    yield from group.owed


def _never_sent(outcome: DeliveryOutcome) -> SentOutput:
    """The receiver's protocol has no form for it: it never went to an edge."""
    return SentOutput(outcome.destination, outcome.part, "", "", b"", outcome.at, outcome)
