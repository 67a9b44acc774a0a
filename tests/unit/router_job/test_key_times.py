"""Keys and nodes that will be without one: told in time, and only those."""

from __future__ import annotations

import pytest

from gateway.auth.keyring import Key
from streaming_jobs.router_job.key_times import key_state, next_key_end, next_node_end

NOW = 100.0
A, B = b"a" * 16, b"b" * 16


@pytest.mark.parametrize(
    ("begins", "ends", "state"),
    [
        (None, None, "valid"),
        (101, None, "future"),
        (100, None, "valid"),
        (None, 100, "expired"),
        (None, 101, "expiring"),
        (None, 100 + 14 * 86_400 - 1, "expiring"),
        (None, 100 + 14 * 86_400, "valid"),
    ],
)
def test_a_key_counts_by_where_now_lies_in_its_time(begins: int | None, ends: int | None, state: str) -> None:
    not_before, not_after = (None if at is None else at * 1_000_000 for at in (begins, ends))
    assert key_state(not_before, not_after, NOW) == state


def ending(*ends: int | None, begins: int | None = None) -> dict[bytes, Key]:
    """A node's keys, by when they end."""
    not_before = None if begins is None else begins * 1_000_000
    keys = [
        Key(bytes([number]) * 4, not_before=not_before, not_after=None if end is None else end * 1_000_000)
        for number, end in enumerate(ends)
    ]
    return {key.key_id: key for key in keys}


def test_the_next_key_to_end_is_the_earliest_of_those_in_force() -> None:
    assert next_key_end({A: ending(50, 300, None), B: ending(200)}, NOW) == 200.0
    assert next_key_end({A: ending(150, begins=120)}, NOW) == 0.0


def test_without_an_end_there_is_none() -> None:
    assert (next_key_end({}, NOW), next_node_end({}, NOW)) == (0.0, 0.0)
    assert (next_key_end({A: ending(None)}, NOW), next_node_end({A: ending(None)}, NOW)) == (0.0, 0.0)


def test_a_node_is_left_without_a_key_when_its_last_one_ends() -> None:
    assert next_node_end({A: ending(200, 400), B: ending(300)}, NOW) == 300.0


def test_a_rotation_leaves_nobody_without_a_key() -> None:
    assert next_node_end({A: ending(150, None)}, NOW) == 0.0


def test_a_node_that_was_given_up_is_no_news() -> None:
    assert next_node_end({A: ending(50, 100), B: ending(300)}, NOW) == 300.0


def test_a_node_without_any_key_is_none_that_loses_one() -> None:
    assert next_node_end({A: {}}, NOW) == 0.0
