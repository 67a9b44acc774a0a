"""The ring of the last hour: points at their time, from what has changed, and never more than an hour of them."""

from __future__ import annotations

from gateway.inspect.live.exposition import MetricSample, read_samples
from gateway.inspect.live.last_hour import NAMES, POINT_SECONDS, POINTS, LastHour
from tests.unit.inspect.live.parts import acknowledged, edge


class Telling:
    """An edge whose clock and counts a test turns."""

    def __init__(self) -> None:
        self.now, self.received, self.extra, self.asked = 1_000.0, 0.0, "", 0
        self.hour = LastHour(self.tell, lambda: self.now)

    def tell(self) -> list[MetricSample]:
        self.asked += 1
        return read_samples(edge(self.received) + self.extra)

    def after(self, seconds: float, received: float = 0) -> None:
        self.now += seconds
        self.received += received
        self.hour.tick()


def test_a_point_is_what_has_changed_since_the_point_before() -> None:
    telling = Telling()
    telling.after(0)
    assert telling.hour.as_json()["received"] == []
    telling.extra = acknowledged(("0.005", 90), ("0.01", 100), ("+Inf", 100))
    telling.after(POINT_SECONDS, received=500)
    said = telling.hour.as_json()
    assert (said["at"], said["received"]) == ([1_000 + POINT_SECONDS], [50.0])
    assert said["ack_p50"][0] < said["ack_p99"][0] < 0.01
    assert said["end_to_end_p50"] == [None]
    assert said.keys() == {"every_seconds", *NAMES}


def test_metrics_are_read_only_when_a_point_is_due() -> None:
    telling = Telling()
    for _ in range(100):
        telling.after(1)
    assert telling.asked == 10


def test_it_holds_an_hour_and_no_more() -> None:
    telling = Telling()
    for number in range(2 * POINTS):
        telling.after(POINT_SECONDS, received=number)
    said = telling.hour.as_json()
    assert [len(said[name]) for name in NAMES] == [POINTS] * len(NAMES)
    assert said["at"][-1] - said["at"][0] == 3_600 - POINT_SECONDS
    assert said["received"][-1] == (2 * POINTS - 1) / POINT_SECONDS


def test_a_clock_that_is_set_back_stops_nothing() -> None:
    telling = Telling()
    telling.after(0)
    telling.after(-500, received=10)
    telling.after(POINT_SECONDS, received=20)
    assert telling.hour.as_json()["received"] == [2.0]
