"""The faults of a configuration, in one line each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a file. It never holds a value of the file, because that may be a secret.

    `path` is as in `listeners[0].listen`; empty if the file itself is at fault.
    """

    file: str
    path: str
    expected: str
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.path}: {self.expected}" if self.path else f"{place}: {self.expected}"


class ConfigError(Exception):
    """A configuration that cannot be used, with everything that is wrong with it."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults
