"""Turns the rows that a rule found into the frames that enter the mesh."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gateway.records.raw_log.control_frames import RuleEvent
from streaming_jobs.routing.rule_event import BASE64

TOKEN_BYTES = 12
"""Bytes of a hash that names what was found in the replay window; two of 10^9 findings meet once in 10^10."""


def rule_events(
    rule: str,
    depth: int,
    batch: int | str,
    rows: Iterable[Mapping[str, Any]],
    counts: Counter[str] | None = None,
) -> Iterator[RuleEvent]:
    """Yields the events of rows. A row without a subject is no event: so a rule can say "nothing" in a CASE.

    A row that names its origin is the same finding whenever it is found again. Any other is known by its batch, which
    Spark repeats as it was after a crash, and by how many like it came before.

    Args:
        counts: how many rows of the batch came before, for one whose rows are not all given at once.
    """
    counts = Counter() if counts is None else counts
    for row in rows:
        subject = row.get("subject")
        if not subject:
            continue
        body, encoding = _text_of(row.get("body"))
        content_type, origin = row.get("content_type") or "", row.get("origin") or ""
        content = subject, body, content_type, origin
        place = ""
        if not origin:
            alike = _token(*content)
            place = f"{batch}:{counts[alike]}"
            counts[alike] += 1
        token = _token(rule, place, *content)
        hops = row["hops"] if row.get("hops") is not None else depth
        yield RuleEvent(rule, token, subject, body, encoding, content_type, origin, hops)


def _text_of(body: Any) -> tuple[str, str]:
    if body is None:
        return "", ""
    if isinstance(body, str):
        return body, ""
    try:
        return bytes(body).decode(), ""
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), BASE64


def _token(*parts: str) -> str:
    joined = b"".join(len(part := text.encode()).to_bytes(4, "big") + part for text in parts)
    return hashlib.blake2b(joined, digest_size=TOKEN_BYTES).hexdigest()


def partition_of(rule: str, partitions: int) -> int:
    """Returns the one partition of a rule's findings: they stay in order, and a repeat meets its first in one lane."""
    return zlib.crc32(rule.encode()) % partitions
