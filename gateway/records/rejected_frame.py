"""The records of `rejected`: what was refused, why, and its first bytes. The whole frame stands in `raw`.

    one frame     value: its first bytes                headers: RefusedFrame's other fields
    several       value: a JSON array with one object   headers: what they have in common (`COMMON`), and `frames`,
                  a frame, `frame` in base64                     how many they are

Each frame has a record of its own, until there are many a second: then those of one raw record that were refused for
one reason share one, because a record costs Kafka and the router more than everything else about a forged frame.

Nothing is kept of a frame that may hold a token: it came on `mesh.login`, where nobody but an edge may read it.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

KEPT_BYTES = 4_096
"""A person sees by these what it was. Kept whole, a stranger's frames would fill the disks for a month."""
TRUNCATED_HEADER = "truncated_bytes"
"""The header with the number of missing bytes; absent if none are missing."""
FRAMES_HEADER = "frames"
"""The header with the number of frames; absent in the record of a single one."""
RECORD_BYTES = 262_144
"""A record of several is about so large at most: as much as the router's sink sends at once."""
_ITEM_BYTES = 256
"""A frame takes so much in such a record beside its bytes and its detail, at most."""
_LOGIN = re.compile(rb"mesh[./]login", re.IGNORECASE)
"""Finds the subject in a frame that nobody could decode, which a packet that proves nothing may be."""

Headers = list[tuple[str, bytes]]


class RefusedFrame(NamedTuple):
    """A refused frame.

    Args:
        again: where the frame stands in the raw log, if that is not the position its id names.
        truncated_bytes: how many of its bytes are missing from `kept`.
    """

    reason: str
    stage: str
    protocol: str
    listener: str
    edge: str
    event_id: str
    detail: str = ""
    peer: str = ""
    node: str = ""
    again: str = ""
    truncated_bytes: int = 0
    kept: bytes = b""


COMMON = RefusedFrame._fields[:5]


def kept_part(frame: bytes, *, is_secret: bool = False) -> tuple[bytes, int]:
    """Returns the bytes to keep, and how many are cut off.

    Args:
        is_secret: the frame is known to be about `mesh.login`, however it is encoded.

    >>> kept_part(b"short")
    (b'short', 0)
    >>> kept_part(b"x" * 5_000)[1]
    904
    >>> kept_part(b"mesh.login eyJ")
    (b'', 14)
    """
    kept = b"" if is_secret or _LOGIN.search(frame, 0, KEPT_BYTES) else frame[:KEPT_BYTES]
    return kept, len(frame) - len(kept)


def records(refusals: Sequence[RefusedFrame], alone: int) -> Iterator[tuple[bytes, Headers]]:
    """Yields value and headers of the records of these frames.

    Args:
        alone: so many of the frames have a record each; the others share.
    """
    yield from map(record, refusals[:alone])
    groups: dict[tuple[object, ...], list[RefusedFrame]] = {}
    for refusal in refusals[alone:]:
        groups.setdefault(refusal[: len(COMMON)], []).append(refusal)
    for group in groups.values():
        for part in _parts(group):
            yield record(part[0]) if len(part) == 1 else _record_of_several(part)


def record(refusal: RefusedFrame) -> tuple[bytes, Headers]:
    """Returns value and headers of the record of a single frame."""
    fields = refusal._asdict() | {TRUNCATED_HEADER: str(refusal.truncated_bytes or "")}
    kept = fields.pop("kept")
    optional = ("again", TRUNCATED_HEADER)
    return kept, [(name, text.encode()) for name, text in fields.items() if text or name not in optional]


def _parts(group: Sequence[RefusedFrame]) -> Iterator[Sequence[RefusedFrame]]:
    size = start = 0
    for at, refusal in enumerate(group):
        item_bytes = len(refusal.kept) * 4 // 3 + len(refusal.detail) + _ITEM_BYTES
        if size + item_bytes > RECORD_BYTES and at > start:
            yield group[start:at]
            size, start = 0, at
        size += item_bytes
    yield group[start:]


def _record_of_several(refusals: Sequence[RefusedFrame]) -> tuple[bytes, Headers]:
    items = []
    for *_, event_id, detail, peer, node, again, truncated_bytes, kept in refusals:
        item = {"event_id": event_id, "detail": detail, "peer": peer, "node": node}
        if again:
            item["again"] = again
        if truncated_bytes:
            item[TRUNCATED_HEADER] = str(truncated_bytes)
        item["frame"] = b64encode(kept).decode()
        items.append(item)
    headers = [(name, text.encode()) for name, text in zip(COMMON, refusals[0], strict=False) if isinstance(text, str)]
    return json.dumps(items, separators=(",", ":")).encode(), [*headers, (FRAMES_HEADER, b"%d" % len(items))]


def read(headers: Iterable[tuple[str, bytes]], value: bytes) -> Iterator[RefusedFrame]:
    """Yields the refused frames of a record, in their order."""
    fields = {name: text.decode(errors="replace") for name, text in headers}
    if FRAMES_HEADER not in fields:
        yield _refused_frame(fields, value)
        return
    for item in json.loads(value):
        yield _refused_frame(fields | item, b64decode(item["frame"]))


def _refused_frame(fields: Mapping[str, str], kept: bytes) -> RefusedFrame:
    texts = {name: fields.get(name, "") for name in (*COMMON, "event_id", "detail", "peer", "node", "again")}
    return RefusedFrame(**texts, truncated_bytes=int(fields.get(TRUNCATED_HEADER) or 0), kept=kept)
