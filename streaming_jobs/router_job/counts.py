"""Counts that survive the process that made them: one small file for each raw partition, below the checkpoint.

Spark forks the Python workers and hands a partition to any of them, and a real-time batch tells nothing before its end.
So a worker counts into a file that all processes of this machine share, and the router's `/metrics` sums the files when
it is scraped.

Layout: words of eight bytes in native order, with two slots of which one is in force.

    "MGC1" and the series at most | turn | routed | slot 0 | slot 1 | names
    slot: counted | bytes of names | counts[series at most]
    names: JSON lists, one a line; the n-th names the n-th count

Invariants
1. Slot `turn & 1` is in force. A writer fills the other one and then takes the next turn, by storing one word: a worker
   killed at any moment leaves the counts of before or of after.
2. `counted` is the first offset that is not in the counts, and stands in the same slot. What is before it is a repeat
   (of a batch that was not committed) and is not counted again: counts are exact under crashes of workers and of the
   router. A machine that loses power may lose the file's last seconds, as it loses the page cache.
   What a worker only states (how many ids it knows) is no count, and always says how it is now.
3. A writer holds a lock of the kernel's. A reader holds none, so nothing that writes can keep a scrape waiting; it
   reads again when a turn was taken meanwhile.

For workers on other machines the checkpoint is a shared volume, and so are these files: counts are then as fresh as the
volume shows the writes of others (each record ends with an unlock, which is when network file systems pass them on).
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from streaming_jobs.routing.frame_counters import Series

MAX_SERIES = 2_048
"""Labels come from closed sets: about 600 series if every protocol is refused for every reason. What is beyond counts
under UNCOUNTED, so that no count is lost without a trace."""
NAMES_BYTES = 192 * 1024
UNCOUNTED: Series = ("uncounted",)
KNOWN_IDS: Series = ("known_ids",)
KNOWN_IDS_BYTES: Series = ("known_ids_bytes",)
REBUILD_MILLISECONDS: Series = ("known_ids_rebuild_milliseconds",)
"""A worker states these of its memory."""
NO_STATES: Mapping[Series, int] = MappingProxyType({})
LAST_NAME_BYTES = 64  # kept for the name of UNCOUNTED
READ_TRIES = 1_000

_WORD = 8
_BEGIN = struct.pack("=4sI", b"MGC1", MAX_SERIES)
_TURN, _ROUTED, _SLOTS = 1, 2, 3
_COUNTED, _NAMED, _COUNTS = 0, 1, 2
_SLOT_WORDS = _COUNTS + MAX_SERIES
_NAMES_AT = _WORD * (_SLOTS + 2 * _SLOT_WORDS)
_FILE_BYTES = _NAMES_AT + NAMES_BYTES


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of one lane.

    `routed` is the next offset that the workers will take. After a crash it goes back; the counts do not, and neither
    does `counted`, the first offset that is not in them.
    """

    routed: int
    counted: int
    series: Mapping[Series, int]


def path_of(checkpoint: Path, partition: int) -> Path:
    return checkpoint / "counts" / f"partition-{partition}"


class CountFile:
    """A worker's end of one file. Processes may take turns at it, record by record."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._places: dict[Series, int] = {}
        self._named = 0
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            self._map = self._open()
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._words = memoryview(self._map).cast("Q")

    def _open(self) -> mmap.mmap:
        """Opens the file. One that is not whole is made anew: an older build's, or a creation cut short."""
        if os.fstat(self._file).st_size != _FILE_BYTES or os.pread(self._file, _WORD, 0) != _BEGIN:
            os.ftruncate(self._file, 0)
            os.posix_fallocate(self._file, 0, _FILE_BYTES)  # a hole on a full disk would end us with SIGBUS
            os.pwrite(self._file, _BEGIN, 0)
        return mmap.mmap(self._file, _FILE_BYTES)

    def add(self, offset: int, counted: Mapping[Series, int], states: Mapping[Series, int] = NO_STATES) -> bool:
        """Counts what a record gave, and puts down what `states` says; False if the record was counted before."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            self._words[_ROUTED] = offset + 1
            return self._add(offset, counted, states)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _add(self, offset: int, counted: Mapping[Series, int], states: Mapping[Series, int]) -> bool:
        words = self._words
        turn = words[_TURN]
        now, next_ = _slot_at(turn), _slot_at(turn + 1)
        counted_before = words[now + _COUNTED]
        is_new = offset >= counted_before
        if words[now + _NAMED] != self._named:
            self._learn(words[now + _NAMED])
        used = _COUNTS + len(self._places)
        words[next_ : next_ + used] = words[now : now + used]
        for series, count in counted.items() if is_new else ():
            words[next_ + _COUNTS + self._place(series, next_)] += count
        for series, value in states.items():
            words[next_ + _COUNTS + self._place(series, next_)] = value
        words[next_ + _COUNTED] = max(offset + 1, counted_before)
        words[next_ + _NAMED] = self._named
        words[_TURN] = turn + 1
        return is_new

    def _place(self, series: Series, slot: int) -> int:
        """Returns where a series is counted. A new one's name is in force with the slot that says so."""
        if (existing := self._places.get(series)) is not None:
            return existing
        line = json.dumps(series).encode() + b"\n"
        is_full = len(self._places) >= MAX_SERIES - 1 or self._named + len(line) > NAMES_BYTES - LAST_NAME_BYTES
        if is_full and series != UNCOUNTED:
            return self._place(UNCOUNTED, slot)
        self._map[_NAMES_AT + self._named : _NAMES_AT + self._named + len(line)] = line
        self._named += len(line)
        place = self._places[series] = len(self._places)
        self._words[slot + _COUNTS + place] = 0  # a writer that was killed may have left something there
        return place

    def _learn(self, named: int) -> None:
        """Names that another process has given; or forgets those that a turn never came for."""
        names = self._map[_NAMES_AT : _NAMES_AT + named]
        self._places = {series: place for place, series in enumerate(_read_names(names))}
        self._named = named

    def close(self) -> None:
        self._words.release()
        self._map.close()
        os.close(self._file)


def read_counts(path: Path) -> Counts | None:
    """Returns the counts that a file holds now; None if there is no file yet."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _read(file)
    finally:
        os.close(file)


def _read(file: int) -> Counts | None:
    if os.pread(file, _WORD, 0) != _BEGIN:
        return None
    for _ in range(READ_TRIES):
        turn, routed = struct.unpack("2Q", os.pread(file, 2 * _WORD, _WORD * _TURN))
        slot = memoryview(os.pread(file, _WORD * _SLOT_WORDS, _WORD * _slot_at(turn))).cast("Q")
        names = os.pread(file, slot[_NAMED], _NAMES_AT)
        if os.pread(file, _WORD, _WORD * _TURN) == struct.pack("Q", turn):
            return Counts(routed, slot[_COUNTED], dict(zip(_read_names(names), slot[_COUNTS:], strict=False)))
    return None


def read_all(checkpoint: Path, partitions: Iterable[int]) -> tuple[dict[int, int], Counter[Series]]:
    """Returns how much has been routed of each partition, and the sum of all counts."""
    routed: dict[int, int] = {}
    summed: Counter[Series] = Counter()
    for partition in partitions:
        counts = read_counts(path_of(checkpoint, partition))
        if counts is not None:
            routed[partition] = counts.routed
            summed.update(counts.series)
    return routed, summed


def _read_names(names: bytes) -> list[Series]:
    return [tuple(json.loads(line)) for line in names.splitlines()]


def _slot_at(turn: int) -> int:
    return _SLOTS + (turn & 1) * _SLOT_WORDS
