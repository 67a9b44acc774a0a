"""The raw log decoded again: what would be decided otherwise, and what nobody has got, sent once."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.protocols.hsp import codec
from gateway.protocols.hsp.frames import Command, Frame
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until
from tests.integration.raw_frames import places
from tests.integration.topic import following, header

SECONDS = 240
PATTERN = "replayed.>"
TEMPERATURE = 17
"""The type that the mesh's hsp listener reads as `temp.high`."""


@pytest.fixture
def began() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 1))


@pytest.fixture
def subscriber(mesh: TestMesh) -> Iterator[Device]:
    with closing(Device(mesh.ports["devices"]).trusted_by(mesh)) as one:
        one.subscribe(PATTERN)
        yield one


def replayed(mesh: TestMesh, *arguments: str) -> dict[str, Any]:
    run = mesh.command("replay", *arguments, "--output", "json", seconds=SECONDS)
    assert run.returncode == 0, run.stderr
    said: dict[str, Any] = json.loads(run.stdout)
    return said


def test_what_was_refused_for_a_missing_key_is_delivered_once_and_what_was_delivered_is_not(
    mesh: TestMesh, subscriber: Device, stranger: Device, began: str
) -> None:
    """Each replay may take as long as a lease lasts; so the subscriber says hello again before what it waits for."""
    delivered = subscriber.packet("replayed.first")
    subscriber.send(delivered)
    assert subscriber.receive() == delivered
    packet = stranger.packet("replayed.refused")
    for _ in range(2):
        stranger.send(packet)
    first, second = places(mesh, packet, 2)
    wait_until(lambda: mesh.command("rejected", "show", second).returncode == 0, "both refusals")
    stranger.trusted_by(mesh)

    planned = replayed(mesh, "--from", began, "--dry-run")
    assert (planned["sent"], [one["event_id"] for one in planned["sends"]]) == (0, [first])
    assert {(one["event_id"], one["then"], one["today"]) for one in planned["changes"]} == {
        (name, "rejected (unknown_key)", "event") for name in (first, second)
    }
    assert subscriber.receive(0.5) is None

    subscriber.subscribe(PATTERN)
    with following(mesh, "events") as find:
        assert replayed(mesh, "--from", began)["sent"] == 1
        event = find(lambda one: header(one, "ce_id") == first)
    assert header(event, "ce_subject") == "replayed.refused"
    assert subscriber.receive() == packet
    run = mesh.command("trace", first, "--output", "json")
    assert run.returncode == 0, run.stderr
    way = json.loads(run.stdout)
    (again,) = way["put_in_again"]
    assert [refusal["reason"] for refusal in way["rejected"]] == ["unknown_key"]
    assert (again["verdict"], again["raw"]["put_in_again_at"] is None) == ("accepted", False)
    assert bytes.fromhex(again["deliveries"][0]["frame"]) == packet

    assert replayed(mesh, "--from", began)["sent"] == 0
    subscriber.subscribe(PATTERN)
    last = stranger.packet("replayed.last")
    stranger.send(last)
    assert subscriber.receive() == last


def test_a_diff_shows_which_fields_a_changed_configuration_reads_differently(
    mesh: TestMesh, began: str, tmp_path: Path
) -> None:
    with (
        following(mesh, "events") as find,
        socket.create_connection(("127.0.0.1", mesh.ports["hsp"])) as peer,
    ):
        peer.sendall(codec.encode(Frame(Command.DATA, 0, TEMPERATURE, b"31")))
        event_id = header(find(lambda one: header(one, "ce_subject") == "temp.high"), "ce_id")
    said = yaml.safe_load(mesh.config_file.read_text())
    for listener in said["listeners"]:
        if listener["name"] == "hsp":
            listener["types"] = {TEMPERATURE: "temp.low"}
    other = tmp_path / "meshgate.yaml"
    other.write_text(yaml.safe_dump({**said, "trust": str(mesh.keys_file)}))
    found = replayed(TestMesh(tmp_path, {}, mesh.ports), "--from", began, "--diff")
    change = next(one for one in found["changes"] if one["event_id"] == event_id)
    assert change["fields"] == ["subject"]
    assert change["then"].startswith("event temp.high")
    assert change["today"].startswith("event temp.low")
    assert found["sent"] == 0
