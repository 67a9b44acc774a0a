"""Records of the raw log: when they close, what is settled, and what bounds them."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from gateway.config.settings import RecordSettings
from gateway.edge.in_flight import BEHIND_SHARE
from gateway.edge.publisher import AWAITED_SECONDS, RUN_BYTES
from gateway.edge.run_parts import RUN_FRAMES
from gateway.records.raw_log.container import FRAME_BYTES
from gateway.records.raw_log.control_frames import MESH
from gateway.records.raw_log.frames import FrameSource
from tests.unit.edge.fake_kafka import FENCED, TOO_LARGE
from tests.unit.edge.publisher_log import LONG, SOURCE, Counted, Log, turn
from tests.unit.edge.running import until


async def test_an_idle_partition_waits_for_nothing() -> None:
    log = Log(LONG)
    log.adds("one")
    log.adds("two")
    assert log.kafka.written == []
    await turn()
    assert [[frame.data for frame in record] for record in log.records()] == [[b"frame", b"frame"]]


async def test_after_some_have_left_the_next_fill_and_leave_together() -> None:
    log = Log(RecordSettings(linger_milliseconds=500))
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


async def test_a_record_does_not_wait_longer_than_it_may() -> None:
    log = Log(RecordSettings(linger_milliseconds=5))
    log.adds("one")
    await turn()
    log.adds("two")
    await until(lambda: len(log.records()) == 2)


async def test_a_frame_that_a_peer_waits_for_leaves_soon_after_one_that_was_alone() -> None:
    log = Log(LONG)
    log.adds("request")
    await turn()
    log.adds_datagram(b"beside")
    await turn()
    assert len(log.records()) == 1
    log.adds("answer", b"answer")
    await log.has_written(2)
    assert [frame.data for frame in log.records()[1]] == [b"beside", b"answer"]


async def test_frames_that_peers_wait_for_wait_longer_after_a_record_of_many() -> None:
    log = Log(RecordSettings(linger_milliseconds=60_000, frames=100_000))
    loop = asyncio.get_running_loop()
    log.adds("many", frames=50)
    await turn()
    left_at = loop.time()
    log.adds("next")
    await log.has_written(2)
    assert loop.time() - left_at > 45 * AWAITED_SECONDS


async def test_a_datagram_waits_for_the_linger() -> None:
    log = Log(RecordSettings(linger_milliseconds=500))
    loop = asyncio.get_running_loop()
    log.adds_datagram()
    await turn()
    left_at = loop.time()
    log.adds_datagram()
    await log.has_written(2)
    assert loop.time() - left_at > 0.09


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


async def test_what_waits_is_bounded_and_those_who_write_are_told_when_to_stop_and_when_to_go_on() -> None:
    log = Log(bound=2 * (100 + FRAME_BYTES + RUN_BYTES))
    told: list[str] = []
    log.publisher.in_flight.when_full(lambda: told.append("stop"), lambda: told.append("go"))
    log.adds("one", bytes(100))
    assert not log.publisher.in_flight.is_full
    log.adds("two", bytes(100), partition=1)
    assert log.publisher.in_flight.is_full
    log.adds("three", bytes(100), partition=1)
    await turn()
    assert told == ["stop"]
    await log.acknowledges()
    assert told == ["stop", "go"]
    assert log.publisher.in_flight.bytes == 0


async def test_kafka_is_behind_once_more_waits_for_it_than_a_share_of_the_bound() -> None:
    log = Log(bound=round((100 + FRAME_BYTES + RUN_BYTES) / BEHIND_SHARE))
    log.adds("as much", bytes(100))
    assert not log.publisher.in_flight.is_behind
    log.adds("more", b"")
    assert log.publisher.in_flight.is_behind
    log.publisher.flush()
    await log.acknowledges()
    assert not log.publisher.in_flight.is_behind


async def test_tiny_frames_weigh_what_they_cost() -> None:
    log = Log()
    log.adds("tiny", b"x", frames=100)
    assert log.publisher.in_flight.bytes == 100 * (1 + FRAME_BYTES) + RUN_BYTES


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
    assert log.publisher.in_flight.bytes == 0


async def test_a_producer_that_is_at_its_end_ends_the_edge() -> None:
    log = Log()
    log.adds("one")
    await turn()
    await log.acknowledges(FENCED)
    assert log.settled == [("one", False)]
    assert log.publisher.failed.result() is FENCED


async def test_datagrams_are_counted_by_record_for_whoever_added_them() -> None:
    log, one, other = Log(LONG), Counted(), Counted()
    for tally in (one, other, one):
        log.publisher.add_datagrams(0, (SOURCE,), 1, (8,), b"datagram", tally)
    await turn()
    assert one.settles == []
    await log.acknowledges()
    await until(lambda: one.settles)
    assert (one.settles, other.settles) == ([(2, True)], [(1, True)])


async def test_an_acknowledgement_that_nobody_waits_for_wakes_nobody_until_the_next_records_leave() -> None:
    log, tally = Log(RecordSettings(linger_milliseconds=1)), Counted()
    log.publisher.add_datagrams(0, (SOURCE,), 1, (8,), b"datagram", tally)
    await turn()
    await log.acknowledges()
    assert tally.settles == []
    log.publisher.add_datagrams(0, (SOURCE,), 1, (8,), b"datagram", tally)
    await log.has_written(2)
    assert tally.settles == [(1, True)]


async def test_the_producer_hears_whether_somebody_waits_for_a_record() -> None:
    log, tally = Log(RecordSettings(linger_milliseconds=0), bound=2_000), Counted()

    def asked() -> list[bool]:
        return [record.settings["is_awaited"] for record in log.kafka.written]

    log.publisher.add_datagrams(0, (SOURCE,), 1, (8,), b"datagram", tally)
    await log.has_written(1)
    log.adds("awaited")
    await log.has_written(2)
    await log.acknowledges()
    log.publisher.probe()
    assert asked() == [False, True, True]
    log.publisher.add_datagrams(0, (SOURCE,), 1, (2_000,), bytes(2_000), tally)
    assert log.publisher.in_flight.is_full
    await log.has_written(4)
    assert asked()[3:] == [True]


async def test_who_waits_until_all_is_settled_hears_of_what_was_acknowledged_before() -> None:
    log, tally = Log(), Counted()
    log.publisher.add_datagrams(0, (SOURCE,), 1, (8,), b"datagram", tally)
    await turn()
    await log.acknowledges()
    assert await log.publisher.drained(5.0)
    assert tally.settles == [(1, True)]


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


async def test_who_takes_as_records_leave_may_be_called_again_at_the_next_time() -> None:
    log, times = Log(RecordSettings(linger_milliseconds=50)), [asyncio.get_running_loop().time()]

    def take() -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) < 4:
            log.adds_datagram()
            assert log.publisher.before_leaving(take)

    log.adds_datagram()
    await turn()
    log.adds_datagram()
    assert log.publisher.before_leaving(take)
    await until(lambda: len(times) == 4)
    assert all(later - earlier > 0.04 for earlier, later in pairwise(times[1:]))


async def test_a_probe_is_a_record_without_frames_and_one_at_a_time() -> None:
    log = Log()
    log.publisher.probe()
    log.publisher.probe()
    assert log.records() == [[]]
    await log.acknowledges()
    assert log.publisher.silent_seconds < 60
    log.publisher.probe()
    assert [one.settings["partition"] for one in log.kafka.written] == [1, 0]


async def test_a_probe_is_not_needed_while_frames_are_on_their_way() -> None:
    log = Log()
    log.adds("one")
    log.publisher.probe()
    await turn()
    log.publisher.probe()
    assert [len(record) for record in log.records()] == [1]


async def test_draining_closes_every_record_and_says_whether_kafka_had_them_in_time() -> None:
    log = Log(LONG)
    log.adds("one")
    await turn()
    log.adds("two")
    assert not await log.publisher.drained(0.01)
    assert len(log.records()) == 2
    asyncio.get_running_loop().call_soon(log.kafka.acknowledge)
    assert await log.publisher.drained(5)


async def test_many_datagrams_at_once_fill_records_in_their_order_each_with_its_source() -> None:
    log, tally = Log(RecordSettings(frames=3, linger_milliseconds=60_000)), Counted()
    sources = [FrameSource("emm", "devices", "edge-0", 1, peer=f"192.0.2.{number}:9") for number in range(8)]
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
    assert log.publisher.in_flight.bytes == 0


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


async def test_a_refused_record_with_a_word_of_the_edges_own_ends_the_edge() -> None:
    log = Log()
    log.kafka.refuses = TOO_LARGE
    log.publisher.add_run(0, FrameSource(MESH, "", "edge-0", 1), b"{}", (2,))
    await turn()
    assert log.publisher.failed.done()
