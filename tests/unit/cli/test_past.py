"""Times of verbs that look back: what has no sign is long ago."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from gateway.cli.times import CLOCK_SKEW, from_time, to_time
from tests.unit.cli.running import run

LOOKING_BACK = [("audit",), ("replay",), ("rejected", "list"), ("rejected", "redrive"), ("tap",), ("sql", "SELECT 1")]


@pytest.mark.parametrize("read", [from_time, to_time])
@pytest.mark.parametrize("text", ["1h", "-1h"])
def test_a_length_of_time_is_that_long_ago(read: Callable[[str], datetime], text: str) -> None:
    assert abs(datetime.now(UTC) - timedelta(hours=1) - read(text)) < timedelta(minutes=1)


def test_another_machines_now_is_no_future() -> None:
    now = datetime.now(UTC) + CLOCK_SKEW / 2
    assert from_time(now.isoformat()) == now


@pytest.mark.parametrize("verb", LOOKING_BACK, ids=" ".join)
@pytest.mark.parametrize("text", ["+1h", "9999-12-31T00:00:00Z"])
def test_nothing_is_looked_for_from_a_time_to_come(verb: tuple[str, ...], text: str) -> None:
    result = run(*verb, "--from", text)
    assert result.exit_code == 2
    assert f"{text} is in the future" in result.stderr


def test_a_look_back_may_end_in_the_future() -> None:
    assert to_time("+1h") > datetime.now(UTC)
