"""Spark's JVM as a process of ours: neither outlives the other.

A JVM that goes on for a moment after its driver would still route while the driver's successor does; a driver without
its JVM would try to say goodbye to it. So the kernel kills the JVM when we die, and we end at once when it does:
whoever supervises us starts both again.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence

from gateway.local.java import optimise_with_what_is_left
from gateway.local.processes import ends_with_parent

log = logging.getLogger(__name__)

END_SECONDS = 30.0
EXIT_CODE = 70  # EX_SOFTWARE


class SparkJvm:
    """Runs Spark's JVM. The thread that starts it must outlive it: the kernel takes a thread's end for ours."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.is_ending = False
        """Its end is wanted."""
        # It also ends, in order, when its standard input does.
        self._process = subprocess.Popen(  # noqa: S603
            command,
            stdin=subprocess.PIPE,
            env=environment,
            process_group=0,
            preexec_fn=ends_with_parent(signal.SIGKILL),
        )
        optimise_with_what_is_left(self._process.pid)

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def watch(self) -> None:
        """Watches the JVM from here on: if it ends by itself, this process ends too."""
        threading.Thread(target=self._watch, name="jvm", daemon=True).start()

    def _watch(self) -> None:
        code = self._process.wait()
        if not self.is_ending:
            log.error("Spark's JVM has ended (exit code %d), so this process ends too", code)
            os._exit(EXIT_CODE)

    def end(self) -> None:
        """Ends the JVM in order. The session on it must be stopped already."""
        self.is_ending = True
        try:
            self._process.communicate(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
