"""Tests what Kafka's clients say while somebody asks."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.config import parse
from gateway.core.errors import SetupError
from gateway.kafka.client_logs import not_answering, quiet_clients
from gateway.kafka.topics import connect_admin

CLIENTS = logging.getLogger("kafka")


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    root, before = logging.getLogger(), (logging.getLogger().level, CLIENTS.level)
    root.setLevel(logging.WARNING)
    CLIENTS.setLevel(logging.ERROR)
    yield
    root.setLevel(before[0])
    CLIENTS.setLevel(before[1])


def test_they_are_silent_meanwhile_and_heard_again_after() -> None:
    with quiet_clients():
        assert CLIENTS.level == logging.CRITICAL
    assert CLIENTS.level == logging.ERROR


def test_who_asks_at_the_same_time_does_not_leave_them_silent_for_ever() -> None:
    one, other = quiet_clients(), quiet_clients()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert CLIENTS.level == logging.CRITICAL
    other.__exit__(None, None, None)
    assert CLIENTS.level == logging.ERROR


def test_with_v_they_are_heard() -> None:
    logging.getLogger().setLevel(logging.INFO)
    with quiet_clients():
        assert CLIENTS.level == logging.ERROR


def test_a_broker_that_is_not_there_is_asked_after() -> None:
    said = str(not_answering("127.0.0.1:9092", TimeoutError("after a while")))
    assert said == "kafka.bootstrap 127.0.0.1:9092 does not answer (TimeoutError): is Kafka running?"


def test_a_broker_that_is_not_there_is_told_once_and_not_at_each_try(caplog: pytest.LogCaptureFixture) -> None:
    config = parse("mesh: demo\nkafka: {listen: '127.0.0.1:1'}", Path("meshgate.yaml"))
    with pytest.raises(SetupError) as refused:
        connect_admin(config, 0)
    assert "kafka.bootstrap 127.0.0.1:1 does not answer (" in str(refused.value)
    assert caplog.text == ""


@pytest.mark.parametrize("setting", ["listen: '127.0.0.1:{}'", "bootstrap: '127.0.0.1:{}'"])
def test_a_broker_is_waited_for_without_a_line_of_error(setting: str, caplog: pytest.LogCaptureFixture) -> None:
    """It starts together with its clients: a newcomer would read errors in the log of a mesh where all is well."""
    logging.getLogger().setLevel(logging.INFO)  # as the parts of `up` log
    with socket.socket() as broker:
        broker.bind(("127.0.0.1", 0))
        port = broker.getsockname()[1]
        config = parse(f"mesh: demo\nkafka: {{{setting.format(port)}}}", Path("meshgate.yaml"))
        late = threading.Timer(0.1, broker.listen)
        late.start()
        with pytest.raises(SetupError):  # it accepts, and says nothing
            connect_admin(config, 1.0)
        late.join()
    assert "refused" not in caplog.text
