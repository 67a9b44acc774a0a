"""The trust store as long-running parts hold it: the keys in force, re-read when the file changes.

A change of the file holds within a tenth of a second, one of a file that it names within a second. A file that cannot
be used changes nothing: the keys read last stay in force, and `error` says what is wrong with it, until it is mended.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gateway.auth import trust_file
from gateway.auth.keyring import GatewayIdentity, KeyRing
from gateway.core.yaml_files.faults import ConfigError
from gateway.core.yaml_files.stamps import Stamp, stamps

OWN_SECONDS = 0.1
"""A look at the store alone costs one `stat`. Whoever makes a key, and starts what signs with it, takes longer."""
INTERVAL_SECONDS = 1.0
"""A look at all files costs one `stat` each, and there may be one for each secret."""
LOAD_SHARE = 0.1
"""The most of the time that reading a large store takes, however often it changes."""


class TrustStore:
    """Keeps the keys of the trust store in force. `clock` gives seconds, monotonic.

    Raises ConfigError if there is nothing usable to begin with.
    """

    def __init__(self, path: Path, clock: Callable[[], float], *, entry: str = trust_file.GATEWAY) -> None:
        self._path = path
        self._clock = clock
        self._entry = entry
        self.error: str | None = None
        self._next_look = self._next_look_at_all = clock()
        self._stamps = stamps([path])
        self._trust = self._load()
        self._stamps = self._stamp_all(self._stamps[0])

    @property
    def keys(self) -> KeyRing:
        return self._trust.keys

    @property
    def identity(self) -> GatewayIdentity | None:
        return self._trust.identity

    def changed(self) -> bool:
        """Returns True if other keys are in force than at the last call."""
        now = self._clock()
        if now < self._next_look:
            return False
        self._next_look = now + OWN_SECONDS
        if now < self._next_look_at_all and stamps([self._path])[0] == self._stamps[0]:
            return False
        self._next_look_at_all = now + INTERVAL_SECONDS
        stamps_now = stamps([self._path, *self._trust.files])
        # A broken file is read again each time: what mends it may be a file that it names.
        if stamps_now == self._stamps and self.error is None:
            return False
        self._stamps = stamps_now
        is_different = self._reload()
        loaded_at = self._clock()
        self._next_look = loaded_at + max(OWN_SECONDS, (loaded_at - now) / LOAD_SHARE)
        return is_different

    def _reload(self) -> bool:
        try:
            trust = self._load()
        except ConfigError as broken:
            self.error = "; ".join(map(str, broken.faults))
            return False
        self.error = None
        different, self._trust = trust != self._trust, trust
        self._stamps = self._stamp_all(self._stamps[0])
        return different

    def _load(self) -> trust_file.Trust:
        return trust_file.load(self._path, entry=self._entry)

    def _stamp_all(self, own: Stamp) -> list[Stamp]:
        """`own` was taken before the file was read, so that a change in between is seen next time."""
        return [own, *stamps(self._trust.files)]
