"""Decodes and authenticates frames: each becomes an event, or is refused with a reason.

Neighbours of one protocol are judged together, where it has a way to. If that goes wrong by a mistake of ours, each is
judged alone, so that only the frame at fault is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from gateway.core.event import Event
from gateway.core.fault_log import RateLimitedFaultLog
from gateway.core.ids import event_ids
from gateway.core.reasons import Reason, Rejected, Stage
from gateway.protocols.spec import Options, ProtocolSpec
from gateway.records.link_trail import found_in
from gateway.records.raw_log.control_frames import MESH
from gateway.records.raw_log.frames import RawFrame
from streaming_jobs.routing.mesh_state import MeshState

Verdict = Event | Rejected | None
"""None for a frame of the mesh's own."""


class FrameJudge:
    def __init__(self, state: MeshState, faults: RateLimitedFaultLog) -> None:
        self._state = state
        self._faults = faults

    def verdicts(
        self, frames: Sequence[RawFrame], partition: int, offset: int, first: int = 0, known: Sequence[Verdict] = ()
    ) -> Sequence[Verdict]:
        """Returns the verdicts on the frames of a record, or of a part of it.

        Args:
            first: the index of the first of these frames in the record.
            known: the verdicts that are there already; None for a frame that was not judged.
        """
        places = event_ids(partition, offset, range(first, first + len(frames)))
        if not any(known):
            return self._judge(frames, places)
        missing = [at for at, verdict in enumerate(known) if verdict is None]
        judged = iter(self._judge([frames[at] for at in missing], [places[at] for at in missing]))
        return [next(judged) if verdict is None else verdict for verdict in known]

    def _judge(self, frames: Sequence[RawFrame], places: Sequence[str]) -> list[Verdict]:
        ids = [raw.again.event_id if raw.again else name for raw, name in zip(frames, places, strict=True)]
        verdicts: list[Verdict] = []
        for protocol, run in groupby(frames, _protocol_of):
            raws = list(run)
            if protocol == MESH:
                verdicts += [None] * len(raws)
            else:
                verdicts += self._judge_run(protocol, raws, ids[len(verdicts) : len(verdicts) + len(raws)])
        return verdicts

    def _judge_run(self, name: str, raws: list[RawFrame], ids: list[str]) -> Sequence[Event | Rejected]:
        try:
            protocol = self._state.protocol(name)
        except Rejected as refused:
            return [refused] * len(raws)
        listeners = {raw.source.listener for raw in raws}
        options = {listener: self._state.spoken(listener, name).options for listener in listeners}
        if protocol.to_events is not None:
            try:
                return protocol.to_events(raws, ids, options, self._state.env)
            except Exception:
                internal(self._faults, Stage.DECODE)  # told once, and then of the frame at fault
        return [
            self._judge_alone(protocol, raw, event_id, options[raw.source.listener])
            for raw, event_id in zip(raws, ids, strict=True)
        ]

    def _judge_alone(
        self, protocol: ProtocolSpec[Any], raw: RawFrame, event_id: str, options: Options
    ) -> Event | Rejected:
        try:
            return found_in(protocol.to_event(raw, event_id, options, self._state.env))
        except Rejected as refused:
            return refused
        except Exception:
            return internal(self._faults, Stage.DECODE)


def internal(faults: RateLimitedFaultLog, stage: Stage) -> Rejected:
    """Returns a refusal for a fault of ours, which is being handled and which is logged now and then."""
    faults.log_exception(f"in stage {stage}")
    return Rejected(Reason.INTERNAL, f"stage {stage} failed; see the router's log")


def _protocol_of(raw: RawFrame) -> str:
    return raw.source.protocol
