"""Tests how large records of the raw log become, and where frames, runs and replies are cut."""

from __future__ import annotations

from gateway.config.settings import RecordSettings
from gateway.edge.run_parts import RUN_FRAMES
from gateway.records.raw_log.frames import ReplyAddress
from tests.unit.edge.fake_kafka import TOO_LARGE
from tests.unit.edge.publisher_log import SOURCE, Counted, Log, turn


def addresses(count: int) -> tuple[ReplyAddress, ...]:
    return tuple(ReplyAddress("hsp", "plc", "edge-0", 1, number, str(number), "x" * 255) for number in range(count))


def sizes(log: Log) -> list[int]:
    return [len(record.value) for record in log.kafka.written]


async def test_a_record_is_full_by_all_that_stands_in_it() -> None:
    log = Log(RecordSettings(bytes=10_000, linger_milliseconds=60_000))
    await turn()
    for number in range(100):
        log.adds(str(number), replies=addresses(2))
    log.publisher.flush()
    assert len(log.records()) > 5
    assert max(sizes(log)) < 11_000


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


async def test_a_run_of_many_bytes_is_cut_into_several_records() -> None:
    log = Log()
    log.adds("run", bytes(60_000), frames=20)
    log.publisher.flush()
    assert sum(len(record) for record in log.records()) == 20
    assert max(sizes(log)) < 2 * RecordSettings().bytes


async def test_a_run_of_which_kafka_refuses_any_part_is_refused() -> None:
    log = Log()
    log.adds("run", b"x", frames=2 * RUN_FRAMES)
    await turn()
    first, *rest = log.kafka.open
    log.kafka.open = rest
    first.on_sent(TOO_LARGE, -1, 0.0)
    await log.acknowledges()
    assert log.settled == [("run", False)]


async def test_a_record_closes_before_a_frame_that_would_make_it_larger_than_kafka_takes() -> None:
    log = Log(largest_bytes=100_000)
    log.adds("small", bytes(10_000))
    log.adds("large", bytes(95_000))
    log.publisher.flush()
    assert [[len(frame.data) for frame in record] for record in log.records()] == [[10_000], [95_000]]


async def test_a_datagram_record_closes_before_datagrams_that_would_make_it_larger_than_kafka_takes() -> None:
    log, tally = Log(largest_bytes=70_000), Counted()
    for _ in range(3):
        log.publisher.add_datagrams(0, (SOURCE,) * 20, 1, (2_000,) * 20, bytes(40_000), tally)
    log.publisher.flush()
    assert max(sizes(log)) < 70_000
    assert sum(len(record) for record in log.records()) == 60
