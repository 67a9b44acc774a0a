"""Events that wait for somebody to take them."""

from __future__ import annotations

import asyncio

import pytest

from gateway.client.errors import EndedError
from gateway.client.inbox import FULL_EVENTS, Inbox
from gateway.core.event import Event, Kind


def event(number: int = 0) -> Event:
    return Event(str(number), Kind.EVENT, "temp.high", "hsp", "", "", "", "", "", 0)


class Reading:
    """What an inbox has asked its carrier for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.inbox = Inbox(lambda: self.asked.append("pause"), lambda: self.asked.append("resume"))


async def test_they_come_in_order() -> None:
    inbox = Reading().inbox
    for number in range(3):
        inbox.put(event(number))
    inbox.end(None)
    assert [one.id async for one in inbox] == ["0", "1", "2"]


async def test_reading_pauses_at_the_limit_and_goes_on_when_half_are_taken() -> None:
    reading = Reading()
    for _ in range(FULL_EVENTS - 1):
        reading.inbox.put(event())
    assert reading.asked == []
    reading.inbox.put(event())
    reading.inbox.put(event())
    assert reading.asked == ["pause"]
    for _ in range(FULL_EVENTS // 2):
        await anext(reading.inbox)
    assert reading.asked == ["pause"]
    await anext(reading.inbox)
    assert reading.asked == ["pause", "resume"]


async def test_what_came_before_the_end_is_still_taken_and_then_the_error_is_raised() -> None:
    inbox, ended = Reading().inbox, EndedError("peer", "eof")
    inbox.put(event(7))
    inbox.end(ended)
    assert (await anext(inbox)).id == "7"
    with pytest.raises(EndedError) as raised:
        await anext(inbox)
    assert raised.value is ended


async def test_all_who_wait_are_told_of_the_end() -> None:
    inbox = Reading().inbox
    waiting = [asyncio.ensure_future(anext(inbox, None)) for _ in range(3)]
    await asyncio.sleep(0)
    inbox.end(None)
    assert await asyncio.gather(*waiting) == [None] * 3


async def test_one_who_gives_up_leaves_the_event_to_another() -> None:
    inbox = Reading().inbox
    impatient, patient = asyncio.ensure_future(anext(inbox)), asyncio.ensure_future(anext(inbox))
    await asyncio.sleep(0)
    inbox.put(event(7))
    impatient.cancel()
    assert (await patient).id == "7"
