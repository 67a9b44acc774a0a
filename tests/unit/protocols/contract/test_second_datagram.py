"""A second protocol of datagrams is a folder and a line in a configuration: nothing else."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from zlib import crc32

import click
import pytest

from gateway.cli.peer_options import PeerOptions
from gateway.inspect.live.rows import raw_rows
from gateway.kafka.records import TopicRecord
from gateway.protocols import protocols
from gateway.protocols.spec import ProtocolSpec
from gateway.records.raw_log.container import ContainerBuilder
from gateway.records.raw_log.frames import FrameSource
from tests.unit.edge.running import configured, listener, running, until
from tests.unit.protocols.contract.streams import SECOND_DATAGRAM, found
from tests.unit.routing.mesh_in_a_log import EDGE, EPOCH, NOW, MeshInALog

HERE = "10.0.0.9:1"
BEACONS = {"name": "beacon", "protocol": "beacon", "listen": "udp://127.0.0.1:5998", "word": "sesame"}
APPS = {"name": "yamp", "protocol": "yamp", "listen": "tcp://127.0.0.1:5042"}


@pytest.fixture(autouse=True)
def beacon() -> Iterator[ProtocolSpec[Any]]:
    with found(SECOND_DATAGRAM) as spec:
        yield spec


def test_it_is_there_because_its_folder_is(beacon: ProtocolSpec[Any]) -> None:
    assert protocols()["beacon"] is beacon


async def test_an_edge_logs_its_datagrams_by_node_and_sends_it_what_the_router_wrote() -> None:
    async with running(configured(listener("beacons", "beacon", "udp", word="sesame"))) as edge:
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as peer:
            peer.connect(("127.0.0.1", edge.port("beacons")))
            peer.setblocking(False)
            peer.send(b"plc-7|1|sesame|temp.high|81")
            await until(edge.kafka.frames)
            [record] = [one for one in edge.kafka.producer_.written[2:] if one.topic == "test.raw"]
            assert record.settings["partition"] == crc32(b"plc-7") % 2
            host, port = peer.getsockname()
            edge.delivers(b"plc-9|2|sesame|temp.low|7", protocol="beacon", addresses=(("beacons", f"{host}:{port}"),))
            async with asyncio.timeout(5):
                assert await asyncio.get_running_loop().sock_recv(peer, 100) == b"plc-9|2|sesame|temp.low|7"


class TestRouter:
    def take(self, mesh: MeshInALog, *datagrams: bytes) -> None:
        builder = ContainerBuilder(EDGE, EPOCH)
        for data in datagrams:
            builder.add(FrameSource("beacon", "beacon", EDGE, EPOCH, 0, HERE), NOW * 1_000_000, data)
        mesh.append(builder.build())

    def mesh(self) -> MeshInALog:
        return MeshInALog(settings={"listeners": [BEACONS, APPS]}, knows_ids=True)

    def test_its_events_are_events_once_and_what_is_wrong_is_refused(self) -> None:
        mesh = self.mesh()
        self.take(mesh, b"plc-7|1|sesame|temp.high|81", b"plc-7|1|sesame|temp.high|81", b"plc-7|2|open|temp.high|82")
        self.take(mesh, b"no beacon")
        assert [(event.node, event.subject, event.body) for event in mesh.events()] == [("plc-7", "temp.high", b"81")]
        assert mesh.rejections() == [("decode", "unauthenticated"), ("decode", "truncated")]

    def test_its_nodes_lease_what_they_say_hello_for(self) -> None:
        mesh = self.mesh()
        self.take(mesh, b"plc-7|1|sesame|hello|temp.*")
        assert [group.frame for group in mesh.sent_to_address(HERE)] == [b"granted temp.*"]
        mesh.forget_outputs()
        self.take(mesh, b"plc-9|1|sesame|temp.high|81")
        assert [group.frame for group in mesh.sent_to_address(HERE)] == [b"plc-9|1|sesame|temp.high|81"]


def test_tap_shows_the_node_that_a_datagram_names() -> None:
    builder = ContainerBuilder(EDGE, EPOCH)
    builder.add(FrameSource("beacon", "beacon", EDGE, EPOCH, 0, HERE), NOW * 1_000_000, b"plc-7|1|x|a|b")
    [row] = raw_rows(TopicRecord(0, 3, 0, None, builder.build()))
    assert row.node == "plc-7"


def test_the_command_line_says_that_it_does_not_speak_it() -> None:
    peer = PeerOptions(None, "beacon", "127.0.0.1:9")
    with pytest.raises(click.UsageError, match="--via beacon: it has no sessions"):
        peer.check_options()
