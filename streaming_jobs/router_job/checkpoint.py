"""Reads a router's checkpoint, and tells whether this build can go on from there.

    version.json             the format of all this, and the build that began it
    lock, jvm, standby, …    see `lock`
    counts/                  see `counts`
    ids/lane-0/1200          see `id_log`, and `snapshot` for ids/carried-0
    lane-0/offsets/12        where batch 12 ends, in the raw log
    lane-0/commits/12        batch 12 is done
    lane-0/state/…           the ids that have passed, in Spark's own format

Nothing in it is the only copy: without one the router reads the raw log again. So what is in doubt is refused, in one
line, and never mended.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from gateway import __version__
from gateway.core.errors import SetupError

FORMAT = 4
"""Another plan, or another form of the stored ids, would be another format. (In the first two each id was a row of its
own, and a lane had several raw partitions. In the third a row had each id with the whole of its node.)"""
VERSION_FILE = "version.json"
_ANEW = "move it away, and the router reads the raw log again from its beginning and repeats nothing"

FAILURE_CHARACTERS = 500
"""Spark goes on for pages."""
SIGNS_OF_DAMAGE = (
    "CANNOT_LOAD_STATE_STORE",
    "MISSING_STATE_DIRECTORY",
    "CHECKPOINT_MISSING_METADATA_FILE",
    "MALFORMED_LOG_FILE",
    "Checksum error",
    "FileNotFoundException",
    "STDS_",
)
"""Spark's errors for a checkpoint that it cannot go on from. It never goes on without the state that it had."""

Offsets = Mapping[int, int]


def claim(checkpoint: Path) -> None:
    """Writes the version into a new one. Raises SetupError for one that this build cannot read.

    One with lanes and without a version is of a build that wrote none, and of the first format.
    """
    path = checkpoint / VERSION_FILE
    if not path.exists() and not (checkpoint / "lane-0").exists():
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({"format": FORMAT, "begun_by": __version__}))
        fresh.replace(path)
        return
    try:
        stamp = json.loads(path.read_text()) if path.exists() else {"format": 1}
        is_ours = stamp["format"] == FORMAT
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(path) from error
    if not is_ours:
        raise SetupError(
            f"router.checkpoint {checkpoint} has format {stamp['format']}, begun by {stamp.get('begun_by', '?')}; this"
            f" build, {__version__}, reads format {FORMAT}: run the build that wrote it, or {_ANEW}"
        )


def committed_offsets(lane: Path) -> dict[int, int]:
    """Returns where the last committed batch of a lane ended; empty if there is none. Raises SetupError if it is
    damaged."""
    batch = last_commit(lane)
    if batch is None:
        return {}
    path = lane / "offsets" / str(batch)
    try:
        by_topic: dict[str, dict[str, int]] = json.loads(path.read_text().splitlines()[-1])
        return {int(partition): offset for offsets in by_topic.values() for partition, offset in offsets.items()}
    except (OSError, ValueError, IndexError, AttributeError) as error:
        raise _damaged(path) from error


def last_commit(lane: Path) -> int | None:
    """Returns the number of the last committed batch of a lane."""
    return max((int(file.name) for file in (lane / "commits").glob("[0-9]*") if file.name.isdigit()), default=None)


def take_back(lane: Path, batch: int | None, partition: int) -> int:
    """Takes back what was committed behind a batch, as if that had never ended. Returns where the last batch ended.

    The state keeps files of those batches that nothing names any more: each run of a batch gives its files new names.
    """
    ended_at = committed_offsets(lane).get(partition, 0)
    for folder in ("commits", "offsets"):  # an offset without its commit is of a batch that never ended
        for file in (lane / folder).glob("[0-9]*"):
            if file.name.isdigit() and int(file.name) > (-1 if batch is None else batch):
                file.unlink()
                file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return ended_at


def last_commit_time(lane: Path) -> float:
    """Returns when the last batch of a lane was committed; when the lane began, where none was yet."""
    batch = last_commit(lane)
    written = lane / "metadata" if batch is None else lane / "commits" / str(batch)
    try:
        return written.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def gaps(committed: Offsets, begins: Offsets, ends: Offsets) -> Iterator[str]:
    """Yields a line for each partition of which the raw log no longer has what the checkpoint continues from.

    >>> list(gaps({0: 5, 1: 9, 2: 7}, {0: 5, 1: 12, 2: 0}, {0: 8, 1: 20, 2: 6}))
    ['offsets 9 to 11 of partition 1 are gone', 'partition 2 ends at 6, before offset 7']
    """
    for partition, offset in sorted(committed.items()):
        if offset < begins.get(partition, 0):
            yield f"offsets {offset} to {begins[partition] - 1} of partition {partition} are gone"
        elif offset > ends.get(partition, offset):
            yield f"partition {partition} ends at {ends[partition]}, before offset {offset}"


def in_short(failure: str, lane: Path) -> str:
    """Returns why a query has ended, and for a damaged checkpoint also what to do about it."""
    sign = next((sign for sign in SIGNS_OF_DAMAGE if sign in failure), None)
    return f"{_damaged(lane)} (Spark: {sign})" if sign else failure[:FAILURE_CHARACTERS]


def _damaged(path: Path) -> SetupError:
    return SetupError(f"router.checkpoint: {path} cannot be read, it is damaged: {_ANEW}")
