"""Allows one router per checkpoint, by a lock that the kernel takes back when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from types import TracebackType

from gateway.core.errors import SetupError

WAIT_SECONDS = 0.1


class CheckpointLock:
    """A lock on a file system of one machine. In Kubernetes the volume is ReadWriteOnce and the set has one pod."""

    def __init__(self, checkpoint: Path) -> None:
        self._path = checkpoint / "lock"
        try:
            checkpoint.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SetupError(f"router.checkpoint {checkpoint}: {error.strerror}") from error

    def take(self) -> None:
        """Raises SetupError if another router has it."""
        if not self._try():
            raise SetupError(
                f"another router uses {self._path.parent}: stop it, or set router.standby for a second that waits"
            )

    def wait(self, stop: threading.Event) -> bool:
        """Waits until the other router is gone. Returns False if stopped before."""
        while not self._try():
            if stop.wait(WAIT_SECONDS):
                return False
        return True

    def _try(self) -> bool:
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
