"""The interest table: changes in, destinations out.

A worker keeps one for each raw partition it reads and applies every change where it stands in that partition's log.
After a crash the log repeats changes, and a copy may have been filled from the compacted topic, which is ahead of the
log and holds its records in no order between keys. So every interest has the position of the last change that made it
what it is, and:

Invariants
1. A change older than an interest does nothing to that interest: repeats are harmless, and so is a copy that is ahead.
   Changes that one frame made share a position: repeating all of them ends where the first time did.
2. What ended stays ended: the positions of ends are remembered for a while, and an interest of an edge's earlier epoch
   is not taken.
3. A match depends on the table, the subject, the event's id and its receive time alone: no clock, no order of
   insertion, no process-wide hash seed. A replay decides as it was decided then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b

from gateway.core.ids import FramePosition
from gateway.interests.changes import Change, EndSession, NewEpoch, Put, Remove, Renew, SetFacts
from gateway.interests.index import Index, IndexMatch
from gateway.interests.interest import Interest, InterestKey, Verb

ENDS_REMEMBERED = 16_384
"""Ends of interests and sessions, by which an older interest that comes again is known as a repeat. A router repeats at
most what it did since its last commit (a minute in real time). An end that was forgotten is only late: the interest
comes back for as long as the log takes to repeat its end too."""


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """The effect of a change: what was put (new or changed) and what was removed. It is false if nothing was."""

    put: tuple[Interest, ...] = ()
    removed: tuple[Interest, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.put or self.removed)


NOTHING = AppliedChange()
PermissionCheck = Callable[[Interest, str], bool]
"""May this one get the subject?"""


@dataclass(slots=True)
class Matched:
    """The receivers of an event, not to be changed once made.

    They are every plain subscriber, and one chosen member of each group that does not get the event anyway.

    `plain` is one and the same tuple for as long as nothing changes and no lease ends: what is derived from it may be
    kept.
    """

    plain: tuple[Interest, ...]
    chosen: tuple[Interest, ...]

    def __iter__(self) -> Iterator[Interest]:
        yield from self.plain
        yield from self.chosen

    def __len__(self) -> int:
        return len(self.plain) + len(self.chosen)


class InterestTable:
    def __init__(self) -> None:
        self._indexes = {verb: Index() for verb in Verb}
        self._subscribers: dict[str, dict[InterestKey, Interest]] = {}
        self._edges: dict[str, dict[InterestKey, Interest]] = {}
        self._leases: dict[InterestKey, Interest] = {}
        self._epochs: dict[str, int] = {}
        self._ended_at: OrderedDict[InterestKey | str, FramePosition] = OrderedDict()
        self._counts: dict[str, int] = {}
        self._count = 0
        self.version = 0
        """Changes with every interest that is put or removed: what was derived from matches holds no longer than it."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Interest]:
        for interests in self._subscribers.values():
            yield from interests.values()

    def of(self, subscriber: str) -> tuple[Interest, ...]:
        return tuple(self._subscribers.get(subscriber, {}).values())

    def get(self, key: InterestKey) -> Interest | None:
        return self._subscribers.get(key.subscriber, {}).get(key)

    def count_of(self, node: str) -> int:
        """Returns how many interests the node has, in all of its sessions."""
        return self._counts.get(node, 0)

    # -- matching ------------------------------------------------------------------------------------------------

    def match(
        self, subject: str, verb: Verb, at_us: int, event_id: str, may: PermissionCheck = lambda *_: True
    ) -> Matched:
        """Returns the receivers of an event. The members of groups are filtered by `may` here.

        `plain` is not filtered by permissions: the caller must filter it, and may cache the result.
        """
        index_match = self.find(subject, verb, at_us)
        if not index_match.groups:
            return Matched(index_match.plain, ())
        choices = (choose_permitted(members, event_id, subject, may) for members in index_match.groups)
        chosen = {
            interest_chosen.subscriber: interest_chosen for interest_chosen in choices if interest_chosen is not None
        }
        for interest in index_match.plain:
            if interest.subscriber in chosen and may(interest, subject):
                del chosen[interest.subscriber]
        return Matched(index_match.plain, tuple(chosen.values()))

    def find(self, subject: str, verb: Verb, at_us: int) -> IndexMatch:
        """Returns all whose pattern fits the subject, and how long that holds if the table does not change."""
        return self._indexes[verb].find(subject, at_us)

    def servers(self, subject: str, at_us: int) -> tuple[Interest, ...]:
        """Returns each server of the subject once, for a cancel.

        These include servers that may not be asked any more, because they may have been asked before.
        """
        index_match = self._indexes[Verb.SERVE].find(subject, at_us)
        servers = {
            member.subscriber: member for members in (*index_match.groups, index_match.plain) for member in members
        }
        return tuple(servers.values())

    def server(
        self, subject: str, request_id: str, at_us: int, may: PermissionCheck = lambda *_: True
    ) -> Interest | None:
        """Returns the one server of a request: the same one for a retry, as long as it is there.

        A node without a session may say that it serves, and could not answer. It takes no request from a server that
        can.
        """
        servers = tuple(server for server in self.servers(subject, at_us) if server.session)
        return choose_permitted(servers, request_id, subject, may) if servers else None

    def component_has_servers(self, prefix: str, at_us: int) -> bool:
        """Returns True if anybody serves subjects that begin with these tokens and go on."""
        return any(interest.alive_at(at_us) for interest in self._indexes[Verb.SERVE].below(prefix))

    # -- changing ------------------------------------------------------------------------------------------------

    def apply(self, change: Change) -> AppliedChange:
        match change:
            case Put(interest):
                return self._put(interest)
            case Remove(key, position):
                named = self.get(key)
                return self._end([named] if named and not _before(position, named.position) else [], key, position)
            case EndSession(subscriber, position):
                return self._end(self._up_to(subscriber, position), subscriber, position)
            case SetFacts(subscriber, facts, position):
                standing = self._up_to(subscriber, position)
                return self._replace([replace(old, facts=facts, position=position) for old in standing])
            case Renew(subscriber, expires_at, position, kept_until):
                leased = [interest for interest in self._up_to(subscriber, position) if interest.expires_at is not None]
                return self._replace(
                    replace(
                        interest, expires_at=expires_at, position=position, kept_until=kept_until or interest.kept_until
                    )
                    for interest in leased
                )
            case NewEpoch():
                return self._begin_epoch(change)

    def forget_leases(self, over_at: int) -> None:
        """Forgets the leases that were over at this time. They match nothing any more: this only frees their memory."""
        self._remove_all([lease for lease in self._leases.values() if not lease.alive_at(over_at)])

    def _put(self, interest: Interest) -> AppliedChange:
        existing = self._subscribers.get(interest.subscriber, {}).get(interest.key)
        if self._is_stale_epoch(interest) or self._is_over(interest):
            return NOTHING
        if existing is not None and (existing == interest or _before(interest.position, existing.position)):
            return NOTHING
        # So that a copy that never saw the epoch begin refuses what is older, too.
        self._epochs[interest.edge] = max(interest.epoch, self._epochs.get(interest.edge, -1))
        return self._replace([interest])

    def _end(
        self, interests: Iterable[Interest], ended_key: InterestKey | str, position: FramePosition
    ) -> AppliedChange:
        known_end = self._ended_at.pop(ended_key, position)
        self._ended_at[ended_key] = known_end if _before(position, known_end) else position
        if len(self._ended_at) > ENDS_REMEMBERED:
            del self._ended_at[next(iter(self._ended_at))]
        return self._remove_all(interests)

    def _up_to(self, subscriber: str, position: FramePosition) -> list[Interest]:
        return [interest for interest in self.of(subscriber) if not _before(position, interest.position)]

    def _is_over(self, interest: Interest) -> bool:
        ends = (self._ended_at.get(interest.key), self._ended_at.get(interest.subscriber))
        return any(end is not None and _before(interest.position, end) for end in ends)

    def _is_stale_epoch(self, interest: Interest) -> bool:
        return not interest.durable and interest.epoch < self._epochs.get(interest.edge, -1)

    def _begin_epoch(self, change: NewEpoch) -> AppliedChange:
        self._epochs[change.edge] = max(change.epoch, self._epochs.get(change.edge, -1))
        of_the_edge = self._edges.get(change.edge, {}).values()
        return self._remove_all([interest for interest in of_the_edge if self._is_stale_epoch(interest)])

    def _replace(self, interests: Iterable[Interest]) -> AppliedChange:
        return AppliedChange(put=tuple(interest for interest in interests if self._insert(interest)))

    def _remove_all(self, interests: Iterable[Interest]) -> AppliedChange:
        removed = tuple(interests)
        for interest in removed:
            self._delete(interest)
        return AppliedChange(removed=removed)

    def _insert(self, interest: Interest) -> bool:
        key = interest.key
        existing = self._subscribers.get(interest.subscriber, {}).get(key)
        if existing == interest:
            return False
        if existing is not None:
            self._delete(existing)
        self._subscribers.setdefault(interest.subscriber, {})[key] = interest
        self._edges.setdefault(interest.edge, {})[key] = interest
        if interest.expires_at is not None:
            self._leases[key] = interest
        self._indexes[interest.verb].put(interest)
        self._count += 1
        self.version += 1
        self._counts[interest.node] = self.count_of(interest.node) + 1
        return True

    def _delete(self, interest: Interest) -> None:
        key = interest.key
        mine = self._subscribers[interest.subscriber]
        del mine[key]
        if not mine:
            del self._subscribers[interest.subscriber]
        del self._edges[interest.edge][key]
        self._leases.pop(key, None)
        self._indexes[interest.verb].remove(interest)
        self._count -= 1
        self.version += 1
        self._counts[interest.node] -= 1
        if not self._counts[interest.node]:
            del self._counts[interest.node]


def choose(members: tuple[Interest, ...], name: str) -> Interest:
    """Chooses one member by rendezvous hash: when a member goes, only what was its own goes to others.

    A CRC would not do: it is linear, so the order of members would depend on the name's bits and not be fair.
    """
    return max(members, key=lambda member: blake2b(f"{name}\0{member.subscriber}".encode(), digest_size=8).digest())


def choose_permitted(members: tuple[Interest, ...], name: str, subject: str, may: PermissionCheck) -> Interest | None:
    """Returns the chosen one of the members that may get the subject, so no member's lack of permission loses it for
    all.

    The member chosen among all is also the choice among fewer, so the others are asked only if it may not.
    """
    member = choose(members, name)
    if may(member, subject):
        return member
    able = tuple(other for other in members if may(other, subject))
    return choose(able, name) if able else None


def _before(position: FramePosition, last: FramePosition) -> bool:
    """Positions compare within one partition. When partitions are added a node may move to another: there, arrival
    decides.
    """
    return position[0] == last[0] and position < last
