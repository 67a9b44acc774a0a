"""The base of every datagram listener, whatever its datagrams carry."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from gateway.config import Limits, Listener
from gateway.core.reasons import Reason
from gateway.edge.carriers.read_control import TokenBucket
from gateway.edge.datagrams.open_socket import KernelDrops, bind
from gateway.edge.datagrams.outgoing import DatagramsOut, OnSent
from gateway.edge.datagrams.sending import Datagram, DatagramRun, OfT
from gateway.edge.metrics import ListenerMetrics
from gateway.edge.publisher import RawPublisher
from gateway.protocols import protocols
from gateway.records.raw_log.frames import FrameSource


class DatagramListener(ABC):
    """Counts its frames in the raw log itself (`settled`), for nobody waits for a datagram's acknowledgement."""

    def __init__(self, listener: Listener, publisher: RawPublisher, metrics: ListenerMetrics) -> None:
        self._loop = asyncio.get_running_loop()
        self._publisher = publisher
        self._metrics = metrics
        self._peek = protocols()[listener.protocol].partition_key
        self._source = FrameSource(listener.protocol, listener.name, *publisher.life)
        self.listener = listener
        self.socket = bind(listener)
        self._out = DatagramsOut(self.socket)
        self._drops = KernelDrops(self.socket, metrics)
        self._strangers: TokenBucket | None = None

    @abstractmethod
    def reconfigure(self, limits: Limits) -> None:
        """Limits that hold from now on."""

    def _limit_strangers(self, limits: Limits) -> None:
        """Sets the rate in bytes of all datagrams together, where anybody may send them."""
        rate, is_open = limits.unauthenticated_bytes_per_second, self.listener.options.admits_unproven
        self._strangers = TokenBucket(rate, self._loop.time()) if is_open else None

    def _is_too_much(self, size: int) -> bool:
        """Returns True if strangers together have sent more than they may."""
        return self._strangers is not None and not self._strangers.has_any(size, self._loop.time())

    def slow_down(self, peer: str) -> None:  # noqa: B027 - a connection of QUIC costs its edge more than the router
        """Takes less of a source, by its address, of which the router refuses nearly everything."""

    @abstractmethod
    def send(self, datagrams: Sequence[Datagram[OfT]], on_sent: OnSent[OfT]) -> None:
        """Sends the datagrams, as `dispatch.Datagrams` says."""

    def send_run(self, run: DatagramRun) -> int:  # noqa: ARG002 - only a plain socket can
        """Returns how many of them, from the first, have left; `send` is for the others."""
        return 0

    @abstractmethod
    def _drain(self) -> None:
        """Takes what waits at the socket."""

    @property
    def port(self) -> int:
        port: int = self.socket.getsockname()[1]
        return port

    def start(self) -> None:
        self._loop.add_reader(self.socket.fileno(), self._drain)

    def stop(self) -> None:
        """Stops receiving. What the router still sends goes out, as far as the protocol below allows."""
        self._loop.remove_reader(self.socket.fileno())
        self.count_kernel_drops()

    def close(self) -> None:
        """Closes the socket, after `stop`, and drops what still waits to be sent."""
        if self.socket.fileno() >= 0:
            self._out.close()
            self.socket.close()

    def settled(self, frames: int, seconds: float, accepted: bool) -> None:
        if accepted:
            self._metrics.accepted(frames, seconds)
        else:
            self._metrics.rejected(Reason.INTERNAL, frames)

    def count_kernel_drops(self) -> None:
        self._drops.count()
