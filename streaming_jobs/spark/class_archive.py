"""A class-data archive of the JVM: what the first run loaded, mapped by the next ones. Saves a third of Spark's start.

It is written by the JVM when it ends, beside its final name, and takes that name only if the JVM ended well: a run that
was killed leaves nothing that a later one would trip over.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from gateway.local.jars import cache_folder
from gateway.local.java import Java

KEPT = 3
"""Archives, of some 170 MB each."""
_SILENT = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


class ClassArchive:
    """The class archive for one Java and one class path. Another Java or class path has another archive."""

    def __init__(self, java: Java, class_path: str, *, may_write: bool) -> None:
        """Writing takes the JVM's end some ten seconds, so it is left to one that has run for long."""
        made_of = f"{Path(java.executable).resolve()} {java.version} {class_path}"
        folder = cache_folder() / "classes"
        self.path = folder / f"spark-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}.jsa"
        self._fresh = self.path.with_suffix(f".{os.getpid()}.new")
        self._may_write = may_write
        self.is_written_at_end = False
        """The JVM that has these `options` writes the archive when it ends."""

    def options(self) -> list[str]:
        """Returns the options of the JVM's command: use the archive, or write it at the end."""
        if self.path.exists():
            return [f"-XX:SharedArchiveFile={self.path}", "-Xshare:auto", *_SILENT]
        if not self._may_write:
            return []
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError:  # a read-only home: starts are slower, that is all
            return []
        self.is_written_at_end = True
        return [f"-XX:ArchiveClassesAtExit={self._fresh}", *_SILENT]

    def keep(self, *, ended_well: bool) -> None:
        if ended_well and self._fresh.exists():
            self._fresh.replace(self.path)
            _keep_newest(self.path.parent)
        else:
            with suppress(OSError):  # a read-only one, where there is nothing to take away
                self._fresh.unlink()


def _keep_newest(folder: Path) -> None:
    """Removes all but the newest archives: those of other Javas, and of runs that were killed while they wrote."""
    newest_first = sorted(folder.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
    for old in newest_first[KEPT:]:
        old.unlink(missing_ok=True)
