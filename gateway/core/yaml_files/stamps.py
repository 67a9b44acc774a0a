"""Tells whether files are still what they were when they were read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

Stamp = tuple[int, int, int] | None


def stamps(files: Iterable[Path]) -> list[Stamp]:
    return [_stamp(path) for path in files]


def _stamp(path: Path) -> Stamp:
    """The inode tells the switched link of a mounted Secret, whose time may stay equal."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
