"""No rule may feed itself, by whatever way."""

from __future__ import annotations

import pytest

from streaming_jobs.rules.rule_graph import Feeds, depths, ring_through

RINGS: list[tuple[Feeds, str, list[str] | None]] = [
    ({"a": []}, "a", None),
    ({"a": ["a"]}, "a", ["a", "a"]),
    ({"a": ["b"], "b": ["c"], "c": []}, "a", None),
    ({"a": ["b"], "b": ["c"], "c": ["a"]}, "b", ["b", "c", "a", "b"]),
    ({"a": ["b", "c"], "b": ["c"], "c": ["a"]}, "a", ["a", "c", "a"]),
    ({"a": ["b"], "b": ["c"], "c": ["b"]}, "a", None),
    ({"a": ["b"], "b": ["c"], "c": ["b"]}, "c", ["c", "b", "c"]),
]


@pytest.mark.parametrize(("feeds", "rule", "ring"), RINGS)
def test_a_ring_is_found_by_its_shortest_way(feeds: Feeds, rule: str, ring: list[str] | None) -> None:
    assert ring_through(rule, feeds) == ring


def test_a_rule_is_as_deep_as_the_longest_way_to_it() -> None:
    feeds = {"a": ["b", "d"], "b": ["c"], "c": ["d"], "d": [], "alone": []}
    assert depths(feeds) == {"a": 1, "b": 2, "c": 3, "d": 4, "alone": 1}
