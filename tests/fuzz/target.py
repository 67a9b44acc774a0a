"""A target of fuzzing: a check of one input, the seeds it begins with, and the bounds within which it must end."""

from __future__ import annotations

import resource
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random

from gateway.core.reasons import Rejected
from tests.fuzz.mutation import mutated, random_edits

CORPORA = Path(__file__).parent / "corpora"
MOST_SECONDS = 2.0
"""For an input of at most 64 KiB, of the process's own time. Ten times what the slowest takes on a slow machine."""
MOST_KIBIBYTES = 192 * 1024
"""How far one input may raise the most memory that the process has ever had."""


class BoundError(AssertionError):
    """An input took more time or memory than it may."""


@dataclass(frozen=True)
class Target:
    """`check` ends for every input, at most with one of the `documented` errors."""

    name: str
    check: Callable[[bytes], None]
    made_seeds: Callable[[], Sequence[bytes]]
    documented: tuple[type[Exception], ...] = (Rejected,)

    @property
    def corpus(self) -> Path:
        return CORPORA / f"{self.name}.txt"

    @cached_property
    def seeds(self) -> list[bytes]:
        """Returns what the tests know of the format, and every input that has once been found to matter."""
        return [*self.made_seeds(), *read_corpus(self.corpus)]

    def inputs(self, random: Random, seconds: float) -> Iterator[bytes]:
        """Gives mutations of the seeds for so many seconds of this process; the same for the same numbers."""
        began = time.process_time()
        while time.process_time() - began < seconds:
            yield mutated(random.choice(self.seeds), random_edits(random), self.seeds)

    def crash(self, data: bytes) -> str | None:
        """Returns what went wrong; None if the input ends as documented."""
        try:
            self.run(data)
        except Exception as wrong:
            at = traceback.extract_tb(wrong.__traceback__)[-1]
            return f"{type(wrong).__name__} in {at.name}, line {at.lineno} of {Path(at.filename).name}: {wrong}"
        return None

    def run(self, data: bytes) -> None:
        """Raises whatever is not documented, and BoundError."""
        memory, began = _peak(), time.process_time()
        try:
            self.check(data)
        except self.documented:
            pass
        took, grown = time.process_time() - began, _peak() - memory
        if took > MOST_SECONDS:
            raise BoundError(f"{len(data)} bytes took {took:.1f} s")
        if grown > MOST_KIBIBYTES:
            raise BoundError(f"{len(data)} bytes took {grown // 1024} MiB")


def read_corpus(path: Path) -> list[bytes]:
    """Each line is an input in hex; what follows a # is for people."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [bytes.fromhex(text) for line in lines if (text := line.partition("#")[0].strip())]


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
