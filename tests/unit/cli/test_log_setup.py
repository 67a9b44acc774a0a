"""Tests what stands in a log, and what does not."""

from __future__ import annotations

import logging

import pytest

from gateway.cli.log_setup import REPEAT_SECONDS, LibraryFilter, TextFormatter


def record(name: str, message: str, at: float) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.ERROR, "", 0, message, None, None)
    made.created = at
    return made


def test_what_kafkas_clients_say_of_every_try_is_said_once_in_a_while() -> None:
    said = LibraryFilter("kafka")
    tries = [
        record("kafka.admin", f"Connect failed: refused (after {number} ms)", number * 0.1) for number in range(40)
    ]
    assert [said.filter(one) for one in tries] == [True] + [False] * 39
    assert said.filter(record("kafka.admin", "Connect failed: refused (after 7 ms)", REPEAT_SECONDS))


@pytest.mark.parametrize(("name", "message"), [("kafka.producer", "another thing"), ("gateway.edge", "Connect failed")])
def test_what_is_another_line_or_anothers_is_said(name: str, message: str) -> None:
    said = LibraryFilter("kafka")
    assert said.filter(record("kafka.admin", "Connect failed", 0))
    assert said.filter(record(name, message, 0))
    assert said.filter(record("gateway.edge", "ours is said each time", 0))
    assert said.filter(record("gateway.edge", "ours is said each time", 0))


def test_what_a_fault_quotes_of_a_peer_steers_no_terminal() -> None:
    one, fault = record("gateway.edge", "it failed", 0), ValueError("\x1b[2J")
    one.exc_info = (type(fault), fault, None)
    assert TextFormatter().format(one).splitlines()[1:] == ["ValueError: \\x1b[2J"]


def test_a_fault_that_kafkas_clients_tell_at_length_is_one_line() -> None:
    said = LibraryFilter("kafka")
    told = {}
    for name in ("kafka.net.transport", "gateway.edge"):
        one = record(name, "it failed", 0)
        fault = AttributeError("no recv in 100 %")
        one.exc_info = (type(fault), fault, None)
        assert said.filter(one)
        told[name] = TextFormatter().format(one).splitlines()
    assert told["kafka.net.transport"][0].endswith("it failed: AttributeError('no recv in 100 %')")
    assert [len(lines) for lines in told.values()] == [1, 2]
