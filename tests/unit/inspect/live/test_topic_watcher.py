"""Tests what is kept of what a light tap has seen."""

from __future__ import annotations

from gateway.config import Config
from gateway.core.event import Kind
from gateway.inspect.live.topic_sampler import Seen
from gateway.inspect.live.topic_watcher import ROWS_KEPT, TopicWatcher, newest_rows
from gateway.kafka.records import TopicRecord
from gateway.records.event_records import EventWriter
from tests.events import full_event

CONFIG = Config(mesh="test")
EVENT = full_event(kind=Kind.EVENT, subject="temp.roof", content_type="", body=b"21")


WRITER = EventWriter("test", 1_000_000, batches=False)
(WRITTEN,) = WRITER.records([WRITER.row(EVENT)], 0)


def watching() -> TopicWatcher:
    return TopicWatcher(CONFIG, lambda: frozenset({"events"}))


def records(count: int, start: int = 0) -> list[TopicRecord]:
    return [TopicRecord(0, start + number, start + number, None, *WRITTEN[1:]) for number in range(count)]


def test_rows_are_numbered_on_and_on_so_that_a_reader_asks_for_what_is_new() -> None:
    one = watching()
    one.take(Seen({"events": records(3)}))
    first = one.rows("events")
    one.take(Seen({"events": records(2, 3)}))
    numbers = [number for number, _ in one.rows("events")]
    assert numbers == list(range(first[0][0], first[0][0] + 5))
    assert [number for number, _ in one.rows("events", first[-1][0])] == numbers[3:]


def test_only_the_latest_are_kept() -> None:
    one = watching()
    one.take(Seen({"events": records(ROWS_KEPT + 7)}))
    assert len(one.rows("events")) == ROWS_KEPT
    assert [row.at for row in newest_rows("events", records(2)[::-1])] == [EVENT.received_at] * 2


def test_what_was_skipped_is_counted_and_the_subjects_are_of_what_was_seen() -> None:
    one = watching()
    one.take(Seen({"events": records(3)}, {"events": 40}))
    one.take(Seen({"events": []}, {"events": 2}))
    assert one.skipped("events") == 42
    assert [(busy.subject, busy.seen) for busy in one.subjects.busiest(5)] == [("temp.roof", 3)]


def test_a_record_that_cannot_be_read_is_a_row_with_its_reason() -> None:
    one = watching()
    one.take(Seen({"raw": [TopicRecord(0, 5, 7, None, b"no container")]}))
    [(_, row)] = one.rows("raw")
    assert row.reason == "malformed"
