"""A mesh in the background: started, looked at, checked, and ended from other commands."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gateway.cli.console import timestamp
from gateway.cli.missed import count_between
from gateway.config import load
from gateway.local.mesh_record import MeshRecord
from tests.integration.mesh import TestMesh

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def background(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestMesh]:
    """A mesh that `up --detach` has started; it is ended here, whatever became of the tests."""
    mesh = TestMesh(tmp_path_factory.mktemp("background") / "mesh")
    streams: list[dict[str, object]] = [
        {"name": protocol, "protocol": protocol} for protocol in ("hsp", "emp", "yamp", "wolpertinger")
    ]
    mesh.configure([{"name": "devices", "protocol": "emm", "scheme": "udp"}, *streams])
    up = mesh.command("up", "--detach", seconds=400)
    try:
        assert up.returncode == 0, up.stdout + up.stderr
        assert "\nready  devices udp://127.0.0.1:" in up.stdout
        yield mesh
    finally:
        down = mesh.command("down", seconds=200)
    assert (down.returncode, down.stdout) == (0, f"stopped; state stays in {mesh.folder}\n")
    assert MeshRecord.read(mesh.folder / "state" / "running.json") is None
    assert mesh.command("status").returncode == 1
    assert "stopped" in mesh.command("logs", "up").stdout


def test_it_is_ready_and_says_so(background: TestMesh) -> None:
    status = background.command("status", "--output", "json")
    assert status.returncode == 0, status.stdout
    parts = {part["part"]: part["state"] for part in json.loads(status.stdout)["parts"]}
    assert parts == {"kafka": "ready", "router": "ready", "edge": "ready"}
    assert "first event" in background.command("logs", "up").stdout


def test_its_demo_fills_it_with_events_of_every_protocol_and_nothing_is_lost(background: TestMesh) -> None:
    began = time.time()
    demo = background.command("demo", "--seconds", "3", "--rate", "10", "--devices", "2", "--json")
    assert demo.returncode == 0, demo.stdout + demo.stderr
    told = json.loads(demo.stdout)
    assert told["sent"] == told["received"] == {"emm": 60, "hsp": 30, "emp": 30, "wolpertinger": 30}
    assert told["requests"]["answered"] > 0
    assert "garden sensor" in background.command("keys", "list").stdout
    counted = count_between(load(background.config_file), ["demo.garden.>", "demo.pump.*"], began, time.time())
    assert counted == 60
    (row,) = tapped(background, began, "demo.garden.temperature")
    trace = background.command("trace", "--node", row["node"], "--message-id", row["message_id"].upper(), "--json")
    assert json.loads(trace.stdout)["event"]["subject"] == "demo.garden.temperature", trace.stderr


def test_a_packet_that_was_refused_is_found_by_what_its_sender_knows(background: TestMesh) -> None:
    began = time.time()
    stranger = '{"node": "9a1f4c3e-1111-4222-8333-0000000000aa", "key_id": "00000001", "hmac": "' + "ab" * 32 + '"}'
    pub = background.command("pub", "demo.stranger", "1", "--via", "emm", "--key", stranger)
    assert pub.returncode == 0, pub.stderr
    tap = background.command("tap", "--at", "rejected", "--from", timestamp(began), "-n", "1", "--json")
    row = json.loads(tap.stdout)
    message_id = base64.b64decode(row["base64"])[1:5].hex()
    trace = background.command("trace", "--node", row["node"], "--message-id", message_id, "--json")
    assert trace.returncode == 0, trace.stderr
    assert [refusal["reason"] for refusal in json.loads(trace.stdout)["rejected"]] == [row["reason"]]


def tapped(mesh: TestMesh, since: float, subject: str) -> list[dict[str, Any]]:
    """The first event of a subject since a time."""
    tap = mesh.command("tap", "--from", timestamp(since), "--subject", subject, "-n", "1", "--json")
    return [json.loads(line) for line in tap.stdout.splitlines()]


def test_the_doctor_finds_nothing_broken_and_its_probes_come_back(background: TestMesh) -> None:
    check = background.command("check", "--watch", "-n", "2", "--interval", "0", "--json")
    report, *probes = map(json.loads, check.stdout.splitlines())
    assert check.returncode == 0, check.stdout
    assert report["status"] != "fail", report
    levels = {finding["check"]: finding["level"] for finding in report["findings"]}
    for name in ("kafka brokers", "kafka topics", "kafka copies", "kafka settings", "kafka clock"):
        assert levels[name] == "ok", report
    assert [(probe["check"], probe["level"]) for probe in probes] == [("path probe", "ok")] * 2
