"""Tests who is connected and who wants what, as an operator asks a running mesh."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.integration.edges import more_edges
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until
from tests.integration.verbs import line_of, note_of, running_verb

PATTERN = "looked.at.>"


def asked(mesh: TestMesh, *arguments: str) -> Any:
    done = mesh.command(*arguments, "--output", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_subscriber_is_found_shown_and_kicked(mesh: TestMesh) -> None:
    with running_verb(mesh, "sub", PATTERN) as subscriber:
        assert note_of(subscriber).startswith(f"subscribed to {PATTERN}")
        wishes = asked(mesh, "interests", "list", "--subject", "looked.at.it")
        [wish] = [one for one in wishes if one["pattern"] == PATTERN]
        assert (wish["verb"], wish["protocol"], wish["listener"]) == ("subscribe", "yamp", "yamp")

        session = wish["subscriber"]
        assert session in [one["session"] for one in asked(mesh, "peers", "list", "--protocol", "yamp")]
        assert asked(mesh, "peers", "show", session)["node"] == wish["node"]

        graph = asked(mesh, "graph", "--peers", "1000")
        box = next(node for node in graph["nodes"] if node["id"] == session)
        assert f"wants {PATTERN}" in box["lines"]
        assert all(node["up"] for node in graph["nodes"])

        done = mesh.command("peers", "kick", session)
        assert done.stdout.startswith(f"kicked {session} (yamp 127.0.0.1:")
        assert subscriber.wait(timeout=60) != 0
    wait_until(lambda: not asked(mesh, "interests", "list", "--subscriber", session), "its interest is gone with it")
    assert mesh.command("peers", "show", session).returncode == 1


def test_what_a_hello_has_leased_is_listed_with_its_end(mesh: TestMesh, device: Device) -> None:
    device.subscribe("leased.by.a.hello")
    [lease] = asked(mesh, "interests", "list", "--node", device.node)
    assert (lease["subscriber"], lease["pattern"]) == (f"emm:{device.node}", "leased.by.a.hello")
    assert lease["expires"]
    graph = mesh.command("graph", "--format", "mermaid").stdout
    assert f"emm:{device.node}" in graph


def test_top_shows_the_rates_of_each_stage_and_the_busiest_subjects(mesh: TestMesh, device: Device) -> None:
    device.subscribe("top.>")
    with running_verb(mesh, "top", "--interval", "0.5", "--output", "json") as top:
        for _ in range(60):
            for _ in range(5):
                device.send(device.packet("top.subject"))
            said = json.loads(line_of(top))
            if any(one["subject"] == "top.subject" for one in said["subjects"]):
                break
        else:
            pytest.fail(f"the subject that is sent is not among {said['subjects']}")
    assert said["missing"] == {}
    assert set(said["stages"]) >= {"received", "logged", "decoded", "events", "routed", "delivered"}
    assert said["stages"]["delivered"]["total"] > 0
    assert {one["listener"] for one in said["listeners"]} >= {"devices", "yamp", "web"}
    assert said["lag"]["raw_records"] is not None


def test_top_once_fits_a_terminal(mesh: TestMesh) -> None:
    done = mesh.command("top", "--once", "--interval", "0.5")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("meshgate top  test  ")
    assert max(map(len, lines)) <= 80


TAPS = {
    "events": ("--subject", "tapped.*", "--node", "{node}"),
    "raw": ("--protocol", "emm", "--node", "{node}"),
    "egress": ("--subject", "tapped.>"),
}


@pytest.mark.parametrize("at", TAPS)
def test_a_tap_shows_what_passes_and_was_chosen(mesh: TestMesh, device: Device, at: str) -> None:
    device.subscribe("tapped.>")
    chosen = (word.format(node=device.node) for word in TAPS[at])
    with running_verb(mesh, "tap", "--at", at, "--output", "json", *chosen) as tap:
        assert note_of(tap) == f"tapping test.{at}\n"
        packet = device.packet("tapped.here", "body")
        device.send(packet)
        wanted = b"body" if at == "events" else packet
        while base64.b64decode(json.loads(line_of(tap))["base64"]) != wanted:
            pass  # a hello that was sent more than once


def test_a_tap_of_refusals_shows_the_reason_that_was_chosen(mesh: TestMesh, device: Device) -> None:
    with running_verb(
        mesh, "tap", "--at", "rejected", "--reason", "unsupported_version", "--format", "json", "-n", "1"
    ) as tap:
        assert note_of(tap) == "tapping test.rejected\n"
        device.send(b"\x09 tapped, and as long as a packet")
        said = json.loads(line_of(tap))
        assert tap.wait(timeout=60) == 0
    assert (said["reason"], said["text"]) == ("unsupported_version", "\t tapped, and as long as a packet")


def test_two_edges_are_looked_at_together_and_one_may_die_and_come_back(mesh: TestMesh) -> None:
    with more_edges(mesh, "edge-3") as (other,):
        addresses = [f"127.0.0.1:{ports['edge']}" for ports in (mesh.ports, other.ports)]
        named = [word for address in addresses for word in ("--edge", address)]
        with (
            running_verb(mesh, "sub", "of.two.edges", "--to", f"127.0.0.1:{other.ports['yamp']}") as subscriber,
            running_verb(mesh, "top", "--interval", "0.3", "--output", "json", *named) as top,
        ):
            assert note_of(subscriber).startswith("subscribed")
            assert {one["edge"] for one in asked(mesh, "peers", "list", *named)} >= {"edge-3"}
            assert {node["within"] for node in asked(mesh, "graph", *named)["nodes"]} >= {"edge-0", "edge-3"}
            said = json.loads(line_of(top))
            assert {one["edge"] for one in said["listeners"]} == {"edge-0", "edge-3"}
            other.kill()
            wait_until(lambda: addresses[1] in str(json.loads(line_of(top))["missing"]), "the edge that died is told")
            other.start()
            wait_until(lambda: json.loads(line_of(top))["missing"] == {}, "the edge is back", 90)
            other.wait()
