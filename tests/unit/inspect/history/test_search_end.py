"""Tests when a search may stop, and in which order the past is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from gateway.core.ids import FramePosition
from gateway.inspect.history.search_end import OVERTAKEN_US, RecordSubject, records_about
from gateway.inspect.history.span import Span
from gateway.inspect.history.topics import History, Scan
from gateway.kafka.records import TopicRecord

AT = 1_760_000_000_000_000


class Stretch(Scan):
    """Records as a scan gives them, by partition; `left` are the partitions that were given up."""

    def __init__(self, *records: TopicRecord) -> None:
        self._records = records
        self.left: set[int] = set()

    def __iter__(self) -> Iterator[TopicRecord]:
        return (record for record in self._records if record.partition not in self.left)

    def leave(self, partition: int) -> None:
        self.left.add(partition)


def written(name: str, at: int = AT, partition: int = 0, offset: int = 0) -> TopicRecord:
    return TopicRecord(partition, offset, at, None, name.encode(), ())


def told(record: TopicRecord) -> list[RecordSubject]:
    return [RecordSubject(name, FramePosition.parse(name)) for name in (record.value or b"").decode().split()]


def test_the_record_is_found_wherever_it_stands() -> None:
    stretch = Stretch(written("0-1-0"), written("0-5-2", partition=1), written("0-9-0"))
    assert [one.value for one in records_about(stretch, FramePosition.parse("0-5-2"), "0-5-2", told)] == [b"0-5-2"]


def test_a_record_of_many_frames_is_found_by_each_of_them_and_has_come_as_far_as_its_last() -> None:
    stretch = Stretch(
        written("0-5-0 0-5-2", AT), written("0-5-2 0-5-4", AT + 1), written("0-9-0", AT + OVERTAKEN_US + 2)
    )
    found = list(records_about(stretch, FramePosition.parse("0-5-3"), "0-5-2", told))
    assert [record.logged_at for record in found] == [AT, AT + 1]
    assert not stretch.left
    assert list(records_about(stretch, FramePosition.parse("0-5-3"), "0-5-3", told)) == []
    assert stretch.left == {0}


def test_a_partition_is_left_once_later_frames_have_been_told_of_for_a_while() -> None:
    stretch = Stretch(
        written("0-9-0", AT), written("0-10-0", AT + OVERTAKEN_US), written("0-11-0", AT + OVERTAKEN_US + 1)
    )
    assert list(records_about(stretch, FramePosition.parse("0-5-0"), "0-5-0", told)) == []
    assert stretch.left == {0}


def test_what_was_overtaken_by_a_little_is_still_found() -> None:
    stretch = Stretch(written("0-9-0", AT), written("0-5-0", AT + OVERTAKEN_US))
    assert len(list(records_about(stretch, FramePosition.parse("0-5-0"), "0-5-0", told))) == 1


@pytest.mark.parametrize("others", [["0-4-9"], ["1-99-0"]])
def test_earlier_frames_and_those_of_other_raw_partitions_say_nothing(others: list[str]) -> None:
    late = [written(name, AT + 60 * OVERTAKEN_US) for name in others]
    stretch = Stretch(*(written(name) for name in others), *late)
    assert list(records_about(stretch, FramePosition.parse("0-5-0"), "0-5-0", told)) == []
    assert stretch.left == set()


def test_each_partition_of_a_topic_is_passed_by_itself() -> None:
    stretch = Stretch(written("0-9-0"), written("0-9-1", AT + 2 * OVERTAKEN_US), written("0-5-0", partition=1))
    assert len(list(records_about(stretch, FramePosition.parse("0-5-0"), "0-5-0", told))) == 1
    assert stretch.left == {0}


def test_a_frame_put_in_again_is_looked_for_by_its_first_name_at_its_later_place() -> None:
    stretch = Stretch(written("0-60-0"), written("0-5-0"), written("0-61-0"))
    assert len(list(records_about(stretch, FramePosition.parse("0-61-0"), "0-5-0", told))) == 1


@pytest.mark.parametrize("text", ["", "0", "0-1", "0-1-", "a-1-2", "0-1-2-3", " 0-1-2", "0-1-٢", "0--1-2"])
def test_what_is_no_event_id_is_told_so(text: str) -> None:
    with pytest.raises(ValueError, match="is no event id such as") as refused:
        FramePosition.parse(text)
    assert str(refused.value).startswith(text)


def test_an_event_id_is_the_place_of_its_raw_frame() -> None:
    assert FramePosition.parse("3-1200-7") == FramePosition(3, 1200, 7)


class Log(History):
    """A topic in memory."""

    def __init__(self, records: Mapping[int, list[int]]) -> None:
        self._records = records
        self.read_spans: list[Span] = []

    def read(self, name: str, spans: Mapping[int, Span]) -> Stretch:
        self.read_spans += spans.values()
        return Stretch(
            *(
                written("0-0-0", AT + self._records[partition][offset], partition, offset)
                for partition, span in spans.items()
                for offset in range(span.start, span.end)
            )
        )


def test_the_newest_come_first_over_all_partitions_however_unevenly_they_are_filled() -> None:
    times = {0: list(range(0, 1_000, 10)), 1: [5, 500, 995]}
    log = Log(times)
    spans = {number: Span(0, len(of)) for number, of in times.items()}
    found = [record.logged_at - AT for record in log.newest_first("rejected", spans, step=7)]
    assert found == sorted([*times[0], *times[1]], reverse=True)


def test_only_as_much_is_read_as_is_asked_for() -> None:
    log = Log({0: list(range(1_000))})
    newest = log.newest_first("rejected", {0: Span(0, 1_000)}, step=10)
    assert next(newest).logged_at == AT + 999
    assert log.read_spans == [Span(990, 1_000)]
