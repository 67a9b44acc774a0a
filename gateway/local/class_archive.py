"""A class-data archive of the JVM: what one run loaded, mapped by the next ones. It halves what a start costs.

    first run ──lists the classes it loads──► NAME.PID.list ──a second JVM, in the background──► NAME.jsa ──► next runs

The second JVM writes beside the archive's final name, which is taken only when all is written: one that was killed
leaves nothing that a later run would trip over. It runs at the lowest priority, once for a user, Java and class path,
and begins while the machine is at rest: even so it would cost a busy mesh half as much again for each frame.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from gateway.local.jars import cache_folder
from gateway.local.java import Java
from gateway.local.memory import available_memory
from gateway.local.processes import ends_with_parent

KEPT = 4
"""Archives: two of this Java, for Spark (170 MB) and the broker (70 MB), and two of another."""
LOWEST_PRIORITY = 19
WRITE_BYTES = 2**30
"""The memory that must be left for writing one, which takes half of that: a mesh at work needs the rest."""
REST_SECONDS = 10.0
_IDLE = 4  # in the first line of /proc/stat, behind user, nice and system
_SILENT = ("-Xlog:disable", "-Xlog:all=error:stderr", "-Xlog:cds=off:stderr", "-Xlog:cds+dynamic=off:stderr")


class ClassArchive:
    """The class archive for one program, Java and class path. Another Java or class path has another archive.

    Args:
        jars: the class path's entries, each a file or `FOLDER/*`.
        pid: the process that lists its classes.
    """

    def __init__(self, name: str, java: Java, jars: Iterable[str], pid: int | None = None) -> None:
        self._java = java
        self._class_path = os.pathsep.join(jars)
        made_of = f"{Path(java.executable).resolve()} {java.version} {' '.join(_files(self._class_path))}"
        stem = f"{name}-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"
        folder = cache_folder() / "classes"
        self.path = folder / f"{stem}.jsa"
        self.list_path = folder / f"{stem}.{pid or os.getpid()}.list"
        self._fresh = self.list_path.with_suffix(".new")

    def options(self, *, lists: bool) -> list[str]:
        """Returns the options of the JVM's command: use the archive; or list the classes, where there is none."""
        if self.path.exists():
            return [f"-XX:SharedArchiveFile={self.path}", "-Xshare:auto", *_SILENT]
        if not lists:
            return []
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.list_path.touch()
        except OSError:  # a read-only home: starts are slower, that is all
            return []
        return [f"-XX:DumpLoadedClassList={self.list_path}"]

    def write(self, root: Path = Path("/")) -> bool:
        """Writes the archive of what was listed so far, if anything was. It takes some ten seconds of processor time.

        False if there is none to write, or too little memory.

        The JVM that lists may go on meanwhile: the list's last line may be half a line, and is left out.
        """
        try:
            listed = self.list_path.read_bytes()
            self.list_path.write_bytes(listed[: listed.rfind(b"\n") + 1])
        except OSError:  # it has an archive, or its cache is read-only
            return False
        if available_memory(root) < WRITE_BYTES:
            self.list_path.unlink(missing_ok=True)
            return False
        # Not by a function between fork and exec: in a copy of this process py4j would go on talking to its JVM.
        command = [sys.executable, "-m", "gateway.local.class_archive"]
        command += [self._java.executable, "-Xshare:dump", f"-XX:SharedClassListFile={self.list_path}"]
        command += [f"-XX:SharedArchiveFile={self._fresh}", *_SILENT, "-cp", self._class_path]
        try:
            result = subprocess.run(  # noqa: S603 - the command is our own
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
            )
            if result.returncode == 0:
                self._fresh.replace(self.path)
                _keep_newest(self.path.parent)
            return result.returncode == 0
        except OSError:  # no disk left, or no Java any more
            return False
        finally:
            for path in (self.list_path, self._fresh):
                with suppress(OSError):
                    path.unlink()


def wait_for_rest(stop: threading.Event, root: Path = Path("/")) -> bool:
    """Waits until cores had as much idle time as one that has nothing to do for `REST_SECONDS`; False at `stop`."""
    idle = _idle_seconds(root)
    while not stop.wait(REST_SECONDS):
        idle, before = _idle_seconds(root), idle
        if idle - before >= REST_SECONDS:
            return True
    return False


def _idle_seconds(root: Path) -> float:
    """Returns the time that all cores have been idle."""
    return int((root / "proc/stat").read_text().split(maxsplit=_IDLE + 1)[_IDLE]) / os.sysconf("SC_CLK_TCK")


def _files(class_path: str) -> Iterable[str]:
    """Yields what a class path is made of, each jar with its size and time: the JVM takes no archive of other ones."""
    for entry in class_path.split(os.pathsep):
        yield entry
        path = Path(entry)
        for jar in sorted(path.parent.glob("*.jar")) if path.name == "*" else [path]:
            if jar.is_file():
                status = jar.stat()
                yield f"{jar.name} {status.st_size} {int(status.st_mtime)}"


def _keep_newest(folder: Path) -> None:
    """Removes all but the newest archives: those of other Javas, and what runs that were killed have left."""
    newest_first = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    archives = [path for path in newest_first if path.suffix == ".jsa"]
    for old in {*archives[KEPT:], *(path for path in newest_first if path.suffix != ".jsa" and _is_left_over(path))}:
        old.unlink(missing_ok=True)


def _is_left_over(path: Path) -> bool:
    """True for a file that a process has made which is gone."""
    pid = path.suffixes[-2][1:] if len(path.suffixes) > 1 else ""
    return not (pid.isdigit() and Path("/proc", pid).exists())


def main(command: list[str]) -> None:
    """Becomes the command, at the lowest priority, and ends with whoever has started it."""
    os.nice(LOWEST_PRIORITY)
    ends_with_parent(signal.SIGKILL)()
    os.execv(command[0], command)  # noqa: S606 - the command is our own


if __name__ == "__main__":
    main(sys.argv[1:])
