"""Datagram listeners: what is received, counted, and dropped by whom."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing
from functools import partial

import pytest

from gateway.core.errors import SetupError
from gateway.edge.datagrams import open_socket as datagram_socket
from tests.unit.edge.running import RunningEdge, configured, listener, running, until, with_session

DEVICES = listener("devices", "emm", "udp")


def device(edge: RunningEdge) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.connect(("127.0.0.1", edge.port("devices")))
    return made


async def test_a_datagram_is_a_frame_with_its_peer_and_without_a_session() -> None:
    async with running(configured(DEVICES)) as edge:
        with closing(device(edge)) as sender:
            sender.send(b"packet")
            await until(edge.kafka.frames)
            [frame] = edge.kafka.raw()[2:]
            host, port = sender.getsockname()
            assert (frame.data, frame.source.peer, frame.source.session) == (b"packet", f"{host}:{port}", 0)
            await until(lambda: edge.of("accepted_frames_total", "devices") == 1)
            assert edge.of("received_frames_total", "devices") == 1
            assert edge.of("received_bytes_total", "devices") == 6


async def test_datagrams_are_accepted_when_kafka_has_them_and_not_before() -> None:
    async with running(configured(DEVICES)) as edge:
        edge.kafka.producer_.held = True
        with closing(device(edge)) as sender:
            sender.send(b"packet")
            await until(edge.kafka.frames)
            assert edge.of("accepted_frames_total", "devices") == 0
            edge.kafka.producer_.acknowledge()
            await until(lambda: edge.of("accepted_frames_total", "devices") == 1)


async def test_datagrams_that_come_while_others_wait_for_their_record_leave_with_them() -> None:
    edge_settings = {"id": "edge-0", "graceful_shutdown_limit_seconds": 5, "record": {"linger_milliseconds": 500}}
    async with running(configured(DEVICES, edge=edge_settings)) as edge:
        with closing(device(edge)) as sender:
            sender.send(b"one")
            await until(edge.kafka.frames)
            sender.send(b"two")
            await until(lambda: edge.of("received_frames_total", "devices") == 2)
            sender.send(b"three")
            await until(lambda: len(edge.kafka.frames()) == 3)
            assert edge.kafka.frames() == [b"one", b"two", b"three"]
            assert len([one for one in edge.kafka.producer_.written[2:] if one.topic == "test.raw"]) == 2
            sender.send(b"four")  # and the edge ends while it is not looked at
            sender.send(b"five")


async def test_a_socket_is_heard_whether_it_was_busy_or_at_rest_before() -> None:
    async with running(configured(DEVICES)) as edge:
        loop = asyncio.get_running_loop()
        with closing(device(edge)) as sender:
            for count, rest_seconds in enumerate((0.0, 0.0, 0.0, 0.05, 0.0, 0.05, 0.0)):
                rested_at = loop.time() + rest_seconds
                await until(partial(_is_past, loop, rested_at))
                sender.send(b"packet")
                await until(partial(_has_logged, edge, count + 1))


def _is_past(loop: asyncio.AbstractEventLoop, seconds: float) -> bool:
    return loop.time() >= seconds


def _has_logged(edge: RunningEdge, frames: int) -> bool:
    return len(edge.kafka.frames()) == frames


async def test_packets_of_one_node_meet_in_one_partition_whatever_they_come_from() -> None:
    async with running(configured(DEVICES, kafka={"partitions": 64})) as edge:
        for _ in range(4):
            with closing(device(edge)) as sender:
                sender.send(claiming(b"\7" * 16))
        await until(lambda: len(edge.kafka.frames()) == 4)
        records = edge.kafka.producer_.written[64:]
        assert len({one.settings["partition"] for one in records if one.topic == "test.raw"}) == 1


def claiming(node: bytes) -> bytes:
    """Unsigned, and refused later: but it says which node it is of."""
    payload = bytes([0x14, len(node)]) + node
    return bytes(15) + len(payload).to_bytes(2, "big") + payload


async def test_what_the_kernel_drops_is_counted_also_when_nothing_more_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datagram_socket, "RECEIVE_BUFFER_BYTES", 8_192)
    async with running(configured(DEVICES)) as edge:
        with closing(device(edge)) as sender:
            for _ in range(100):  # the loop does not run meanwhile
                sender.send(bytes(500))
        await until(lambda: edge.of("received_frames_total", "devices"))
        edge.life.tick()
        dropped = edge.of("udp_kernel_dropped_total", "devices")
        assert dropped > 0
        assert edge.of("received_frames_total", "devices") + dropped == 100
        edge.life.tick()
        assert edge.of("udp_kernel_dropped_total", "devices") == dropped


async def test_an_address_that_is_taken_is_told_when_the_edge_starts() -> None:
    async with running(configured(DEVICES)) as edge:
        taken = {**DEVICES, "listen": f"udp://127.0.0.1:{edge.port('devices')}"}
        with pytest.raises(SetupError) as refused:
            await running(configured(taken)).__aenter__()
        assert "listener devices: cannot listen on udp://127.0.0.1:" in str(refused.value)


async def test_what_the_router_sends_while_the_edge_drains_still_goes_out_but_nothing_comes_in() -> None:
    plc = listener("plc", "hsp")
    async with with_session(configured(DEVICES, plc), "plc") as (edge, peer):
        edge.kafka.producer_.held = True
        peer.sends(bytes.fromhex("01 00000001 0007 00000001 68"))  # owed an ACK, so the drain waits for it
        await until(edge.kafka.frames)
        with closing(device(edge)) as sender:
            sender.setblocking(False)
            host, port = sender.getsockname()
            draining = asyncio.create_task(edge.life.drain(None, 5.0))
            await asyncio.sleep(0)
            sender.send(b"late")
            edge.delivers(b"packet", protocol="emm", addresses=(("devices", f"{host}:{port}"),))
            assert await asyncio.get_running_loop().sock_recv(sender, 100) == b"packet"
        edge.kafka.producer_.held = False
        edge.kafka.producer_.acknowledge()
        await draining
        assert edge.of("received_frames_total", "devices") == 0
        assert edge.of("egress_delivered_total", "devices", outcome="written") == 1
