"""The events as a table: the same values as the event model has, and `meshgate sql` over a running mesh."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from gateway.core.event import Auth, Event, Kind
from gateway.records import cloud_event
from gateway.records.event_records import BATCH, CONTENT_TYPE, STRUCTURED, EventWriter
from streaming_jobs.spark.events_table import HEADERS, SCHEMA, events_in
from streaming_jobs.spark.schemas import BYTES, struct
from tests.events import full_event
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until
from tests.integration.spark_session import spark
from tests.integration.verbs import line_of, note_of, running_verb
from tests.unit.records.test_event_records import BATCH_FORM, BINARY_FORM

__all__ = ["spark"]
AT = 1_759_190_400_000_001
FULL = full_event(received_at=AT, sent_at=AT - 1, content_type="text/plain", body="81 °".encode())
EMPTY = replace(
    FULL, kind=Kind.EVENT, session="", message_id="", correlation="", content_type="", body=b"", headers={},
    urgent=False, sent_at=None, auth=Auth.NONE, key_id="",
)  # fmt: skip
BODIES = [
    b"null", b'"x"', b"21.50", b"1e400", b" {}", b"[1,  2]", b'{"a": "\\ud800 \\u00e9"}', b"NaN", b"true", b"9" * 600,
    b"[" * 150 + b"]" * 150, b'{"data": 1, "data": 2}', "\u2028é".encode(), b"\xff", b'{"n":' + b"1" * 499 + b"}",
    '{\n  "°": [\n    1.50,\n    {"data": "}"}\n  ]\n}'.encode(), b'[1.50,\n\n{"data": 2}]', b'{"a": 1,\n\n"data": 2}',
]  # fmt: skip
EVENTS = {
    "everything": FULL,
    "hardly anything": EMPTY,
    "no text": replace(FULL, body=b"\xff\x00"),
    **{f"JSON {body[:20]!r}": replace(FULL, content_type="application/json", body=body) for body in BODIES},
    **{f"text {body[:20]!r}": replace(FULL, content_type="text/plain", body=body) for body in BODIES},
}
RECORDS = struct(value=BYTES, headers=HEADERS)


def as_event(row: dict[str, Any]) -> Event:
    def microseconds(at: datetime | None) -> int | None:
        return None if at is None else cloud_event.microseconds(at.replace(tzinfo=UTC).isoformat())

    values = {name: value for name, value in row.items() if name != "text"}
    times = {name: microseconds(values[name]) for name in ("sent_at", "received_at")}
    kind, auth = Kind(values["kind"]), Auth(values["auth"])
    return Event(**{**values, **times, "kind": kind, "auth": auth, "body": bytes(values["body"])})


def test_the_columns_are_the_fields_of_an_event_and_its_text() -> None:
    names = [field.name for field in fields(Event) if field.name != "raw"]
    columns = [field.name for field in SCHEMA]
    assert columns.pop(columns.index("body") + 1) == "text"
    assert sorted(columns) == sorted(names)


@pytest.mark.parametrize("writer", [BINARY_FORM, BATCH_FORM], ids=["binary", "batch"])
def test_a_record_of_the_topic_is_the_events_that_were_written(spark: SparkSession, writer: EventWriter) -> None:
    events = list(EVENTS.values())
    records = [
        (record.value, list(record.headers)) for record in writer.records([writer.row(event) for event in events], 0)
    ]
    table = events_in(spark.createDataFrame(records, RECORDS))
    assert [(field.name, field.dataType) for field in table.schema] == [(one.name, one.dataType) for one in SCHEMA]
    rows = [row.asDict() for row in table.collect()]
    assert [as_event(row) for row in rows] == list(EVENTS.values())
    assert [row["text"] for row in rows] == [event.text for event in EVENTS.values()]


def test_a_record_of_another_writer_is_its_events(spark: SparkSession) -> None:
    events = [FULL, EMPTY, replace(FULL, content_type="application/json", body=b'{"a":[1,{"data":2}]}')]
    (batch,) = BATCH_FORM.records([BATCH_FORM.row(event) for event in events], 0)
    records = [(json.dumps(json.loads(batch.value)), BATCH)]
    records += [(json.dumps(members, indent=1), STRUCTURED) for members in json.loads(batch.value)]
    rows = [(text.encode(), [(CONTENT_TYPE, form.encode())]) for text, form in records]
    table = events_in(spark.createDataFrame(rows, RECORDS)).collect()
    assert [as_event(row.asDict()) for row in table] == 2 * events


def test_a_record_that_is_no_event_is_a_row_and_no_error(spark: SparkSession) -> None:
    strange = [
        (None, []),
        (b"x", [("ce_time", b"yesterday"), ("ce_meshheaders", b"["), ("ce_id", b"1"), ("ce_id", b"2")]),
    ]
    rows = events_in(spark.createDataFrame(strange, RECORDS)).collect()
    assert [(row.id, row.received_at, row.headers) for row in rows] == [("", None, {}), ("2", None, {})]


@pytest.fixture(scope="module")
def said(mesh: TestMesh) -> Iterator[str]:
    """Three events under a subject of their own have been accepted."""
    device = Device(mesh.ports["devices"]).trusted_by(mesh)
    device.subscribe("sql.>")
    for number in (1, 2, 3):
        device.send(device.packet(f"sql.{number}", f"body {number}"))
    assert all(device.receive() for _ in range(3))
    yield device.node
    device.close()


def test_sql_answers_from_the_events(mesh: TestMesh, said: str) -> None:
    query = f"SELECT subject, text, kind FROM events WHERE subject LIKE 'sql.%' AND node = '{said}' ORDER BY 1"  # noqa: S608

    def asked() -> list[Any]:
        run = mesh.command("sql", query, "--output", "json", seconds=120)
        assert run.returncode == 0, run.stderr
        return [json.loads(line) for line in run.stdout.splitlines()]

    expected = [{"subject": f"sql.{number}", "text": f"body {number}", "kind": "event"} for number in (1, 2, 3)]
    wait_until(lambda: asked() == expected, "three events in the table", 180)


def test_sql_follows_the_events_until_it_is_told_to_end(mesh: TestMesh) -> None:
    device = Device(mesh.ports["devices"]).trusted_by(mesh)
    query = "SELECT subject, text FROM events WHERE subject LIKE 'followed.%'"
    with closing(device), running_verb(mesh, "sql", query, "--follow", "--output", "json") as sql:
        assert [note_of(sql), note_of(sql)] == ["starting Spark\n", "following test.events\n"]
        device.subscribe("followed.>")
        for number in (1, 2):
            device.send(device.packet(f"followed.{number}", "body"))
        rows = [json.loads(line_of(sql)) for _ in range(2)]
        assert sorted(row["subject"] for row in rows) == ["followed.1", "followed.2"]
        sql.terminate()
        assert sql.wait(timeout=90) == 0
        assert note_of(sql) == ""  # no stack of the JVM's
