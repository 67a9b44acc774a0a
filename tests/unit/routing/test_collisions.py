"""The birthday bound, as a number."""

from __future__ import annotations

from streaming_jobs.routing.collisions import Window, expected


def test_a_thousand_a_second_cost_about_ten_in_five_minutes() -> None:
    assert 10 < expected(1_000 * 300, 32) < 11


def test_the_window_forgets_what_is_older() -> None:
    window = Window(300)
    assert window.growth(0, 1_000) == 0
    assert window.growth(200, 5_000) == 4_000
    assert window.growth(400, 6_000) == 1_000
    assert window.growth(1_000, 6_000) == 0
