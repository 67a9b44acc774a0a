"""A frame that stands in the raw log once more, with the id of its first time."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from gateway.core.event import Kind
from gateway.core.reasons import Reason, Rejected
from gateway.records import egress_codec
from gateway.records.egress import Deliver, Group, Position
from gateway.records.raw_log.container import MAGIC, ContainerBuilder, decode_record
from gateway.records.raw_log.frames import FrameSource, RawFrame, Replayed, ReplyAddress

SOURCE = FrameSource("yamp", "apps", "edge-0", 7, 3, "10.0.0.1:5000", "cn:a", facts={"format": "json"})
REPLY = ReplyAddress("emp", "emp", "edge-1", 4, 9, "77")
AGAIN = Replayed("0-5-1", 2_000_000, frozenset({"edge-0.7.4", "cn:b"}))


def test_a_frame_put_in_again_is_read_back_as_it_was_received_and_with_its_first_time() -> None:
    first = RawFrame(b"frame", SOURCE, 1_000_000, (REPLY,))
    builder = ContainerBuilder("edge-0", 7)
    builder.add(SOURCE, 5, b"before")
    builder.add_again(first, AGAIN)
    before, again = decode_record(builder.build()).frames
    assert before == RawFrame(b"before", SOURCE, 5)
    assert again == RawFrame(b"frame", SOURCE, 1_000_000, (REPLY,), AGAIN)


@pytest.mark.parametrize(("again", "version"), [(False, 1), (True, 2)])
def test_only_a_record_that_holds_such_a_frame_has_the_later_version(again: bool, version: int) -> None:
    builder = ContainerBuilder("edge-0", 7)
    if again:
        builder.add_again(RawFrame(b"frame", SOURCE, 1), AGAIN)
    builder.add(SOURCE, 5, b"another")
    assert builder.build()[len(MAGIC)] == version


def test_a_builder_forgets_the_first_times_of_the_record_before() -> None:
    builder = ContainerBuilder("edge-0", 7)
    builder.add_again(RawFrame(b"frame", SOURCE, 1), AGAIN)
    builder.build()
    builder.add(SOURCE, 5, b"another")
    assert decode_record(builder.build()).frames[0].again is None


def test_a_builder_knows_how_large_its_record_gets() -> None:
    replies = [ReplyAddress("yamp", "apps", "edge-0", 7, number, "7", "x" * 200).pack() for number in range(40)]
    builder = ContainerBuilder("edge-0", 7)
    for number in range(300):
        source = replace(SOURCE, peer=f"10.0.0.1:{number}")
        builder.add(source, 1, b"frame")
        builder.add_run(source, 1, b"twotwo", (3, 3), replies)
    builder.add_columns([SOURCE] * 3, 1, (1, 1, 1), b"abc")
    builder.add_again(RawFrame(b"frame", SOURCE, 1), AGAIN)
    size = builder.size
    record = builder.build()
    assert len(record) <= size < 1.05 * len(record)
    assert len(decode_record(record).frames) == 904
    assert builder.size == ContainerBuilder("edge-0", 7).size


def test_a_version_to_come_is_refused_by_its_number() -> None:
    builder = ContainerBuilder("edge-0", 7)
    builder.add(SOURCE, 5, b"frame")
    record = bytearray(builder.build())
    struct.pack_into("B", record, len(MAGIC), 3)
    with pytest.raises(Rejected) as refused:
        decode_record(bytes(record))
    assert refused.value.reason is Reason.UNSUPPORTED_VERSION
    assert refused.value.detail == "record version 3; this build reads 1 to 2"


def test_a_record_that_spark_hands_over_holds_bytes_like_any_other() -> None:
    builder = ContainerBuilder("edge-0", 7)
    builder.add(SOURCE, 5, b"frame")
    builder.add(SOURCE, 6, b"another")
    record = builder.build()
    frames = decode_record(bytearray(record)).frames
    assert frames == decode_record(record).frames
    assert [type(frame.data) for frame in frames] == [bytes, bytes]


@pytest.mark.parametrize("first_id", ["", "0-5-1"])
def test_what_goes_to_an_edge_again_is_ordered_by_its_new_place_and_named_by_its_first(first_id: str) -> None:
    group = Group("hsp", b"frame", (5,), (1, 2))
    written = Deliver(Position(0, 90, 0, 1), 7, Kind.EVENT, "a.b", "yamp", 5, (group,), first_id=first_id)
    (read,) = egress_codec.decode(egress_codec.encode(written))
    assert isinstance(read, Deliver)
    assert read == written
    assert read.position == Position(0, 90, 0, 1)
    assert read.event_id == (first_id or "0-90-0")
