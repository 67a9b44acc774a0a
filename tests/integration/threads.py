"""Runs threads beside a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def running_threads(over: threading.Event, *targets: Callable[[], object]) -> Iterator[None]:
    """Runs a thread for each target. At the end sets `over`, by which the targets know that they end, and waits."""
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
