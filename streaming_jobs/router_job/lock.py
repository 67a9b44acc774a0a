"""Allows one router per checkpoint, by locks that the kernel takes back when their holder dies, however it dies.

lock       the driver of the router that routes. Whoever waits for it is a standby
jvm        the JVM of the router that routes: it may live a moment longer than its driver, and writes until then
standby    a standby that is warm
leaves, begins, ready    see `hand_over`
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from gateway.core.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_SECONDS = 0.02
"""The interval at which a standby tries: it is part of every hand-over."""
ROUTES, JVM, STANDS_BY = "lock", "jvm", "standby"
LEAVES, BEGINS, READY = "leaves", "begins", "ready"


class CheckpointLock:
    """A lock on a file system of one machine. In Kubernetes both routers of a mesh are on one node."""

    def __init__(self, checkpoint: Path, name: str = ROUTES) -> None:
        self._path = checkpoint / name
        try:
            checkpoint.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SetupError(f"router.checkpoint {checkpoint}: {error.strerror}") from error

    def take(self) -> None:
        """Raises SetupError if another router has it."""
        if not self.take_if_free():
            raise SetupError(
                f"another router uses {self._path.parent}: stop it, or set router.standby for a second that waits"
            )

    def wait(self, stop: threading.Event) -> bool:
        """Waits until nobody else has it. Returns False if stopped before."""
        return _wait(self.take_if_free, stop)

    def release(self) -> None:
        """Lets another router begin. The checkpoint must not be written to any more."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def take_if_free(self) -> bool:
        """Returns whether this router has it now."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def __enter__(self) -> CheckpointLock:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        os.close(self._file)


def is_held(checkpoint: Path, name: str) -> bool:
    """Returns whether a driver has this lock. It looks, and makes nothing."""
    if not (checkpoint / name).exists():
        return False
    with CheckpointLock(checkpoint, name) as lock:
        return not lock.take_if_free()


def is_held_by_jvm(checkpoint: Path, name: str) -> bool:
    """Returns whether a JVM has this lock, which is of another kind than a driver's."""
    if not (checkpoint / name).exists():
        return False
    with (checkpoint / name).open("r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


class JvmLock:
    """A lock of Spark's own process. A router routes nothing before its JVM has it: the one before may live on for a
    moment after its driver was killed, and go on writing."""

    def __init__(self, spark: SparkSession, checkpoint: Path, name: str = JVM) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001 - the one way in
        self._channel = jvm.java.io.RandomAccessFile(str(checkpoint / name), "rw").getChannel()

    def wait(self, stop: threading.Event) -> bool:
        """Waits until no other JVM has it. Returns False if stopped before."""
        return _wait(self.take_if_free, stop)

    def release(self) -> None:
        self._lock.release()

    def take_if_free(self) -> bool:
        self._lock = self._channel.tryLock()
        return self._lock is not None


def _wait(take_if_free: Callable[[], bool], stop: threading.Event) -> bool:
    while not take_if_free():
        if stop.wait(WAIT_SECONDS):
            return False
    return True
