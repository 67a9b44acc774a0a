"""The clients of a run, over real sockets, against a mesh that forgets everything: each protocol that has sessions."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from gateway.bench.arrivals import Arrivals
from gateway.bench.marker import Marker
from gateway.bench.messages import Go, PeerPlace
from gateway.bench.pacing import now_ns
from gateway.bench.requester import ANSWERED, Requester
from gateway.bench.schedule import SECOND_NS, Schedule
from gateway.bench.stream_clients import BenchClient, StreamPublisher, close_all, echo, open_clients, open_subscribers
from gateway.bench.stream_generator import StreamGenerator
from gateway.bench.workload import Workload
from gateway.client import UnreachableError
from gateway.protocols import protocols
from tests.unit.client.loopback import loopback

STREAM_PROTOCOLS = sorted(name for name, spec in protocols().items() if spec.session is not None)
for_every_protocol = pytest.mark.parametrize("protocol", STREAM_PROTOCOLS)
FRAMES = 40


def work_of(protocol: str, *, request: bool = False) -> Workload:
    return Workload(
        origin=protocol, target=protocol, run="c0de", request=request, rate=400.0, seconds=0.1, warm_up=0.0, sessions=4
    )


def place_of(protocol: str, port: int) -> PeerPlace:
    return PeerPlace(protocol, f"tcp://127.0.0.1:{port}")


async def until_noted(arrivals: Arrivals, count: int) -> None:
    async with asyncio.timeout(10):
        while len(arrivals) < count:  # noqa: ASYNC110 - whoever notes an arrival tells nobody
            await asyncio.sleep(0.005)


@for_every_protocol
async def test_every_frame_is_noted_once_and_in_the_order_of_its_session(protocol: str) -> None:
    work = work_of(protocol)
    arrivals = Arrivals(Marker(work.run), work.sessions)
    async with loopback(protocol) as mesh:
        place = place_of(protocol, mesh.port)
        receiving = await open_subscribers(place, work.subject, [arrivals])
        sending = await open_clients(StreamPublisher, place, work.sessions)
        generator = StreamGenerator(work, sending)
        generator.prepare()
        generator.probe(0)
        sent = await generator.send_all(Schedule(now_ns(), work.rate, work.total))
        await until_noted(arrivals, FRAMES)
        await close_all([*receiving, *sending])
    indices = memoryview(arrivals.noted().indices).cast("q").tolist()
    assert sorted(indices) == list(range(FRAMES))
    for session in range(work.sessions):
        of_session = [index for index in indices if index % work.sessions == session]
        assert of_session == sorted(of_session)
    assert arrivals.probed == set(range(work.sessions))
    assert sent.frames == FRAMES


@for_every_protocol
async def test_every_request_is_answered_and_noted(protocol: str) -> None:
    work = work_of(protocol, request=True)
    async with loopback(protocol) as mesh:
        place = place_of(protocol, mesh.port)
        serving = await open_clients(BenchClient, place, 2)
        for server in serving:
            await server.serve(work.subject, echo)
        asking = await open_clients(BenchClient, place, work.sessions)
        requester = Requester(work, asking, 5.0)
        never = cast(asyncio.Task[Go], asyncio.ensure_future(asyncio.Event().wait()))
        await requester.probe(never)
        never.cancel()
        sent = await requester.ask_all(Schedule(now_ns(), work.rate, work.total))
        await close_all([*serving, *asking])
    assert sent.outcomes == {ANSWERED: FRAMES}
    assert sent.answered is not None
    assert sorted(memoryview(sent.answered.indices).cast("q").tolist()) == list(range(FRAMES))


async def test_a_request_that_nobody_serves_is_an_outcome_and_no_arrival() -> None:
    work = work_of("yamp", request=True)
    async with loopback("yamp") as mesh:
        asking = await open_clients(BenchClient, place_of("yamp", mesh.port), work.sessions)
        sent = await Requester(work, asking, 5.0).ask_all(Schedule(now_ns(), work.rate, work.total))
        await close_all(asking)
    assert sent.outcomes == {"no_responder": FRAMES}
    assert sent.answered is not None
    assert sent.answered.indices == b""


async def test_frames_are_sent_no_earlier_than_they_are_due() -> None:
    work = work_of("yamp")
    async with loopback("yamp") as mesh:
        sending = await open_clients(StreamPublisher, place_of("yamp", mesh.port), work.sessions)
        generator = StreamGenerator(work, sending)
        generator.prepare()
        start = now_ns() + SECOND_NS // 20
        sent = await generator.send_all(Schedule(start, work.rate, work.total))
        await close_all(sending)
    assert min(memoryview(sent.late).cast("q").tolist()) >= 0
    assert sent.ended >= start + SECOND_NS * (FRAMES - 1) / work.rate


async def test_a_mesh_that_is_not_there_is_named() -> None:
    async with loopback("yamp") as mesh:
        port = mesh.port
    with pytest.raises(UnreachableError) as refused:
        await open_clients(BenchClient, place_of("yamp", port), 1)
    assert f"tcp://127.0.0.1:{port}" in str(refused.value)
