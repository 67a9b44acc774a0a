"""Datagrams as they come: noted and thrown away. At a mesh, each subscriber is a node with a lease of its own."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable

from gateway.bench.arrivals import Arrivals
from gateway.bench.marker import Marker
from gateway.bench.messages import Collected, Expect, Go, PeerPlace, Probed, Ready
from gateway.bench.quiescence import Quiescence
from gateway.bench.sockets import bound_socket, datagram_socket
from gateway.bench.worker_process import Orders, Stopwatch, settle_memory
from gateway.bench.workload import Workload
from gateway.client import NoAnswerError, PacketKey, RefusedError
from gateway.client.packets import GrantedLease, PacketReader, PacketWriter, grant_of
from gateway.core.clock import now_us
from gateway.core.reasons import Rejected
from gateway.edge.datagrams.open_socket import kernel_drops

HELLO_SECONDS = 1.0
"""Between a hello and the next, until one is answered."""
SUBSCRIBE_SECONDS = 30.0
HEARTBEATS_PER_LEASE = 3
WAKE_SECONDS = 0.05
DATAGRAMS_PER_WAKE_UP = 256
DATAGRAM_BYTES = 2048


def receive_datagrams(orders: Orders, work: Workload, place: PeerPlace, subscribers: int) -> None:
    """Receives datagrams in a child. `place.keys` has one key for each subscriber."""
    receiver = DatagramReceiver(orders, work, place, subscribers)
    receiver.subscribe()
    orders.report(Ready())
    receiver.listen(receiver.is_probed)
    orders.report(Probed())
    receiver.listen(receiver.is_ordered)
    orders.wait(Go)
    settle_memory()
    watch = Stopwatch()
    receiver.listen(receiver.is_ordered)
    expect = orders.wait(Expect)
    quiet = Quiescence(receiver.arrivals, expect)
    receiver.listen(quiet.is_over)
    noted = tuple(arrival.noted() for arrival in receiver.arrivals)
    orders.report(Collected(noted, watch.cpu_seconds, receiver.kernel_dropped))
    receiver.close()


class DatagramSubscriber:
    """Subscribes with one socket. `key` is None if there is no mesh to ask for a lease."""

    def __init__(self, sock: socket.socket, key: PacketKey | None, subject: str, arrivals: Arrivals) -> None:
        self.socket = sock
        self.arrivals = arrivals
        self.grant: GrantedLease | None = None
        self._subject = subject
        self._reader = PacketReader(None, verify=False)
        self._writer = None if key is None else PacketWriter(key, os.urandom, now_us)
        self._heartbeat_at = 0.0
        sock.setblocking(False)

    @property
    def waits(self) -> bool:
        """True while the mesh's hello has not come."""
        return self._writer is not None and self.grant is None

    def hello(self) -> None:
        if self._writer is not None:
            self._send(self._writer.hello((self._subject,)))

    def keep(self, now: float) -> None:
        """The lease, while there is one."""
        if self._writer is not None and self.grant is not None and now >= self._heartbeat_at:
            self._heartbeat_at = now + self.grant.lease_seconds / HEARTBEATS_PER_LEASE
            self._send(self._writer.heartbeat())

    def take_grant(self, packet: bytes, peer: str) -> None:
        """Raises RefusedError where the mesh says that it did not subscribe us."""
        try:
            grant = grant_of(self._reader.read(packet, peer, now_us()))
        except Rejected:
            return
        if grant is not None and self._subject not in grant.subscribed:
            raise RefusedError(peer, "forbidden", f"the mesh did not subscribe us to {self._subject}")
        self.grant = grant or self.grant

    def give_back(self) -> None:
        if self._writer is not None and self.grant is not None:
            self._send(self._writer.hello(()))

    def _send(self, packet: bytes) -> None:
        """Sends a packet. One that is refused or lost is sent again anyhow."""
        try:
            self.socket.send(packet)
        except OSError:
            return


class DatagramReceiver:
    def __init__(self, orders: Orders, work: Workload, place: PeerPlace, subscribers: int) -> None:
        marker = Marker(work.run)
        self._peer = place.address
        self._sessions = work.sessions
        self._subscribers = [
            DatagramSubscriber(
                bound_socket(place.address) if place.is_bare else datagram_socket(place.address),
                None if place.is_bare else place.keys[number % len(place.keys)],
                work.subject,
                Arrivals(marker, work.sessions),
            )
            for number in range(subscribers)
        ]
        self._poll = select.epoll()
        self._by_descriptor = {subscriber.socket.fileno(): subscriber for subscriber in self._subscribers}
        for descriptor in (*self._by_descriptor, orders.fileno()):
            self._poll.register(descriptor, select.EPOLLIN)
        self._kept_at = 0.0
        self._ordered = False

    @property
    def arrivals(self) -> list[Arrivals]:
        return [subscriber.arrivals for subscriber in self._subscribers]

    @property
    def kernel_dropped(self) -> int:
        return sum(kernel_drops(subscriber.socket) or 0 for subscriber in self._subscribers)

    def subscribe(self) -> None:
        """Subscribes all at once, and repeats unanswered hellos. Raises NoAnswerError, RefusedError."""
        deadline, said_at = time.monotonic() + SUBSCRIBE_SECONDS, 0.0
        while waiting := [subscriber for subscriber in self._subscribers if subscriber.waits]:
            now = time.monotonic()
            if now > deadline:
                raise NoAnswerError(self._peer, f"no answer to a signed hello within {SUBSCRIBE_SECONDS:g} s")
            if now - said_at >= HELLO_SECONDS:
                said_at = now
                for subscriber in waiting:
                    subscriber.hello()
            for descriptor, _ in self._poll.poll(WAKE_SECONDS):
                if (greeted := self._by_descriptor.get(descriptor)) is not None:
                    for packet in _packets(greeted.socket):
                        greeted.take_grant(packet, self._peer)

    def listen(self, until: Callable[[], bool]) -> None:
        """Notes what comes, until."""
        self._ordered = False
        while not until():
            for descriptor, _ in self._poll.poll(WAKE_SECONDS):
                if (subscriber := self._by_descriptor.get(descriptor)) is not None:
                    self._drain(subscriber)
                else:
                    self._ordered = True
            self._keep_leases()

    def _drain(self, subscriber: DatagramSubscriber) -> None:
        take, receive = subscriber.arrivals.take, subscriber.socket.recv
        try:
            for _ in range(DATAGRAMS_PER_WAKE_UP):
                take(receive(DATAGRAM_BYTES))
        except BlockingIOError:
            pass
        except OSError:  # an ICMP error of an earlier hello or heartbeat; the socket goes on
            return

    def _keep_leases(self) -> None:
        now = time.monotonic()
        if now - self._kept_at >= HELLO_SECONDS:
            self._kept_at = now
            for subscriber in self._subscribers:
                subscriber.keep(now)

    def is_probed(self) -> bool:
        """Every session has got through to the first subscriber; the others stand in the same table as it."""
        return len(self._subscribers[0].arrivals.probed) == self._sessions or self.is_ordered()

    def is_ordered(self) -> bool:
        return self._ordered

    def close(self) -> None:
        for subscriber in self._subscribers:
            subscriber.give_back()
            subscriber.socket.close()


def _packets(sock: socket.socket) -> list[bytes]:
    packets = []
    try:
        for _ in range(DATAGRAMS_PER_WAKE_UP):
            packets.append(sock.recv(DATAGRAM_BYTES))  # noqa: PERF401 - kept when the last call raises
    except OSError:
        pass
    return packets
