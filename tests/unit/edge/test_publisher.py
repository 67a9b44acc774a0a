"""Records of the raw log: when they close, what is settled, and what bounds them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise

from gateway.config.settings import RecordSettings
from gateway.edge.producer import NotTaken
from gateway.edge.publisher import RUN_BYTES, RawPublisher
from gateway.edge.run_parts import RUN_FRAMES
from gateway.raw_log.container import FRAME_BYTES, decode_record
from gateway.raw_log.frames import RawFrame, ReplyAddress, Source
from gateway.raw_log.mesh_frames import MESH
from tests.unit.edge.fake_kafka import FENCED, TOO_LARGE, FakeProducer
from tests.unit.edge.running import in_a_loop, until

SOURCE = Source("hsp", "plc", "edge-0", 1, 3)
LONG = RecordSettings(linger_milliseconds=60_000)


@dataclass
class Log:
    """A publisher into a Kafka that acknowledges only when told."""

    limits: RecordSettings = field(default_factory=RecordSettings)
    bound: int = 1_000_000
    partitions: int = 2
    largest_bytes: int = 4_000_000
    settled: list[tuple[str, bool]] = field(default_factory=list)
    took: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.kafka = FakeProducer(held=True)
        self.publisher = RawPublisher(
            self.kafka, topic="test.raw", partitions=self.partitions, edge="edge-0", epoch=1,
            limits=self.limits, bound_bytes=self.bound, largest_bytes=self.largest_bytes, observe=self.took.append,
        )  # fmt: skip

    def adds(
        self, name: str, data: bytes = b"frame", *, partition: int = 0, frames: int = 1,
        replies: tuple[ReplyAddress, ...] = (),
    ) -> None:  # fmt: skip
        def settled(accepted: bool) -> None:
            self.settled.append((name, accepted))

        lengths = (len(data),) * frames
        self.publisher.add_run(partition, SOURCE, data * frames, lengths, replies=replies, settled=settled)

    def records(self) -> list[list[RawFrame]]:
        return [list(decode_record(one.value).frames) for one in self.kafka.written]

    async def has_written(self, count: int) -> None:
        await until(lambda: len(self.records()) == count)

    async def acknowledges(self, error: NotTaken | None = None) -> None:
        self.kafka.acknowledge(error)
        await turn()


async def turn() -> None:
    """What was called soon is done."""
    for _ in range(3):
        await asyncio.sleep(0)


@in_a_loop
async def test_an_idle_partition_waits_for_nothing() -> None:
    log = Log(LONG)
    log.adds("one")
    log.adds("two")
    assert log.kafka.written == []
    await turn()
    assert [[frame.data for frame in record] for record in log.records()] == [[b"frame", b"frame"]]


@in_a_loop
async def test_after_some_have_left_the_next_fill_and_leave_together() -> None:
    log = Log(RecordSettings(linger_milliseconds=100))
    log.adds("one")
    await turn()
    log.adds("two")
    log.adds("three", partition=1)
    log.adds("four")
    await log.acknowledges()
    assert len(log.records()) == 1
    await until(lambda: len(log.records()) == 3)
    assert [len(record) for record in log.records()] == [1, 2, 1]
    assert log.settled == [("one", True)]


@in_a_loop
async def test_a_record_does_not_wait_longer_than_it_may() -> None:
    log = Log(RecordSettings(linger_milliseconds=5))
    log.adds("one")
    await turn()
    log.adds("two")
    await until(lambda: len(log.records()) == 2)


@in_a_loop
async def test_a_full_record_leaves_at_once() -> None:
    log = Log(RecordSettings(frames=3, bytes=1_000, linger_milliseconds=60_000))
    log.adds("one")
    await turn()
    log.adds("two", frames=2)
    assert len(log.records()) == 1
    log.adds("three")
    assert len(log.records()) == 2
    log.adds("large", bytes(1_000))
    assert len(log.records()) == 3


@in_a_loop
async def test_runs_are_settled_in_their_order_when_kafka_has_them_and_not_before() -> None:
    log = Log(LONG)
    for name in ("one", "two"):
        log.adds(name)
    await turn()
    log.adds("three")
    assert log.settled == []
    await log.acknowledges()
    assert log.settled == [("one", True), ("two", True)]
    log.publisher.flush()
    await log.acknowledges()
    assert log.settled[2:] == [("three", True)]
    assert len(log.took) == 2


@in_a_loop
async def test_a_run_too_long_for_a_record_is_cut_and_settled_with_its_last_part() -> None:
    log = Log()
    log.adds("long", b"x", frames=2 * RUN_FRAMES + 1)
    await turn()
    assert sum(len(record) for record in log.records()) == 2 * RUN_FRAMES + 1
    assert max(len(record) for record in log.records()) == RUN_FRAMES
    assert log.settled == []
    await log.acknowledges()
    await log.acknowledges()
    assert log.settled == [("long", True)]


@in_a_loop
async def test_what_waits_is_bounded_and_those_who_write_are_told_when_to_stop_and_when_to_go_on() -> None:
    log = Log(bound=2 * (100 + FRAME_BYTES + RUN_BYTES))
    told: list[str] = []
    log.publisher.when_full(lambda: told.append("stop"), lambda: told.append("go"))
    log.adds("one", bytes(100))
    assert not log.publisher.is_full
    log.adds("two", bytes(100), partition=1)
    assert log.publisher.is_full
    log.adds("three", bytes(100), partition=1)
    await turn()
    assert told == ["stop"]
    await log.acknowledges()
    assert told == ["stop", "go"]
    assert log.publisher.in_flight_bytes == 0


@in_a_loop
async def test_tiny_frames_weigh_what_they_cost() -> None:
    log = Log()
    log.adds("tiny", b"x", frames=100)
    assert log.publisher.in_flight_bytes == 100 * (1 + FRAME_BYTES) + RUN_BYTES


@in_a_loop
async def test_a_record_that_kafka_will_never_take_is_refused_alone() -> None:
    log = Log()
    log.kafka.refuses = TOO_LARGE
    log.adds("too large")
    await turn()
    log.kafka.refuses = None
    log.adds("other")
    log.publisher.flush()
    await log.acknowledges()
    assert log.settled == [("too large", False), ("other", True)]
    assert not log.publisher.failed.done()
    assert log.publisher.in_flight_bytes == 0


@in_a_loop
async def test_a_producer_that_is_at_its_end_ends_the_edge() -> None:
    log = Log()
    log.adds("one")
    await turn()
    await log.acknowledges(FENCED)
    assert log.settled == [("one", False)]
    assert log.publisher.failed.result() is FENCED


class Counted:
    def __init__(self) -> None:
        self.settles: list[tuple[int, bool]] = []

    def settled(self, frames: int, seconds: float, accepted: bool) -> None:
        assert seconds >= 0
        self.settles.append((frames, accepted))


@in_a_loop
async def test_datagrams_are_counted_by_record_for_whoever_added_them() -> None:
    log, one, other = Log(LONG), Counted(), Counted()
    for tally in (one, other, one):
        log.publisher.add_datagrams(0, (SOURCE,), 1, (8,), b"datagram", tally)
    await turn()
    assert one.settles == []
    await log.acknowledges()
    await until(lambda: one.settles)
    assert (one.settles, other.settles) == ([(2, True)], [(1, True)])


@in_a_loop
async def test_an_acknowledgement_that_nobody_waits_for_wakes_nobody_until_the_next_records_leave() -> None:
    log, tally = Log(RecordSettings(linger_milliseconds=1)), Counted()
    log.publisher.add_datagrams(0, (SOURCE,), 1, (8,), b"datagram", tally)
    await turn()
    await log.acknowledges()
    assert tally.settles == []
    log.publisher.add_datagrams(0, (SOURCE,), 1, (8,), b"datagram", tally)
    await log.has_written(2)
    assert tally.settles == [(1, True)]


@in_a_loop
async def test_who_waits_until_all_is_settled_hears_of_what_was_acknowledged_before() -> None:
    log, tally = Log(), Counted()
    log.publisher.add_datagrams(0, (SOURCE,), 1, (8,), b"datagram", tally)
    await turn()
    await log.acknowledges()
    assert await log.publisher.drained(5.0)
    assert tally.settles == [(1, True)]


@in_a_loop
async def test_what_is_taken_just_before_the_records_leave_leaves_with_them() -> None:
    log = Log(RecordSettings(linger_milliseconds=500))
    assert not log.publisher.before_leaving(lambda: log.adds("never"))  # nothing waits
    log.adds("first")
    assert not log.publisher.before_leaving(lambda: log.adds("never"))  # it leaves at the end of this turn
    await turn()
    log.adds("second")
    assert log.publisher.before_leaving(lambda: log.adds("third", b"late"))
    await log.has_written(2)
    assert [frame.data for frame in log.records()[1]] == [b"frame", b"late"]


@in_a_loop
async def test_who_takes_as_records_leave_may_be_called_again_at_the_next_time() -> None:
    log, times = Log(RecordSettings(linger_milliseconds=50)), [asyncio.get_running_loop().time()]

    def take() -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) < 4:
            log.adds(f"taken {len(times)}")
            assert log.publisher.before_leaving(take)

    log.adds("first")
    await turn()
    log.adds("second")
    assert log.publisher.before_leaving(take)
    await until(lambda: len(times) == 4)
    assert all(later - earlier > 0.04 for earlier, later in pairwise(times[1:]))


@in_a_loop
async def test_a_probe_is_a_record_without_frames_and_one_at_a_time() -> None:
    log = Log()
    log.publisher.probe()
    log.publisher.probe()
    assert log.records() == [[]]
    await log.acknowledges()
    assert log.publisher.silent_seconds < 60
    log.publisher.probe()
    assert [one.settings["partition"] for one in log.kafka.written] == [1, 0]


@in_a_loop
async def test_a_probe_is_not_needed_while_frames_are_on_their_way() -> None:
    log = Log()
    log.adds("one")
    log.publisher.probe()
    await turn()
    log.publisher.probe()
    assert [len(record) for record in log.records()] == [1]


@in_a_loop
async def test_draining_closes_every_record_and_says_whether_kafka_had_them_in_time() -> None:
    log = Log(LONG)
    log.adds("one")
    await turn()
    log.adds("two")
    assert not await log.publisher.drained(0.01)
    assert len(log.records()) == 2
    asyncio.get_running_loop().call_soon(log.kafka.acknowledge)
    assert await log.publisher.drained(5)


@in_a_loop
async def test_many_datagrams_at_once_fill_records_in_their_order_each_with_its_source() -> None:
    log, tally = Log(RecordSettings(frames=3, linger_milliseconds=60_000)), Counted()
    sources = [Source("emm", "devices", "edge-0", 1, peer=f"192.0.2.{number}:9") for number in range(8)]
    frames = [b"x" * number for number in range(8)]
    log.publisher.add_datagrams(0, sources[:2], 1, (0, 1), b"x", tally)
    log.publisher.add_datagrams(0, sources[2:], 2, range(2, 8), b"".join(frames[2:]), tally)
    log.publisher.flush()
    assert [len(record) for record in log.records()] == [3, 3, 2]
    logged = [frame for record in log.records() for frame in record]
    assert [frame.data for frame in logged] == frames
    assert [frame.source.peer for frame in logged] == [source.peer for source in sources]
    assert [frame.received_at for frame in logged] == [1, 1, 2, 2, 2, 2, 2, 2]
    await log.acknowledges()
    assert sum(count for count, _ in tally.settles) == 8
    assert log.publisher.in_flight_bytes == 0


@in_a_loop
async def test_a_topic_that_was_made_anew_ends_this_life() -> None:
    log = Log(RecordSettings(linger_milliseconds=0))
    for count, name in enumerate(("one", "two", "into another"), start=1):
        assert not log.publisher.failed.done()
        if name == "into another":
            log.kafka.ends.clear()
        log.adds(name)
        await log.has_written(count)
        await log.acknowledges()
    assert log.settled[-1] == ("into another", True)  # Kafka has it all the same
    assert str(log.publisher.failed.result()) == "test.raw is not the topic it was: it has been made anew"


def addresses(count: int) -> tuple[ReplyAddress, ...]:
    return tuple(ReplyAddress("hsp", "plc", "edge-0", 1, number, str(number), "x" * 255) for number in range(count))


def sizes(log: Log) -> list[int]:
    return [len(record.value) for record in log.kafka.written]


@in_a_loop
async def test_a_record_is_full_by_all_that_stands_in_it() -> None:
    log = Log(RecordSettings(bytes=10_000, linger_milliseconds=60_000))
    await turn()
    for number in range(100):
        log.adds(str(number), replies=addresses(2))
    log.publisher.flush()
    assert len(log.records()) > 5
    assert max(sizes(log)) < 11_000


@in_a_loop
async def test_a_frame_that_answers_more_requests_than_fit_is_logged_again_for_each_part_of_them() -> None:
    log = Log()
    everybody = addresses(10_000)
    log.adds("abandoned", replies=everybody)
    log.publisher.flush()
    logged = [frame for record in log.records() for frame in record]
    assert {frame.data for frame in logged} == {b"frame"}
    assert tuple(reply for frame in logged for reply in frame.replies) == everybody
    assert max(sizes(log)) < 200_000
    assert log.settled == []
    await log.acknowledges()
    assert log.settled == [("abandoned", True)]


@in_a_loop
async def test_a_run_of_many_bytes_is_cut_into_several_records() -> None:
    log = Log()
    log.adds("run", bytes(60_000), frames=20)
    log.publisher.flush()
    assert sum(len(record) for record in log.records()) == 20
    assert max(sizes(log)) < 2 * RecordSettings().bytes


@in_a_loop
async def test_a_run_of_which_kafka_refuses_any_part_is_refused() -> None:
    log = Log()
    log.adds("run", b"x", frames=2 * RUN_FRAMES)
    await turn()
    first, *rest = log.kafka.open
    log.kafka.open = rest
    first.told(TOO_LARGE, -1)
    await log.acknowledges()
    assert log.settled == [("run", False)]


@in_a_loop
async def test_a_record_closes_before_a_frame_that_would_make_it_larger_than_kafka_takes() -> None:
    log = Log(largest_bytes=100_000)
    log.adds("small", bytes(10_000))
    log.adds("large", bytes(95_000))
    log.publisher.flush()
    assert [[len(frame.data) for frame in record] for record in log.records()] == [[10_000], [95_000]]


@in_a_loop
async def test_a_datagram_record_closes_before_datagrams_that_would_make_it_larger_than_kafka_takes() -> None:
    log, tally = Log(largest_bytes=70_000), Counted()
    for _ in range(3):
        log.publisher.add_datagrams(0, (SOURCE,) * 20, 1, (2_000,) * 20, bytes(40_000), tally)
    log.publisher.flush()
    assert max(sizes(log)) < 70_000
    assert sum(len(record) for record in log.records()) == 60


@in_a_loop
async def test_a_refused_record_with_a_word_of_the_edges_own_ends_the_edge() -> None:
    log = Log()
    log.kafka.refuses = TOO_LARGE
    log.publisher.add_run(0, Source(MESH, "", "edge-0", 1), b"{}", (2,))
    await turn()
    assert log.publisher.failed.done()
