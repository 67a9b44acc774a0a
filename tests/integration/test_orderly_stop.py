"""A mesh that is stopped in order repeats nothing when it begins again, and its log tells of no fault."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from gateway.config import load
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh
from tests.integration.topic import every_record, header

PACKETS = 20


def publish(mesh: TestMesh, device: Device) -> None:
    """Publishes good packets, which the device gets back, and a bad one after each."""
    device.subscribe("stop.>")
    for number in range(PACKETS):
        packet = device.packet("stop.event", str(number))
        device.send(packet)
        device.send(packet[:-1])
        assert device.receive() == packet


def test_nothing_stands_twice_in_a_topic_however_often_the_mesh_was_stopped(tmp_path: Path) -> None:
    mesh = TestMesh(tmp_path / "mesh", {"kafka": {"partitions": 2}})
    mesh.configure([{"name": "devices", "protocol": "emm", "scheme": "udp"}])
    mesh.start()
    device = Device(mesh.ports["devices"]).trusted_by(mesh)
    try:
        for _ in range(2):
            publish(mesh, device)
            assert mesh.stop() == 0
            mesh.start()
        publish(mesh, device)
        config = load(mesh.config_file)
        events = Counter(header(record, "ce_id") for record in every_record(config, "events"))
        refused = Counter(header(record, "event_id") for record in every_record(config, "rejected"))
    finally:
        device.socket.close()
        mesh.stop()
    assert len(events) >= 3 * PACKETS
    assert len(refused) >= 3 * PACKETS
    assert {*events.values(), *refused.values()} == {1}
    logs = mesh.logs()
    assert "Traceback" not in logs
    assert "\tat org.apache" not in logs
