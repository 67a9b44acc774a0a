"""Datagrams on their way out: in their order, each told of once; a full buffer holds them up."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import pytest

from gateway.edge.datagrams import sending
from gateway.edge.datagrams.calls import AT_ONCE, Slot, Vector
from gateway.edge.datagrams.outgoing import QUEUED_BYTES, DatagramsOut
from gateway.edge.datagrams.sending import BatchedSocket, Datagram, SingleSocket
from tests.unit.edge.running import until

PEER = "127.0.0.1:9"


@dataclass
class System:
    """What stands in for the system's calls, one or many at once. `errors`: of the next tries, before each datagram;
    None lets one through. `busy`: what is said to all."""

    real: socket.socket
    busy: int = 0
    errors: list[int | None] = field(default_factory=list)
    sent: list[bytes] = field(default_factory=list)
    calls: int = 0

    family = socket.AF_INET

    def fileno(self) -> int:
        return self.real.fileno()

    def sendto(self, frame: bytes, to: tuple[str, int]) -> None:
        self.calls += 1
        if error := self._error():
            raise OSError(error, "in the way")
        self.sent.append(frame)

    def sendmmsg(self, descriptor: int, slots: int, count: int) -> int:
        """Sends as many as go; the error that stopped it is raised only for the call that begins with it."""
        self.calls += 1
        for taken in range(count):
            if error := self._error():
                if taken:
                    self.errors.insert(0, error)
                    return taken
                raise OSError(error, os.strerror(error))
            self.sent.append(_frame(slots, taken))
        return count

    def _error(self) -> int | None:
        return self.busy or (self.errors.pop(0) if self.errors else None)


def _frame(slots: int, number: int) -> bytes:
    slot = Slot.from_address(slots + number * ctypes.sizeof(Slot))
    vector = Vector.from_address(slot.message.vectors)
    return ctypes.string_at(vector.base, vector.length)


@pytest.fixture
def real() -> Iterator[socket.socket]:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as made:
        made.setblocking(False)
        yield made


@pytest.fixture(params=["one by one", "many at once"])
def system(request: pytest.FixtureRequest, real: socket.socket, monkeypatch: pytest.MonkeyPatch) -> System:
    made = System(real)
    monkeypatch.setattr(sending, "_sendmmsg", made.sendmmsg if request.param == "many at once" else None)
    return made


def out_of(made: System) -> DatagramsOut:
    return DatagramsOut(made)  # type: ignore[arg-type]


class SendReports(list[str]):
    """What became of each datagram, in order."""

    def __call__(self, datagrams: Sequence[Datagram[str]], detail: str) -> None:
        self.extend(f"{name}: {detail or 'sent'}" for _, _, name in datagrams)


def named(*names: str, to: str = PEER) -> list[Datagram[str]]:
    return [(name.encode(), to, name) for name in names]


@pytest.mark.parametrize("error", [errno.EAGAIN, errno.ENOBUFS])
async def test_a_full_buffer_holds_datagrams_up_and_keeps_their_order(error: int, system: System) -> None:
    system.busy = error
    sent, out = SendReports(), out_of(system)
    out.send(named("one", "two"), sent)
    out.send(named("three"), sent)
    await asyncio.sleep(0.02)
    assert sent == []
    system.busy = 0
    await until(lambda: len(sent) == 3)
    assert sent == ["one: sent", "two: sent", "three: sent"]
    assert system.sent == [b"one", b"two", b"three"]
    out.close()


async def test_a_buffer_that_fills_in_the_middle_holds_up_the_rest_alone(system: System) -> None:
    system.errors = [None, None, errno.EAGAIN]
    sent, out = SendReports(), out_of(system)
    out.send(named("one", "two", "three", "four"), sent)
    assert sent == ["one: sent", "two: sent"]
    out.send(named("five"), sent)
    assert system.sent == [b"one", b"two"]
    await until(lambda: len(sent) == 5)
    assert system.sent == [b"one", b"two", b"three", b"four", b"five"]
    out.close()


async def test_a_datagram_that_the_system_refuses_costs_no_other(system: System) -> None:
    system.errors = [None, errno.EHOSTUNREACH]
    sent, out = SendReports(), out_of(system)
    out.send(named("one", "two", "three"), sent)
    assert sent == ["one: sent", "two: not sent: EHOSTUNREACH", "three: sent"]
    assert system.sent == [b"one", b"three"]
    out.close()


async def test_one_that_is_refused_after_having_waited_costs_no_other(system: System) -> None:
    system.errors = [errno.EAGAIN, None, errno.EPERM]
    sent, out = SendReports(), out_of(system)
    out.send(named("one", "two", "three"), sent)
    await until(lambda: len(sent) == 3)
    assert sent == ["one: sent", "two: not sent: EPERM", "three: sent"]
    out.close()


async def test_many_leave_with_one_call(real: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(real)
    monkeypatch.setattr(sending, "_sendmmsg", system.sendmmsg)
    sent, out, names = SendReports(), out_of(system), [str(number) for number in range(AT_ONCE + 2)]
    out.send(named(*names), sent)
    assert (system.calls, len(sent)) == (2, AT_ONCE + 2)
    assert system.sent == [name.encode() for name in names]
    out.close()


async def test_so_much_may_wait_and_no_more(system: System) -> None:
    system.busy = errno.EAGAIN
    sent, out = SendReports(), out_of(system)
    out.send([(bytes(QUEUED_BYTES - 1), PEER, "most"), (b"x", PEER, "last")], sent)
    assert sent == []
    out.send(named("one more"), sent)
    assert sent == ["one more: the system takes no more datagrams"]
    out.close()
    assert sent[1:] == ["most: the edge ended first", "last: the edge ended first"]


async def test_what_has_waited_makes_room_for_what_comes(system: System) -> None:
    system.busy = errno.EAGAIN
    sent, out = SendReports(), out_of(system)
    out.send([(bytes(QUEUED_BYTES), PEER, "most")], sent)
    system.busy = 0
    await until(lambda: sent)
    system.busy = errno.EAGAIN
    out.send(named("again"), sent)
    assert sent == ["most: sent"]
    out.close()


async def test_after_the_end_nothing_is_sent(real: socket.socket) -> None:
    sent = SendReports()
    out = DatagramsOut(real)
    out.close()
    out.send(named("late"), sent)
    assert sent == ["late: the listener is gone"]


BAD = ["", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:²", "127.0.0.1:99999", "no host:9", "[::1]:9"]


@pytest.mark.parametrize("address", BAD)
async def test_what_is_no_address_is_told_and_costs_no_other(address: str, real: socket.socket) -> None:
    sent = SendReports()
    out = DatagramsOut(real)
    out.send([*named("one", "two"), *named("bad", to=address), *named("three", "four")], sent)
    assert [one for one in sent if not one.startswith("bad")] == [
        "one: sent",
        "two: sent",
        "three: sent",
        "four: sent",
    ]
    assert sent[2].startswith(("bad: not sent", "bad: no address"))
    out.close()


async def test_a_datagram_too_long_for_the_system_costs_no_other(real: socket.socket) -> None:
    sent = SendReports()
    out = DatagramsOut(real)
    long = bytes(70_000), PEER, "long"
    out.send([long], sent)
    out.send([*named("short", "small"), long, *named("brief")], sent)
    assert sent == [
        "long: not sent: EMSGSIZE",
        "short: sent",
        "small: sent",
        "long: not sent: EMSGSIZE",
        "brief: sent",
    ]
    out.close()


@pytest.mark.parametrize("way", [SingleSocket, sending.sending], ids=["one by one", "as the system can"])
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_each_goes_whole_to_whom_it_is_for(
    way: Callable[[socket.socket], sending.Sending], family: int, host: str
) -> None:
    kind = socket.SOCK_DGRAM
    with (
        closing(socket.socket(family, kind)) as sender,
        closing(socket.socket(family, kind)) as first,
        closing(socket.socket(family, kind)) as second,
    ):
        for one in (first, second):
            one.bind((host, 0))
            one.settimeout(5)
        places = [f"[{host}]:{one.getsockname()[1]}" for one in (first, second)]
        frames = [b"a", b"", b"bc", bytes(548), b"d" * 9_000]
        datagrams = [(frame, places[number % 2], None) for number, frame in enumerate(frames)]
        made, left = way(sender), datagrams
        while left:
            left = left[made.send(left) :]
        assert [first.recv(10_000) for _ in range(3)] == frames[::2]
        assert [second.recv(10_000) for _ in range(2)] == frames[1::2]


async def test_empty_datagrams_are_datagrams_too(real: socket.socket) -> None:
    sent, out = SendReports(), DatagramsOut(real)
    out.send([(b"", PEER, "one"), (b"", PEER, "two")], sent)
    assert sent == ["one: sent", "two: sent"]
    out.close()


def test_a_system_without_the_call_is_served_too(monkeypatch: pytest.MonkeyPatch, real: socket.socket) -> None:
    monkeypatch.setattr(sending, "_sendmmsg", None)
    assert isinstance(sending.sending(real), SingleSocket)


def test_this_system_has_the_call(real: socket.socket) -> None:
    assert isinstance(sending.sending(real), BatchedSocket)
