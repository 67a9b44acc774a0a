"""Frames on their way into the raw log again, and what a replay says about them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from gateway.core.event import Event, Kind
from gateway.core.ids import FramePosition
from gateway.inspect.history.logged_frame import LoggedFrame
from gateway.records.raw_log.container import decode_record
from gateway.records.raw_log.frames import FrameSource, RawFrame, Replayed
from streaming_jobs.replay.changes import Replay, ReplayChange, ReplayOutcome, differing
from streaming_jobs.replay.replay_writer import FRAMES_PER_RECORD, FrameAgain, records


def given(partition: int, offset: int, *, edge: str = "edge-0", epoch: int = 7, data: bytes = b"frame") -> FrameAgain:
    raw = RawFrame(data, FrameSource("emm", "devices", edge, epoch, 0, "10.0.0.1:9"), 1_000 + offset)
    place = FramePosition(partition, offset, 0)
    return LoggedFrame(place, raw, 2_000), Replayed(place.event_id, 5_000, frozenset({"edge-0.7.3"}))


def test_frames_of_one_edge_and_epoch_travel_together_and_keep_their_order() -> None:
    ((partition, record, count),) = records([given(1, 4), given(1, 9)], 65_536)
    assert (partition, count) == (1, 2)
    frames = decode_record(record).frames
    assert [frame.again.event_id for frame in frames if frame.again] == ["1-4-0", "1-9-0"]
    assert [frame.received_at for frame in frames] == [1_004, 1_009]
    assert frames[0].source == given(1, 4)[0].raw.source


@pytest.mark.parametrize("other", [given(2, 5), given(1, 5, edge="edge-1"), given(1, 5, epoch=8)])
def test_another_partition_edge_or_epoch_is_another_record(other: FrameAgain) -> None:
    assert [count for _, _, count in records([given(1, 4), other, given(1, 6)], 65_536)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("count", "sizes"), [(FRAMES_PER_RECORD, [FRAMES_PER_RECORD]), (FRAMES_PER_RECORD + 1, [FRAMES_PER_RECORD, 1])]
)
def test_a_record_holds_so_many_frames_and_no_more(count: int, sizes: list[int]) -> None:
    assert [size for _, _, size in records((given(1, at) for at in range(count)), 65_536)] == sizes


def test_a_record_closes_at_its_size() -> None:
    assert [size for _, _, size in records((given(1, at, data=bytes(1_000)) for at in range(5)), 2_000)] == [2, 2, 1]


EVENT = Event("0-1-0", Kind.EVENT, "temp.high", "hsp", "plc", "edge-0", "", "", "cn:a", 5, body=b"31")


def test_two_readings_of_a_frame_differ_in_what_they_say_and_not_in_where_they_stand() -> None:
    assert differing(EVENT, replace(EVENT, id="0-9-0", raw=b"frame")) == ()
    assert differing(EVENT, replace(EVENT, subject="hsp.17", body=b"")) == ("subject", "body")


def replay(*, dry_run: bool) -> Replay:
    found = Replay("demo", 0, 5, dry_run, 10, Counter({"rejected (unknown_key) then, event today": 2}))
    found.changes = [
        ReplayChange("0-1-0", "rejected (unknown_key)", "event"),
        ReplayChange("0-2-0", "event a", "event b", ("subject",)),
    ]
    found.outcomes = [
        ReplayOutcome("0-1-0", "accepted today", "" if dry_run else "0-9-0"),
        ReplayOutcome("0-2-0", "accepted today", left_alone="a request is over by now"),
    ]
    return found


@pytest.mark.parametrize(
    ("dry_run", "sent", "said"), [(True, 0, "1 frame would be sent again"), (False, 1, "1 frame sent again")]
)
def test_a_dry_run_tells_what_would_be_sent_and_sends_nothing(dry_run: bool, sent: int, said: str) -> None:
    found = replay(dry_run=dry_run)
    as_json = json.loads(json.dumps(found.to_json()))
    assert (as_json["to_send"], as_json["sent"], as_json["changed"]) == (1, sent, 2)
    assert as_json["left_alone"] == [{"event_id": "0-2-0", "why": "a request is over by now"}]
    assert said in found.to_text(diff=False)


def test_a_diff_shows_then_and_today_and_the_fields_that_read_differently() -> None:
    text = replay(dry_run=True).to_text(diff=True)
    assert "  0-2-0            - event a\n                   + event b (subject)" in text
    assert "- event a" not in replay(dry_run=True).to_text(diff=False)
