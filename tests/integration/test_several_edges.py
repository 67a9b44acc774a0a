"""One mesh, three edges: who publishes, who subscribes and who serves need not be at the same one."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from secrets import randbits

import pytest
from cryptography import x509

from gateway.client import Answer, IncomingRequest, StreamClient, connect
from gateway.client.errors import EndedError
from gateway.core.event import Event, Kind
from gateway.core.trace_context import TraceContext
from gateway.observability.spans import SpanStep
from tests.collector import Collector, Span
from tests.integration.edges import MoreEdge, more_edges
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until
from tests.unit.edge.certificates import Authority

JSON = "application/json"
SECONDS = 30
HAND_OVER_SECONDS = 120
"""For an edge to begin anew; the other one waits half a minute for it, and then goes on without."""
SPANS_SECONDS = 60


@pytest.fixture(scope="module")
def edges(mesh: TestMesh, collector: Collector) -> Iterator[list[MoreEdge]]:
    """They tell of every frame they receive."""
    traces = {"endpoint": collector.endpoint, "share": 1.0}
    with more_edges(mesh, "edge-1", "edge-2", telemetry={"traces": traces}) as running:
        yield running


async def next_body(client: StreamClient) -> bytes:
    async with asyncio.timeout(SECONDS):
        async for event in client.events():
            return event.body
    raise AssertionError("the session ended")


async def next_events(client: StreamClient, count: int) -> list[Event]:
    got: list[Event] = []
    async with asyncio.timeout(SECONDS):
        async for event in client.events():
            got.append(event)
            if len(got) == count:
                break
    return got


@pytest.mark.parametrize(("origin", "to"), [("hsp", "yamp"), ("yamp", "emp"), ("emp", "wolpertinger")])
async def test_an_event_crosses_from_edge_to_edge(mesh: TestMesh, edges: list[MoreEdge], origin: str, to: str) -> None:
    async with (
        connect(to, "127.0.0.1", edges[0].ports[to]) as receiver,
        connect(origin, "127.0.0.1", mesh.ports[origin]) as sender,
    ):
        await receiver.subscribe(f"Over.{origin}")
        await sender.publish(f"Over.{origin}", b'["here"]', JSON)
        result = await next_body(receiver)
    assert result == b'["here"]'


async def test_an_events_way_from_edge_to_edge_is_told_as_spans(
    mesh: TestMesh, edges: list[MoreEdge], collector: Collector
) -> None:
    """The peer has begun the trace; what its edge tells stands beside it, for an edge reads no frames."""
    brought = TraceContext(randbits(128), randbits(64))
    async with (
        connect("yamp", "127.0.0.1", mesh.ports["yamp"]) as receiver,
        connect("emp", "127.0.0.1", edges[0].ports["emp"]) as sender,
    ):
        await receiver.subscribe("Traced.over")
        await sender.publish("Traced.over", b'["here"]', f"{JSON}; traceparent={brought}")
        await next_events(receiver, 1)
    trace = f"{brought.trace_id:032x}"
    wait_until(lambda: len(collector.of(trace)) == 2, "a span of the router's and one of the delivery", SPANS_SECONDS)
    route, deliver = (collector.of(trace)[step] for step in (SpanStep.ROUTE, SpanStep.DELIVER))
    assert (route.parent, deliver.parent) == (f"{brought.span_id:016x}", route.id)
    assert (route.service, deliver.service) == ("meshgate-router", "meshgate-edge")
    assert (deliver.said["meshgate.edge"], deliver.said["meshgate.outcome"]) == ("edge-0", "written")
    event_id = str(route.said["meshgate.event_id"])

    def received() -> list[Span]:
        spans = [span for span in list(collector.spans) if span.said["meshgate.event_id"] == event_id]
        return [span for span in spans if span.name == SpanStep.RECEIVE]

    wait_until(received, "a span of the receipt", SPANS_SECONDS)
    [receive] = received()
    assert receive.said["meshgate.edge"] == "edge-1"


async def test_one_asks_another_serves_and_a_third_looks_on(mesh: TestMesh, edges: list[MoreEdge]) -> None:
    async def serve(asked: IncomingRequest) -> Answer:
        return Answer(Kind.RESPONSE, b'"' + asked.body + b'"', JSON)

    async with (
        connect("emp", "127.0.0.1", edges[1].ports["emp"]) as server,
        connect("yamp", "127.0.0.1", edges[0].ports["yamp"]) as client,
        connect("hsp", "127.0.0.1", mesh.ports["hsp"]) as onlooker,
    ):
        await server.serve("Three.sum", serve)
        await onlooker.subscribe("Three.>")
        answer = await client.request("Three.sum", b"42", JSON)
        await client.publish("Three.done", b"1", JSON)
        [seen] = await next_events(onlooker, 1)
    assert (answer.kind, answer.body) == (Kind.RESPONSE, b'"42"')
    assert (seen.subject, seen.body) == ("Three.done", b"1")


async def test_a_requester_hears_at_once_that_its_server_on_another_edge_is_gone(edges: list[MoreEdge]) -> None:
    begun = asyncio.Event()

    async def never(asked: IncomingRequest) -> Answer:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with connect("yamp", "127.0.0.1", edges[0].ports["yamp"]) as client:
        async with connect("yamp", "127.0.0.1", edges[1].ports["yamp"]) as server:
            await server.serve("Gone.soon", never)
            asking = asyncio.create_task(client.request("Gone.soon", b"1", JSON, timeout=SECONDS))
            await asyncio.wait_for(begun.wait(), SECONDS)
        result = await asyncio.wait_for(asking, SECONDS / 2)
    assert result.kind in (Kind.ERROR, Kind.CANCELLED)


async def test_a_requester_hears_from_the_next_life_of_a_killed_edge_that_nobody_will_answer(
    edges: list[MoreEdge],
) -> None:
    edge = edges[1]
    begun = asyncio.Event()

    async def never(asked: IncomingRequest) -> Answer:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with connect("yamp", "127.0.0.1", edges[0].ports["yamp"]) as client:
        async with connect("yamp", "127.0.0.1", edge.ports["yamp"]) as server:
            await server.serve("Killed.server", never)
            asking = asyncio.create_task(client.request("Killed.server", b"1", JSON, timeout=2 * SECONDS))
            await asyncio.wait_for(begun.wait(), SECONDS)
            edge.kill()
        edge.start()
        answer = await asking
    edge.wait()
    assert (answer.kind, answer.code) == (Kind.ERROR, "undeliverable")


async def test_an_acknowledged_subscription_holds_for_what_another_edge_takes_in(
    mesh: TestMesh, edges: list[MoreEdge]
) -> None:
    """Publishers of many nodes, so that their events stand in all raw partitions."""
    rounds, publishers = 15, 4
    ports = [mesh.ports["yamp"], edges[0].ports["yamp"]] * (publishers // 2)
    async with AsyncExitStack() as stack:
        senders = [await stack.enter_async_context(connect("yamp", "127.0.0.1", port)) for port in ports]
        receiver = await stack.enter_async_context(connect("yamp", "127.0.0.1", edges[1].ports["yamp"]))
        for number in range(rounds):
            subject = f"Race.n{number}"
            await receiver.subscribe(subject)
            for sender in senders:
                sender.post(subject, b"%d" % number, JSON)
        result = [event.body for event in await next_events(receiver, rounds * publishers)]
    assert sorted(result) == sorted(b"%d" % number for number in range(rounds) for _ in range(publishers))


def test_a_device_that_says_hello_elsewhere_is_sent_its_events_there(mesh: TestMesh, edges: list[MoreEdge]) -> None:
    here = Device(edges[0].ports["devices"]).trusted_by(mesh)
    there = Device(edges[1].ports["devices"], identity=here.identity)
    sender = Device(mesh.ports["devices"]).trusted_by(mesh)
    try:
        sender.subscribe("nothing.of.this")  # answered once the worker of its partition knows its key
        here.subscribe("moving.>")
        first = sender.packet("moving.first", "1")
        sender.send(first)
        assert here.receive() == first
        there.subscribe("moving.>")
        second = sender.packet("moving.second", "2")
        sender.send(second)
        assert there.receive() == second
        assert here.receive(seconds=1) is None
    finally:
        for device in (here, there, sender):
            device.close()


class Patient:
    """Serves what takes for ever, until it is cancelled."""

    def __init__(self) -> None:
        self.asked, self.cancelled = asyncio.Event(), asyncio.Event()

    async def serve(self, _asked: IncomingRequest) -> Answer:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        raise AssertionError


@pytest.mark.parametrize("how", ["bye", "killed"])
async def test_a_server_is_told_that_who_asked_is_gone(mesh: TestMesh, edges: list[MoreEdge], how: str) -> None:
    patient = Patient()
    async with connect("yamp", "127.0.0.1", mesh.ports["yamp"]) as server:
        await server.serve(f"Gone.{how}", patient.serve)
        async with connect("hsp", "127.0.0.1", edges[0].ports["hsp"]) as client:
            asking = asyncio.create_task(client.request(f"Gone.{how}", b"1", JSON, timeout=10 * SECONDS))
            await asyncio.wait_for(patient.asked.wait(), SECONDS)
            if how == "killed":
                edges[0].kill()
                edges[0].start()
        await asyncio.gather(asking, return_exceptions=True)
        await asyncio.wait_for(patient.cancelled.wait(), 2 * SECONDS)
    edges[0].wait()


async def test_sessions_end_with_their_edge_and_a_new_one_takes_them_again(
    mesh: TestMesh, edges: list[MoreEdge]
) -> None:
    edge = edges[0]
    async with connect("hsp", "127.0.0.1", mesh.ports["hsp"]) as sender:
        async with connect("yamp", "127.0.0.1", edge.ports["yamp"]) as receiver:
            await receiver.subscribe("Killed.>")
            edge.kill()
            with pytest.raises(EndedError):
                await asyncio.wait_for(receiver.wait_ended(), SECONDS)
        edge.start()
        await asyncio.to_thread(edge.wait)
        async with connect("yamp", "127.0.0.1", edge.ports["yamp"]) as receiver:
            await receiver.subscribe("Killed.>")
            await sender.publish("Killed.once", b"1", JSON)
            result = await next_body(receiver)
    assert result == b"1"


class Wanderer:
    """A durable node, by its certificate; it subscribes once."""

    def __init__(self, authority: Authority, name: str) -> None:
        own = authority.signs(name, x509.UniformResourceIdentifier(f"urn:{name}"))
        self._tls = ssl.create_default_context(cafile=str(authority.ca))
        self._tls.load_cert_chain(own["cert"], own["key"])

    def at(self, edge: MoreEdge) -> AbstractAsyncContextManager[StreamClient]:
        return connect("hsp", "127.0.0.1", edge.ports["plant"], tls=self._tls)


async def bodies(client: StreamClient, count: int) -> list[bytes]:
    return [event.body for event in await next_events(client, count)]


async def test_a_durable_node_that_comes_back_at_another_edge_goes_on_there(
    mesh: TestMesh, edges: list[MoreEdge], authority: Authority
) -> None:
    node = Wanderer(authority, "wanderer")
    async with connect("yamp", "127.0.0.1", mesh.ports["yamp"]) as sender:
        async with node.at(edges[0]) as first:
            await first.subscribe("Wander.>")
            await sender.publish("Wander.a", b"1", JSON)
            got = await bodies(first, 1)
        await sender.publish("Wander.b", b"2", JSON)  # while it is away
        async with node.at(edges[1]) as second:
            await second.request("mesh.ping", b"1", JSON)  # its session stands
            await sender.publish("Wander.c", b"3", JSON)
            result = got + await bodies(second, 2)
    assert result == [b"1", b"2", b"3"]


async def test_what_a_killed_edge_owed_follows_its_node_as_soon_as_that_edge_is_back(
    mesh: TestMesh, edges: list[MoreEdge], authority: Authority
) -> None:
    node = Wanderer(authority, "refugee")
    async with connect("yamp", "127.0.0.1", mesh.ports["yamp"]) as sender:
        async with node.at(edges[0]) as first:
            await first.subscribe("Flee.>")
            await sender.publish("Flee.a", b"1", JSON)
            got = await bodies(first, 1)
        await sender.publish("Flee.b", b"2", JSON)
        await sender.request("mesh.ping", b"1", JSON)  # it has been routed
        edges[0].kill()
        async with node.at(edges[1]) as second:
            await second.request("mesh.ping", b"1", JSON)
            await sender.publish("Flee.c", b"3", JSON)
            edges[0].start()
            async with asyncio.timeout(HAND_OVER_SECONDS):
                while b"3" not in got:
                    got += [(await anext(second.events())).body]
    assert list(dict.fromkeys(got)) == [b"1", b"2", b"3"]
    edges[0].wait()
