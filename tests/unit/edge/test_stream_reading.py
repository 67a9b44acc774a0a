"""Tests what one stream does while others have as much to be read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from gateway.config import Limits
from gateway.edge.carriers.read_control import FIRST_READ_BYTES, LEAST_READ_BYTES, READ_BYTES, ReadGate
from gateway.edge.carriers.read_queue import TURN_SECONDS, ReadQueue
from gateway.edge.stream_reading import COSTLY_SECONDS, MEMORY_OF_READS, StreamReading
from gateway.protocols.hsp.options import HspOptions
from gateway.protocols.hsp.session import HspSession
from gateway.protocols.session import FRAME_EFFORT
from tests.unit.edge.running import until
from tests.unit.protocols.contract.conversation import settings

PING = b"\x03"


@dataclass
class Reader:
    """The reading of one session of hsp, with the turn of its edge's loop in the test's hands."""

    limits: Limits = field(default_factory=Limits)
    slice_effort: int | None = None
    did: list[str] = field(default_factory=list)
    paused: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.session = HspSession(settings(slice_effort=self.slice_effort), HspOptions())
        self.session.start(0.0)
        self.queue = ReadQueue(asyncio.get_running_loop(), lambda: True)
        gate = ReadGate(lambda: self.did.append("pause"), lambda: self.did.append("resume"))
        self.reading = StreamReading(self.session, gate, self.queue, self._has_more, self._go_on, self.paused.append)
        self.reading.reconfigure(self.limits)

    def _has_more(self) -> bool:
        return self.session.has_more

    def _go_on(self) -> None:
        self.session.receive(b"", 0.0)

    def reads(self, data: bytes, seconds: float = 0.0, *, is_filled: bool = False) -> None:
        self.reading.receive(data, 0.0)
        self.reading.account(seconds, is_filled=is_filled)

    def is_known_to_be_cheap(self) -> None:
        self.reads(PING)
        self.says()

    def others_take(self, seconds: float) -> None:
        self.queue.charge(seconds)

    def says(self) -> bytes:
        return b"".join(self.session.data_to_send())


async def test_in_a_crowded_turn_a_costly_stream_is_left_for_later_and_a_cheap_one_is_not() -> None:
    costly, cheap = Reader(), Reader()
    cheap.is_known_to_be_cheap()
    for reader in (costly, cheap):
        reader.others_take(TURN_SECONDS * 2)
        reader.reads(PING)
    assert (costly.says(), cheap.says()) == (b"", b"\x04")
    assert (costly.did, cheap.did) == (["pause"], [])
    assert len(costly.queue) == 1
    costly.reading.take_turn(0.0)
    assert costly.says() == b"\x04"
    assert costly.did == ["pause", "resume"]


async def test_what_its_reads_usually_take_tells_whether_a_stream_is_costly() -> None:
    reader = Reader()
    reader.is_known_to_be_cheap()
    usual = reader.reading.usual_seconds
    at_the_limit = usual + (COSTLY_SECONDS - usual) * MEMORY_OF_READS
    reader.reads(b"", at_the_limit - 1e-5)
    reader.others_take(TURN_SECONDS * 2)
    assert reader.reading.read_bytes(READ_BYTES) == FIRST_READ_BYTES
    reader.reads(b"", at_the_limit + 1e-4)
    assert reader.reading.read_bytes(READ_BYTES) == LEAST_READ_BYTES


async def test_a_read_is_as_large_as_it_may_be_until_the_turn_is_crowded() -> None:
    reader = Reader()
    reader.others_take(TURN_SECONDS)
    assert reader.reading.read_bytes(READ_BYTES) == READ_BYTES
    reader.others_take(1e-6)
    assert reader.reading.read_bytes(READ_BYTES) == LEAST_READ_BYTES


async def test_a_stream_that_was_read_to_its_end_does_not_wait_however_many_do() -> None:
    reader = Reader()
    reader.is_known_to_be_cheap()
    reader.others_take(TURN_SECONDS * 2)
    reader.reads(PING, is_filled=False)
    assert reader.did == []
    reader.reads(PING, is_filled=True)
    assert reader.did == ["pause"]


async def test_a_stream_waits_once_until_it_has_its_turn() -> None:
    reader = Reader()
    reader.others_take(TURN_SECONDS * 2)
    reader.reads(PING, is_filled=True)
    reader.reads(PING, is_filled=True)
    assert len(reader.queue) == 1


async def test_a_stream_is_a_newcomer_again_once_it_was_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, waits = Reader(), []
    monkeypatch.setattr(ReadQueue, "wait", lambda *_, again: waits.append(again))
    reader.others_take(TURN_SECONDS * 2)
    reader.reads(PING, is_filled=True)  # not known yet, and so left for later
    reader.reading.take_turn(0.0)
    reader.reads(PING, is_filled=True)
    reader.reading.take_turn(0.0)
    assert waits == [False, True]
    reader.reads(PING, is_filled=False)
    reader.reads(PING, is_filled=True)
    assert waits == [False, True, False]


async def test_a_slice_holds_as_many_frames_as_its_effort_and_the_next_waits() -> None:
    for effort, frames in ((FRAME_EFFORT * 3, 3), (FRAME_EFFORT * 3 + 1, 4)):
        reader = Reader(slice_effort=effort)
        reader.reads(PING * 5)
        assert reader.says() == b"\x04" * frames
        assert reader.did == ["pause"]
        reader.reading.take_turn(0.0)
        assert reader.says() == b"\x04" * (5 - frames)
        assert reader.did == ["pause", "resume"]


async def test_what_is_left_of_a_stream_beyond_its_rate_waits_for_both() -> None:
    reader = Reader(Limits(cpu_share_per_session=0.5), slice_effort=FRAME_EFFORT)
    reader.reads(PING * 3, seconds=0.5 + 0.001)
    [seconds] = reader.paused
    assert seconds > 0
    assert reader.did == ["pause"]
    assert len(reader.queue) == 0
    await until(lambda: len(reader.queue) == 1)
    assert reader.did == ["pause"]
