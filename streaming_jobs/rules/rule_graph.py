"""Finds which rule feeds which. A rule may look for another rule's events, but never, by any way, for its own.

A rule reads what peers sent and what rules found, so a ring of rules would go on by itself for ever. Rings are found
when rules are loaded; what remains has a depth, and that is how many rules may lie behind an event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Feeds = Mapping[str, Sequence[str]]
"""Rule → the rules that may see what it finds."""


def ring_through(rule: str, feeds: Feeds) -> list[str] | None:
    """Returns the shortest way from a rule back to itself, if there is one.

    >>> ring_through("a", {"a": ["b"], "b": ["a"]})
    ['a', 'b', 'a']
    """
    paths = [[rule]]
    visited: set[str] = set()
    while paths:
        path = paths.pop(0)
        for next_ in feeds.get(path[-1], ()):
            if next_ == rule:
                return [*path, rule]
            if next_ not in visited:
                visited.add(next_)
                paths.append([*path, next_])
    return None


def depths(feeds: Feeds) -> dict[str, int]:
    """Returns for each rule how many rules at most lie between a peer's event and its own, itself included. There is no
    ring.

    >>> depths({"a": ["b"], "b": [], "c": []})
    {'a': 1, 'b': 2, 'c': 1}
    """
    depth_by_rule: dict[str, int] = {}

    def depth(rule: str) -> int:
        if rule not in depth_by_rule:
            depth_by_rule[rule] = 1 + max(
                (depth(feeding_rule) for feeding_rule, fed in feeds.items() if rule in fed), default=0
            )
        return depth_by_rule[rule]

    return {rule: depth(rule) for rule in feeds}
