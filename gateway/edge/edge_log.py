"""Writes what the edge itself says into the raw log: that it has started, and what became of others' frames."""

from __future__ import annotations

from collections.abc import Callable

from gateway.edge.publisher import RawPublisher
from gateway.records.egress import Confirm, Position
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.control_frames import MESH, DeliveryConfirmed, EdgeStarted, MeshFrame, RequestsAbandoned
from gateway.records.raw_log.frames import FrameSource, RawFrame, Replayed, ReplyAddress


class EdgeLog:
    """Writes control frames of one life of an edge. A control frame that Kafka refuses ends this life."""

    def __init__(self, publisher: RawPublisher) -> None:
        self._publisher = publisher
        self.life = publisher.life
        self.partitions = publisher.partitions
        self._source = FrameSource(MESH, "", *self.life)

    def announce(self) -> None:
        """Says in every raw partition that a new epoch has begun: sessions that this edge had before are over."""
        for partition in range(self.partitions):
            self._write(partition, EdgeStarted())

    def abandon(self, reply: ReplyAddress) -> None:
        """Tells the requester at once that nobody will answer."""
        partition = self._publisher.partition_of(reply.request.encode())
        self._write(partition, RequestsAbandoned(), replies=(reply,))

    def confirm(self, confirm: Confirm, position: Position, failed: bool, durable: Callable[[], None]) -> None:
        """Tells the router, in the partition of the event, that all deliveries of an entry are over."""
        frame = DeliveryConfirmed(confirm.edge, confirm.ticket, position.part, failed)
        self.write(position.partition, frame, durable)

    def write(self, partition: int, frame: MeshFrame, durable: Callable[[], None]) -> None:
        """Writes a control frame, and calls `durable` once all in-sync replicas have it."""

        def settled(accepted: bool) -> None:
            if accepted:
                durable()

        self._write(partition, frame, settled)

    def write_again(self, partition: int, frame: bytes, event_id: str, at: int) -> None:
        """Writes a control frame that goes on under the id of an event from before."""
        self._publisher.add_again(partition, RawFrame(frame, self._source, at), Replayed(event_id, at))

    def _write(
        self,
        partition: int,
        frame: MeshFrame,
        settled: Callable[[bool], None] | None = None,
        replies: tuple[ReplyAddress, ...] = (),
    ) -> None:
        data = control_frames.encode(frame)
        self._publisher.add_run(partition, self._source, data, (len(data),), replies=replies, settled=settled)
