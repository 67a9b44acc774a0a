"""The row functions over the past: their interests begin with what stood when the stretch that is judged began."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gateway.auth import trust_file
from gateway.auth.keyring import GatewayIdentity, KeyRing
from gateway.config import Config
from gateway.core.event import Event, Kind
from gateway.core.reasons import Rejected
from gateway.interests import changes
from gateway.interests.changes import Change, NewEpoch, Put
from gateway.interests.interest import Interest
from gateway.interests.records import apply_record
from gateway.kafka.interest_reader import InterestRecord
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.container import decode_record
from gateway.records.raw_log.control_frames import MESH, EdgeStarted, InterestChanged
from gateway.records.raw_log.frames import RawFrame, Replayed
from gateway.records.rejected_frame import KEPT_BYTES
from streaming_jobs.reprocess.frame_verdict import (
    NO_EFFECT,
    Effect,
    FrameVerdict,
    VerdictDigests,
    frame_print,
    judged,
    numbered,
)
from streaming_jobs.routing.destinations import Fanout, destination_of
from streaming_jobs.routing.frame_judge import Verdict
from streaming_jobs.routing.frame_router import FrameRouter
from streaming_jobs.routing.mesh_state import MeshState


class Reprocessor:
    """Give it one raw partition, in order; `begin` before another."""

    def __init__(self, config: Config, keys: KeyRing, identity: GatewayIdentity | None) -> None:
        self._config, self._keys, self._identity = config, keys, identity
        self.begin(())

    @classmethod
    def of_today(cls, config: Config) -> Reprocessor:
        """Returns a judge with the trust store as it is now."""
        trust = trust_file.load(config.trust, entry=config.identity.key)
        return cls(config, trust.keys, trust.identity)

    def begin(self, standing: Iterable[InterestRecord], *, keeps_leases: bool = False) -> None:
        """Forgets all interests but these.

        Args:
            keeps_leases: as for `apply_record`; True for who asks who is there now.
        """
        self._state = MeshState(self._config, self._keys, self._identity)
        self.rows = FrameRouter(self._state)
        for key, value in standing:
            apply_record(self._state.table, key, value, keeps_leases=keeps_leases)

    def record(self, value: bytes, partition: int, offset: int) -> Iterator[FrameVerdict]:
        """Yields every frame of a record. What is no record at all counts as one frame, as the router counts it."""
        try:
            frames = decode_record(value).frames
        except Rejected as refused:
            yield FrameVerdict(
                f"{partition}-{offset}-0",
                partition,
                offset,
                0,
                0,
                "",
                "",
                0,
                VerdictDigests.REJECTED.value,
                reasons=(refused.reason.value,),
                frame_print=frame_print(value[:KEPT_BYTES]),
            )
            return
        routed = self.rows.route_frames(frames, partition, offset)
        for raw in frames:
            effect = self._effect(raw)  # before the frame has it: an end tells for whom
            yield judged(next(routed), partition, offset, self._config.mesh, effect)

    def verdict(self, raw: RawFrame) -> Verdict:
        """Returns the verdict on one frame. An event has no id of its own then."""
        (verdict,) = self.verdicts([raw], 0, 0)
        return verdict

    def key_of(self, raw: RawFrame) -> str | None:
        """Returns the key by which a repeat of the frame is known; None if its kind has no repeats."""
        verdict = self.verdict(raw)
        return self.rows.key_of(verdict) if isinstance(verdict, Event) else None

    def why_not_again(self, raw: RawFrame) -> str:
        """Returns the reason why this frame may not go through the mesh again; empty if it may."""
        verdict = self.verdict(raw)
        if verdict is None:
            return "it is the mesh's own"
        if isinstance(verdict, Rejected):
            return f"it would be refused again: {verdict}"
        if verdict.kind is not Kind.EVENT:
            return f"a {verdict.kind} is over by now"
        if not self.rows.is_repeatable(verdict):
            return "it tells the mesh itself something, which is over by now"
        if not self._state.permissions.may_publish(verdict.principal, verdict.listener, verdict.subject):
            return f"its node may not publish {verdict.subject}"
        return ""

    def is_wanted(self, raw: RawFrame, again: Replayed) -> bool:
        """Returns True if an interest that it began with wants this frame's event and its subscriber lacks it."""
        verdict = self.verdict(raw)
        return isinstance(verdict, Event) and bool(Fanout(self._state).find_again(verdict, again))

    def verdicts(self, frames: Sequence[RawFrame], partition: int, offset: int) -> Sequence[Verdict]:
        """Returns the verdict on each frame by itself, before permissions, receivers and repeats.

        The verdict on a frame of the mesh's own is None.
        """
        return self.rows.judge.verdicts(frames, partition, offset)

    def _effect(self, raw: RawFrame) -> Effect:
        if raw.source.protocol != MESH:
            return NO_EFFECT
        try:
            frame = control_frames.decode(raw.data)
            if isinstance(frame, EdgeStarted):
                return Effect(_names(interest for interest in self._state.table if interest.edge == raw.source.edge))
            if isinstance(frame, InterestChanged):
                return self._change(changes.from_bytes(frame.change.encode()))
        except (Rejected, ValueError, KeyError):
            pass  # the row functions refuse it
        return NO_EFFECT

    def _change(self, change: Change) -> Effect:
        if isinstance(change, NewEpoch):
            return NO_EFFECT
        standing = self._state.table.of(change.subscriber)
        changed = (change.interest,) if isinstance(change, Put) else standing
        return Effect(_names(changed), change.position.event_id)


def _names(interests: Iterable[Interest]) -> tuple[str, ...]:
    return tuple({numbered(destination_of(interest)): None for interest in interests})
