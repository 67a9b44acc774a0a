"""Sources of which the router refuses nearly everything are taken less of, for a while; all others as before."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from gateway.edge.datagrams import refused_sources
from gateway.edge.datagrams.refused_sources import (
    BURST_FRAMES,
    FRAMES_PER_SECOND,
    KEPT_SECONDS,
    MOST_SOURCES,
    RefusedSources,
)
from gateway.edge.datagrams.udp import UdpListener
from gateway.records.egress import SourceRefused
from tests.unit.edge.datagrams.test_udp import DEVICES, device
from tests.unit.edge.running import RunningEdge, configured, running, until

BURST = 500
TENTH_OF_A_SECOND = int(FRAMES_PER_SECOND) // 10


def address(sender: socket.socket) -> str:
    host, port = sender.getsockname()
    return f"{host}:{port}"


async def takes(edge: RunningEdge, sender: socket.socket, count: int) -> int:
    """Returns how many of so many datagrams come in."""
    frames, received = len(edge.kafka.frames()), edge.of("received_frames_total", "devices")
    for _ in range(count):
        sender.send(b"packet")
    await until(lambda: edge.of("received_frames_total", "devices") == received + count)
    await until(lambda: edge.of("accepted_frames_total", "devices") == len(edge.kafka.frames()))
    return len(edge.kafka.frames()) - frames


async def test_less_is_taken_of_a_source_that_the_router_names_and_as_much_as_ever_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(refused_sources, "BURST_FRAMES", BURST)
    async with running(configured(DEVICES)) as edge:
        with closing(device(edge)) as attacker, closing(device(edge)) as honest:
            assert await takes(edge, attacker, 2) == 2
            edge.tells(SourceRefused, "devices", address(attacker))
            edge.tells(SourceRefused, "gone", address(honest))
            listening = edge.life.endpoints.datagrams["devices"]
            assert isinstance(listening, UdpListener)
            await until(lambda: len(listening._refused))
            for _ in range(10):
                await takes(edge, attacker, 200)
            dropped = edge.of("rejected_frames_total", "devices", reason="rate_limited")
            assert 0 < dropped <= 2_000 - BURST
            assert await takes(edge, honest, 200) == 200
            assert edge.of("rejected_frames_total", "devices", reason="rate_limited") == dropped


def test_a_source_is_let_go_a_while_after_its_last_word() -> None:
    sources = RefusedSources()
    sources.add("a:1", 0.0)
    sources.add("b:1", 1.0)
    sources.add("a:1", 2.0)
    sources.forget_old(1.0 + KEPT_SECONDS)
    assert len(sources) == 1
    sources.forget_old(2.0 + KEPT_SECONDS)
    assert len(sources) == 0


def test_a_word_that_comes_again_gives_no_new_burst() -> None:
    sources = RefusedSources()
    for _ in range(3):
        sources.add("a:1", 0.0)
        taken = [sources.lets_in("a:1", 0.0) for _ in range(BURST_FRAMES)]
    assert not any(taken)
    assert sources.lets_in("b:1", 0.0)
    assert [sources.lets_in("a:1", 0.1) for _ in range(BURST_FRAMES)].count(True) == TENTH_OF_A_SECOND


def test_so_many_sources_are_remembered_and_the_oldest_goes_first() -> None:
    sources = RefusedSources()
    for number in range(MOST_SOURCES + 1):
        sources.add(f"a:{number}", float(number))
    assert len(sources) == MOST_SOURCES
    assert all(sources.lets_in("a:0", 0.0) for _ in range(2 * BURST_FRAMES))
