"""One frame's whole way, as `meshgate trace` tells it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.client import Answer, IncomingRequest, connect
from gateway.core.event import Kind
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until
from tests.integration.raw_frames import places
from tests.integration.topic import following, header


def traced(mesh: TestMesh, event_id: str) -> dict[str, Any]:
    run = mesh.command("trace", event_id, "--output", "json")
    assert run.returncode == 0, run.stderr
    way: dict[str, Any] = json.loads(run.stdout)
    return way


def settled(mesh: TestMesh, event_id: str) -> dict[str, Any]:
    """Its way, once every delivery has its outcome."""
    ways: list[dict[str, Any]] = []

    def ended() -> bool:
        ways.append(traced(mesh, event_id))
        sent = ways[-1]["deliveries"]
        return bool(sent) and all(one["outcome"] for one in sent)

    wait_until(ended, f"an outcome of every delivery of {event_id}")
    return ways[-1]


def test_an_event_is_followed_from_the_bytes_in_to_the_bytes_out(mesh: TestMesh, device: Device) -> None:
    device.subscribe("traced.event")
    packet = device.packet("traced.event", "31")
    device.send(packet)
    assert device.receive() == packet
    (event_id,) = places(mesh, packet)
    way = settled(mesh, event_id)
    partition, offset, index = map(int, event_id.split("-"))
    assert [way["raw"][name] for name in ("partition", "offset", "index")] == [partition, offset, index]
    assert (way["verdict"], way["auth"], way["key_id"]) == ("accepted", "hmac+ed25519", "00000001")
    assert bytes.fromhex(way["raw"]["frame"]) == packet
    assert way["event"]["subject"] == "traced.event"
    assert way["key"] == f"{device.node}:{packet[1:5].hex()}"
    (sent,) = way["deliveries"]
    assert bytes.fromhex(sent["frame"]) == packet
    assert (sent["outcome"], sent["destination"]) == ("written", f"devices 127.0.0.1:{device.socket.getsockname()[1]}")
    assert way["raw"]["received_at"] <= way["event"]["routed_at"] <= sent["outcome_at"]


def test_it_reads_as_one_line_a_step(mesh: TestMesh, device: Device) -> None:
    device.subscribe("traced.text")
    packet = device.packet("traced.text")
    device.send(packet)
    assert device.receive() == packet
    (event_id,) = places(mesh, packet)
    settled(mesh, event_id)
    text = mesh.command("trace", event_id).stdout
    steps = [line[28:40].strip() for line in text.splitlines()]
    assert [step for step in steps if step] == ["received", "logged", "accepted", "key", "sent", "written"]


def test_a_repeat_names_the_event_it_repeats(mesh: TestMesh, device: Device) -> None:
    device.subscribe("traced.twice")
    packet = device.packet("traced.twice")
    device.send(packet)
    assert device.receive() == packet
    device.send(packet)
    first, second = places(mesh, packet, 2)
    way = traced(mesh, second)
    assert (way["verdict"], way["repeats"], way["deliveries"]) == ("duplicate", first, [])


def test_a_refused_frame_has_its_reason(mesh: TestMesh) -> None:
    stranger = Device(mesh.ports["devices"])
    packet = stranger.packet("traced.stranger")
    stranger.send(packet)
    (event_id,) = places(mesh, packet)
    stranger.close()
    wait_until(lambda: traced(mesh, event_id)["verdict"] == "rejected", "its refusal")
    (refusal,) = traced(mesh, event_id)["rejected"]
    assert (refusal["reason"], refusal["stage"]) == ("unknown_key", "decode")


def test_a_request_is_followed_to_its_server(mesh: TestMesh) -> None:
    async def serve(asked: IncomingRequest) -> Answer:
        return Answer(Kind.RESPONSE, b"42", "application/json")

    async def ask() -> None:
        async with (
            connect("hsp", "127.0.0.1", mesh.ports["hsp"]) as server,
            connect("yamp", "127.0.0.1", mesh.ports["yamp"]) as client,
        ):
            await server.serve("Traced.sum", serve)
            await client.request("Traced.sum", b"[1,2]", "application/json")

    with following(mesh, "events") as find:
        asyncio.run(ask())
        request = find(
            lambda one: header(one, "ce_subject") == "Traced.sum" and header(one, "ce_type").endswith("request")
        )
    way = settled(mesh, header(request, "ce_id"))
    (sent,) = way["deliveries"]
    assert (sent["kind"], sent["protocol"], sent["outcome"]) == ("request", "hsp", "confirmed")
    assert sent["node"].startswith("anon:edge-0:")


@pytest.mark.parametrize(
    ("event_id", "why"),
    [
        ("0-99999999-0", "the raw log has not come so far"),
        ("9-0-0", "the raw log has no partition 9"),
        ("0-0-9999", "its raw record holds"),
    ],
)
def test_what_is_not_there_is_told_in_one_line(mesh: TestMesh, event_id: str, why: str) -> None:
    run = mesh.command("trace", event_id)
    assert run.returncode == 1
    assert run.stderr.startswith(f"meshgate: {event_id}: ")
    assert why in run.stderr
