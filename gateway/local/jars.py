"""Keeps the pinned jars (jars.yaml), which are fetched once per user.

A set lies in the cache under a name made of its own pins, so a changed pin is a new folder. The folder appears by one
rename, when every jar is there and has the right SHA-256: a fetch that fails or is killed leaves no half set behind,
and the next one goes on with what it got.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import yaml

from gateway.core.errors import SetupError
from gateway.local.jar_fetch import JarFetch, Pin, Progress


@dataclass(frozen=True, slots=True)
class JarSet:
    name: str
    pins: tuple[Pin, ...]

    @property
    def folder(self) -> Path:
        pinned = "\n".join(sorted(f"{pin.coordinate} {pin.sha256}" for pin in self.pins))
        return cache_folder() / "jars" / f"{self.name}-{hashlib.sha256(pinned.encode()).hexdigest()[:16]}"

    @property
    def size_bytes(self) -> int:
        return sum(pin.size_bytes for pin in self.pins)


def jar_set(name: str) -> JarSet:
    pinned = yaml.safe_load(resources.files("gateway.local").joinpath("jars.yaml").read_text())
    pairs = ((coordinate, *value.split()) for coordinate, value in pinned[name].items())
    return JarSet(name, tuple(Pin(coordinate, digest, int(size)) for coordinate, digest, size in pairs))


def cache_folder() -> Path:
    """Returns `MESHGATE_CACHE`, or else the user's cache folder."""
    if chosen := os.environ.get("MESHGATE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "meshgate"


def missing_sets(names: Sequence[str]) -> list[JarSet]:
    """Returns those of the sets that this user has not got yet."""
    return [wanted for wanted in map(jar_set, names) if not wanted.folder.is_dir()]


def ensure_jars(name: str) -> list[Path]:
    """Returns the paths of the set's jars, and fetches them if this user has not got them yet."""
    jars = jar_set(name)
    if not jars.folder.is_dir():
        fetch(jars)
    return sorted(jars.folder.glob("*.jar"))


def fetch(wanted: JarSet, progress: Progress = lambda _done, _of: None) -> None:
    """Fetches a set. Another process that wants it meanwhile waits, and then has it."""
    with _locked(wanted.folder) as parts:
        if not wanted.folder.is_dir():
            JarFetch(wanted.pins, parts, progress).run()
            parts.rename(wanted.folder)


@contextmanager
def _locked(folder: Path) -> Iterator[Path]:
    """Yields the folder where the set's jars are gathered, to one process at a time."""
    parts = folder.with_name(f".{folder.name}.parts")
    try:
        parts.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder.with_name(f".{folder.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise SetupError(
            f"cannot write the jar cache {folder.parent}: {error.strerror}; set MESHGATE_CACHE to another folder"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        parts.mkdir(exist_ok=True)  # whoever had the lock before may have given it its name
        yield parts
    except OSError as error:
        raise SetupError(f"cannot write the jar cache {folder.parent}: {error.strerror}; make room there") from error
    finally:
        os.close(lock)
