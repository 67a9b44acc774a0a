"""Writes a session into the raw log: its opening, its frames, what becomes of its requests, and its end, in one order.

All of it goes into one partition, which is the node's: that of its first opening, also after a login has made the
session another node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gateway.core.ids import anonymous_node, session_id
from gateway.core.reasons import MeshError
from gateway.edge.publisher import RawPublisher
from gateway.protocols.actions import FramesReceived
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.control_frames import MESH, RequestDropped, RequestsAbandoned, SessionClosed, SessionOpened
from gateway.records.raw_log.frames import FrameSource, ReplyAddress


class SessionLog:
    """Writes one session into the raw log.

    `source` says where the session's frames come from. Its session is 0 until the session has a number.
    """

    def __init__(self, publisher: RawPublisher, source: FrameSource) -> None:
        self._publisher = publisher
        self._partition = 0
        self.source = source

    def take_number(self, number: int) -> None:
        """Names the session by its number, and its node after it where nobody is proven."""
        source = self.source
        node = source.node or anonymous_node(source.edge, session_id(source.edge, source.epoch, number))
        self.source = replace(source, session=number, node=node)
        self._partition = self._publisher.partition_of(node.encode())

    def open(self, opened: SessionOpened) -> None:
        self._write(control_frames.encode(opened))

    def close(self, reason: str) -> None:
        self._write(control_frames.encode(SessionClosed(self.source.protocol, reason)))

    def add_frames(self, received: FramesReceived, settled: Callable[[bool], None]) -> None:
        """Adds frames of the peer. `settled` is told once whether Kafka has them."""
        self._publisher.add_run(
            self._partition, self.source, received.data, received.lengths, replies=received.replies, settled=settled
        )

    def abandon(self, replies: tuple[ReplyAddress, ...], error: MeshError) -> None:
        """Tells those who wait for these answers that none comes."""
        self._write(control_frames.encode(RequestsAbandoned(error)), replies)

    def drop_request(self, request: str, subject: str) -> None:
        """Tells whoever serves this request of the peer that the peer does not wait for the answer any more."""
        source = self.source
        where = source.protocol, source.listener, source.edge, source.epoch, source.session
        self.drop(ReplyAddress(*where, request, subject, facts=source.facts))

    def drop(self, reply: ReplyAddress) -> None:
        """Tells whoever serves the request that nobody waits for its answer any more."""
        self._write(control_frames.encode(RequestDropped()), (reply,))

    def _write(self, frame: bytes, replies: tuple[ReplyAddress, ...] = ()) -> None:
        """Adds a frame of the mesh about this session."""
        source = replace(self.source, protocol=MESH)
        self._publisher.add_run(self._partition, source, frame, (len(frame),), replies=replies)
