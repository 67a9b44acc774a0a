"""The trie by itself: what it finds below a prefix, what it forgets, and what a pattern costs."""

from __future__ import annotations

import tracemalloc
from itertools import product
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.subjects import matches, tokens
from gateway.interests import Interest
from gateway.interests.index import Index

from .examples import interest

WORD = st.sampled_from(["a", "b"])
BEFORE = st.lists(WORD | st.just("*"), max_size=3)
PATTERNS = st.builds(lambda before, last: ".".join([*before, last]), BEFORE, WORD | st.sampled_from("*>"))
PREFIXES = st.lists(WORD, min_size=1, max_size=3).map(".".join)
MORE = [".".join(more) for count in range(1, 5) for more in product("ab", repeat=count)]
"""Everything that can come behind a prefix, as far as patterns of four tokens can tell."""


def filled(patterns: list[str]) -> Index:
    index = Index()
    for number, pattern in enumerate(patterns):
        index.put(interest(f"s{number}", pattern))
    return index


@given(st.lists(PATTERNS, max_size=8), PREFIXES)
@settings(max_examples=300, deadline=None)
def test_below_a_prefix_are_those_that_fit_a_subject_which_goes_on_from_there(patterns: list[str], prefix: str) -> None:
    below = {one.subscriber for one in filled(patterns).below(prefix)}
    subjects = [f"{prefix}.{more}" for more in MORE]
    expected = {
        f"s{number}"
        for number, pattern in enumerate(patterns)
        if any(matches(pattern, subject) for subject in subjects)
    }
    assert below == expected


@given(st.lists(PATTERNS, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_what_is_taken_out_in_any_order_leaves_nothing(patterns: list[str], chance: Random) -> None:
    index = filled(patterns)
    interests = [interest(f"s{number}", pattern) for number, pattern in enumerate(patterns)]
    chance.shuffle(interests)
    for at, one in enumerate(interests):
        index.remove(one)
        left = {other.subscriber for other in interests[at + 1 :]}
        assert {one.subscriber for one in _all(index)} == left
    assert index._root.children == {}


def _all(index: Index) -> set[Interest]:
    subjects = [*"ab", *(f"{first}.{more}" for first in "ab" for more in MORE)]
    return {one for subject in subjects for one in index.find(subject, 0).plain}


def test_a_pattern_of_thirty_tokens_costs_as_much_as_its_text() -> None:
    """A stranger's patterns may be as long as they may be; each worker keeps them."""
    count = 500
    short = [f"a.b.c{number}" for number in range(count)]
    long = [".".join(f"{number:x}{token:x}" for token in range(32)) for number in range(count)]
    assert _bytes(long) < 2.5 * _bytes(short)


def _bytes(patterns: list[str]) -> int:
    interests = [interest("s", pattern) for pattern in patterns]
    index = Index()
    tracemalloc.start()
    for one in interests:
        index.put(one)
    tokens.cache_clear()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken
