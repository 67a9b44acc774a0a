"""The value of a record of `rejected`: the frame's first bytes. The whole frame stands in `raw`, under its event id.

Nothing is kept of a frame that may hold a token: it came on `mesh.login`, where nobody but an edge may read it.
"""

from __future__ import annotations

import re

KEPT_BYTES = 4_096
"""A person sees by these what it was. Kept whole, a stranger's frames would fill the disks for a month."""
TRUNCATED_HEADER = "truncated_bytes"
"""The header with the number of missing bytes; absent if none are missing."""
_LOGIN = re.compile(rb"mesh[./]login", re.IGNORECASE)
"""Finds the subject in a frame that nobody could decode, which a packet that proves nothing may be."""


def kept_part(frame: bytes, *, is_secret: bool = False) -> tuple[bytes, dict[str, str]]:
    """Returns the bytes to keep, and the header that says how many were cut off.

    Args:
        is_secret: the frame is known to be about `mesh.login`, however it is encoded.

    >>> kept_part(b"short")
    (b'short', {})
    >>> kept_part(b"x" * 5_000)[1]
    {'truncated_bytes': '904'}
    >>> kept_part(b"mesh.login eyJ")
    (b'', {'truncated_bytes': '14'})
    """
    kept_bytes = b"" if is_secret or _LOGIN.search(frame, 0, KEPT_BYTES) else frame[:KEPT_BYTES]
    missing = len(frame) - len(kept_bytes)
    return kept_bytes, {TRUNCATED_HEADER: str(missing)} if missing else {}
