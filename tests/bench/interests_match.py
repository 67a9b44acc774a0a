"""Measures how the number of interests changes the cost of a match, as ratios of one run.

    python -m tests.bench.interests_match

Two tables, one with 100 interests and one with 100,000, a tenth of each with wildcards, asked for the same subjects,
which have the same subscribers in both. `kept`: subjects seen before. `new`: subjects never seen. `changing`: between
every ten matches a session comes or goes whose pattern could fit any of them, so that what was kept is dropped (the
worst case). `end`: the end of a session with ten interests.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

from gateway.core.ids import FramePosition
from gateway.interests import EndSession, Interest, InterestTable, Put, Verb

SMALL, LARGE = 100, 100_000
SUBJECTS = 20
MATCHES = 20_000
ROUNDS = 5
LIMIT = 2.0


def interest(number: int, pattern: str, offset: int) -> Interest:
    return Interest(
        subscriber=f"edge-0.1.{number}",
        verb=Verb.SUBSCRIBE,
        pattern=pattern,
        edge="edge-0",
        epoch=1,
        session=number,
        protocol="yamp",
        listener="apps",
        position=FramePosition(0, offset, 0),
    )


def pattern(number: int) -> str:
    """Nine in ten are literal; the tenth is one of three forms with wildcards."""
    site, sensor = number // 100, number % 100
    if number % 10:
        return f"plant.site{site}.sensor{sensor}.temp"
    forms = (f"plant.site{site}.*.alarm{sensor}", f"plant.site{site}.sensor{sensor}.>", f"*.site{site}.kind{sensor}.*")
    return forms[number // 10 % 3]


def table(size: int) -> InterestTable:
    filled = InterestTable()
    for number in range(size):
        filled.apply(Put(interest(number // 10, pattern(number), number)))
    return filled


def best_us(run: Callable[[], int]) -> float:
    """Microseconds for one of what `run` counts; the best round, since noise only adds."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        count = run()
        best = min(best, (time.perf_counter() - started) / count)
    return best * 1e6


def kept(filled: InterestTable, turn: list[int]) -> int:
    subjects = [f"plant.site0.sensor{n}.temp" for n in range(SUBJECTS)]
    for _ in range(MATCHES):
        turn[0] += 1
        filled.match(subjects[turn[0] % SUBJECTS], Verb.SUBSCRIBE, 0, "0-1-0")
    return MATCHES


def new(filled: InterestTable, turn: list[int]) -> int:
    for _ in range(MATCHES):
        turn[0] += 1
        filled.match(f"plant.site0.sensor10.x{turn[0]}", Verb.SUBSCRIBE, 0, "0-1-0")
    return MATCHES


def changing(filled: InterestTable, turn: list[int]) -> int:
    subjects = [f"plant.site0.sensor{n}.temp" for n in range(SUBJECTS)]
    for n in range(MATCHES):
        if n % 10 == 0:
            turn[0] += 1
            visitor = interest(10_000_000 + turn[0] // 2, "plant.*.visit", 10_000_000 + turn[0])
            end = EndSession(visitor.subscriber, visitor.position)
            filled.apply(end if turn[0] % 2 else Put(visitor))
        filled.match(subjects[n % SUBJECTS], Verb.SUBSCRIBE, 0, "0-1-0")
    return MATCHES


def end(filled: InterestTable, turn: list[int]) -> int:
    """Ends sessions; `ROUNDS` times as many must exist in the smaller table."""
    for number in range(turn[0], turn[0] + 2):
        assert filled.apply(EndSession(f"edge-0.1.{number}", FramePosition(0, 99_000_000, 0))).removed
    turn[0] += 2
    return 2


def main() -> int:
    """1 if a case costs `LIMIT` times as much among many interests as among few."""
    small, large = table(SMALL), table(LARGE)
    worst = 0.0
    for name, case in {"kept": kept, "new": new, "changing": changing, "end": end}.items():
        few, many = best_us(partial(case, small, [0])), best_us(partial(case, large, [0]))
        worst = max(worst, many / few)
        print(f"{name:9} {SMALL}: {few:7.2f} µs   {LARGE}: {many:7.2f} µs   ratio {many / few:.2f}")
    return int(worst >= LIMIT)


if __name__ == "__main__":
    sys.exit(main())
