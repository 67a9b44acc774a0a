"""A signed packet that is recorded and sent again: at once, by another way, and to a router that began anew."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

from gateway.core.ids import event_id
from gateway.protocols.emm import codec
from gateway.protocols.emm.frames import FieldType
from gateway.records.raw_log.container import decode_record
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until
from tests.integration.topic import following

ROUTER_SECONDS = 60.0
"""For it to be started again and to take up its checkpoint."""

PROOFS = frozenset({FieldType.HMAC, FieldType.SIGNATURE, FieldType.PUBLIC_KEY, FieldType.AUTH_KEY_ID})


def sends_again(device: Device, packet: bytes, *ports: int) -> None:
    """Sends to each of these listeners, from anywhere."""
    for port in ports:
        device.socket.sendto(packet, ("127.0.0.1", port))


def kill_router(mesh: TestMesh) -> None:
    killed = mesh.pid_of("router")
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: mesh.pid_of("router") != killed, "the router was started again", ROUTER_SECONDS)


def event_ids(find: Callable[..., Any], packet: bytes, count: int) -> list[str]:
    """Returns the frames in the raw log that are this packet, in the log's order; there must be so many."""
    found: dict[str, None] = {}

    def holds(record: Any) -> bool:
        frames = decode_record(record.value).frames
        for index, frame in enumerate(frames):
            if frame.data == packet:
                found[event_id(record.partition, record.offset, index)] = None
        return len(found) >= count

    find(holds)
    return list(found)


def test_a_packet_is_delivered_once_however_often_it_comes_and_whoever_is_killed_between(
    mesh: TestMesh, device: Device
) -> None:
    device.subscribe("repeats.>")
    everywhere = (mesh.ports["devices"], mesh.ports["open"])
    with following(mesh, "raw") as find:
        packet = device.packet("repeats.recorded", "unlock the door")
        device.send(packet)
        assert device.receive() == packet
        sends_again(device, packet, *everywhere)

        kill_router(mesh)
        sends_again(device, packet, *everywhere)
        first, *repeats = event_ids(find, packet, 5)
    # One node's packets keep the order of the log: when this one is here the repeats have had their chance.
    fresh = device.packet("repeats.fresh")
    device.send(fresh)
    assert device.receive(ROUTER_SECONDS) == fresh
    for repeat in (repeats[0], repeats[-1]):
        told = mesh.command("trace", repeat, "--output", "json")
        assert told.returncode == 0, told.stderr
        way = json.loads(told.stdout)
        assert (way["verdict"], way["repeats"]) == ("duplicate", first)


def test_an_id_is_not_burnt_by_who_cannot_sign_for_it(mesh: TestMesh, device: Device) -> None:
    """The same NODE ID and Message ID, unsigned, where that is let in: before the node itself has used the id."""
    device.subscribe("burnt.>")
    packet = device.packet("burnt.signed", "the node's own")
    device.socket.sendto(unsigned(packet), ("127.0.0.1", mesh.ports["open"]))
    assert device.receive() is not None
    device.send(packet)
    assert device.receive() == packet


def unsigned(packet: bytes) -> bytes:
    """Returns the packet with everything in it except the proof of its sender."""
    signed = codec.decode(packet)
    claims = tuple(field for field in signed.fields if field.type not in PROOFS)
    return codec.encode(codec.Draft(signed.header.message_id, signed.header.timestamp, claims))
