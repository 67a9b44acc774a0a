"""What today's row functions say about frames of the past, as the audit compares it."""

from __future__ import annotations

from gateway.core.event import SECOND_US, Event
from gateway.core.ids import FramePosition
from gateway.interests.changes import EndSession
from gateway.records import cloud_event
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.control_frames import MESH, EdgeStarted
from gateway.records.raw_log.frames import FrameSource, RawFrame, Replayed
from gateway.records.rejected_frame import KEPT_BYTES
from streaming_jobs.reprocess.frame_verdict import FrameVerdict, event_print, frame_print
from streaming_jobs.reprocess.reprocessor import Reprocessor
from tests.unit.audit.recorded import (
    NODE,
    RECEIVED_AT,
    change,
    frame,
    judge,
    packet,
    record,
    subscription,
)


def judged(judge: Reprocessor, *frames: RawFrame, offset: int = 10) -> list[FrameVerdict]:
    return list(judge.record(record(frames), 1, offset))


def test_an_accepted_frame_is_an_event_with_its_key_and_the_print_of_its_record() -> None:
    data = packet("temp.high", body="31")
    (one,) = judged(judge(), frame(data))
    (event,) = judge().verdicts([frame(data)], 1, 10)
    assert (one.event_id, one.verdict, one.key) == ("1-10-0", "event", f"{NODE}:00000001")
    assert isinstance(event, Event)
    assert one.event_print == event_print(cloud_event.attributes(event, "test"), b"31")
    assert one.frame_print == frame_print(data)


def test_every_attribute_but_the_trace_and_every_byte_of_a_body_say_something() -> None:
    given = dict.fromkeys(cloud_event.NAMES, "x")
    others = [event_print({**given, name: "y"}, b"v") for name in given if name != cloud_event.TRACE_HEADER]
    assert len({event_print(given, b"v"), event_print(given, b"V"), *others}) == 2 + len(others)
    assert event_print({**given, cloud_event.TRACE_HEADER: "y"}, b"v") == event_print(given, b"v")


def test_a_refused_frame_has_its_reason_and_no_key() -> None:
    (one,) = judged(judge(trusting=False), frame(packet("temp.high")))
    assert (one.verdict, one.reasons, one.key, one.event_print) == ("rejected", ("unknown_key",), None, "")


def test_a_refused_frame_is_compared_by_the_part_that_was_kept_of_it() -> None:
    data = packet("temp.high")[:-1] + b"x" * 5_000
    (one,) = judged(judge(), frame(data))
    assert (one.verdict, one.frame_print) == ("rejected", frame_print(data[:KEPT_BYTES]))


def test_freshness_is_judged_at_the_recorded_receive_time() -> None:
    late = frame(packet("temp.high"), at_us=RECEIVED_AT + 301 * SECOND_US)
    fresh, stale = judged(judge(), frame(packet("temp.high")), late)
    assert (fresh.verdict, stale.verdict, stale.reasons) == ("event", "rejected", ("stale",))


def test_what_the_mesh_says_to_itself_is_control() -> None:
    started = RawFrame(control_frames.encode(EdgeStarted()), FrameSource(MESH, "", "edge-0", 7), RECEIVED_AT)
    (one,) = judged(judge(), started)
    assert (one.verdict, one.protocol, one.reasons) == ("control", MESH, ())


def test_what_is_no_record_counts_as_one_refused_frame() -> None:
    (one,) = judge().record(b"not of this mesh", 1, 10)
    assert (one.event_id, one.verdict, one.reasons) == ("1-10-0", "rejected", ("malformed",))
    assert one.frame_print == frame_print(b"not of this mesh")


def test_interests_are_those_that_stood_in_the_log_before_the_frame() -> None:
    before, put, after, end, last = judged(
        judge(),
        frame(packet("temp.high", 1)),
        change(subscription("temp.>")),
        frame(packet("temp.high", 2)),
        change(EndSession("edge-0.7.3", FramePosition(1, 9, 4))),
        frame(packet("temp.high", 3)),
    )
    assert [one.destinations for one in (before, after, last)] == [(), ("0.7.3",), ()]
    assert put.touched == end.touched == ("0.7.3",)
    assert (put.causes, end.causes) == ("0-3-0", "1-9-4")


def test_a_judge_begins_with_the_interests_it_is_given_and_forgets_them_again() -> None:
    standing = subscription("temp.>").interest
    one = judge()
    one.begin([(standing.key.to_bytes(), standing.to_json())])
    (known,) = judged(one, frame(packet("temp.high", 1)))
    one.begin(())
    (forgotten,) = judged(one, frame(packet("temp.high", 2)))
    assert (known.destinations, forgotten.destinations) == (("0.7.3",), ())


def test_a_new_epoch_touches_everyone_of_that_edge() -> None:
    one = judge()
    started = RawFrame(control_frames.encode(EdgeStarted()), FrameSource(MESH, "", "edge-0", 8), RECEIVED_AT)
    judged(one, change(subscription("temp.>")))
    (epoch,) = one.record(record([started], epoch=8), 1, 11)
    (after,) = judged(one, frame(packet("temp.high")), offset=12)
    assert epoch.touched == ("0.7.3",)
    assert after.destinations == ()


def test_a_frame_put_in_again_is_judged_under_its_first_id_and_passes_by_who_has_got_it() -> None:
    again = Replayed("1-2-0", RECEIVED_AT + 60 * SECOND_US, frozenset({"edge-0.7.3"}))
    frames = [change(subscription("temp.>", 3)), change(subscription("temp.>", 4)), frame(packet("temp.high"))]
    *_, one = judge().record(record(frames, {2: again}), 1, 10)
    assert (one.event_id, one.first_id, one.verdict) == ("1-10-2", "1-2-0", "event")
    assert one.destinations == ("0.7.4",)


def test_whoever_has_got_it_is_known_by_its_node_too() -> None:
    again = Replayed("1-2-0", RECEIVED_AT, frozenset({"cn:4"}))
    frames = [change(subscription("temp.>", 3)), change(subscription("temp.>", 4)), frame(packet("temp.high"))]
    *_, one = judge().record(record(frames, {2: again}), 1, 10)
    assert one.destinations == ("0.7.3",)
