"""`rejected` over a topic in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest

from gateway.cli.console import Exit
from gateway.config import Config
from gateway.inspect.history.span import Span
from gateway.kafka.records import TopicRecord
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.frames import FrameSource
from tests.unit.cli.running import run, said

IDS = ("0-7-1", "0-8-0", "1-9-0")
CUT = ("0-7-1", "0-8-0")
"""Their records in `rejected` hold the first byte of five. The raw log still has the second."""


class Kept:
    """A history whose only topic is `rejected`: what was no record of the raw log."""

    raw: ClassVar[dict[tuple[int, int], TopicRecord]] = {}

    def __init__(self, _config: Config) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def between(self, *_: object) -> None: ...

    def record(self, _name: str, partition: int, offset: int) -> TopicRecord | None:
        return self.raw.get((partition, offset))

    def bounds(self, _name: str) -> dict[int, Span]:
        return {0: Span(8, 9)}

    def read(self, *_: object) -> Iterator[TopicRecord]:
        return iter(())

    def newest_first(self, *_: object) -> Iterator[TopicRecord]:
        for at, event_id in enumerate(IDS):
            said = {"event_id": event_id, "reason": "malformed", "stage": "log", "protocol": "emm"}
            if event_id in CUT:
                said |= {"stage": "decode", "truncated_bytes": "4"}
            yield TopicRecord(0, at, at, None, b"x", tuple((name, value.encode()) for name, value in said.items()))


@pytest.fixture(autouse=True)
def mesh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gateway.cli.rejected.History", Kept)
    run("init")


def rows(*arguments: str) -> list[dict[str, Any]]:
    result = run("rejected", *arguments, "--output", "json")
    assert result.exit_code == Exit.OK, result.stderr
    found: list[dict[str, Any]] = said(result)
    return found


@pytest.mark.parametrize("verb", [("list",), ("redrive", "--all", "--dry-run")], ids=" ".join)
def test_a_rows_id_is_its_event_id(verb: tuple[str, ...]) -> None:
    assert {(row["id"], row["event_id"]) for row in rows(*verb)} == {(one, one) for one in IDS}


@pytest.mark.parametrize(
    "arguments", [("0-7-1", "1-9-0"), ("0-7-1", "--event-id", "1-9-0"), ("--event-id", "0-7-1", "--event-id", "1-9-0")]
)
def test_frames_to_redrive_are_named_as_show_and_trace_take_them(arguments: tuple[str, ...]) -> None:
    assert {row["event_id"] for row in rows("redrive", *arguments, "--dry-run")} == {"0-7-1", "1-9-0"}


def test_a_frame_to_redrive_that_nobody_refused_is_an_error_and_none_is_sent() -> None:
    result = run("rejected", "redrive", "0-7-1", "--event-id", "0-0-0")
    assert (result.exit_code, result.stdout) == (Exit.FAILURE, "")
    assert result.stderr == "meshgate: 0-0-0: not refused, or no longer kept; nothing is sent\n"


def test_without_any_it_is_asked_which() -> None:
    result = run("rejected", "redrive")
    assert result.exit_code == Exit.USAGE
    assert "say which frames: EVENT_ID, --reason" in result.stderr


def test_what_is_no_id_is_refused() -> None:
    result = run("rejected", "redrive", "kitchen")
    assert result.exit_code == Exit.USAGE
    assert "kitchen" in result.stderr


def test_a_list_tells_the_size_of_the_whole_frame() -> None:
    assert {row["event_id"]: (row["bytes"], row["truncated_bytes"]) for row in rows("list")} == {
        "0-7-1": (5, 4),
        "0-8-0": (5, 4),
        "1-9-0": (1, 0),
    }


def test_a_frame_that_was_cut_is_shown_whole_where_the_raw_log_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = ContainerBuilder("edge-0", 1)
    builder.add(FrameSource("emm", "emm", "edge-0", 1), 0, b"xyzzy")
    monkeypatch.setattr(Kept, "raw", {(0, 8): TopicRecord(0, 8, 0, None, builder.build())})
    (shown,) = rows("show", "0-8-0")
    assert (bytes.fromhex(shown["frame"]), shown["bytes"], shown["truncated_bytes"]) == (b"xyzzy", 5, 0)


def test_a_frame_that_was_cut_is_shown_as_it_is_kept_where_the_raw_log_has_it_no_more() -> None:
    (shown,) = rows("show", "0-7-1")
    assert (bytes.fromhex(shown["frame"]), shown["bytes"], shown["truncated_bytes"]) == (b"x", 5, 4)


def test_a_frame_that_was_cut_and_is_gone_from_the_raw_log_is_left_alone_with_the_reason() -> None:
    (done,) = rows("redrive", "0-7-1", "--dry-run")
    assert "older than what the raw log keeps" in done["left_alone"]
