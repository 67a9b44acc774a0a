"""Tests taking what waits in a socket at once: both ways of taking it give the same."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.edge.datagrams import incoming as module
from gateway.edge.datagrams.calls import AT_ONCE
from gateway.edge.datagrams.incoming import DATAGRAM_BYTES, DatagramsIn, SingleReceiver, datagrams_in

WAYS = {"one by one": SingleReceiver, "as the system can": datagrams_in}
LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Callable[[socket.socket], DatagramsIn]:
    return WAYS[request.param]


@pytest.fixture(params=LOOPBACK, ids=["v4", "v6"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    with (
        closing(socket.socket(request.param, socket.SOCK_DGRAM)) as receiver,
        closing(socket.socket(request.param, socket.SOCK_DGRAM)) as sender,
    ):
        receiver.bind((LOOPBACK[request.param], 0))
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_048_576)
        receiver.setblocking(False)
        sender.connect(receiver.getsockname()[:2])
        yield receiver, sender


Pair = tuple[socket.socket, socket.socket]
Way = Callable[[socket.socket], DatagramsIn]


def test_nothing_waits(way: Way, pair: Pair) -> None:
    assert len(way(pair[0]).receive()) == 0


def test_each_datagram_comes_whole_and_in_order_with_its_place(way: Way, pair: Pair) -> None:
    receiver, sender = pair
    bodies = [bytes([size % 256]) * size for size in (1, 0, 548, DATAGRAM_BYTES)]
    for body in bodies:
        sender.send(body)
    arriving = way(receiver)
    received = arriving.receive()
    assert received.frames() == bodies
    [sender_address] = set(received.senders)
    host, port = sender.getsockname()[:2]
    assert arriving.peer(sender_address) == (f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def test_what_came_before_is_not_seen_again_in_what_comes_shorter(way: Way, pair: Pair) -> None:
    receiver, sender = pair
    arriving = way(receiver)
    for body in (b"a long one", b"short"):
        sender.send(body)
        assert arriving.receive().frames() == [body]


def test_senders_are_told_apart(way: Way, pair: Pair) -> None:
    receiver, first = pair
    with closing(socket.socket(receiver.family, socket.SOCK_DGRAM)) as second:
        second.connect(receiver.getsockname()[:2])
        first.send(b"1")
        second.send(b"2")
        assert len(set(way(receiver).receive().senders)) == 2


def test_more_than_is_taken_at_once_waits_for_the_next_time(way: Way, pair: Pair) -> None:
    receiver, sender = pair
    for number in range(AT_ONCE + 1):
        sender.send(number.to_bytes(2, "big"))
    arriving = way(receiver)
    assert [len(arriving.receive()), len(arriving.receive()), len(arriving.receive())] == [AT_ONCE, 1, 0]


def test_a_datagram_that_is_too_long_is_cut(way: Way, pair: Pair) -> None:
    receiver, sender = pair
    sender.send(b"x" * (DATAGRAM_BYTES + 100))
    assert way(receiver).receive().frames() == [b"x" * DATAGRAM_BYTES]


def test_an_error_of_an_earlier_send_is_told_once(way: Way, pair: Pair) -> None:
    """The address that it had sent to does not listen any more: the system says so at the next call."""
    receiver, sender = pair
    receiver.connect(sender.getsockname()[:2])
    arriving = way(receiver)
    sender.close()
    receiver.send(b"to nobody")
    with pytest.raises(ConnectionRefusedError):
        arriving.receive()
    assert len(arriving.receive()) == 0


def test_a_socket_that_was_closed_is_an_error(way: Way, pair: Pair) -> None:
    arriving = way(pair[0])
    pair[0].close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        arriving.receive()


def test_a_system_without_the_call_is_served_too(monkeypatch: pytest.MonkeyPatch, pair: Pair) -> None:
    monkeypatch.setattr(module, "_recvmmsg", None)
    assert isinstance(datagrams_in(pair[0]), SingleReceiver)


@given(st.lists(st.binary(max_size=600), max_size=AT_ONCE), st.data())
def test_columns_hold_what_was_sent_and_a_selection_holds_its_part(bodies: list[bytes], data: st.DataObject) -> None:
    with (
        closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as receiver,
        closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_048_576)
        receiver.setblocking(False)
        sender.connect(receiver.getsockname())
        for body in bodies:
            sender.send(body)
        received = datagrams_in(receiver).receive()
    assert received.frames() == bodies
    assert received.data == b"".join(bodies)
    are_chosen = data.draw(st.lists(st.booleans(), min_size=len(bodies), max_size=len(bodies)))
    chosen = [body for body, is_chosen in zip(bodies, are_chosen, strict=True) if is_chosen]
    assert received.select(are_chosen, received.frames()).frames() == chosen
