"""Reports what a subscriber has missed while its session was away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from gateway.cli.console import note, timestamp
from gateway.cli.peer_options import PeerOptions
from gateway.config import Config
from gateway.core.errors import SetupError
from gateway.core.event import SECOND_US
from gateway.core.quantity import quantity
from gateway.inspect.live.rows import RowFilter, rows_of

COUNTED_AT_MOST = 100_000
"""More than that nobody counts for a line of text."""


class Absence:
    """Notes when a session ends, and says what has passed when the next one is subscribed."""

    def __init__(self, peer: PeerOptions, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._config = peer.config() if peer.to is None else None
        self._began: float | None = None
        self._counting: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        self._began = time.time()

    def end(self) -> None:
        """The count is told when it is known: what comes now is shown meanwhile."""
        if self._began is None:
            return
        began, ended, self._began = self._began, time.time(), None
        task = asyncio.create_task(self._report(began, ended))
        self._counting.add(task)
        task.add_done_callback(self._counting.discard)

    async def _report(self, began: float, ended: float) -> None:
        away = f"away for {ended - began:.1f} s"
        missed = None
        if self._config is not None:
            missed = await asyncio.to_thread(count_between, self._config, self._patterns, began, ended)
        if missed is None:
            note(f"{away}: what was published meanwhile is not repeated, unless this node is owed it")
        elif missed:
            patterns = " ".join(f"--subject '{pattern}'" for pattern in self._patterns[:1])
            shown = f"meshgate tap --from {timestamp(began)} {patterns} -n {missed}"
            note(f"{away}: {quantity(missed, 'event')} passed meanwhile; see them: {shown}")
        else:
            note(f"{away}: nothing was missed")


def count_between(config: Config, patterns: Sequence[str], began: float, ended: float) -> int | None:
    """Returns how many events that match were accepted between two times; None where Kafka does not tell."""
    # Imported late: a subscriber that misses nothing needs no Kafka client.
    from gateway.inspect.history.topics import History

    filters = [RowFilter(subject=pattern) for pattern in patterns]
    count = 0
    try:
        with History(config) as history:
            spans = history.between("events", int(began * SECOND_US), int(ended * SECOND_US))
            for record in history.read("events", spans):
                rows = rows_of("events", record, RowFilter())
                count += sum(any(filter_.passes(row) for filter_ in filters) for row in rows)
                if count >= COUNTED_AT_MOST:
                    break
    except SetupError:
        return None
    return count
