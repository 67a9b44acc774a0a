"""Interests and changes as bytes: the compacted topic and the frames that ride in the log."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.interests import (
    Change,
    EndSession,
    Interest,
    InterestKey,
    NewEpoch,
    Put,
    Remove,
    Renew,
    SetFacts,
    Verb,
    from_bytes,
    to_bytes,
)

from .examples import at, interest, key

TEXT = st.text(max_size=12)
NUMBER = st.integers(0, 2**63 - 1)
POSITIONS = st.tuples(NUMBER, NUMBER, NUMBER)
FACTS = st.dictionaries(TEXT, TEXT | st.booleans() | NUMBER, max_size=3)
KEYS = st.builds(InterestKey, TEXT, st.sampled_from(Verb), TEXT, TEXT)
INTERESTS = st.builds(
    Interest,
    subscriber=TEXT,
    verb=st.sampled_from(Verb),
    pattern=TEXT,
    group=TEXT,
    edge=TEXT,
    epoch=NUMBER,
    session=NUMBER,
    address=TEXT,
    protocol=TEXT,
    listener=TEXT,
    facts=FACTS,
    node=TEXT,
    expires_at=st.none() | NUMBER,
    kept_until=st.none() | NUMBER,
    durable=st.booleans(),
    position=POSITIONS,
)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(Put, INTERESTS),
    st.builds(Remove, KEYS, POSITIONS),
    st.builds(EndSession, TEXT, POSITIONS),
    st.builds(SetFacts, TEXT, FACTS, POSITIONS),
    st.builds(Renew, TEXT, NUMBER, POSITIONS, st.none() | NUMBER),
    st.builds(NewEpoch, TEXT, NUMBER),
)


@given(INTERESTS)
@settings(max_examples=100, deadline=None)
def test_an_interest_survives_its_record(wanted: Interest) -> None:
    assert Interest.from_json(wanted.to_json()) == wanted


@given(KEYS)
@settings(max_examples=100, deadline=None)
def test_a_key_survives_its_record(wanted: InterestKey) -> None:
    assert InterestKey.from_bytes(wanted.to_bytes()) == wanted


@given(CHANGES)
@settings(max_examples=200, deadline=None)
def test_a_change_survives_its_bytes(change: Change) -> None:
    assert from_bytes(to_bytes(change)) == change


def test_an_interest_without_facts_has_a_record_too() -> None:
    wanted = interest("a", "temp.*")
    assert json.loads(wanted.to_json())["facts"] == {}
    assert Interest.from_json(wanted.to_json()) == wanted


def test_two_keys_never_share_a_record_key() -> None:
    assert key("a", "b\0c").to_bytes() != key("a\0b", "c").to_bytes()
    assert key("a", 'b","c').to_bytes() != key('a","b', "c").to_bytes()


def test_interests_can_be_put_into_sets() -> None:
    assert len({interest("a", "x"), interest("a", "x"), interest("a", "y")}) == 2


def test_an_unknown_change_is_an_error() -> None:
    with pytest.raises(ValueError, match="no such change: shrink"):
        from_bytes(b'{"change": "shrink"}')


@pytest.mark.parametrize("data", [b"[]", b"7", b"{}", b'{"change": "put"}', b'{"change": "put", "rubscriber": "s"}'])
def test_what_is_no_change_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="no change"):
        from_bytes(data)


def test_a_change_names_its_subscriber_and_position() -> None:
    put = Put(interest("a", "x", 7))
    assert (put.subscriber, put.position) == ("a", at(7))
    assert Remove(key("b", "x"), at(8)).subscriber == "b"
