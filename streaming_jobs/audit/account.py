"""Accounts for one frame: today's verdict beside what stands in the topics.

Invariants
1. Every frame is counted once: it was an event, refused, a repeat, the mesh's own affair, put in again, or it is lost.
2. What was decided then counts; that today's keys, configuration or code would decide otherwise, or read the same
   frame differently, is told apart and is no loss, for nothing is missing.
3. A frame counts as a repeat only where an earlier frame with its key has come through (`covered`), and never instead
   of a record that is there.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from streaming_jobs.reprocess.frame_verdict import VerdictDigests


class Counted(StrEnum):
    EVENT = "event"
    REJECTED = "rejected"
    DUPLICATE = "duplicate"
    CONTROL = "control"
    AGAIN = "again"
    LOST = "lost"


class FaultKind(StrEnum):
    """The kinds of faults.

    `lost_*`: the record is not there. `altered_*`: it says something else than its frame does. `unknown_*`: it names
    what never was. `unsent_delivery`: a receiver for whom nothing was handed to an edge.
    """

    LOST_EVENT = "lost_event"
    LOST_REJECTION = "lost_rejection"
    LOST_DELIVERY = "lost_delivery"
    UNSENT_DELIVERY = "unsent_delivery"
    ALTERED_EVENT = "altered_event"
    ALTERED_REJECTION = "altered_rejection"
    UNKNOWN_EVENT = "unknown_event"
    UNKNOWN_REJECTION = "unknown_rejection"
    UNKNOWN_DELIVERY = "unknown_delivery"


READS_DIFFERENTLY = "reads differently today"


class Evidence(NamedTuple):
    """Everything that the topics hold about one frame.

    `…_then` is what stands in the topics: the prints of all records of the event, reasons and bytes of refusals.

    `again`: this frame was put in again; the event is then looked for under its first id, refusals under its own place.
    `covered`: a repeat, by its key, of a frame that came before it. `changed_interests`: it had an effect then that
    only what was accepted has.
    """

    verdict: str
    again: bool = False
    reasons: tuple[str, ...] = ()
    event_print: str = ""
    frame_print: str = ""
    event_prints_then: tuple[str, ...] = ()
    reasons_then: tuple[str, ...] = ()
    frame_prints_then: tuple[str, ...] = ()
    covered: bool = False
    changed_interests: bool = False


class FrameAccount(NamedTuple):
    """The account of one frame.

    `reason` is that of a refusal, as it was written then. `differently` is what would be decided today, if that
    differs.
    """

    counted: str
    reason: str = ""
    fault: str = ""
    differently: str = ""


def account(frame: Evidence) -> FrameAccount:
    accounted = _put_in_again(frame) if frame.again else _received(frame)
    if accounted.counted == Counted.LOST or accounted.fault:
        return accounted
    return accounted._replace(fault=_altered(frame), differently=_differently(frame, accounted))


def _received(frame: Evidence) -> FrameAccount:
    if frame.event_prints_then:
        missing = frame.verdict == VerdictDigests.EVENT and frame.reasons and not frame.reasons_then
        return FrameAccount(Counted.EVENT, fault=FaultKind.LOST_REJECTION if missing else "")
    if frame.reasons_then:
        return FrameAccount(Counted.REJECTED, frame.reasons_then[0])
    if frame.covered:
        return FrameAccount(Counted.DUPLICATE)
    if frame.verdict == VerdictDigests.CONTROL or frame.changed_interests:
        return FrameAccount(Counted.CONTROL)
    return _lost(frame)


def _put_in_again(frame: Evidence) -> FrameAccount:
    """It is no new frame, but it must have come to something, for somebody sent it."""
    if frame.verdict == VerdictDigests.CONTROL or frame.event_prints_then or frame.reasons_then:
        return FrameAccount(Counted.AGAIN)
    return _lost(frame)


def _lost(frame: Evidence) -> FrameAccount:
    kind = FaultKind.LOST_EVENT if frame.verdict == VerdictDigests.EVENT else FaultKind.LOST_REJECTION
    return FrameAccount(Counted.LOST, fault=kind)


def _altered(frame: Evidence) -> str:
    if frame.verdict == VerdictDigests.EVENT and any(
        _is_altered(print_then, frame.event_print) for print_then in frame.event_prints_then
    ):
        return FaultKind.ALTERED_EVENT
    if any(print_then != frame.frame_print for print_then in frame.frame_prints_then):
        return FaultKind.ALTERED_REJECTION
    return ""


def _is_altered(then: str, today: str) -> bool:
    """The same proof, and yet another body or place. With another proof (a key that came later) even an encrypted body
    reads differently."""
    proof_then, fixed_then, _ = then.split(" ")
    proof_today, fixed_today, _ = today.split(" ")
    return proof_then == proof_today and fixed_then != fixed_today


def _differently(frame: Evidence, accounted: FrameAccount) -> str:
    match accounted.counted, frame.verdict:
        case Counted.REJECTED, VerdictDigests.REJECTED:
            if set(frame.reasons) == set(frame.reasons_then):
                return ""
        case Counted.EVENT, VerdictDigests.EVENT:
            return READS_DIFFERENTLY if set(frame.event_prints_then) != {frame.event_print} else ""
        case Counted.DUPLICATE | Counted.AGAIN, _:
            return ""
        case Counted.CONTROL, VerdictDigests.CONTROL:
            return ""
    then = f"{accounted.counted} ({accounted.reason})" if accounted.reason else str(accounted.counted)
    today = f"{frame.verdict} ({frame.reasons[0]})" if frame.reasons else frame.verdict
    return f"{then} then, {today} today"
