"""Tests how long a link rests before it is dialled again."""

from __future__ import annotations

import pytest

from gateway.edge.carriers.links import FIRST_REST_SECONDS, LONGEST_REST_SECONDS, STEADY_SECONDS, BackOff


def test_rests_grow_to_a_limit_and_begin_anew_after_a_session_that_stood() -> None:
    back_off = BackOff(lambda: 1.0)
    rests = [back_off.rest() for _ in range(8)]
    assert rests == [FIRST_REST_SECONDS * 2**n for n in range(6)] + [LONGEST_REST_SECONDS] * 2
    back_off.stood(STEADY_SECONDS - 1)
    assert back_off.rest() == LONGEST_REST_SECONDS
    back_off.stood(STEADY_SECONDS)
    assert back_off.rest() == FIRST_REST_SECONDS


@pytest.mark.parametrize(("share", "rest"), [(0.0, 0.5), (0.5, 0.75), (1.0, 1.0)])
def test_a_rest_is_somewhere_in_the_upper_half(share: float, rest: float) -> None:
    assert BackOff(lambda: share).rest() == FIRST_REST_SECONDS * rest


def test_where_many_wait_behind_one_connection_the_limit_is_lower() -> None:
    back_off = BackOff(lambda: 1.0, longest_seconds=4.0)
    assert [back_off.rest() for _ in range(6)] == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
