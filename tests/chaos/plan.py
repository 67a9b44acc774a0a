"""The plan of what is done to the mesh, and when."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tests.chaos.brokers import NAMES as BROKERS
from tests.chaos.mesh import BROKER, CLOCKS, JVM, PARTS, ROUTER, WORKER

FROZEN_SECONDS = (2.0, 5.0)
TOGETHER, FROZEN, STORMY, JUMPING = 0.2, 0.1, 0.07, 0.08
"""Shares of the long form's blows that hit two or three parts at once, or do something else than kill."""
STORM_SECONDS = (5.0, 15.0)
SHORT_SILENCE_SECONDS, SILENCE_SECONDS, TWO_AWAY_SECONDS, DISK_FULL_SECONDS = 5.0, 20.0, 15.0, 20.0
"""A broker that says nothing is given up after its session: 3 s in the short form, Kafka's own 9 s in the long one."""
JUMP_SECONDS = (-1_750, -90, 0, 0, 90, 1_750)
"""A clock stays so until it is set again, so parts are killed and begin anew under it. Two of them may lie so far apart
as one is set ahead and the other back: less than an hour, for Kafka refuses what comes from further ahead."""


class How(StrEnum):
    KILL = "kill"
    FREEZE = "freeze"
    AWAY = "keep away"
    FILL = "fill the disk"
    STORM = "disturb the network"
    CLOCK = "set the clock of"
    CUT = "cut off"
    RESTART = "restart"


@dataclass(frozen=True)
class Blow:
    """`seconds`: how long what is not for ever lasts. `ahead`: seconds of a clock before the true time."""

    how: How
    parts: tuple[str, ...] = ()
    seconds: float = 0.0
    ahead: int = 0

    @property
    def kills(self) -> int:
        return len(self.parts) if self.how is How.KILL else 0

    def __str__(self) -> str:
        lasting = f" for {self.seconds:.1f} s" if self.seconds else ""
        lasting += f" by {self.ahead:+d} s" if self.how is How.CLOCK else ""
        return " ".join([self.how, " and ".join(self.parts)]).strip() + lasting


def short_form(chance: random.Random) -> list[Blow]:
    """Everything once, in three blows and in any order: each costs its recovery."""
    together = [(WORKER, "edge-0"), (chance.choice((ROUTER, JVM)), "edge-1"), (BROKER,)]
    blows = [Blow(How.KILL, parts) for parts in together]
    chance.shuffle(blows)
    return blows


def one_by_one(times: int, parts: Iterable[str] = PARTS) -> list[Blow]:
    """Each part so many times, for its recovery time: nothing else is done meanwhile."""
    return [Blow(How.KILL, (part,)) for part in parts for _ in range(times)]


def brokers_once(chance: random.Random) -> list[Blow]:
    """One of three brokers is killed, and another freezes until the cluster has given it up."""
    killed, frozen = chance.sample(BROKERS, 2)
    return [Blow(How.KILL, (killed,)), Blow(How.FREEZE, (frozen,), SHORT_SILENCE_SECONDS)]


def brokers_long(rounds: int, chance: random.Random) -> Iterator[Blow]:
    """Everything that may happen to one of three brokers, in another order each time; and to two of them."""
    for _ in range(rounds):
        blows = [Blow(How.KILL, (name,)) for name in BROKERS]
        blows += [Blow(how, (chance.choice(BROKERS),), SILENCE_SECONDS) for how in (How.FREEZE, How.CUT)]
        blows += [Blow(How.AWAY, tuple(chance.sample(BROKERS, 2)), TWO_AWAY_SECONDS)]
        blows += [Blow(How.FILL, seconds=DISK_FULL_SECONDS), Blow(How.RESTART, BROKERS)]
        chance.shuffle(blows)
        yield from blows


def long_form(kills: int, chance: random.Random) -> Iterator[Blow]:
    """So many kills, one after another and together, with all else in between."""
    left = kills
    while left > 0:
        drawn = chance.random()
        if (other := _other(drawn, chance)) is not None:
            yield other
            continue
        count = min(left, chance.choice((2, 3)) if drawn > 1 - TOGETHER else 1)
        yield Blow(How.KILL, tuple(chance.sample(PARTS, count)))
        left -= count


def _other(drawn: float, chance: random.Random) -> Blow | None:
    if drawn < FROZEN:
        return Blow(How.FREEZE, (chance.choice(PARTS),), chance.uniform(*FROZEN_SECONDS))
    if drawn < FROZEN + STORMY:
        return Blow(How.STORM, seconds=chance.uniform(*STORM_SECONDS))
    if drawn < FROZEN + STORMY + JUMPING:
        return Blow(How.CLOCK, (chance.choice(CLOCKS),), ahead=chance.choice(JUMP_SECONDS))
    return None
