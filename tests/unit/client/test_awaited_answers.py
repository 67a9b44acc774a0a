"""Tests how long a request waits."""

from __future__ import annotations

import asyncio

import pytest

from gateway.client.awaited_answers import AwaitedAnswers
from gateway.client.errors import EndedError
from gateway.client.translation import Answer
from gateway.core.event import Event, Kind
from tests.unit.client.loops import in_jumping_time

PROGRESS = Event("", Kind.PROGRESS, "slow.work", "hsp", "", "", "", "", "", 0)


def now() -> float:
    return asyncio.get_running_loop().time()


@in_jumping_time
async def test_one_that_hears_nothing_is_given_up_after_its_time() -> None:
    started = now()
    with pytest.raises(TimeoutError):
        await AwaitedAnswers().answer("1", 30.0, None)
    assert now() - started == 30.0


@in_jumping_time
async def test_progress_lets_it_wait_as_long_again() -> None:
    requests, heard = AwaitedAnswers(), list[Event]()
    waiting = asyncio.create_task(requests.answer("1", 30.0, heard.append))
    for _ in range(3):
        await asyncio.sleep(29)
        requests.add_progress("1", PROGRESS)
    with pytest.raises(TimeoutError):
        await waiting
    assert now() == 3 * 29 + 30
    assert heard == [PROGRESS] * 3


@in_jumping_time
async def test_the_first_answer_counts_and_a_late_one_is_nobodys() -> None:
    requests = AwaitedAnswers()
    waiting = asyncio.create_task(requests.answer("1", 30.0, None))
    await asyncio.sleep(1)
    requests.answered("1", Answer(body=b"first"))
    requests.answered("1", Answer(body=b"second"))
    assert (await waiting).body == b"first"
    requests.answered("1", Answer(body=b"third"))
    requests.add_progress("1", PROGRESS)
    assert now() == 1.0


@in_jumping_time
async def test_all_of_them_fail_at_once() -> None:
    requests, ended = AwaitedAnswers(), EndedError("peer", "eof")
    waiting = [asyncio.create_task(requests.answer(str(number), 30.0, None)) for number in range(3)]
    await asyncio.sleep(0)
    requests.fail(ended)
    assert await asyncio.gather(*waiting, return_exceptions=True) == [ended] * 3


def test_an_error_that_is_nested_without_end_has_the_code_of_its_kind() -> None:
    assert Answer(Kind.ERROR, b"[" * 100_000).code == "error"
