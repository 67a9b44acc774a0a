"""The long form of fuzzing: every target in turn, with new inputs each time, until the time is up."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.fuzz.target import Target

TURN_SECONDS = 2.0
MOST_CRASHES = 5
"""Of one target: what is broken in one way breaks for many inputs."""


@dataclass
class Result:
    """`crashes`: what went wrong, with the smallest input found that it goes wrong for."""

    inputs: int = 0
    seconds: float = 0.0
    crashes: dict[str, bytes] = field(default_factory=dict)


def smallest(target: Target, data: bytes) -> bytes:
    """Returns a smaller input that crashes too, by leaving out ever smaller pieces."""
    piece = len(data) // 2
    while piece:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + piece :]
            if target.crash(shorter) is not None:
                data = shorter
            else:
                at += piece
        piece //= 2
    return data


def run(
    targets: Sequence[Target], seconds: float, seed: int, tell: Callable[[str, Result], None] = lambda *_: None
) -> dict[str, Result]:
    """Runs the targets in turns, so that each has had its share whenever one stops.

    Args:
        tell: is called after each turn of a target.
    """
    results = {target.name: Result() for target in targets}
    randoms = {target.name: Random(f"{target.name} {seed}") for target in targets}
    ends = time.monotonic() + seconds
    turn_seconds = min(TURN_SECONDS, seconds / len(targets) / 2)
    while time.monotonic() < ends:
        for target in targets:
            turn = min(turn_seconds, max(ends - time.monotonic(), 0.0))
            _take_turn(target, results[target.name], randoms[target.name], turn)
            tell(target.name, results[target.name])
    return results


def _take_turn(target: Target, result: Result, random: Random, seconds: float) -> None:
    began = time.monotonic()
    for data in target.inputs(random, seconds):
        result.inputs += 1
        crash = target.crash(data)
        if crash is not None and crash not in result.crashes and len(result.crashes) < MOST_CRASHES:
            result.crashes[crash] = smallest(target, data)
    result.seconds += time.monotonic() - began


def keep(target: Target, crashes: dict[str, bytes], folder: Path | None = None) -> None:
    """Writes what crashed into the target's corpus, where every test run tries it again."""
    path = target.corpus if folder is None else folder / target.corpus.name
    known = path.read_text() if path.exists() else ""
    for crash, data in crashes.items():
        if data.hex() not in known:
            known += f"{data.hex()}  # {crash.splitlines()[0]}\n" if data else ""
    if known:
        path.write_text(known)
