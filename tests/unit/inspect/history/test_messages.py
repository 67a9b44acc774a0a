"""Finding a frame by its sender's node and the id it gave to the message."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.inspect.history.messages import ids_in
from gateway.inspect.live.rows import RowFilter, rows_of
from gateway.kafka.records import TopicRecord
from tests.unit.cli.running import run
from tests.unit.inspect.live.test_rows import EVENT, event_record

SENT = replace(EVENT, message_id="0a1b2c3d")


@pytest.mark.parametrize("batches", [False, True])
def test_a_message_is_found_by_its_node_and_id_in_either_case(batches: bool) -> None:
    record = event_record(SENT, batches=batches)
    assert list(ids_in(record, SENT.node, "0A1B2C3D")) == [SENT.id]
    assert list(ids_in(record, SENT.node, "0a1b2c3e")) == []
    assert list(ids_in(record, "another", "0a1b2c3d")) == []


def test_a_record_that_cannot_be_read_holds_no_message() -> None:
    assert list(ids_in(TopicRecord(0, 0, 0, None, b"nonsense"), SENT.node, "0a1b2c3d")) == []


def test_a_tap_can_be_narrowed_to_a_message() -> None:
    found = [
        list(rows_of("events", event_record(SENT), RowFilter(message_id=message_id)))
        for message_id in ("0A1B2C3D", "ff")
    ]
    assert [len(rows) for rows in found] == [1, 0]


@pytest.mark.parametrize(
    "arguments", [(), ("--node", "n"), ("--message-id", "ab"), ("0-0-0", "--node", "n", "--message-id", "ab")]
)
def test_a_frame_is_named_one_way_or_the_other(arguments: tuple[str, ...]) -> None:
    result = run("trace", *arguments)
    assert result.exit_code == 2
    assert "name an EVENT_ID, or --node and --message-id together" in result.stderr
