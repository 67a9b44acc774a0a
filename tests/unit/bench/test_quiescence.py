"""When a receiver has waited long enough."""

from __future__ import annotations

from gateway.bench.arrivals import Arrivals
from gateway.bench.marker import Marker
from gateway.bench.messages import Expect
from gateway.bench.quiescence import LOOK_SECONDS, QUIET_SECONDS, Quiescence
from gateway.bench.schedule import SECOND_NS

MARKER = Marker("c0de")


class Clock:
    """Each look at it is one look of the receiver's later."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def after(self, seconds: float) -> None:
        self.now += int(seconds * SECOND_NS)


def came(*counts: int) -> list[Arrivals]:
    found = [Arrivals(MARKER, 1) for _ in counts]
    for arrivals, count in zip(found, counts, strict=True):
        for index in range(count):
            arrivals.take(MARKER.body(index, 60))
    return found


def quiet(arrivals: list[Arrivals], frames: int, seconds: float = 60.0) -> tuple[Quiescence, Clock]:
    """The clock stands where the last arrival was."""
    clock = Clock(max((one.last for one in arrivals), default=0) or SECOND_NS)
    return Quiescence(arrivals, Expect(frames, seconds), clock), clock


def test_it_is_over_when_each_subscriber_has_everything() -> None:
    assert quiet(came(3, 3), 3)[0].is_over()


def test_one_that_misses_something_keeps_all_waiting() -> None:
    assert not quiet(came(3, 2), 3)[0].is_over()


def test_it_is_over_when_nothing_more_comes() -> None:
    waiting, clock = quiet(came(2), 3)
    clock.after(QUIET_SECONDS - LOOK_SECONDS)
    assert not waiting.is_over()
    clock.after(2 * LOOK_SECONDS)
    assert waiting.is_over()


def test_where_nothing_came_at_all_it_is_quiet_from_when_all_was_sent() -> None:
    waiting, clock = quiet(came(0), 3)
    assert not waiting.is_over()
    clock.after(QUIET_SECONDS)
    assert waiting.is_over()


def test_a_trickle_does_not_keep_it_waiting_for_ever() -> None:
    arrivals = came(1)
    waiting, clock = quiet(arrivals, 1_000, seconds=1.0)
    clock.after(1.0)
    assert waiting.is_over()
