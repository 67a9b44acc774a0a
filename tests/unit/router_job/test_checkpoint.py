"""Tests what a router finds in its checkpoint: gone on with, or refused in one line that says what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.core.errors import SetupError
from streaming_jobs.router_job.checkpoint import (
    FAILURE_CHARACTERS,
    FORMAT,
    VERSION_FILE,
    claim,
    committed_offsets,
    in_short,
    last_commit,
    take_back,
)
from streaming_jobs.router_job.lock import STANDS_BY, CheckpointLock, is_held


def lane_with(folder: Path, offsets: str, *, batch: int = 3) -> Path:
    """A lane's folder as Spark leaves it, with one batch that is committed and one that is open."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir()
    (folder / "commits" / str(batch)).write_text("v1\n{}")
    (folder / "offsets" / str(batch)).write_text(offsets)
    (folder / "offsets" / str(batch + 1)).write_text('v1\n{}\n{"t.raw":{"0":99}}')
    (folder / "commits" / f".{batch}.crc").write_text("")
    return folder


def refusal(checkpoint: Path) -> str:
    with pytest.raises(SetupError) as refused:
        claim(checkpoint)
    return str(refused.value)


def test_a_new_checkpoint_gets_the_version_and_is_known_again(tmp_path: Path) -> None:
    claim(tmp_path)
    claim(tmp_path)
    assert json.loads((tmp_path / VERSION_FILE).read_text())["format"] == FORMAT


def test_a_checkpoint_of_another_format_is_refused_with_both_versions_and_a_way_out(tmp_path: Path) -> None:
    (tmp_path / VERSION_FILE).write_text(json.dumps({"format": FORMAT + 1, "begun_by": "9.9.9"}))
    said = refusal(tmp_path)
    assert f"has format {FORMAT + 1}, begun by 9.9.9" in said
    assert f"reads format {FORMAT}" in said
    assert "move it away" in said


def test_a_checkpoint_without_a_version_is_of_the_first_format(tmp_path: Path) -> None:
    (tmp_path / "lane-0").mkdir()
    assert "has format 1, begun by ?" in refusal(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "7"])
def test_a_version_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / VERSION_FILE).write_text(text)
    assert "it is damaged" in refusal(tmp_path)


def test_where_a_lane_is_comes_from_its_last_committed_batch(tmp_path: Path) -> None:
    lane = lane_with(tmp_path, 'v1\n{"batchWatermarkMs":0}\n{"t.raw":{"0":12,"1":7}}')
    assert committed_offsets(lane) == {0: 12, 1: 7}


def test_a_lane_without_a_commit_is_nowhere(tmp_path: Path) -> None:
    assert committed_offsets(tmp_path) == {}


def test_what_was_committed_behind_a_batch_is_taken_back(tmp_path: Path) -> None:
    lane = lane_with(tmp_path, 'v1\n{}\n{"t.raw":{"0":12}}')
    for name in ("offsets", "commits"):
        (lane / name / "4").write_text('v1\n{}\n{"t.raw":{"0":30}}')
    (lane / "commits" / ".4.crc").write_text("")
    assert take_back(lane, 3, 0) == 30
    assert committed_offsets(lane) == {0: 12}
    assert sorted(file.name for file in lane.rglob("*") if file.is_file()) == [".3.crc", "3", "3"]
    assert take_back(lane, None, 0) == 12
    assert last_commit(lane) is None


@pytest.mark.parametrize("offsets", ["", "v1\n{}\n{", "v1\n{}\n[1]", 'v1\n{}\n{"t.raw":3}'])
def test_offsets_that_cannot_be_read_are_refused(tmp_path: Path, offsets: str) -> None:
    lane = lane_with(tmp_path, offsets)
    with pytest.raises(SetupError) as refused:
        committed_offsets(lane)
    assert "offsets/3 cannot be read, it is damaged" in str(refused.value)


def test_offsets_that_are_missing_are_refused(tmp_path: Path) -> None:
    lane = lane_with(tmp_path, "")
    (lane / "offsets" / "3").unlink()
    with pytest.raises(SetupError) as refused:
        committed_offsets(lane)
    assert "it is damaged" in str(refused.value)


def test_a_failure_that_is_its_checkpoint_s_is_told_in_one_line_with_what_to_do(tmp_path: Path) -> None:
    told = in_short(f"[STREAM_FAILED] {'x' * 1000} Checksum error: file:/x/commits/2", tmp_path)
    assert told.startswith(f"router.checkpoint: {tmp_path} cannot be read, it is damaged: move it away")
    assert in_short("another " * 100, tmp_path) == ("another " * 100)[:FAILURE_CHARACTERS]


def test_a_second_router_on_a_checkpoint_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    with CheckpointLock(tmp_path) as first, CheckpointLock(tmp_path) as second:
        first.take()
        with pytest.raises(SetupError) as refused:
            second.take()
        assert "another router uses" in str(refused.value)
    with CheckpointLock(tmp_path) as third:
        third.take()


def test_a_standby_gets_the_lock_when_the_first_router_lets_go_of_it(tmp_path: Path) -> None:
    with CheckpointLock(tmp_path) as first, CheckpointLock(tmp_path) as standby:
        first.take()
        assert not standby.take_if_free()
        first.release()
        assert standby.take_if_free()


def test_a_standby_counts_as_warm_for_as_long_as_it_says_so(tmp_path: Path) -> None:
    assert not is_held(tmp_path, STANDS_BY)
    assert not list(tmp_path.iterdir())
    with CheckpointLock(tmp_path, STANDS_BY) as sign:
        assert not is_held(tmp_path, STANDS_BY)
        assert sign.take_if_free()
        assert is_held(tmp_path, STANDS_BY)
    assert not is_held(tmp_path, STANDS_BY)
