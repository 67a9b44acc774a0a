"""A mesh in the background: started, looked at, and ended from other commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.embedded.record import MeshRecord
from tests.integration.mesh import TestMesh

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def test_a_mesh_in_the_background_is_ready_told_of_and_ended(tmp_path: Path) -> None:
    mesh = TestMesh(tmp_path / "mesh")
    mesh.configure([{"name": "devices", "protocol": "emm", "scheme": "udp"}])
    up = mesh.command("up", "--detach", seconds=400)
    try:
        assert up.returncode == 0, up.stderr
        assert "\nready  devices udp://127.0.0.1:" in up.stdout
        status = mesh.command("status", "--output", "json")
        assert status.returncode == 0, status.stdout
        parts = {part["part"]: part["state"] for part in json.loads(status.stdout)["parts"]}
        assert parts == {"kafka": "ready", "router": "ready", "edge": "ready"}
        assert "first event" in mesh.command("logs", "up").stdout
    finally:
        down = mesh.command("down", seconds=200)
    assert (down.returncode, down.stdout) == (0, f"stopped; state stays in {mesh.folder}\n")
    assert MeshRecord.read(mesh.folder / "state" / "running.json") is None
    assert mesh.command("status").returncode == 1
    assert "stopped" in mesh.command("logs", "up").stdout
