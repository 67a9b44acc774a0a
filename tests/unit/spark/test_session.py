"""How Spark's session ends, as far as that needs no JVM: the integration tests start and stop whole ones."""

from __future__ import annotations

import socket
from collections.abc import Callable
from socketserver import BaseServer
from typing import Any

import pytest
from pyspark.accumulators import _start_update_server

from streaming_jobs.spark.session import ignore_cut_off

TOKEN = "0123456789abcdef"
NO_UPDATES = bytes(4)


@pytest.mark.parametrize(("prepare", "is_silent"), [(lambda _: None, False), (ignore_cut_off, True)])
def test_a_jvm_that_hangs_up_as_it_stops_is_no_error(
    prepare: Callable[[BaseServer], None], is_silent: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    server = _start_update_server(TOKEN, False)
    prepare(server)
    address: Any = server.server_address
    with socket.create_connection(address) as scheduler:
        scheduler.sendall(TOKEN.encode() + NO_UPDATES)
        assert scheduler.recv(1) == b"\1"
        scheduler.shutdown(socket.SHUT_WR)
        assert scheduler.recv(1) == b"", "the server has not taken the end"
    server.shutdown()
    assert (capfd.readouterr().err == "") is is_silent
