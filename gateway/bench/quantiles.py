"""Exact quantiles: the value that was measured at a rank, never one between two, and of all values, not of buckets."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

Floats: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]

NAMED = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
CURVE = (0.0, *(n / 20 for n in range(1, 20)), 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999, 0.99999, 1.0)
"""The quantiles that the plot shows: closer together in the tail."""
_EPSILON = 1e-9
"""The error that binary fractions add to a product such as 0.999 * 1000."""


def rank(count: int, quantile: float) -> int:
    """The index, in sorted order, of the least value that so large a part of all values does not exceed.

    >>> [rank(100, quantile) for quantile in (0.0, 0.5, 0.99, 0.991, 1.0)]
    [0, 49, 98, 99, 99]
    """
    return max(math.ceil(quantile * count - _EPSILON) - 1, 0)


def named(ordered: Floats) -> dict[str, float | None]:
    """Returns p50 to p99.9, the largest, and the mean; None if there is nothing to measure."""
    if not len(ordered):
        return dict.fromkeys((*NAMED, "max", "mean"))
    values = {name: round(float(ordered[rank(len(ordered), quantile)]), 3) for name, quantile in NAMED.items()}
    return {**values, "max": round(float(ordered[-1]), 3), "mean": round(float(ordered.mean()), 3)}


def curve(ordered: Floats) -> list[tuple[float, float]]:
    """Returns quantiles and values, as far into the tail as there are values to tell two quantiles apart."""
    count = len(ordered)
    measurable = [
        quantile for quantile in CURVE if count and (quantile == 1.0 or count * (1 - quantile) >= 1 - _EPSILON)
    ]
    return [(quantile, round(float(ordered[rank(count, quantile)]), 3)) for quantile in measurable]
