"""Changes of the interests as the router writes them: into the compacted topic, and into every raw partition.

A worker's own table only changes where such a frame stands in its log (see `mesh_events.py`), so between a
subscription and its return through the log the table does not know it. `_written` bridges that for sessions: one that
ends in between takes its fresh interests along. Leases end by themselves, and must not be believed before they have
landed: this is ahead of the dedup, so a hello sent again by somebody else, from another address, passes here and only
falls there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from gateway.core.reasons import Reason, Rejected
from gateway.interests import changes
from gateway.interests.changes import Change, EndSession, Put, Remove, Renew, SetFacts
from gateway.interests.interest import Interest, InterestKey
from gateway.interests.records import epoch_record
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.control_frames import InterestChanged
from streaming_jobs.routing.change_records import ChangeFrame
from streaming_jobs.routing.frame_context import FrameContext
from streaming_jobs.routing.interest_requests import limits_of
from streaming_jobs.routing.mesh_state import MeshState


class InterestLog:
    def __init__(self, state: MeshState) -> None:
        self._state = state
        self._written: dict[str, dict[InterestKey, Interest]] = {}
        self._written_of_node: Counter[str] = Counter()
        self._written_count = 0

    def of(self, subscriber: str) -> dict[InterestKey, Interest]:
        """Returns the subscriber's interests, including those still on their way through the log."""
        by_key = {interest.key: interest for interest in self._state.table.of(subscriber)}
        return by_key | self._written.get(subscriber, {})

    def put(self, work: FrameContext, interests: Iterable[Interest], *, ticket: str = "") -> None:
        to_put = list(interests)
        for interest in to_put:
            if interest.session:
                self._remember(interest)
            work.outs.append(self._state.topics.interest(interest.key.to_bytes(), interest.to_json()))
        self._write(work, [Put(interest) for interest in to_put], ticket)

    def remove(self, work: FrameContext, keys: Iterable[InterestKey], *, ticket: str = "") -> None:
        to_remove = list(keys)
        for key in to_remove:
            self._forget(self._written.get(key.subscriber, {}).get(key))
            work.outs.append(self._state.topics.interest(key.to_bytes(), None))
        self._write(work, [Remove(key, work.position.frame) for key in to_remove], ticket)

    def renew(
        self, work: FrameContext, leases: Iterable[Interest], expires_at: int, kept_until: int, *, ticket: str = ""
    ) -> None:
        """Prolongs the leases of one subscriber.

        Their records are written only if those end before `expires_at`. Then they last until `kept_until`, so that most
        renewals write none.
        """
        renewed, position = list(leases), work.position.frame
        is_kept = all(interest.kept_until is not None and interest.kept_until >= expires_at for interest in renewed)
        if not is_kept:
            for lease in renewed:
                renewed_lease = replace(lease, expires_at=expires_at, kept_until=kept_until, position=position)
                work.outs.append(self._state.topics.interest(renewed_lease.key.to_bytes(), renewed_lease.to_json()))
        if renewed:
            change = Renew(renewed[0].subscriber, expires_at, position, None if is_kept else kept_until)
            self._write(work, [change], ticket)

    def set_facts(self, work: FrameContext, subscriber: str) -> None:
        facts, position = work.raw.source.facts, work.position.frame
        changed = [replace(old, facts=facts, position=position) for old in self.of(subscriber).values()]
        for interest in changed:
            work.outs.append(self._state.topics.interest(interest.key.to_bytes(), interest.to_json()))
        if changed:
            self._write(work, [SetFacts(subscriber, facts, position)], "")

    def end(self, work: FrameContext, subscriber: str) -> None:
        """Ends everything that the subscriber wanted."""
        ending = self.of(subscriber)
        self._forget_all(subscriber)
        for key in ending:
            work.outs.append(self._state.topics.interest(key.to_bytes(), None))
        if ending:
            self._write(work, [EndSession(subscriber, work.position.frame)], "")

    def new_epoch(self, work: FrameContext, interests: Iterable[Interest]) -> None:
        """Removes the interests that an edge's new epoch has ended.

        Every worker sees the new epoch for itself, and cleans up its own partition's interests.

        The epoch stands in the compacted topic too, for a late interest of the one before must not come back with it.
        """
        source = work.raw.source
        if work.position.partition == 0:
            key, value = epoch_record(source.edge, source.epoch)
            work.outs.append(self._state.topics.interest(key, value))
        for interest in interests:
            self._forget_all(interest.subscriber)
            if interest.position[0] == work.position.partition:
                work.outs.append(self._state.topics.interest(interest.key.to_bytes(), None))

    def landed(self, change: Change) -> None:
        """Notes that a change has come back through the log: the table knows it now."""
        if isinstance(change, Put):
            written = self._written.get(change.subscriber, {}).get(change.interest.key)
            if written == change.interest:
                self._forget(written)

    def check_room(self, listener: str, node: str, added: int) -> None:
        """Raises Rejected if so many more interests of a node are more than it, or all nodes together, may have."""
        node_limit = limits_of(self._state, listener).subscriptions_per_node
        if self._state.table.count_of(node) + self._written_of_node[node] + added > node_limit:
            raise Rejected(Reason.OVERLOAD, f"a node has at most {node_limit} (subscriptions_per_node)")
        mesh_limit = self._state.config.limits.subscriptions_per_mesh
        if len(self._state.table) + self._written_count + added > mesh_limit:
            raise Rejected(Reason.OVERLOAD, f"the mesh has at most {mesh_limit} (subscriptions_per_mesh)")

    def _remember(self, interest: Interest) -> None:
        """Keeps an interest that is under way. Until it has landed, a new version of a standing one counts twice."""
        self._forget(self._written.get(interest.subscriber, {}).get(interest.key))
        self._written.setdefault(interest.subscriber, {})[interest.key] = interest
        self._written_of_node[interest.node] += 1
        self._written_count += 1

    def _forget(self, interest: Interest | None) -> None:
        if interest is None:
            return
        written = self._written[interest.subscriber]
        del written[interest.key]
        if not written:
            del self._written[interest.subscriber]
        self._written_count -= 1
        self._written_of_node[interest.node] -= 1
        if not self._written_of_node[interest.node]:
            del self._written_of_node[interest.node]

    def _forget_all(self, subscriber: str) -> None:
        for interest in list(self._written.get(subscriber, {}).values()):
            self._forget(interest)

    def _write(self, work: FrameContext, made: list[Change], ticket: str) -> None:
        """Adds changes for every raw partition. Only the last carries the ticket: when it is applied, all are."""
        for at, change in enumerate(made):
            last = ticket if at == len(made) - 1 else ""
            frame = InterestChanged(changes.to_bytes(change).decode(), work.raw.source.edge if last else "", last)
            work.changes.append(ChangeFrame(work.raw.received_at, control_frames.encode(frame)))
