"""Quantiles are exact: a value that was measured, at the rank that the definition names."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.bench.quantiles import CURVE, curve, named, rank

QUANTILES = st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0])


@pytest.mark.parametrize(
    ("count", "quantile", "expected"),
    [
        (1, 0.5, 0), (1, 0.999, 0), (2, 0.5, 0), (2, 0.51, 1), (3, 0.5, 1),
        (10, 0.9, 8), (10, 0.99, 9), (100, 0.99, 98), (1_000, 0.999, 998), (10_000, 0.999, 9_989), (7, 1.0, 6),
    ],
)  # fmt: skip
def test_the_rank_is_the_least_that_so_many_do_not_exceed(count: int, quantile: float, expected: int) -> None:
    assert rank(count, quantile) == expected


@given(st.integers(1, 200_000), QUANTILES)
@settings(max_examples=200, deadline=None)
def test_the_rank_agrees_with_the_definition_in_exact_numbers(count: int, quantile: float) -> None:
    part = Fraction(str(quantile))
    found = rank(count, quantile)
    assert Fraction(found + 1, count) >= part
    assert found == 0 or Fraction(found, count) < part


def test_the_named_ones_of_one_to_a_thousand() -> None:
    assert named(np.arange(1.0, 1_001.0)) == {
        "p50": 500.0, "p90": 900.0, "p99": 990.0, "p99_9": 999.0, "max": 1_000.0, "mean": 500.5,
    }  # fmt: skip


def test_of_nothing_there_are_none() -> None:
    assert set(named(np.empty(0)).values()) == {None}
    assert curve(np.empty(0)) == []


def test_one_value_in_a_thousand_is_in_p99_9_only_if_it_is_one_more() -> None:
    """A bucketed or interpolated quantile would show something in between."""
    fine = np.full(999, 1.0)
    assert named(np.append(fine, 100.0))["p99_9"] == 1.0
    assert named(np.append(fine[:998], [100.0, 100.0]))["p99_9"] == 100.0


@pytest.mark.parametrize(("count", "last"), [(10, 0.9), (100, 0.99), (1_000, 0.999), (100_000, 0.99999)])
def test_the_curve_goes_as_far_into_the_tail_as_there_are_values(count: int, last: float) -> None:
    quantiles = [quantile for quantile, _ in curve(np.arange(float(count)))]
    assert quantiles[-2:] == [last, 1.0]
    assert quantiles == sorted(quantiles)
    assert set(quantiles) <= set(CURVE)
