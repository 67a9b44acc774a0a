"""A configuration that follows its file.

A change is taken whole or not at all. Either the new file is good and differs only in what a running part can take
over, or the old configuration stays and somebody is told why: half a change would be a configuration that nobody wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from gateway.config.listeners import Listener
from gateway.config.loading import load
from gateway.config.model import Config
from gateway.core.yaml_files.faults import ConfigError, Fault
from gateway.core.yaml_files.stamps import stamps

INTERVAL_SECONDS = 1.0
"""A change must hold within 10 s; looking costs one `stat` per file."""

RELOADED = (
    "peers",
    "permissions",
    "auth",
    "rules",
    "limits",
    "request_timeout_seconds",
    "edge.operators",
    "edge.redirect_url",
    "edge.notice_seconds",
    "edge.graceful_shutdown_limit_seconds",
)
"""The settings that running parts take over. All others are fixed in a socket, a topic, a checkpoint or a plan."""
BOUND = ("protocol", "listen", "proxy_protocol")
"""The settings that are fixed in a listener's socket; its policies are not."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    config: Config


@dataclass(frozen=True, slots=True)
class Refused:
    """The file is good, but what differs needs a restart; the old configuration stays."""

    settings: tuple[str, ...]

    @property
    def why(self) -> str:
        return f"a change of {', '.join(self.settings)} needs a restart"

    def __str__(self) -> str:
        return f"not reloaded: {self.why}"


@dataclass(frozen=True, slots=True)
class Broken:
    """The file cannot be used; the old configuration stays."""

    faults: tuple[Fault, ...]

    @property
    def why(self) -> str:
        return "; ".join(map(str, self.faults))

    def __str__(self) -> str:
        return f"not reloaded: {self.why}"


Change = Reloaded | Refused | Broken


class ConfigWatch:
    """Watches the configuration's files. `clock` gives seconds, monotonic.

    The inode shows a mounted Secret's switched link, whose time may stay equal.

    `part`: what of a configuration is kept.
    """

    def __init__(
        self, config: Config, clock: Callable[[], float], part: Callable[[Config], Config] = lambda whole: whole
    ) -> None:
        self._part = part
        self.config = part(config)
        self._clock = clock
        self._looked_at = clock()
        self._stamps = stamps(config.files)
        self._last_change: Change | None = None
        self._is_reread_due = False

    def ask(self) -> None:
        """Makes the next `poll` read, whatever the file's time says. It is for SIGHUP, whose handler may do no more."""
        self._is_reread_due = True

    def poll(self) -> Change | None:
        """Returns what has changed since the last call; None if nothing has. Looks at most once a second."""
        if self._is_reread_due:
            self._is_reread_due = False
            return self.reread()
        now = self._clock()
        if now - self._looked_at < INTERVAL_SECONDS:
            return None
        self._looked_at = now
        # A broken file is read again each time: what mends it may be a file that it names and that was not there.
        if stamps(self.config.files) == self._stamps and not isinstance(self._last_change, Broken):
            return None
        return self._read()

    def reread(self) -> Change | None:
        """Reads the configuration again, whatever the file's time says. What is still wrong is reported again."""
        self._last_change = None
        return self._read()

    def _read(self) -> Change | None:
        # Stamped before it is read: a change in between is seen next time.
        self._stamps = stamps(self.config.files)
        change = self._change()
        if change is None or change == self._last_change:
            self._last_change = change
            return None
        self._last_change = change
        if isinstance(change, Reloaded):
            self.config = change.config
            self._stamps = stamps(self.config.files)
        return change

    def _change(self) -> Change | None:
        try:
            new = self._part(load(self.config.path, state_dir=self.config.state_dir))
        except ConfigError as broken:
            return Broken(tuple(broken.faults))
        if new == self.config:
            return None
        fixed = restart_needed(self.config, new)
        return Refused(tuple(fixed)) if fixed else Reloaded(new)


def restart_needed(old: Config, new: Config) -> list[str]:
    """Returns the settings that differ and that no running part takes over."""
    changed = [path for path in _changed(old, new, "") if not path.startswith("listeners")]
    fixed = [path for path in changed if not any(path == own or path.startswith(f"{own}.") for own in RELOADED)]
    return [*fixed, *_rebound(old, new)]


def _changed(old: Any, new: Any, path: str) -> Iterator[str]:
    if isinstance(old, BaseModel) and type(old) is type(new):
        for name in type(old).model_fields:
            yield from _changed(getattr(old, name), getattr(new, name), f"{path}.{name}" if path else name)
    elif old != new:
        yield path


def _rebound(old: Config, new: Config) -> Iterator[str]:
    before: dict[str, Listener] = {listener.name: listener for listener in old.listeners}
    after: dict[str, Listener] = {listener.name: listener for listener in new.listeners}
    for name in sorted(before.keys() ^ after.keys()):
        yield f"listeners ({name} is {'new' if name in after else 'gone'})"
    for name in sorted(before.keys() & after.keys()):
        for key in BOUND:
            if getattr(before[name], key) != getattr(after[name], key):
                yield f"{key} of listener {name}"
