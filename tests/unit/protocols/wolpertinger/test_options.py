"""Options of a wolpertinger listener: which cannot work, and that no secret shows."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gateway.protocols.wolpertinger.options import WolpertingerOptions
from tests.unit.protocols.wolpertinger.authenticating import AUTH, CLUSTER_KEY, PASSWORD

BAD_OPTIONS = [
    {"require_trust": 5},
    {"require_trust": -1},
    {"auth": {"cluster_key": "xyz"}},
    {"auth": {"cluster_key": ""}},
    {"auth": {"cluster_key": "00 01"}},
    {"auth": {"password": "x"}},
    {"login": ["cluster"]},
    {"login": ["cluster", "user"], "login_user": "bob", "auth": AUTH},
    {"login": ["user"], "login_user": "ann", "auth": AUTH},
    {"login": ["user", "cluster"], "login_user": "ann", "auth": AUTH},
    {"login": ["tls"]},
    {"confirm_seconds": 0},
    {"compress": "sometimes"},
]


@pytest.mark.parametrize("options", BAD_OPTIONS)
def test_options_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as raised:
        WolpertingerOptions.model_validate(options)
    assert raised.value.error_count() == 1


def test_no_secret_shows_in_the_options() -> None:
    options = WolpertingerOptions.model_validate({"auth": AUTH})
    for shown in (repr(options), options.model_dump_json()):
        assert CLUSTER_KEY.lower() not in shown.lower()
        assert PASSWORD not in shown
