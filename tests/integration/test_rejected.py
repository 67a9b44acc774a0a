"""Refused frames, looked at and sent through again."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from gateway.client import StreamClient, connect
from gateway.core.event import Event
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until
from tests.integration.raw_frames import places


def told(mesh: TestMesh, verb: str, *arguments: str) -> list[dict[str, Any]]:
    run = mesh.command("rejected", verb, *arguments, "--output", "json")
    assert run.returncode == 0, run.stderr
    rows: list[dict[str, Any]] = json.loads(run.stdout)
    return rows


def refused(mesh: TestMesh, packet: bytes) -> str:
    """The event id of a packet, once its refusal has been told."""
    (event_id,) = places(mesh, packet)
    wait_until(lambda: told(mesh, "list", "--event-id", event_id), f"a refusal of {event_id}")
    return event_id


def test_a_refused_frame_is_listed_with_its_reason_and_shown_with_its_bytes(mesh: TestMesh, stranger: Device) -> None:
    packet = stranger.packet("refused.listed")
    stranger.send(packet)
    event_id = refused(mesh, packet)
    (row,) = told(mesh, "list", "--event-id", event_id, "--reason", "unknown_key", "--stage", "decode")
    assert (row["protocol"], row["listener"], row["bytes"]) == ("emm", "devices", len(packet))
    assert told(mesh, "list", "--event-id", event_id, "--reason", "stale") == []
    (shown,) = told(mesh, "show", event_id)
    assert bytes.fromhex(shown["frame"]) == packet


def test_the_newest_come_first_and_only_so_many(mesh: TestMesh, stranger: Device) -> None:
    for number in range(3):
        stranger.send(stranger.packet(f"refused.{number}"))
    last = stranger.packet("refused.last")
    stranger.send(last)
    event_id = refused(mesh, last)
    rows = told(mesh, "list", "--protocol", "emm", "--limit", "2")
    assert len(rows) == 2
    assert event_id in {row["event_id"] for row in rows}
    assert rows[0]["at"] >= rows[1]["at"]


def test_what_was_not_refused_cannot_be_shown(mesh: TestMesh) -> None:
    run = mesh.command("rejected", "show", "0-0-0")
    assert run.returncode == 1
    assert run.stderr == "meshgate: 0-0-0 was not refused, or that is no longer kept\n"


def test_sending_everything_again_must_be_said(mesh: TestMesh) -> None:
    run = mesh.command("rejected", "redrive")
    assert run.returncode == 2
    assert "or --all" in run.stderr


def test_once_its_key_is_known_a_refused_packet_is_delivered_as_it_was_and_once(
    mesh: TestMesh, stranger: Device, device: Device
) -> None:
    device.subscribe("redriven.>")
    packet = stranger.packet("redriven.packet")
    stranger.send(packet)
    event_id = refused(mesh, packet)
    (still,) = told(mesh, "redrive", "--event-id", event_id)
    assert still["left_alone"].startswith("it would be refused again: unknown_key")
    stranger.trusted_by(mesh)
    (planned,) = told(mesh, "redrive", "--event-id", event_id, "--dry-run")
    assert (planned["put_in_as"], planned["left_alone"]) == (None, None)
    wait_until(lambda: _delivers(mesh, event_id, device, packet), "the packet that was sent again", 20)
    told(mesh, "redrive", "--event-id", event_id)
    after = stranger.packet("redriven.after")
    stranger.send(after)
    assert device.receive() == after


def _delivers(mesh: TestMesh, event_id: str, device: Device, packet: bytes) -> bool:
    """The router reads the trust store once a second, so the first time may be too early for it."""
    told(mesh, "redrive", "--event-id", event_id)
    return device.receive(3) == packet


def test_what_its_sender_has_repeated_since_is_left_alone(mesh: TestMesh, stranger: Device, device: Device) -> None:
    device.subscribe("repeated.>")
    packet = stranger.packet("repeated.packet")
    stranger.send(packet)
    first = refused(mesh, packet)
    stranger.trusted_by(mesh)

    def heard() -> bool:
        stranger.send(packet)
        return device.receive(1) == packet

    wait_until(heard, "the packet that its sender has repeated")
    (row,) = told(mesh, "redrive", "--event-id", first)
    assert row["left_alone"].startswith("its repeat ")


async def test_what_could_not_be_delivered_goes_to_whoever_has_not_got_it(mesh: TestMesh, device: Device) -> None:
    """Too long for the device's datagram, delivered to one session, and sent again to another that came later."""
    device.subscribe("long.>")
    body = json.dumps(2_000 * "x").encode()
    async with (
        connect("yamp", "127.0.0.1", mesh.ports["yamp"]) as publisher,
        connect("yamp", "127.0.0.1", mesh.ports["yamp"]) as early,
        connect("yamp", "127.0.0.1", mesh.ports["yamp"]) as late,
    ):
        await early.subscribe("long.>")
        await publisher.publish("long.event", body, "application/json")
        got = [await _next(early)]
        await late.subscribe("long.>")
        await asyncio.to_thread(_redrive_long, mesh)
        came = [await _next(late)]
        await publisher.publish("long.end", b"1", "application/json")
        got.append(await _next(early))
        came.append(await _next(late))
    assert [event.subject for event in got] == ["long.event", "long.end"]
    assert [event.subject for event in came] == ["long.event", "long.end"]


def _redrive_long(mesh: TestMesh) -> None:
    def mine() -> list[dict[str, Any]]:
        return [
            row for row in told(mesh, "list", "--stage", "deliver", "--reason", "too_large") if row["bytes"] > 2_000
        ]

    wait_until(mine, "the event that was too long for a datagram")
    (row,) = told(mesh, "redrive", "--event-id", mine()[0]["event_id"])
    assert row["put_in_as"]


async def _next(client: StreamClient) -> Event:
    async with asyncio.timeout(20):
        async for event in client.events():
            return event
    raise AssertionError("the session ended")
