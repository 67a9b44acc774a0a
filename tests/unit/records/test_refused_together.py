"""Frames of one raw record that are refused for one reason share a record of `rejected`."""

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
from tests.unit.routing.asking import client
from tests.unit.routing.mesh_in_a_log import EDGE, EPOCH, MeshInALog

texts = st.text(st.characters(codec="utf-8"), max_size=30)
few = st.sampled_from(["", "a"])
refusals = st.builds(
    RefusedFrame, few, few, few, few, few, texts, texts, texts, texts, texts, st.integers(0, 2**40),
    st.binary(max_size=50),
)  # fmt: skip


@given(st.lists(refusals, max_size=20))
def test_what_is_written_is_read_again(written: list[RefusedFrame]) -> None:
    again = [refusal for value, headers in records(written) for refusal in read(headers, value)]
    assert sorted(again) == sorted(written)


def test_one_record_holds_all_that_are_refused_for_one_reason() -> None:
    mesh = MeshInALog()
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


def test_a_record_is_no_larger_than_the_sink_sends_at_once() -> None:
    frames = [RefusedFrame("r", "decode", "p", "l", "e", f"0-1-{at}", kept=bytes(KEPT_BYTES)) for at in range(200)]
    made = list(records(frames))
    assert max(len(value) for value, _ in made) <= RECORD_BYTES
    assert [refusal for value, headers in made for refusal in read(headers, value)] == frames
    assert len(made) < 6


def test_whoever_reads_the_topic_finds_each_frame() -> None:
    frames = [RefusedFrame("bad_hmac", "decode", "emm", "l", "e", f"0-1-{at}", kept=b"%d" % at) for at in range(3)]
    [(value, headers)] = records(frames)
    record = TopicRecord(0, 9, 1_000, None, value, tuple(headers))
    assert [(one.event_id, one.frame, one.at) for one in rejections_of(record)] == [
        ("0-1-0", b"0", 1_000), ("0-1-1", b"1", 1_000), ("0-1-2", b"2", 1_000),
    ]  # fmt: skip
    assert [row.data for row in ROWS["rejected"](record)] == [b"0", b"1", b"2"]
