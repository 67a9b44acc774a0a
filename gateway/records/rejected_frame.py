"""The value of a record of `rejected`: the frame's first bytes. The whole frame stands in `raw`, under its event id."""

from __future__ import annotations

KEPT_BYTES = 4_096
"""A person sees by these what it was. Kept whole, a stranger's frames would fill the disks for a month."""
TRUNCATED_HEADER = "truncated_bytes"
"""The header with the number of missing bytes; absent if none are missing."""


def kept_part(frame: bytes) -> tuple[bytes, dict[str, str]]:
    """Returns the bytes to keep, and the header that says how many were cut off.

    >>> kept_part(b"short")
    (b'short', {})
    >>> kept_part(b"x" * 5_000)[1]
    {'truncated_bytes': '904'}
    """
    missing = len(frame) - KEPT_BYTES
    return (frame, {}) if missing <= 0 else (frame[:KEPT_BYTES], {TRUNCATED_HEADER: str(missing)})
