"""Which interests pass a filter, and what is said of each."""

from __future__ import annotations

import pytest

from gateway.core.ids import FramePosition
from gateway.inspect.live.current_interests import InterestFilter, interest_row
from gateway.interests import Interest, Verb

ONE = Interest(
    subscriber="emm:n", verb=Verb.SUBSCRIBE, pattern="temp.>", edge="edge-0", epoch=1, protocol="emm",
    listener="devices", node="n", address="10.0.0.9:5", expires_at=1_759_190_400_000_000,
    position=FramePosition(0, 0, 0),
)  # fmt: skip


@pytest.mark.parametrize(
    "wanted",
    [
        InterestFilter(),
        InterestFilter(verb="subscribe"),
        InterestFilter(subject="temp.kitchen"),
        InterestFilter(protocol="emm", node="n"),
        InterestFilter(subscriber="emm:n"),
    ],
)
def test_what_fits_passes(wanted: InterestFilter) -> None:
    assert wanted.passes(ONE)


@pytest.mark.parametrize(
    "wanted",
    [
        InterestFilter(verb="serve"),
        InterestFilter(subject="temp"),
        InterestFilter(protocol="hsp"),
        InterestFilter(node="m"),
        InterestFilter(subscriber="x"),
    ],
)
def test_what_does_not_fit_stays_out(wanted: InterestFilter) -> None:
    assert not wanted.passes(ONE)


def test_times_are_told_as_everywhere_and_what_is_empty_is_nothing() -> None:
    row = interest_row(ONE)
    assert (row["expires"], row["group"], row["address"]) == ("2025-09-30T00:00:00.000000Z", None, "10.0.0.9:5")
