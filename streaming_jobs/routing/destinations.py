"""Finds who gets an event, in the shape it is sent: by edge, then by encoding, then that encoding's receivers.

The grouping of a subject's plain subscribers is kept for as long as the interest table gives the same tuple for it: an
event to ten thousand subscribers then costs one encoding and one record, and no walk over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.core.event import Event
from gateway.core.ids import datagram_name, session_id
from gateway.core.permissions import Permissions
from gateway.core.subjects import is_control
from gateway.interests.interest import Interest, Verb
from gateway.protocols.spec import Target
from gateway.records.raw_log.frames import Replayed
from streaming_jobs.routing.mesh_state import MeshState

_SUBSCRIBE = Verb.SUBSCRIBE
CACHED_RECEIVERS = 500_000
"""The receivers of all remembered subjects together, 100 bytes each at the most (a datagram peer's address). Beyond so
many all are forgotten, and grouped when needed."""
SUBJECT_RECEIVERS = 16
"""The cost of a subject beside its receivers, in the same measure."""
EncodingKey = tuple[str, str, tuple[tuple[str, object], ...]]


@dataclass(slots=True)
class Receivers:
    """The receivers on one edge that share an encoding."""

    target: Target
    sessions: tuple[int, ...] = ()
    addresses: tuple[tuple[str, str], ...] = ()
    owed: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.sessions) + len(self.addresses) + len(self.owed)

    @classmethod
    def of(cls, interests: Sequence[Interest]) -> Receivers:
        """Groups the interests by receiver. A receiver that is owed an event is known by name: it may be away."""
        at_places = [interest for interest in interests if interest.address]
        others = [interest for interest in interests if not interest.address]
        return cls(
            target_of(interests[0]),
            tuple(interest.session for interest in others if not interest.durable),
            tuple((interest.listener, interest.address) for interest in at_places),
            tuple(interest.subscriber for interest in others if interest.durable),
        )


Encodings = Mapping[EncodingKey, Receivers]
Destinations = Mapping[tuple[str, int], Encodings]
"""(edge, epoch) → encoding → receivers."""


def group(interests: Iterable[Interest]) -> dict[tuple[str, int], dict[EncodingKey, Receivers]]:
    edges: dict[tuple[str, int], dict[EncodingKey, list[Interest]]] = {}
    for interest in interests:
        encodings = edges.setdefault((interest.edge, interest.epoch), {})
        facts = tuple(sorted(interest.facts.items()))
        encodings.setdefault((interest.protocol, interest.listener, facts), []).append(interest)
    return {
        edge: {key: Receivers.of(sharing) for key, sharing in encodings.items()} for edge, encodings in edges.items()
    }


def target_of(interest: Interest) -> Target:
    return Target(interest.protocol, interest.listener, interest.facts)


def destination_of(interest: Interest) -> str:
    """Returns the name under which `deliveries` knows this receiver."""
    if interest.address:
        return datagram_name(interest.listener, interest.address)
    return session_id(interest.edge, interest.epoch, interest.session) if interest.session else interest.subscriber


class SharedDestinations(NamedTuple):
    """The destinations of all events of one subject that are received from `since` on, before `until`.

    They are None if they differ from event to event.
    """

    destinations: Destinations | None
    since: int
    until: int


class Fanout:
    """Finds the destinations of events; remembers them by subject."""

    def __init__(self, state: MeshState) -> None:
        self._state = state
        self._cached: dict[str, tuple[tuple[Interest, ...], Permissions, Destinations]] = {}
        self._cached_receivers = 0

    def find(self, event: Event) -> Destinations:
        matched = self._state.table.match(event.subject, _SUBSCRIBE, event.received_at, event.id, self._may)
        if matched.chosen:
            return group((*self._allowed(matched.plain, event.subject), *matched.chosen))
        return self._plain(event.subject, matched.plain)

    def find_shared(self, subject: str, at_us: int) -> SharedDestinations:
        """Returns what `find` returns for every event of the subject around this time."""
        index_match = self._state.table.find(subject, _SUBSCRIBE, at_us)
        destinations = None if index_match.groups else self._plain(subject, index_match.plain)
        return SharedDestinations(destinations, index_match.since, index_match.until)

    def find_again(self, event: Event, again: Replayed) -> Destinations:
        """Returns who wants the event at the time it was put in again, without those who have got it."""
        matched = self._state.table.match(event.subject, _SUBSCRIBE, again.at, event.id, self._may)
        allowed = (*self._allowed(matched.plain, event.subject), *matched.chosen)
        return group(interest for interest in allowed if not again.reached & {interest.node, destination_of(interest)})

    def _plain(self, subject: str, plain: tuple[Interest, ...]) -> Destinations:
        permissions = self._state.permissions
        cached = self._cached.get(subject)
        if cached is not None and cached[0] is plain and cached[1] is permissions:
            return cached[2]
        destinations = group(self._allowed(plain, subject))
        receivers = SUBJECT_RECEIVERS + len(plain)
        self._cached_receivers += receivers - (0 if cached is None else SUBJECT_RECEIVERS + len(cached[0]))
        if self._cached_receivers > CACHED_RECEIVERS:
            self._cached.clear()
            self._cached_receivers = receivers
        self._cached[subject] = plain, permissions, destinations
        return destinations

    def _allowed(self, plain: Iterable[Interest], subject: str) -> Iterable[Interest]:
        return (interest for interest in plain if self._may(interest, subject))

    def _may(self, interest: Interest, subject: str) -> bool:
        if is_control(subject) and not is_control(interest.pattern):
            return False  # as in MQTT's `$` topics: who asks for everything did not ask for the mesh's own
        return self._state.permissions.may_receive(interest.node, interest.listener, subject)
