"""Silence of Kafka's clients while a broker that may not be there is asked: what they complain of many times over is
said by whoever asks, in one line. With -v they are heard."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.errors import SetupError

_clients = logging.getLogger("kafka")
_lock = threading.Lock()
_asking: list[int] = []
"""The level that was, once for each who asks now: threads may overlap, and the last one out puts it back."""


@contextmanager
def quiet_clients() -> Iterator[None]:
    if logging.getLogger().isEnabledFor(logging.INFO):
        yield
        return
    with _lock:
        _asking.append(_asking[0] if _asking else _clients.level)
        _clients.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        with _lock:
            level = _asking.pop()
            if not _asking:
                _clients.setLevel(level)


def not_answering(servers: str, error: Exception) -> SetupError:
    """What a client could not do, in one line."""
    return SetupError(f"kafka.bootstrap {servers} does not answer ({type(error).__name__}): is Kafka running?")
