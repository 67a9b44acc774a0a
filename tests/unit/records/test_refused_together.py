"""Frames of one raw record that are refused for one reason share a record where they are too many for one each."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.ids import FramePosition
from gateway.inspect.history.rejections import rejections_of
from gateway.inspect.live.rows import ROWS
from gateway.kafka.records import TopicRecord
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.frames import RawFrame, Replayed
from gateway.records.rejected_frame import KEPT_BYTES, RECORD_BYTES, RefusedFrame, read, records
from streaming_jobs.routing.refusal_rate import BURST_RECORDS, RECORDS_PER_SECOND, RefusalRate
from tests.unit.routing.asking import client
from tests.unit.routing.mesh_in_a_log import EDGE, EPOCH, NOW, MeshInALog

texts = st.text(st.characters(codec="utf-8"), max_size=30)
few = st.sampled_from(["", "a"])
refusals = st.builds(
    RefusedFrame, few, few, few, few, few, texts, texts, texts, texts, texts, st.integers(0, 2**40),
    st.binary(max_size=50),
)  # fmt: skip


@given(st.lists(refusals, max_size=20), st.integers(0, 20))
def test_what_is_written_is_read_again(written: list[RefusedFrame], alone: int) -> None:
    again = [refusal for value, headers in records(written, alone) for refusal in read(headers, value)]
    assert sorted(again) == sorted(written)


def test_one_record_holds_all_that_are_refused_for_one_reason_in_a_flood() -> None:
    mesh = MeshInALog()
    mesh.state.refusal_rate.take(BURST_RECORDS, NOW)
    source = client(mesh).source
    builder = ContainerBuilder(EDGE, EPOCH)
    for number in range(300):
        builder.add(source, 1, b"\xff%d" % number)
    builder.add(replace(source, listener="other"), 1, b"\xff")
    builder.add_again(RawFrame(b"\xff", source, 1), Replayed("0-0-7", 1))
    offset = FramePosition.parse(mesh.append(builder.build())).offset
    first, other = mesh.of("rejected")
    assert dict(first.headers)["frames"] == b"301"
    assert dict(other.headers)["listener"] == b"other"
    items = json.loads(first.value or b"")
    assert [item["event_id"] for item in items[:300]] == [f"0-{offset}-{number}" for number in range(300)]
    assert (items[300]["event_id"], items[300]["again"]) == ("0-0-7", f"0-{offset}-301")
    assert (
        mesh.state.tally.take()["frames", "decode", "rejected", dict(first.headers)["reason"].decode(), "yamp"] == 302
    )


def test_each_refused_frame_has_a_record_of_its_own_while_they_are_few() -> None:
    mesh = MeshInALog()
    builder = ContainerBuilder(EDGE, EPOCH)
    for number in range(300):
        builder.add(client(mesh).source, 1, b"\xff%d" % number)
    mesh.append(builder.build())
    assert [out.value for out in mesh.of("rejected")] == [b"\xff%d" % number for number in range(300)]


def test_the_rate_is_of_the_log_s_seconds() -> None:
    rate = RefusalRate()
    assert rate.take(BURST_RECORDS + 1, 1_000) == BURST_RECORDS
    assert rate.take(5, 1_000) == rate.take(5, 990) == 0
    assert rate.take(RECORDS_PER_SECOND * 3, 1_002) == RECORDS_PER_SECOND * 2
    assert rate.take(BURST_RECORDS * 2, 2_000) == BURST_RECORDS


def test_a_record_is_no_larger_than_the_sink_sends_at_once() -> None:
    frames = [RefusedFrame("r", "decode", "p", "l", "e", f"0-1-{at}", kept=bytes(KEPT_BYTES)) for at in range(200)]
    made = list(records(frames, 0))
    assert max(len(value) for value, _ in made) <= RECORD_BYTES
    assert [refusal for value, headers in made for refusal in read(headers, value)] == frames
    assert len(made) < 6


def test_whoever_reads_the_topic_finds_each_frame() -> None:
    frames = [RefusedFrame("bad_hmac", "decode", "emm", "l", "e", f"0-1-{at}", kept=b"%d" % at) for at in range(3)]
    [(value, headers)] = records(frames, 0)
    record = TopicRecord(0, 9, 1_000, None, value, tuple(headers))
    assert [(one.event_id, one.frame, one.at) for one in rejections_of(record)] == [
        ("0-1-0", b"0", 1_000), ("0-1-1", b"1", 1_000), ("0-1-2", b"2", 1_000),
    ]  # fmt: skip
    assert [row.data for row in ROWS["rejected"](record)] == [b"0", b"1", b"2"]
