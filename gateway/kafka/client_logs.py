"""Silence of Kafka's clients while a broker that may not be there is asked: what they complain of many times over is
said by whoever asks, in one line. With -v they are heard."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gateway.core.errors import SetupError

_AROUND = re.compile(r"^\S+/(bootstrap|\d+): |Connect to \S+ failed: | \(after \d+ms in state \w+.*\)$")
"""Matches what stands around a cause: the broker, the address once more, the state of a connection."""

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


def in_words(text: str) -> str:
    """Returns librdkafka's message about a connection, without its own details.

    >>> in_words("m:9/bootstrap: Connect to ipv4#192.0.2.1:9 failed: Connection refused (after 0ms in state CONNECT)")
    'connection refused'
    >>> in_words("m:9/bootstrap: Failed to resolve 'mesh:9': Name or service not known (after 7ms in state CONNECT)")
    "failed to resolve 'mesh:9': Name or service not known"
    """
    words = _AROUND.sub("", text)
    return words[:1].lower() + words[1:] if words[1:2].islower() else words


def not_answering(servers: str, error: Exception) -> SetupError:
    """Returns an error that says in one line that Kafka does not answer."""
    return SetupError(f"kafka.bootstrap {servers} does not answer ({type(error).__name__}): is Kafka running?")
