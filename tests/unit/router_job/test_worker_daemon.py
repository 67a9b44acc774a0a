"""Tests the process that Spark forks its Python workers from: how a worker ends."""

from __future__ import annotations

import pytest

from streaming_jobs.router_job.worker_daemon import unless_hung_up


def hung_up(_sock: object, _authenticated: bool) -> int:
    raise BrokenPipeError


def broken(_sock: object, _authenticated: bool) -> int:
    raise RuntimeError


def test_a_jvm_that_hangs_up_ends_a_worker_without_a_word() -> None:
    assert unless_hung_up(hung_up)(None, True) == 1


def test_every_other_fault_is_told() -> None:
    with pytest.raises(RuntimeError):
        unless_hung_up(broken)(None, True)
    assert unless_hung_up(lambda _sock, authenticated: 0 if authenticated else 7)(None, True) == 0
