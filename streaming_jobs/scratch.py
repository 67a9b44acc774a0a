"""Where Spark puts what nobody needs after it: a folder of its own for each JVM.

A JVM that is killed leaves some ten megabytes behind. By the folder's name it can be told whose they are, so whoever
starts next takes away what belongs to nobody any more.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from gateway.embedded.processes import start_time
from gateway.errors import SetupError


def scratch_folder() -> Path:
    """Of this process. Raises SetupError where there can be none."""
    root = Path(tempfile.gettempdir(), f"meshgate-spark-{os.getuid()}")
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        if root.stat().st_uid != os.getuid():
            raise SetupError(f"{root} belongs to somebody else: remove it, or set TMPDIR to another folder")
        _sweep(root)
        mine = root / _name(os.getpid())
        mine.mkdir(exist_ok=True)
    except OSError as error:
        raise SetupError(f"{root}: {error.strerror}; set TMPDIR to another folder") from error
    return mine


def _name(pid: int) -> str:
    """A number is given to another process some day; with its start time it names one for good."""
    return f"{_namespace()}-{pid}-{start_time(pid)}"


def _namespace() -> str:
    """Containers may share this folder, and do not see each other's processes: what is another's stays."""
    return f"in{os.stat('/proc/self/ns/pid').st_ino}"


def _sweep(root: Path) -> None:
    for one in root.glob(f"{_namespace()}-*"):
        pid = one.name.split("-")[1]
        if pid.isdigit() and one.name != _name(int(pid)):
            shutil.rmtree(one, ignore_errors=True)
