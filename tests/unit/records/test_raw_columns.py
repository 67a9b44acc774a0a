"""A raw record read in columns: the same frames as one by one, and nothing but a refusal for what no edge wrote."""

from __future__ import annotations

import struct
from random import Random

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.reasons import Reason, Rejected
from gateway.records.raw_log.container import ContainerBuilder, decode_record, read_columns
from gateway.records.raw_log.frames import FrameSource, RawFrame, Replayed, ReplyAddress

SOURCES = [
    FrameSource("emm", "devices", "edge-0", 7, peer="192.0.2.7:4000"),
    FrameSource("emm", "devices", "edge-0", 7, peer="192.0.2.7:4001"),
    FrameSource("yamp", "apps", "edge-0", 7, 3, node="user:ann", facts={"format": "json"}),
]
REPLY = ReplyAddress("yamp", "apps", "edge-0", 7, 3, "0a", "sum")


def built(random: Random, count: int) -> tuple[bytes, list[RawFrame]]:
    builder, frames = ContainerBuilder("edge-0", 7), []
    for at in range(count):
        frame = RawFrame(random.randbytes(random.randrange(50)), random.choice(SOURCES), random.getrandbits(50))
        match random.randrange(5):
            case 0:
                frame.again = Replayed(f"0-1-{at}", 5, frozenset({"a"}))
                builder.add_again(frame, frame.again)
            case 1:
                frame.replies = (REPLY,)
                builder.add_run(frame.source, frame.received_at, frame.data, (len(frame.data),), [REPLY.pack()])
            case _:
                builder.add(frame.source, frame.received_at, frame.data)
        frames.append(frame)
    return builder.build(), frames


@given(st.integers(0, 2**32), st.integers(0, 40))
def test_a_record_gives_back_its_frames_whichever_way_it_is_read(seed: int, count: int) -> None:
    record, frames = built(Random(seed), count)
    columns = read_columns(bytearray(record))
    assert len(columns) == count
    assert columns.frames() == frames == list(decode_record(record).frames)
    assert [columns.frame(index) for index in range(count)] == frames
    assert count == 0 or columns.received_between() == (
        min(frame.received_at for frame in frames),
        max(frame.received_at for frame in frames),
    )


@given(st.integers(0, 2**32))
def test_what_no_edge_wrote_is_refused_or_read(seed: int) -> None:
    random = Random(seed)
    record = bytearray(built(random, 5)[0])
    for _ in range(random.randrange(1, 4)):
        record[random.randrange(len(record))] = random.randrange(256)
    if random.random() < 0.3:
        del record[random.randrange(len(record)) :]
    try:
        columns = read_columns(record)
    except Rejected:
        return
    assert sum(len(frame.data) for frame in columns.frames()) == int(columns.lengths.sum())


@pytest.mark.parametrize(
    ("source", "more"),
    [(1, []), (0, [{1: ("0-0-0", 1, [])}]), (0, [{-1: ("0-0-0", 1, [])}]), (0, [{"0": ("0-0-0", 1, [])}])],
)
def test_an_index_that_names_nothing_is_refused(source: int, more: list[object]) -> None:
    packed: tuple[object, ...] = ("emm", "devices", 0, "", "", "none", "", {})
    head = msgpack.packb(["edge-0", 7, [packed], {}, *more])
    record = struct.pack("<3sBII", b"MGR", 2, 1, len(head)) + head + struct.pack("<IHq", 1, source, 1) + b"x"
    with pytest.raises(Rejected) as refused:
        read_columns(record)
    assert refused.value.reason is Reason.MALFORMED


def test_sources_of_datagrams_are_the_same_objects_in_every_record() -> None:
    """What is known of a source is found by it, record after record."""
    builder = ContainerBuilder("edge-0", 7)
    records = []
    for _ in range(2):
        builder.add(SOURCES[0], 1, b"x")
        records.append(read_columns(builder.build()))
    assert records[0].sources[0] is records[1].sources[0]
