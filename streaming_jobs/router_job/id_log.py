"""The ids that a lane knows, as files: its worker begins with them, and continues them with each record.

Spark's state is the truth, and takes a restart seconds to read. These files say the same up to the last commit.

    ids/lane-0/1200     rows since some row, up to the offset 4711
    ids/lane-0/4711     the rows from there on

    part: b"MGK" | u8 version | u32 partition | place at which it begins | u32 CRC | rows             (little-endian)
    row:  i64 offset | i64 log time | u32 length | u32 CRC | ids, as `id_rows` packs them
    place: i64 offset | i64 log time | u32 CRC, all of the row before

A row's offset is the one that the rows up to it *stand before*. A part is named after the first such offset in it.

Invariants
1. A reader asks for the offset of the last commit. Rows behind it come from records that will be routed again: they are
   not read, and the worker cuts them off before it adds its first row.
2. A CRC is of a row and of all rows before it. So a file that was cut, damaged or written by two workers at once does
   not reach its end, nor do parts that do not belong together.
3. Files that do not reach the last commit serve nobody. The driver then writes them from Spark's state (`snapshot`), as
   one part that needs no earlier one.
4. A row is in the kernel's hands before its record's outputs leave, so a process that is killed loses none. Files need
   not outlive the machine. So the rows behind the last commit are all that has passed, too, where partitions are added
   (`read_all_parts`). A worker that cannot write a row removes the files.
"""

from __future__ import annotations

import contextlib
import logging
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from streaming_jobs.routing.id_table import GENERATION_SECONDS

log = logging.getLogger(__name__)

VERSION = 3
NOWHERE = -1
"""The offset of a row that came from Spark's state: only all of them together stand before an offset."""
PIECE_BYTES = 1 << 20
"""So much of a file is in memory at once: ten million ids take 90 MiB."""
SPARE_SECONDS = GENERATION_SECONDS
"""Rows are kept for so much longer than ids, because the last commit lies behind."""
_MAGIC = b"MGK"
_HEAD = struct.Struct("<3sBIqqI")
_ROW, _CRC = struct.Struct("<qqI"), struct.Struct("<I")
_ROW_BYTES = _ROW.size + _CRC.size

Row = tuple[int, bytes]
"""The log time of a record, and the ids that it has added."""


class NoMemory(Exception):
    """No ids stand before the record at hand. The lane must begin again from its last commit."""


class Place(NamedTuple):
    """A place between two rows: what is known of those before it."""

    stands_before: int
    log_seconds: int
    crc: int


_ORIGIN = Place(NOWHERE, 0, 0)
"""A part that begins here needs no earlier one."""


def ids_folder(checkpoint: Path, partition: int) -> Path:
    return checkpoint / "ids" / f"lane-{partition}"


def part_path(folder: Path, offset: int) -> Path:
    """Returns where the part is of which this is the first offset."""
    return folder / str(offset)


def write_part(path: Path, partition: int, offset: int, rows: Iterable[Row], *, is_durable: bool = False) -> None:
    """Writes rows that stand before an offset together, as a part that needs no earlier one.

    Args:
        is_durable: the part must outlive the machine.
    """
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb", PIECE_BYTES) as file:
        place = _write_head(file, partition, _ORIGIN)
        for log_seconds, ids in rows:
            place = _write_row(file, Place(NOWHERE, log_seconds, place.crc), bytes(ids))
        _write_row(file, place._replace(stands_before=offset), b"")
        if is_durable:
            file.flush()
            os.fsync(file.fileno())
    fresh.replace(path)


def remove_other_parts(path: Path) -> None:
    """Removes the parts beside this one."""
    for part in path.parent.iterdir():
        if part != path:
            part.unlink()


@dataclass(slots=True)
class IdPart:
    """A part that was read and found whole, up to an offset."""

    path: Path
    begin: Place
    end: Place
    begins_at: int
    """The position in the file at which the rows to read begin, as `ends_at` is where they end."""
    ends_at: int
    times: dict[int, int] = field(default_factory=dict)
    """The position of the first row of each second of the log."""

    @property
    def needs_earlier(self) -> bool:
        return self.begin != _ORIGIN

    @property
    def size_bytes(self) -> int:
        return self.ends_at - self.begins_at

    def skip_before(self, log_seconds: int) -> None:
        """Leaves out the rows that are older than this."""
        self.begins_at = next((at for second, at in self.times.items() if second >= log_seconds), self.ends_at)

    def rows(self) -> Iterator[Row]:
        with self.path.open("rb", PIECE_BYTES) as file:
            at = file.seek(self.begins_at)
            while at < self.ends_at:
                _, log_seconds, size = _ROW.unpack_from(file.read(_ROW_BYTES))
                yield log_seconds, file.read(size)
                at += _ROW_BYTES + size


def read_part(path: Path, partition: int, offset: int | None = None) -> IdPart:
    """Reads a part up to an offset, or to its end. Raises NoMemory if it is damaged before, or does not reach it."""
    with path.open("rb", PIECE_BYTES) as file:
        head = file.read(_HEAD.size)
        crc = zlib.crc32(head)
        if file.read(_CRC.size) != _CRC.pack(crc):
            raise NoMemory(f"{path} is damaged")
        magic, version, part_of, *begin = _HEAD.unpack(head)
        if (magic, version, part_of) != (_MAGIC, VERSION, partition):
            raise NoMemory(f"{path} holds no ids of partition {partition} in version {VERSION}")
        at = file.tell()
        part = IdPart(path, Place(*begin), Place(*begin)._replace(crc=crc), at, at)
        while len(head := file.read(_ROW_BYTES)) == _ROW_BYTES:
            stands_before, log_seconds, size = _ROW.unpack_from(head)
            if offset is not None and stands_before > offset:
                break
            crc = zlib.crc32(file.read(size), zlib.crc32(head[: _ROW.size], part.end.crc))
            if head[_ROW.size :] != _CRC.pack(crc):
                break
            part.times.setdefault(log_seconds, part.ends_at)
            part.end = Place(stands_before, log_seconds, crc)
            part.ends_at += _ROW_BYTES + size
    if offset is not None and part.end.stands_before != offset:
        raise NoMemory(f"{path} does not stand before offset {offset} of partition {partition}")
    return part


def read_parts(folder: Path, partition: int, offset: int, keep_seconds: int) -> list[IdPart]:
    """Returns the parts, the oldest first, which hold all ids that must be known before an offset.

    Raises NoMemory if there are none.

    Args:
        keep_seconds: how long an id must be known, in log time.
    """
    numbers = sorted((number for number in _numbers(folder) if number <= offset), reverse=True)
    parts: list[IdPart] = []
    since = 0
    for number in numbers:
        part = read_part(part_path(folder, number), partition, None if parts else offset)
        if not parts:
            since = part.end.log_seconds - keep_seconds
        elif parts[0].begin != part.end:
            break
        parts.insert(0, part)
        part.skip_before(since)
        if not part.needs_earlier or part.begin.log_seconds < since:
            return parts
    raise NoMemory(f"no ids in {folder} stand before offset {offset} of partition {partition}")


def read_all_parts(folder: Path, partition: int, routed_to: int, keep_seconds: int) -> list[IdPart]:
    """Returns the parts up to where the worker has come, which may be behind the last commit.

    Raises NoMemory if they do not reach the first offset that was never routed.
    """
    newest = max(_numbers(folder), default=routed_to)
    end = read_part(part_path(folder, newest), partition).end.stands_before
    if end < routed_to:
        raise NoMemory(f"the ids in {folder} end before offset {routed_to}")
    return read_parts(folder, partition, end, keep_seconds)


def _numbers(folder: Path) -> list[int]:
    try:
        return [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
    except FileNotFoundError:
        return []


class IdLog:
    """Continues a lane's files behind the last commit. One worker at a time does so.

    Args:
        parts: what was read, up to where the first row is to be added.
    """

    def __init__(self, folder: Path, partition: int, parts: list[IdPart], keep_seconds: int) -> None:
        self._folder = folder
        self._partition = partition
        self._keep_seconds = keep_seconds
        self._parts = [(part.path, part.begin) for part in parts]
        self._place = parts[-1].end
        self._ends_at = parts[-1].ends_at
        self._file: BinaryIO | None = None
        self._has_failed = False

    def add(self, offset: int, log_seconds: int, ids: bytes) -> None:
        """Adds the ids of the record before this offset. Once a row could not be written, none is: whoever starts next
        reads Spark's state."""
        if self._has_failed:
            return
        try:
            if self._file is None:
                self._file = self._open()
            elif log_seconds - self._parts[-1][1].log_seconds >= GENERATION_SECONDS:
                self._file.close()
                self._file = self._begin_part(log_seconds)
            self._place = _write_row(self._file, Place(offset, log_seconds, self._place.crc), ids)
        except OSError as error:
            log.warning("the next start of this lane reads Spark's state, for its ids cannot be written: %s", error)
            self._has_failed = True
            self._remove_parts()  # or lanes that are added would take them for all that has passed

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _remove_parts(self) -> None:
        for number in _numbers(self._folder):
            with contextlib.suppress(OSError):
                part_path(self._folder, number).unlink()

    def _open(self) -> BinaryIO:
        """Cuts off what stands behind the last commit."""
        path, _ = self._parts[-1]
        for number in _numbers(self._folder):
            if number > int(path.name):
                part_path(self._folder, number).unlink()
        os.truncate(path, self._ends_at)
        return path.open("ab", 0)

    def _begin_part(self, log_seconds: int) -> BinaryIO:
        """Begins the next part, and removes those that nobody will need."""
        path = part_path(self._folder, self._place.stands_before)
        file = path.open("wb", 0)
        self._parts.append((path, self._place))
        self._place = _write_head(file, self._partition, self._place)
        oldest = log_seconds - self._keep_seconds - SPARE_SECONDS
        while len(self._parts) > 1 and self._parts[1][1].log_seconds < oldest:
            unneeded, _ = self._parts.pop(0)
            unneeded.unlink(missing_ok=True)
        return file


def _write_head(file: BinaryIO, partition: int, begin: Place) -> Place:
    head = _HEAD.pack(_MAGIC, VERSION, partition, *begin)
    crc = zlib.crc32(head)
    _write(file, head + _CRC.pack(crc))
    return begin._replace(crc=crc)


def _write_row(file: BinaryIO, place: Place, ids: bytes) -> Place:
    """Writes a row.

    Args:
        place: where the row ends, with the CRC of what is before the row.
    """
    fields = _ROW.pack(place.stands_before, place.log_seconds, len(ids))
    crc = zlib.crc32(ids, zlib.crc32(fields, place.crc))
    _write(file, fields + _CRC.pack(crc) + ids)
    return place._replace(crc=crc)


def _write(file: BinaryIO, data: bytes) -> None:
    if file.write(data) != len(data):
        raise OSError("no space left")
