"""Times as the command line takes them."""

from __future__ import annotations

from datetime import UTC, datetime

import click
import pytest

from gateway.cli.times import moment


@pytest.mark.parametrize("text", ["2026-01-31T12:00:00Z", "2026-01-31t12:00:00z", "2026-01-31t13:00:00+01:00"])
def test_a_time_of_rfc_3339_may_be_of_either_case(text: str) -> None:
    assert moment(text) == datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2026-01-31T12:00:00", "noon", ""])
def test_what_names_no_moment_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        moment(text)
    assert "is no RFC 3339 time" in refused.value.message
