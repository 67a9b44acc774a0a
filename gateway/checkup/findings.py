"""A finding of a check: a level, what is so, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """The level of a finding. The numbers are the exit codes that monitoring systems expect."""

    OK = 0
    WARN = 1
    FAIL = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a checkup.

    Args:
        check: the group and the thing looked at, such as `kafka topics`.
        remedy: what to do; empty where nothing is to be done.
        value: a number that a graph may show, with its unit.
    """

    check: str
    level: Level
    text: str
    remedy: str = ""
    value: float | None = None
    unit: str = ""


def worst(findings: Iterable[Finding]) -> Level:
    return max((finding.level for finding in findings), default=Level.OK)


def graded(value: float, *, warn_below: float, fail_below: float) -> Level:
    """Returns the level of a number that should not be small.

    >>> graded(5, warn_below=10, fail_below=3).word
    'warn'
    """
    return Level.FAIL if value < fail_below else Level.WARN if value < warn_below else Level.OK
