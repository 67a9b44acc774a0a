"""The router's row functions over a log in memory: what goes in as raw records, what comes out by topic.

It stands for the raw topic and nothing else: what the router writes into `raw` is read again, as Kafka would have it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from gateway.auth.keyring import GatewayIdentity, Key, KeyRing
from gateway.config import Config, parse
from gateway.core.event import Auth, Event
from gateway.records import egress_codec, event_records, rejected_frame
from gateway.records.egress import Deliver, Entry, Group
from gateway.records.raw_log import control_frames
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.control_frames import MESH, EdgeStarted, MeshFrame, SessionClosed, SessionOpened
from gateway.records.raw_log.frames import Facts, FrameSource, ReplyAddress
from gateway.records.rejected_frame import RefusedFrame
from streaming_jobs.routing.frame_router import FrameRouter
from streaming_jobs.routing.known_ids import KnownIds
from streaming_jobs.routing.mesh_state import MeshState
from streaming_jobs.routing.output_records import OutputRecord
from streaming_jobs.routing.record_outputs import RoutedRecord

EDGE, EPOCH = "edge-0", 7
NOW = 1_800_000_000
GATEWAY = GatewayIdentity(b"\x0a" * 16, b"\0\0\0\xff", b"\x0b" * 32)
LISTENERS = [
    {"name": "emm", "protocol": "emm", "listen": "udp://127.0.0.1:5050"},
    {"name": "emp", "protocol": "emp", "listen": "tcp://127.0.0.1:5040"},
    {"name": "hsp", "protocol": "hsp", "listen": "tcp://127.0.0.1:5041"},
    {"name": "yamp", "protocol": "yamp", "listen": "tcp://127.0.0.1:5042"},
    {"name": "wolpertinger", "protocol": "wolpertinger", "listen": "tcp://127.0.0.1:5044"},
]


@dataclass(frozen=True)
class Peer:
    """A session as the log knows it."""

    source: FrameSource

    @property
    def number(self) -> int:
        return self.source.session


@dataclass
class MeshInALog:
    """`partitions` raw partitions, all read by one worker. `settings` go over the configuration."""

    partitions: int = 2
    settings: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[bytes, Mapping[bytes, Key]] = field(default_factory=dict)
    written: list[OutputRecord] = field(default_factory=list)
    rows: list[RoutedRecord] = field(default_factory=list)
    records: dict[tuple[int, int], bytes] = field(default_factory=dict)
    withhold_from_raw: bool = False
    """What is written to `raw` is lost."""
    knows_ids: bool = False
    """Each record is routed by a worker that knows the ids of those before. Else each worker is a new one."""

    def __post_init__(self) -> None:
        self.state = MeshState(self._config(self.settings), KeyRing(self.keys), GATEWAY)
        self._functions = FrameRouter(self.state)
        self._ends = [0] * self.partitions
        self._sessions = 0

    def reconfigure(self, **settings: Any) -> None:
        """The configuration is read again, with these settings over those of the beginning."""
        self.state.reconfigure(self._config({**self.settings, **settings}))

    def _config(self, settings: Mapping[str, Any]) -> Config:
        given = {"mesh": "t", "listeners": LISTENERS, "kafka": {"partitions": self.partitions}, **settings}
        return parse(yaml.safe_dump(given), Path("meshgate.yaml"), os.environ)

    # -- in ------------------------------------------------------------------------------------------------

    def log(self, source: FrameSource, frame: bytes, partition: int = 0, replies: tuple[ReplyAddress, ...] = ()) -> str:
        """One frame as an edge logs it; its event id."""
        builder = ContainerBuilder(source.edge, source.epoch)
        builder.add_run(source, NOW * 1_000_000, frame, (len(frame),), [reply.pack() for reply in replies])
        return self.append(builder.build(), partition)

    def append(self, record: bytes, partition: int = 0) -> str:
        offset = self._ends[partition]
        self._ends[partition] += 1
        self.records[partition, offset] = record
        for out in self.route(partition, offset):
            if out.topic == "t.raw" and out.value is not None and not self.withhold_from_raw:
                self.append(out.value, out.partition or 0)
        return f"{partition}-{offset}-0"

    def route(self, partition: int, offset: int) -> list[OutputRecord]:
        """Routes what stands there, perhaps once more."""
        if not self.knows_ids:
            self._functions.known = KnownIds(self.state.horizon_seconds)
        routed = self._functions.route_record(self.records[partition, offset], partition, offset, NOW)
        self.rows.append(routed)
        self.written += routed.outs
        return routed.outs

    def open(
        self, protocol: str, *, facts: Facts | None = None, node: str = "", partition: int = 0, edge: str = EDGE,
        **opened: Any,
    ) -> Peer:  # fmt: skip
        """A session of the listener that has the protocol's name."""
        self._sessions += 1
        name = node or f"anon:{EDGE}:{self._sessions}"
        source = FrameSource(
            protocol, protocol, edge, EPOCH, self._sessions, "10.0.0.1:9", name, Auth.NONE, facts=facts or {}
        )
        self._mesh_frame(source, SessionOpened(protocol, **opened), partition)
        return Peer(source)

    def identify(self, peer: Peer, node: str, partition: int = 0, **opened: Any) -> Peer:
        """The session's peer has proven who it is."""
        source = replace(peer.source, node=node, auth=Auth.SESSION)
        self._mesh_frame(source, SessionOpened(source.protocol, again=True, **opened), partition)
        return Peer(source)

    def close(self, peer: Peer, partition: int = 0) -> None:
        self._mesh_frame(peer.source, SessionClosed(peer.source.protocol, "bye"), partition)

    def restart_edge(self, epoch: int) -> None:
        for partition in range(self.partitions):
            self._mesh_frame(FrameSource(MESH, "", EDGE, epoch), EdgeStarted(), partition)

    def _mesh_frame(self, source: FrameSource, frame: MeshFrame, partition: int) -> None:
        self.log(replace(source, protocol=MESH), control_frames.encode(frame), partition)

    # -- out -----------------------------------------------------------------------------------------------

    def of(self, topic: str) -> list[OutputRecord]:
        return [out for out in self.written if out.topic == f"t.{topic}"]

    def events(self) -> list[Event]:
        return [event for out in self.of("events") for event in event_records.read(out.headers, out.value or b"")]

    def rejections(self) -> list[tuple[str, str]]:
        """(stage, reason) of each."""
        return [(refusal.stage, refusal.reason) for refusal in self.refusals()]

    def refusals(self) -> list[RefusedFrame]:
        return [
            refusal for out in self.of("rejected") for refusal in rejected_frame.read(out.headers, out.value or b"")
        ]

    def told(self) -> list[tuple[int, Entry]]:
        """Everything that edges are told, each with the edge's number."""
        return [
            (out.partition or 0, entry) for out in self.of("egress") for entry in egress_codec.decode(out.value or b"")
        ]

    def egress(self) -> list[Deliver]:
        return [entry for _, entry in self.told() if isinstance(entry, Deliver)]

    def sent_to(self, peer: Peer) -> list[Group]:
        return [group for group in self._groups() if peer.number in group.sessions]

    def sent_to_address(self, address: str) -> list[Group]:
        return [group for group in self._groups() if address in {to for _, to in group.addresses}]

    def _groups(self) -> Iterator[Group]:
        for record in self.egress():
            yield from record.groups

    def forget_outputs(self) -> None:
        self.written.clear()
        self.rows.clear()
