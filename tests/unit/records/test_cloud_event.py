"""Events as records of the `events` topic."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.core.event import Auth, Event, Kind
from gateway.records import cloud_event
from tests.events import FULL

SECOND = 1_000_000
LAST_SECOND = 253_402_300_799
"""Of the year 9999."""


@given(st.integers(0, (LAST_SECOND + 1) * SECOND - 1))
@example(0)
@example(1)
@example(SECOND - 1)
@example(SECOND)
@example(LAST_SECOND * SECOND)
@example(LAST_SECOND * SECOND + SECOND - 1)
def test_a_time_is_told_to_the_microsecond_and_read_back(at_us: int) -> None:
    whole = datetime.fromtimestamp(at_us // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    assert cloud_event.rfc3339(at_us) == f"{whole}.{at_us % SECOND:06}Z"
    assert cloud_event.microseconds(cloud_event.rfc3339(at_us)) == at_us


@pytest.mark.parametrize("at_us", [(LAST_SECOND + 1) * SECOND, 2**63 - 1, 2**64, 2**80])
def test_a_time_that_no_calendar_has_is_the_last_there_is(at_us: int) -> None:
    assert cloud_event.rfc3339(at_us) == "9999-12-31T23:59:59.999999Z"


TEXTS = st.text(max_size=5)
EVENTS = st.builds(
    Event, TEXTS, st.sampled_from(Kind), TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, st.integers(0, 2**50),
    message_id=TEXTS, correlation=TEXTS, content_type=TEXTS, body=st.binary(max_size=5),
    headers=st.dictionaries(st.text(min_size=1, max_size=5), TEXTS), urgent=st.booleans(),
    sent_at=st.none() | st.integers(0, 2**50), auth=st.sampled_from(Auth), key_id=TEXTS,
)  # fmt: skip


@given(EVENTS)
def test_the_attributes_give_back_the_whole_event(event: Event) -> None:
    assert cloud_event.from_attributes(cloud_event.attributes(event, "test"), event.body) == event


@given(EVENTS)
def test_no_attribute_has_a_name_that_is_not_known(event: Event) -> None:
    assert cloud_event.attributes(event, "test").keys() <= set(cloud_event.NAMES)


@pytest.mark.parametrize("headers", ["[]", "7", '{"a": 1}', '{"a":' * 5_000, "{"])
def test_headers_that_are_none_are_a_value_error(headers: str) -> None:
    given = cloud_event.attributes(FULL, "m") | {"ce_meshheaders": headers}
    with pytest.raises(ValueError):  # noqa: PT011 - json has its own words for some of them
        cloud_event.from_attributes(given, b"")
