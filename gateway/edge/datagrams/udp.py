"""Datagram listeners. A wake-up of the loop drains what waits, up to a bound so that nobody else starves.

Ten times faster than asyncio's own datagram transport, which allocates 256 KiB for each read.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from gateway.config import Limits, Listener
from gateway.core.reasons import Reason
from gateway.edge.carriers.read_control import TokenBucket
from gateway.edge.datagrams.calls import AT_ONCE
from gateway.edge.datagrams.incoming import NOTHING, ReceivedDatagrams, SocketAddress, datagrams_in
from gateway.edge.datagrams.listener import DatagramListener
from gateway.edge.datagrams.outgoing import OnSent
from gateway.edge.datagrams.refused_sources import RefusedSources
from gateway.edge.datagrams.sending import Datagram, DatagramRun, OfT
from gateway.edge.metrics import ListenerMetrics
from gateway.edge.publisher import RawPublisher
from gateway.records.raw_log.frames import FrameSource

log = logging.getLogger(__name__)

REMEMBERED_KEYS = 65_536
"""The most addresses and nodes of which facts are kept. Beyond this it starts over, because both can be forged."""

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class UdpListener(DatagramListener):
    def __init__(
        self,
        listener: Listener,
        publisher: RawPublisher,
        metrics: ListenerMetrics,
        limits: Limits,
    ) -> None:
        super().__init__(listener, publisher, metrics)
        self._in = datagrams_in(self.socket)
        self._sources = _Remembered(self._source_of)
        self._sender_partitions = _Remembered(self._partition_of_sender)
        self._node_partitions = _Remembered(publisher.partition_of)
        self._refused = RefusedSources()
        self._buckets = _Remembered(self._bucket_of)
        self.reconfigure(limits)

    def reconfigure(self, limits: Limits) -> None:
        self._rate = limits.frames_per_second_per_session
        self._buckets.clear()
        self._limit_strangers(limits)

    def send(self, datagrams: Sequence[Datagram[OfT]], on_sent: OnSent[OfT]) -> None:
        self._out.send(datagrams, on_sent)

    def send_run(self, run: DatagramRun) -> int:
        return self._out.send_run(run)

    def slow_down(self, peer: str) -> None:
        self._refused.add(peer, self._loop.time())

    # -- receiving ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._is_started = True
        super().start()

    def stop(self) -> None:
        self._is_started = False
        super().stop()

    def _drain(self) -> None:
        """Takes what waits. If that goes on its way soon, what comes until then is taken just before, all at once.

        The time that such a datagram has waited in the socket, up to the linger, is not in its time of receipt.
        """
        if self._take() < AT_ONCE and self._publisher.before_leaving(self._take_more):
            self._loop.remove_reader(self.socket.fileno())

    def _take_more(self) -> None:
        """Goes on like this for as long as something comes between two times; then the socket wakes the loop again."""
        if not self._is_started:
            return
        is_busy = False
        try:
            is_busy = 0 < self._take() < AT_ONCE and self._publisher.before_leaving(self._take_more)
        finally:
            if not is_busy:
                super().start()

    def _take(self) -> int:
        """Puts what waits at the socket into the raw log, and returns how many datagrams there were."""
        received_at = time.time_ns() // 1000
        datagrams = self._receive()
        count = len(datagrams)
        self._metrics.received_frames.inc(count)
        self._metrics.received_bytes.inc(len(datagrams.data))
        if self._is_too_much(len(datagrams.data)):
            self._metrics.rejected(Reason.RATE_LIMITED, len(datagrams))
            return count
        if self._refused:
            self._refused.forget_old(self._loop.time())
        if self._publisher.in_flight.is_full or self._rate or self._refused:
            datagrams = datagrams.select(list(map(self._lets_in, datagrams.senders)), datagrams.frames())
        for partition, some in self._by_partition(datagrams):
            sources = list(map(self._sources.__getitem__, some.senders))
            self._publisher.add_datagrams(partition, sources, received_at, some.lengths, some.data, self)
        return count

    def _receive(self) -> ReceivedDatagrams:
        try:
            return self._in.receive()
        except OSError as error:  # an ICMP error of an earlier send; the socket goes on
            log.debug("socket of %s: %s", self.listener.name, error)
            return NOTHING

    def _by_partition(self, datagrams: ReceivedDatagrams) -> Iterator[tuple[int, ReceivedDatagrams]]:
        """Yields the datagrams of each raw partition, in their order. They are cut apart only where they must be."""
        if self._publisher.partitions == 1:
            yield 0, datagrams
            return
        frames = datagrams.frames()
        partitions = self._partitions_of(datagrams.senders, frames)
        for partition in dict.fromkeys(partitions):
            are_chosen = [other == partition for other in partitions]
            yield partition, datagrams if all(are_chosen) else datagrams.select(are_chosen, frames)

    def _partitions_of(self, senders: Sequence[SocketAddress], frames: Sequence[bytes]) -> list[int]:
        """Returns the partition of each datagram: that of the node it names, or of its sender if it names none."""
        if self._peek is None:
            return list(map(self._sender_partitions.__getitem__, senders))
        of_node, of_sender = self._node_partitions, self._sender_partitions
        keys = map(self._peek, frames)
        return [of_node[key] if key else of_sender[sender] for key, sender in zip(keys, senders, strict=True)]

    def _lets_in(self, sender: SocketAddress) -> bool:
        if self._publisher.in_flight.is_full:
            self._metrics.rejected(Reason.OVERLOAD)
            return False
        if self._rate and not self._buckets[sender].has_one(self._loop.time()):
            self._metrics.rejected(Reason.RATE_LIMITED)
            return False
        if self._refused and not self._refused.lets_in(self._sources[sender].peer, self._loop.time()):
            self._metrics.rejected(Reason.RATE_LIMITED)
            return False
        return True

    def _bucket_of(self, _: SocketAddress) -> TokenBucket:
        return TokenBucket(self._rate or math.inf, self._loop.time())

    def _source_of(self, sender: SocketAddress) -> FrameSource:
        base = self._source
        return FrameSource(base.protocol, base.listener, base.edge, base.epoch, 0, self._in.peer(sender))

    def _partition_of_sender(self, sender: SocketAddress) -> int:
        return self._publisher.partition_of(self._in.peer(sender).encode())


class _Remembered(dict[KeyT, ValueT]):
    """Finds the value of each key once, and keeps those of `REMEMBERED_KEYS` keys: then it starts over."""

    def __init__(self, find: Callable[[KeyT], ValueT]) -> None:
        self._find = find

    def __missing__(self, key: KeyT) -> ValueT:
        if len(self) >= REMEMBERED_KEYS:
            self.clear()
        value = self[key] = self._find(key)
        return value
