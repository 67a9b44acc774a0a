"""Presence of nodes without sessions: what a hello asks for is leased, a heartbeat prolongs it."""

from __future__ import annotations

from dataclasses import replace

from gateway.core.event import SECOND_US, Event
from gateway.core.reasons import Reason, Rejected, Stage
from gateway.core.subjects import check_pattern, dotted
from gateway.interests.interest import Interest, Verb
from gateway.protocols.spec import Lease
from gateway.records.egress import Group
from streaming_jobs.routing.frame_context import FrameContext, Hold
from streaming_jobs.routing.interest_log import InterestLog
from streaming_jobs.routing.interest_requests import check_allowed, limits_of
from streaming_jobs.routing.lease_rate import LeaseRate
from streaming_jobs.routing.mesh_state import MeshState

SPARED_SECONDS, SPARED_SHARE = 1.0, 0.1
"""A heartbeat renews the lease, but for one that comes so soon after the last renewal (a tenth of a short lease): a
renewal is written into every partition, so a node must not be able to ask for thousands a second."""


class Leases:
    def __init__(self, state: MeshState, interests: InterestLog) -> None:
        self._state = state
        self._interests = interests
        self._rate = LeaseRate()

    def handle(self, work: FrameContext, event: Event, lease: Lease) -> None:
        """Sends the subscriber's deliveries to the address that the lease names.

        Only the node itself may aim the mesh at an address. A sender that proves nothing, and a key that anybody may
        bring, are only told that they are here.
        """
        if not event.proves_node:
            return
        if lease.renews:
            self._renew(work, event, lease)
        else:
            self._replace(work, event, lease)

    def _renew(self, work: FrameContext, event: Event, lease: Lease) -> None:
        """Renews what goes to where the heartbeat came from. Whoever was quicker with a hello of the node, from an
        address that is not its own, so has the mesh send there for one lease at most."""
        until, kept_until = _lease_ends(event, lease)
        spared = min(SPARED_SECONDS, lease.seconds * SPARED_SHARE) * SECOND_US
        alive = [item for item in self._alive(event) if (item.listener, item.address) == _address(work)]
        if any(_is_read_back(interest) or (interest.expires_at or 0) < until - spared for interest in alive):
            self._interests.renew(work, alive, until, kept_until)

    def _replace(self, work: FrameContext, event: Event, lease: Lease) -> None:
        """A hello is the full list: what is not in it any more is over. It is answered when it holds everywhere.

        Raises Rejected for one that changes too much.
        """
        granted = self._grantable(work, event, self._as_before(event, lease) if lease.keeps else lease)
        interests = self._leased(work, event, granted)
        existing = self._interests.of(_subscriber(event))
        kept_keys = {interest.key for interest in interests}
        ticket = event.id if interests else ""
        if (
            interests
            and existing.keys() == kept_keys
            and all(_differs_in_time_alone(existing[interest.key], interest) for interest in interests)
        ):
            self._check_rate(work, event, 1)
            self._interests.renew(work, existing.values(), *_lease_ends(event, granted), ticket=ticket)
        else:
            over = [key for key in existing if key not in kept_keys]
            self._check_rate(work, event, len(over) + len(interests))
            self._interests.remove(work, over)
            self._interests.put(work, interests, ticket=ticket)
        grant = self._state.protocol(event.protocol).grant_lease
        if grant is not None:
            answer = Group(event.protocol, grant(event, granted, self._state.env), addresses=(_address(work),))
            work.deliver(event.edge, work.raw.source.epoch, event, (answer,), hold=Hold(ticket))

    def _check_rate(self, work: FrameContext, event: Event, changes: int) -> None:
        if not self._rate.takes(
            event.node, changes, event.received_at, limits_of(self._state, work.raw.source.listener)
        ):
            raise Rejected(Reason.RATE_LIMITED, "the node changes what it asks for too often")

    def _as_before(self, event: Event, lease: Lease) -> Lease:
        alive = self._alive(event)
        patterns = {verb: tuple(interest.pattern for interest in alive if interest.verb is verb) for verb in Verb}
        return replace(lease, subscribe=patterns[Verb.SUBSCRIBE], serve=patterns[Verb.SERVE])

    def _alive(self, event: Event) -> list[Interest]:
        interests = self._interests.of(_subscriber(event)).values()
        return [interest for interest in interests if interest.alive_at(event.received_at)]

    def _grantable(self, work: FrameContext, event: Event, lease: Lease) -> Lease:
        """Returns the lease without the patterns that are malformed or forbidden; each of those is recorded."""
        node = replace(work.raw.source, node=event.node)  # the packet has proven it; its source knows an address
        limit = limits_of(self._state, node.listener).subscriptions_per_session
        held_count, granted = len(self._interests.of(_subscriber(event))), 0  # the list replaces what the node has

        def good(verb: Verb, patterns: tuple[str, ...]) -> tuple[str, ...]:
            nonlocal granted
            kept_keys = []
            for pattern in dict.fromkeys(patterns[:limit]):
                try:
                    check_pattern(pattern)
                    check_allowed(self._state, node, verb, pattern)
                    self._interests.check_room(node.listener, event.node, granted + 1 - held_count)
                    granted += 1
                    kept_keys.append(pattern)
                except Rejected as refused:
                    work.reject(refused, Stage.MATCH)
            return tuple(kept_keys)

        return replace(lease, subscribe=good(Verb.SUBSCRIBE, lease.subscribe), serve=good(Verb.SERVE, lease.serve))

    def _leased(self, work: FrameContext, event: Event, lease: Lease) -> list[Interest]:
        source = work.raw.source
        listener, address = _address(work)
        until, kept_until = _lease_ends(event, lease)
        patterns = [(Verb.SUBSCRIBE, pattern) for pattern in lease.subscribe]
        patterns += [(Verb.SERVE, pattern) for pattern in lease.serve]
        return [
            Interest(
                subscriber=_subscriber(event),
                verb=verb,
                pattern=dotted(pattern),
                edge=source.edge,
                epoch=source.epoch,
                address=address,
                protocol=source.protocol,
                listener=listener,
                node=event.node,
                expires_at=until,
                kept_until=kept_until,
                durable=True,
                position=work.position.frame,
            )
            for verb, pattern in patterns
        ]


def _lease_ends(event: Event, lease: Lease) -> tuple[int, int]:
    """Returns when the lease ends, and when its record does: one lease later, so that a record serves several renewals.
    A router that starts from the records ends no lease early, and at most one lease late."""
    lasts = lease.seconds * SECOND_US
    return event.received_at + lasts, event.received_at + 2 * lasts


def _is_read_back(lease: Interest) -> bool:
    """True for a lease known from its record alone: workers that know an earlier end must hear of a renewal."""
    return lease.expires_at == lease.kept_until


def _differs_in_time_alone(existing: Interest, renewed_interest: Interest) -> bool:
    renewed = replace(
        existing,
        expires_at=renewed_interest.expires_at,
        kept_until=renewed_interest.kept_until,
        position=renewed_interest.position,
    )
    return renewed == renewed_interest


def _subscriber(event: Event) -> str:
    return f"{event.protocol}:{event.node}"


def _address(work: FrameContext) -> tuple[str, str]:
    """Returns where the packet came from: a listener of ours, and the peer's host and port."""
    return work.raw.source.listener, work.raw.source.peer
