"""Recorded events as rules are tried on them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from gateway.inspect.live.rows import as_json, event_rows
from gateway.kafka.records import TopicRecord
from gateway.records.cloud_event import rfc3339
from gateway.records.event_records import EventWriter
from streaming_jobs.rules.recorded import RecordedError, read_recorded
from streaming_jobs.spark.events_table import SCHEMA
from tests.events import full_event

AT = 1_759_190_400_000_001
EVENT = full_event(received_at=AT, content_type="text/plain", body=b"81", headers={"rule": "x"}, sent_at=None)


def read(*said: dict[str, Any]) -> list[dict[str, Any]]:
    rows = read_recorded(json.dumps(one) for one in said)
    return [dict(zip((field.name for field in SCHEMA), row, strict=True)) for row in rows]


def test_what_tap_shows_is_the_event_again_but_for_its_receiver() -> None:
    writer = EventWriter("test", 1_000_000, batches=False)
    (written,) = writer.records([writer.row(EVENT)], 0)
    (shown,) = event_rows(TopicRecord(0, 0, 0, *written))
    (row,) = read(as_json(shown))
    for name in ("id", "subject", "protocol", "session", "peer", "node", "message_id", "correlation", "content_type"):
        assert row[name] == getattr(EVENT, name)
    assert (row["kind"], row["auth"], row["body"], row["text"]) == ("request", "hmac", b"81", "81")
    assert (row["headers"], row["urgent"], row["key_id"]) == ({"rule": "x"}, True, EVENT.key_id)
    assert rfc3339(AT)[:19] == row["received_at"].isoformat()[:19]


def test_a_subject_and_a_time_are_enough() -> None:
    first, second = read(
        {"subject": "a", "time": "2026-01-01T00:00:00Z"}, {"subject": "b", "time": "2026-01-01T00:00:01"}
    )
    assert first["received_at"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert second["received_at"].tzinfo is UTC
    assert (first["kind"], first["body"], first["headers"], first["sent_at"]) == ("event", b"", {}, None)
    assert first["id"] != second["id"]


def test_a_body_may_be_text_bytes_or_a_value() -> None:
    bodies: list[dict[str, Any]] = [
        {"text": "x"},
        {"body": "y"},
        {"base64": "/w=="},
        {"body_base64": "AA=="},
        {"body": {"celsius": 81}},
    ]
    rows = read(*({"subject": "a", "time": "2026-01-01", **body} for body in bodies))
    assert [row["body"] for row in rows] == [b"x", b"y", b"\xff", b"\0", b'{"celsius": 81}']
    assert [row["text"] for row in rows] == ["x", "y", None, "\0", '{"celsius": 81}']


def test_empty_lines_are_passed_over() -> None:
    assert len(read_recorded(["\n", '{"subject": "a", "time": "2026-01-01"}\n', "  \n"])) == 1


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        '{"subject": "a"}',
        '{"time": "2026-01-01"}',
        '{"subject": "a", "time": "yesterday"}',
        '{"subject": "a", "time": "2026-01-01", "kind": "letter"}',
        '{"subject": "a", "time": "2026-01-01", "base64": "?"}',
    ],
)
def test_a_line_that_is_no_event_is_named(line: str) -> None:
    good = '{"subject": "a", "time": "2026-01-01"}'
    with pytest.raises(RecordedError) as refused:
        read_recorded([good, line])
    assert str(refused.value).startswith("line 2: ")
