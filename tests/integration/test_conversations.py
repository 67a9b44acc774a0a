"""Every pair of protocols through the real mesh: events, requests, errors, progress, cancels, by the clients."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.client import Answer, IncomingRequest, StreamClient, connect
from gateway.config import Limits
from gateway.core.content import from_msgpack
from gateway.core.event import Event, Kind
from tests.integration.mesh import TestMesh

STREAMS = ("emp", "hsp", "yamp", "wolpertinger")


def value(event: Event | Answer) -> object:
    if event.content_type == "application/msgpack":
        return from_msgpack(event.body)
    return json.loads(event.body) if event.body else None


async def next_event(client: StreamClient, seconds: float = 20) -> Event:
    async for event in client.events():
        return event
    raise AssertionError("the session ended")


def unwrapped(said: object) -> object:
    """wolpertinger's parameters are always a list, and an object in it is text."""
    while isinstance(said, list) and len(said) == 1:
        (said,) = said
    return json.loads(said) if isinstance(said, str) else said


@pytest.mark.parametrize("to", STREAMS)
@pytest.mark.parametrize("origin", STREAMS)
async def test_an_event_crosses(mesh: TestMesh, origin: str, to: str) -> None:
    subject = f"Cross.{origin}-{to}"
    async with (
        connect(to, "127.0.0.1", mesh.ports[to]) as receiver,
        connect(origin, "127.0.0.1", mesh.ports[origin]) as sender,
    ):
        await receiver.subscribe("Cross.>")
        await sender.publish(subject, b'{"n":1}', "application/json")
        async with asyncio.timeout(20):
            event = await next_event(receiver)
    assert event.subject == f"Cross.{origin}-{to}"
    assert unwrapped(value(event)) == {"n": 1}


@pytest.mark.parametrize("to", STREAMS)
@pytest.mark.parametrize("origin", STREAMS)
async def test_a_request_is_answered(mesh: TestMesh, origin: str, to: str) -> None:
    subject = f"Sum.{origin}-{to}"

    async def serve(asked: IncomingRequest) -> Answer:
        return Answer(Kind.RESPONSE, b"42", "application/json")

    async with (
        connect(to, "127.0.0.1", mesh.ports[to]) as server,
        connect(origin, "127.0.0.1", mesh.ports[origin]) as client,
    ):
        await server.serve(subject, serve)
        answer = await client.request(subject, b"[1,2]", "application/json")
    assert answer.kind is Kind.RESPONSE
    assert value(answer) == 42


@pytest.mark.parametrize("origin", STREAMS)
async def test_a_request_that_nobody_serves_is_answered_with_an_error(mesh: TestMesh, origin: str) -> None:
    async with connect(origin, "127.0.0.1", mesh.ports[origin]) as client:
        result = await client.request("Nobody.here", b"[]", "application/json")
    assert result.kind is Kind.ERROR


async def test_a_frame_of_the_largest_size_crosses(mesh: TestMesh) -> None:
    """And what is made of it is larger than the frame, and than what a Kafka producer takes unless it is told."""
    body = bytes(Limits().frame_bytes - 64)
    async with (
        connect("hsp", "127.0.0.1", mesh.ports["hsp"]) as receiver,
        connect("hsp", "127.0.0.1", mesh.ports["hsp"]) as sender,
    ):
        await receiver.subscribe("Large.>")
        await sender.publish("Large.one", body)
        async with asyncio.timeout(60):
            result = await next_event(receiver)
    assert result.body == body


async def test_events_of_one_session_come_in_order_and_once(mesh: TestMesh) -> None:
    count = 500
    async with (
        connect("yamp", "127.0.0.1", mesh.ports["yamp"]) as receiver,
        connect("hsp", "127.0.0.1", mesh.ports["hsp"]) as sender,
    ):
        await receiver.subscribe("Order.>")
        for number in range(count):
            sender.post("Order.n", str(number).encode(), "application/json")
        got: list[int] = []
        async with asyncio.timeout(30):
            async for event in receiver.events():
                got.append(value(event))  # type: ignore[arg-type]
                if len(got) == count:
                    break
    assert got == list(range(count))


def test_nothing_of_all_that_was_sent_is_lost(mesh: TestMesh) -> None:
    """Whatever ran before: the audit, which judges the raw log again, finds every frame accounted for."""
    said = mesh.command("audit", "--output", "json", seconds=240)
    found = json.loads(said.stdout)
    assert (found["lost"], found["gaps"]) == (0, []), said.stdout + said.stderr
