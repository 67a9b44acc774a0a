"""Fetches jars by their Maven coordinates: several connections at once, each jar held against its SHA-256.

    part folder:  A.jar (whole, checked)   B.jar.part (what came of it; the next try goes on there)

A jar takes its name when its bytes have the pinned digest. What was fetched stays for the next try.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import re
import threading
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from gateway.core.errors import SetupError
from gateway.core.quantity import quantity
from gateway.local.spark_files import spark_jars

MIRROR_VARIABLE = "MESHGATE_MAVEN"
"""The environment variable with the address of a mirror of Maven Central."""
CONNECTIONS = 6
"""At once: most jars are small, so their cost is the way there and back."""
TRIES = 3
ANSWER_SECONDS = 30.0
"""The longest silence of a server within a jar."""
_CHUNK_BYTES = 65536
_IVY_RESOLVER = "org/apache/ivy/plugins/resolver/IBiblioResolver.class"

Progress = Callable[[int, int], None]
"""Is told how many bytes have come, and of how many. Several threads call it, one at a time."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A jar as it is pinned: `organisation:artifact:revision`, its digest, and its size."""

    coordinate: str
    sha256: str
    size_bytes: int

    @property
    def file_name(self) -> str:
        return "{}--{}-{}.jar".format(*self.coordinate.split(":"))

    @property
    def path(self) -> str:
        organisation, artifact, revision = self.coordinate.split(":")
        return f"{organisation.replace('.', '/')}/{artifact}/{revision}/{artifact}-{revision}.jar"


class _Refused(Exception):
    """Raised with the reason why a jar was not taken."""


class JarFetch:
    """Fetches pins into a folder. Whole jars that are there already are kept."""

    def __init__(self, pins: Iterable[Pin], folder: Path, progress: Progress = lambda _done, _of: None) -> None:
        self._folder = folder
        self._repository = repository()
        self._pins = sorted(pins, key=lambda pin: -pin.size_bytes)  # the largest first: none is waited for at the end
        self._progress = progress
        self._of = sum(pin.size_bytes for pin in self._pins)
        self._have = dict.fromkeys(self._pins, 0)
        self._lock = threading.Lock()

    def run(self) -> None:
        """Raises SetupError with the first jar that could not be fetched, once nothing is under way any more, and
        OSError where the disk is full."""
        with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="jars") as connections:
            failures = [failed for failed in connections.map(self._fetch, self._pins) if failed]
        if failures:
            pin, why = failures[0]
            raise SetupError(
                f"could not fetch {quantity(len(failures), 'jar')} from {self._repository}"
                f" (first: {pin.coordinate}: {why}); check the network and run the command again:"
                f" it goes on where it was. Behind a mirror set {MIRROR_VARIABLE}"
            )

    def _fetch(self, pin: Pin) -> tuple[Pin, str] | None:
        """Returns the pin and why it could not be fetched; None if it is there."""
        whole = self._folder / pin.file_name
        part = whole.with_name(f"{whole.name}.part")
        if whole.exists():
            self._now_has(pin, pin.size_bytes)
            return None
        why = ""
        for _ in range(TRIES):
            try:
                self._download(pin, part)
                _verify(pin, part)
                part.replace(whole)
                return None
            except _Refused as refused:
                why = str(refused)
                part.unlink(missing_ok=True)
            except urllib.error.HTTPError as answered:
                why = f"the server answers {answered.code}"
                if answered.code < http.HTTPStatus.INTERNAL_SERVER_ERROR:  # as it would the next time
                    break
            except (OSError, http.client.HTTPException) as failed:  # URLError is an OSError
                if getattr(failed, "errno", None) in (errno.ENOSPC, errno.EDQUOT):  # no other try helps
                    raise
                why = str(getattr(failed, "reason", failed) or type(failed).__name__)
        return pin, why

    def _download(self, pin: Pin, part: Path) -> None:
        has = _size(part)
        if has >= pin.size_bytes:
            return
        request = urllib.request.Request(f"{self._repository}/{pin.path}")  # noqa: S310 - http or https, see `repository`
        if has:
            request.add_header("Range", f"bytes={has}-")
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:  # noqa: S310
            if answer.status != http.HTTPStatus.PARTIAL_CONTENT:  # the whole of it
                has = 0
            with part.open("ab" if has else "wb") as file:
                while chunk := answer.read(_CHUNK_BYTES):
                    has += len(chunk)
                    if has > pin.size_bytes:
                        raise _Refused(f"it is larger than its {pin.size_bytes} bytes")
                    file.write(chunk)
                    self._now_has(pin, has)

    def _now_has(self, pin: Pin, count: int) -> None:
        with self._lock:
            self._have[pin] = count
            self._progress(sum(self._have.values()), self._of)


def central() -> str:
    """Returns the address of Maven Central, as the Ivy that pyspark brings knows it."""
    for jar in spark_jars().glob("ivy-*.jar"):
        match = re.search(rb"https://[a-z0-9.-]+/maven2\b", zipfile.ZipFile(jar).read(_IVY_RESOLVER))
        if match is not None:
            return match[0].decode()
    raise SetupError(f"the installed pyspark brings no Ivy; set {MIRROR_VARIABLE} to the address of a repository")


def repository() -> str:
    """Returns where jars come from. Raises SetupError for what is no address of a web server."""
    address = os.environ.get(MIRROR_VARIABLE) or central()
    if urlsplit(address).scheme not in ("http", "https"):
        raise SetupError(
            f"{MIRROR_VARIABLE} is {address!r}: expected an address like https://mirror.example.org/maven2"
        )
    return address.rstrip("/")


def _size(part: Path) -> int:
    try:
        return part.stat().st_size
    except OSError:
        return 0


def _verify(pin: Pin, part: Path) -> None:
    """A connection that ends too early is tried again from there; what is whole and wrong is thrown away."""
    if (size := _size(part)) < pin.size_bytes:
        raise OSError(f"the connection ended after {size} of {pin.size_bytes} bytes")
    digest = hashlib.sha256(part.read_bytes()).hexdigest()
    if digest != pin.sha256:
        raise _Refused(f"it has SHA-256 {digest}, pinned is {pin.sha256}: a mirror may serve a wrong file")
