"""Chooses where Spark puts its temporary files: a folder for each JVM.

A JVM that is killed leaves some ten megabytes behind. Whoever uses a folder holds a lock on it, which ends with the
process; so whoever starts next takes away what belongs to nobody any more. (A process's number would not say that: it
means something else, or nothing, to a container that has the same temporary folder and counts its own processes.)
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from gateway.core.errors import SetupError

_held: dict[Path, int] = {}
"""Open for as long as this process lives: the locks."""


def scratch_folder() -> Path:
    """Returns the scratch folder of this process. Raises SetupError if there can be none."""
    root = Path(tempfile.gettempdir(), f"meshgate-jvm-{os.getuid()}")
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        found = root.lstat()  # a link of somebody else's may lead to any folder of ours, which would be swept
        if found.st_uid != os.getuid() or not stat.S_ISDIR(found.st_mode):
            raise SetupError(f"{root} belongs to somebody else: remove it, or set TMPDIR to another folder")
        mine = next((folder for folder in _held if folder.parent == root and folder.exists()), None) or _made(root)
        _sweep(root)
    except OSError as error:
        raise SetupError(f"{root}: {error.strerror}; set TMPDIR to another folder") from error
    return mine


def _made(root: Path) -> Path:
    """Makes a folder and locks it. Between the two somebody may have swept it away."""
    while True:
        mine = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=root))
        with suppress(FileNotFoundError):
            lock = os.open(mine, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if mine.exists():
                _held[mine] = lock
                return mine
            os.close(lock)


def _sweep(root: Path) -> None:
    for folder in root.iterdir():
        if folder in _held:
            continue
        with suppress(OSError):  # it is in use, or somebody else has swept it
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
