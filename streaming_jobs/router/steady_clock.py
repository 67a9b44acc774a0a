"""The time by which the dedup counts: it only goes on, whatever the machine's clock is set to.

The watermark follows the greatest time ever counted and never goes back. So a clock that was ahead and is put right
would make every row late, and Spark drops late rows. Hence

1. all workers of a query count by one clock, the driver's as it was when the query began, and by the monotonic clock
   from there on: a jump is not seen before the next start;
2. a query never begins below `floor`, the least time under which its checkpoint's watermark finds nothing late.

A clock that was put back by more than the watermark's delay thus stays ahead, by what it was; what was received is then
counted as received LATEST ago, which is as good as any other time for telling repeats.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Self

CLOCKS_REMEMBERED = 16
"""On another machine: one for each lane that runs there, and a few of before a restart."""


@dataclass(frozen=True, slots=True)
class SteadyClock:
    """`ahead`: of the monotonic clock of the machine `boot`. Goes to the workers with the row function."""

    boot: str
    ahead: float
    floor: int

    @classmethod
    def begin(cls, floor: int) -> Self:
        return cls(boot_id(), _ahead(floor), floor)

    def now(self) -> int:
        return int(time.monotonic() + (self.ahead if self.boot == boot_id() else _elsewhere(self)))


@cache
def boot_id() -> str:
    """Processes that agree on it share a monotonic clock."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@lru_cache(CLOCKS_REMEMBERED)
def _elsewhere(clock: SteadyClock) -> float:
    """An executor's machine has its own monotonic clock: the same from when it first hears of this one."""
    return _ahead(clock.floor)


def _ahead(floor: int) -> float:
    return max(time.time(), floor) - time.monotonic()
