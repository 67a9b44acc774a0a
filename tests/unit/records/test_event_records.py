"""Events as records of the topic `events`, in each form."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from cloudevents.core.bindings import kafka
from cloudevents.core.formats.json import JSONFormat
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.core.event import Auth, Event, Kind
from gateway.core.reasons import Reason, Rejected
from gateway.records import event_records
from gateway.records.cloud_event import Header
from gateway.records.event_records import (
    BATCH,
    CONTENT_TYPE,
    SEPARATOR,
    STRUCTURED,
    EventRecord,
    EventWriter,
    is_plain_json,
    record_bytes,
)
from tests.events import FULL
from tests.unit.records.test_cloud_event import EVENTS

MOST_BYTES = 100_000
BINARY_FORM = EventWriter("test", MOST_BYTES, batches=False)
BATCH_FORM = EventWriter("test", MOST_BYTES, batches=True)
CONTENT_TYPES = st.sampled_from(["", "application/json", "application/x+json; charset=utf-8", "text/plain", "a/b"])
BODIES = st.binary(max_size=20) | st.text(max_size=20).map(str.encode) | st.sampled_from(
    [b"null", b'"x"', b"21.50", b"1e400", b" {}", b"{} ", b"[1,  2]", b'{"a": "\\ud800"}', b"NaN",
     b"tru", b"-", b"true", b'[1,\n\n{"data": 2}]', b'{"a": 1,\n\n"data": 2}']
)  # fmt: skip
TYPED = st.builds(
    lambda event, index, content_type, body: replace(event, id=f"3-1-{index}", content_type=content_type, body=body),
    EVENTS, st.integers(0, 9), CONTENT_TYPES, BODIES,
)  # fmt: skip


def written(writer: EventWriter, events: list[Event]) -> list[EventRecord]:
    return list(writer.records([writer.row(event) for event in events], 3))


def read(records: list[EventRecord]) -> list[Event]:
    return [event for record in records for event in event_records.read(record.headers, record.value)]


@given(st.lists(TYPED, max_size=4))
@pytest.mark.parametrize("writer", [BINARY_FORM, BATCH_FORM], ids=["binary", "batch"])
def test_a_reader_gets_every_event_back_to_the_byte(writer: EventWriter, events: list[Event]) -> None:
    assert read(written(writer, events)) == events


@given(TYPED)
def test_the_structured_form_is_a_batch_of_one_without_its_brackets(event: Event) -> None:
    (record,) = written(BATCH_FORM, [event])
    assert event_records.read([(CONTENT_TYPE, STRUCTURED.encode())], record.value[1:-1]) == [event]


@given(st.lists(TYPED, min_size=1, max_size=4))
def test_the_ids_of_a_record_are_those_of_its_events(events: list[Event]) -> None:
    for writer in (BINARY_FORM, BATCH_FORM):
        ids = [
            event_id
            for record in written(writer, events)
            for event_id in event_records.ids(record.headers, record.value)
        ]
        assert ids == [event.id for event in events]


def test_a_columnar_run_is_written_as_its_events_are_one_by_one() -> None:
    events = [replace(FULL, id=f"3-1-{index}", received_at=FULL.received_at + index) for index in range(5)]
    for writer in (BINARY_FORM, BATCH_FORM):
        template = writer.template(FULL)
        columns = (
            [template] * 5, [event.id.encode() for event in events], [event.received_at for event in events],
            [FULL.message_id.encode()] * 5, [FULL.sent_at] * 5, [FULL.body] * 5,
        )  # fmt: skip
        assert list(writer.records(zip(*columns, strict=True), 3)) == written(writer, events)


class TestWithTheCloudEventsSdk:
    """The SDK of the CloudEvents project reads what is written here."""

    def test_reads_the_binary_form(self) -> None:
        (record,) = written(BINARY_FORM, [FULL])
        event = kafka.from_kafka(kafka.KafkaMessage(dict(record.headers), record.key, record.value), JSONFormat())
        self._is_full(event.get_attributes(), event.get_data())

    def test_reads_each_event_of_a_batch_as_the_structured_form(self) -> None:
        (record,) = written(BATCH_FORM, [FULL, replace(FULL, id="0-1-3")])
        for members, event_id in zip(json.loads(record.value), [FULL.id, "0-1-3"], strict=True):
            message = kafka.KafkaMessage({CONTENT_TYPE: STRUCTURED.encode()}, None, json.dumps(members).encode())
            event = kafka.from_kafka(message, JSONFormat())
            assert event.get_id() == event_id
            self._is_full({**event.get_attributes(), "id": FULL.id}, event.get_data())

    def test_its_own_events_are_read_here_in_both_forms(self) -> None:
        (record,) = written(BINARY_FORM, [FULL])
        event = kafka.from_kafka(kafka.KafkaMessage(dict(record.headers), record.key, record.value), JSONFormat())
        for message in (kafka.to_binary(event, JSONFormat()), kafka.to_structured(event, JSONFormat())):
            headers: list[Header] = list(message.headers.items())
            (found,) = event_records.read(headers, message.value)
            assert (found.id, found.subject, found.node, json.loads(found.body)) == (
                FULL.id, FULL.subject, FULL.node, json.loads(FULL.body),
            )  # fmt: skip

    @staticmethod
    def _is_full(attributes: dict[str, object], data: object) -> None:
        assert (attributes["id"], attributes["source"], attributes["type"]) == (
            FULL.id, f"/mesh/test/emm/{FULL.node}", "meshgate.request",
        )  # fmt: skip
        assert (attributes["subject"], attributes["partitionkey"]) == (FULL.subject, FULL.node)
        assert attributes["datacontenttype"] == "application/json"
        assert data == json.loads(FULL.body)


class TestBatches:
    def test_events_of_a_raw_record_stand_in_one_record_with_its_partition_as_key(self) -> None:
        (record,) = written(BATCH_FORM, [FULL] * 10)
        assert (record.key, dict(record.headers)) == (b"3", {CONTENT_TYPE: BATCH.encode()})
        assert len(json.loads(record.value)) == 10

    @given(st.lists(st.integers(0, MOST_BYTES), min_size=1, max_size=12))
    @example([MOST_BYTES - 500] * 3)
    def test_are_cut_where_a_producer_would_refuse_them_and_keep_their_order(self, sizes: list[int]) -> None:
        events = [
            replace(FULL, id=f"0-1-{index}", content_type="a/b", body=b"x" * size) for index, size in enumerate(sizes)
        ]
        records = written(BATCH_FORM, events)
        assert read(records) == events
        in_batches = [record for record in records if dict(record.headers).get(CONTENT_TYPE) == BATCH.encode()]
        assert all(record_bytes(*record) <= MOST_BYTES for record in in_batches)

    @given(st.lists(TYPED, min_size=1, max_size=4))
    def test_separators_cut_a_batch_into_its_events_and_an_event_before_its_body(self, events: list[Event]) -> None:
        (record,) = written(BATCH_FORM, events)
        texts = re.split(SEPARATOR + r"(?=\{)", record.value[1:-1].decode())
        for event, text in zip(events, texts, strict=True):
            _, separator, end = text.partition(f'{SEPARATOR}"data":')
            assert bool(separator) is not isinstance(json.loads(text).get("data", ""), str)
            assert end.encode() == (event.body + b"}" if separator else b"")

    def test_what_is_too_large_for_a_batch_stands_alone_in_the_binary_form(self) -> None:
        large = replace(FULL, content_type="a/b", body=b"x" * (MOST_BYTES - 2_000))
        before, alone, after = written(BATCH_FORM, [FULL, large, FULL])
        assert [dict(record.headers)[CONTENT_TYPE] for record in (before, alone, after)] == [
            BATCH.encode(), b"a/b", BATCH.encode(),
        ]  # fmt: skip

    def test_one_event_that_claims_to_be_a_batch_is_still_its_own_event(self) -> None:
        event = replace(FULL, content_type=BATCH, body=b"[]")
        for writer in (BINARY_FORM, BATCH_FORM):
            assert read(written(writer, [event])) == [event]


@pytest.mark.parametrize(
    "body",
    [
        b"9" * 600, b"[" * 300 + b"]" * 300, b'{"' + b"n" * 60_000 + b'": 1}', b'"text"', b"null", b" 1", b"1\n",
        b"NaN", b"[Infinity]", b"{", b"\xff", b"", b"[1,\n\n2]",
    ],
)  # fmt: skip
def test_a_body_that_some_parser_refuses_or_changes_is_not_put_into_json(body: bytes) -> None:
    assert not (body and is_plain_json(body))


@pytest.mark.parametrize("value", [b"", b"{}", b"[{]", b'[{"id"}]', b"[1]", b"\xff", b"[" * 100_000])
def test_a_batch_that_is_no_json_array_of_objects_is_refused(value: bytes) -> None:
    with pytest.raises(Rejected) as refused:
        event_records.read([(CONTENT_TYPE, BATCH.encode())], value)
    assert refused.value.reason is Reason.BAD_ENCODING


@pytest.mark.parametrize("value", [b"[{}]", b'[{"id":"1"}]'])
def test_an_event_without_what_each_must_have_is_an_error(value: bytes) -> None:
    with pytest.raises(KeyError):
        event_records.read([(CONTENT_TYPE, BATCH.encode())], value)


def test_kinds_and_proofs_are_spelled_alike_in_all_forms() -> None:
    for kind in Kind:
        for auth in Auth:
            event = replace(FULL, kind=kind, auth=auth)
            assert read(written(BINARY_FORM, [event])) == read(written(BATCH_FORM, [event])) == [event]


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("part", "is_plain"), [(b"a" * 19_990, True), (b"1" * 400 + b" ", True), (b"a" * 20_000, False)]
)
def test_a_long_body_is_looked_through_once(part: bytes, is_plain: bool) -> None:
    """A pattern that begins anew at each character takes ten seconds for a megabyte."""
    body = b'["' + b'","'.join([part] * (16_000_000 // len(part))) + b'"]'
    assert is_plain_json(body) is is_plain
