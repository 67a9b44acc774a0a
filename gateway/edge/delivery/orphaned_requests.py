"""Requests that an earlier life of this edge has handed to its sessions: those are gone, so nobody will answer.

Who asked would learn it from a timeout. The egress partition still has the requests, with the addresses that answers go
to; which of them have been answered meanwhile is not looked up: an error that nobody waits for any more is dropped.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterator

from gateway.config import Config
from gateway.core.event import Kind
from gateway.core.reasons import Rejected
from gateway.edge.partitions import records_since
from gateway.records import egress_codec
from gateway.records.egress import Deliver
from gateway.records.raw_log.frames import ReplyAddress

LOOK_BACK_SECONDS = 20.0
"""The time for the reading itself. A request that is not found in it ends by its timeout."""


def orphaned_requests(config: Config, epoch: int) -> list[ReplyAddress]:
    """Returns the requests that were open on sessions of epochs before this one. Blocks. Raises SetupError."""
    since_ms = int((time.time() - config.request_timeout_seconds) * 1000)
    until = time.monotonic() + LOOK_BACK_SECONDS
    orphans: deque[ReplyAddress] = deque(maxlen=config.limits.open_requests)  # no more were open at once
    with contextlib.suppress(TimeoutError):
        for record in records_since(config, config.topic("egress"), config.edge_ordinal, since_ms, LOOK_BACK_SECONDS):
            orphans.extend(replies_in(record.value() or b"", epoch))
            if time.monotonic() > until:
                break
    return list(dict.fromkeys(orphans))


def replies_in(value: bytes, epoch: int) -> Iterator[ReplyAddress]:
    """Yields the reply addresses of the requests in one egress record."""
    try:
        record = egress_codec.decode(value)
    except Rejected:
        return
    for entry in record:
        if isinstance(entry, Deliver) and entry.kind is Kind.REQUEST and entry.epoch < epoch:
            yield from (ReplyAddress.unpack(group.reply) for group in entry.groups if group.reply)
