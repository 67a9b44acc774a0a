"""Faults of our own are told, and not each time."""

from __future__ import annotations

import logging

import pytest

from gateway.core.fault_log import RateLimitedFaultLog


def test_of_many_faults_at_once_the_first_is_told_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    faults = RateLimitedFaultLog(logging.getLogger("a part"))
    for number in range(3):
        try:
            raise ValueError(number)
        except ValueError:
            faults.log_exception("in stage decode")
    (told,) = caplog.records
    assert (told.name, told.getMessage()) == ("a part", "internal error in stage decode")
    assert told.exc_info is not None
    assert str(told.exc_info[1]) == "0"
