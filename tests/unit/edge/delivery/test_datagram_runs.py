"""Runs of datagrams: they leave straight from their buffer, with few calls, as what they are."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.edge.datagrams import sending
from gateway.edge.datagrams.calls import AT_ONCE, Call, Slot, Vector
from gateway.edge.datagrams.outgoing import DatagramsOut
from gateway.edge.datagrams.sending import SEGMENT_BYTES, SEGMENTS, BatchedSocket, DatagramRun
from tests.unit.edge.running import until

HEAD = b"what stands before the frames"


def run_of(frames: Sequence[bytes], to: Sequence[int], addresses: Sequence[str]) -> DatagramRun:
    lengths = np.array([len(frame) for frame in frames], np.int64)
    starts = len(HEAD) + np.cumsum(lengths) - lengths
    return DatagramRun(HEAD + b"".join(frames), starts, lengths, addresses, np.array(to, np.intp))


def to_one(frames: Sequence[bytes]) -> DatagramRun:
    return run_of(frames, [0] * len(frames), ["127.0.0.1:9"])


@dataclass
class System:
    """What stands in for `sendmmsg`: keeps messages, each a list of datagrams. `errors`: before the next messages;
    None lets one through. `cuts`: whether it takes messages of several datagrams.
    """

    cuts: bool = True
    errors: list[int | None] = field(default_factory=list)
    messages: list[list[bytes]] = field(default_factory=list)

    def sendmmsg(self, descriptor: int, slots: int, count: int) -> int:
        for taken in range(count):
            message = _message(slots, taken)
            error = self.errors.pop(0) if self.errors else None
            error = error or (errno.EIO if len(message) > 1 and not self.cuts else None)
            if error is not None:
                if taken:
                    self.errors.insert(0, error)
                    return taken
                raise OSError(error, os.strerror(error))
            self.messages.append(message)
        return count

    @property
    def sent(self) -> list[bytes]:
        return [frame for message in self.messages for frame in message]


def _message(slots: int, number: int) -> list[bytes]:
    """The datagrams of a message; it says how long each is, where it holds more than one."""
    message = Slot.from_address(slots + number * ctypes.sizeof(Slot)).message
    vectors = (Vector * message.vector_count).from_address(message.vectors)
    frames = [ctypes.string_at(vector.base, vector.length) for vector in vectors]
    if len(frames) > 1:
        control = ctypes.string_at(message.control, message.control_length)
        assert control[8:18] == socket.IPPROTO_UDP.to_bytes(4, "little") + (103).to_bytes(4, "little") + len(
            frames[0]
        ).to_bytes(2, "little")
    else:
        assert message.control_length == 0
    return frames


@pytest.fixture
def real() -> Iterator[socket.socket]:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as made:
        made.setblocking(False)
        yield made


def sender(real: socket.socket, call: Call) -> BatchedSocket:
    return BatchedSocket(real, call)


@pytest.mark.parametrize("does_cut", [True, False])
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_each_goes_whole_to_whom_it_is_for(family: int, host: str, does_cut: bool) -> None:
    kind = socket.SOCK_DGRAM
    with (
        closing(socket.socket(family, kind)) as out,
        closing(socket.socket(family, kind)) as first,
        closing(socket.socket(family, kind)) as second,
    ):
        for peer in (first, second):
            peer.bind((host, 0))
            peer.settimeout(5)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_194_304)
        many = [b"%03d" % number for number in range(3 * SEGMENTS + 1)]
        to_first = [b"", b"a", *many, b"longer", bytes(SEGMENT_BYTES), bytes(SEGMENT_BYTES), bytes(9_000), bytes(9_000)]
        to_second = [b"", b"", *many, b"x"]
        addresses = [f"[{host}]:{peer.getsockname()[1]}" for peer in (first, second)]
        made = BatchedSocket(out, _system_call(does_cut))
        run = run_of(to_first + to_second, [0] * len(to_first) + [1] * len(to_second), addresses)
        assert made.send_run(run) == len(run)
        assert [first.recv(10_000) for _ in to_first] == to_first
        assert [second.recv(10_000) for _ in to_second] == to_second


def _system_call(does_cut: bool) -> Call:
    """The system's own; where it does not cut messages, it says so at the first call."""
    system, refusals = sending._sendmmsg, [] if does_cut else [errno.EIO]
    assert system is not None

    def call(descriptor: int, slots: int, count: int) -> int:
        if refusals:
            raise OSError(refusals.pop(), "no device cuts messages here")
        return system(descriptor, slots, count)

    return call


def test_frames_of_one_length_to_one_peer_leave_as_few_messages(real: socket.socket) -> None:
    system = System()
    frames = [bytes([number % 256]) * 20 for number in range(AT_ONCE)]
    run = run_of(frames, [0] * 100 + [1] * 156, ["127.0.0.1:9", "127.0.0.1:10"])
    assert sender(real, system.sendmmsg).send_run(run) == AT_ONCE
    assert system.sent == frames
    assert [len(message) for message in system.messages] == [32, 32, 32, 4, 32, 32, 32, 32, 28]


def test_where_the_system_does_not_cut_messages_each_leaves_by_itself(real: socket.socket) -> None:
    system = System(cuts=False)
    made, frames = sender(real, system.sendmmsg), [bytes([number]) * 20 for number in range(40)]
    assert made.send_run(to_one(frames)) == 40
    assert system.messages == [[frame] for frame in frames]
    assert made.send_run(to_one(frames)) == 40


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([b"", b"a", b"b", b"cc", bytes(SEGMENT_BYTES + 1)]), max_size=90),
    st.lists(st.sampled_from([None, None, None, errno.EAGAIN, errno.EHOSTUNREACH, errno.EPERM]), max_size=9),
    st.booleans(),
)
def test_what_was_taken_is_told_to_the_datagram(frames: list[bytes], errors: list[int | None], cuts: bool) -> None:
    are_in_the_way, system = any(errors), System(cuts, errors)
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as real:
        taken = sender(real, system.sendmmsg).send_run(to_one(frames))
    assert system.sent == frames[:taken]
    assert taken == len(frames) or are_in_the_way


@pytest.mark.parametrize("address", ["", "x:y", "127.0.0.1", "127.0.0.1:99999"])
def test_a_run_with_what_is_no_address_is_left_to_the_other_way(address: str, real: socket.socket) -> None:
    assert sender(real, System().sendmmsg).send_run(run_of([b"a", b"b"], [0, 1], ["127.0.0.1:9", address])) == 0


async def test_a_run_does_not_pass_datagrams_that_wait(real: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    system = System(errors=[errno.EAGAIN])
    monkeypatch.setattr(sending, "_sendmmsg", system.sendmmsg)
    out = DatagramsOut(real)
    told: list[str] = []
    out.send([(b"a", "127.0.0.1:9", None), (b"b", "127.0.0.1:9", None)], lambda _, detail: told.append(detail))
    assert out.send_run(to_one([b"c", b"d"])) == 0
    await until(lambda: len(told) == 2)
    assert out.send_run(to_one([b"c", b"d"])) == 2
    assert system.sent == [b"a", b"b", b"c", b"d"]
    out.close()
    assert out.send_run(to_one([b"e"])) == 0
