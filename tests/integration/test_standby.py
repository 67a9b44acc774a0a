"""A standby takes over from a router that is ended or killed: nothing is lost or comes twice, and all is in order.

From one that is ended it takes over lanes that it has begun before, and nothing stands twice in a topic.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from gateway.config import load
from streaming_jobs.router_job.lock import ROUTES
from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, wait_until
from tests.integration.topic import every_record, header

pytestmark = pytest.mark.integration

PACKETS = 60
WARM_SECONDS = 180.0


def active_router(mesh: TestMesh) -> int | None:
    """Returns the process that has the checkpoint's lock, if one has it."""
    number = (Path(load(mesh.config_file).router.checkpoint) / ROUTES).stat().st_ino
    locks = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    held = (int(fields[4]) for fields in locks if fields[1] == "FLOCK" and fields[5].endswith(f":{number}"))
    return next(held, None)


def publish_across(mesh: TestMesh, device: Device, number: signal.Signals) -> None:
    """Signals the router that routes in the midst of packets, of which some are sent while none routes."""
    packets = [device.packet("hand.over", str(count)) for count in range(PACKETS)]
    before = active_router(mesh)
    assert before is not None
    for sent, packet in enumerate(packets):
        device.send(packet)
        if sent == PACKETS // 3:
            os.kill(before, number)
        if sent == PACKETS * 2 // 3:
            wait_until(lambda: active_router(mesh) not in (before, None), "the standby has taken over", WARM_SECONDS)
    assert [device.receive(WARM_SECONDS) for _ in packets] == packets


def test_a_standby_goes_on_where_the_other_router_ended(tmp_path: Path) -> None:
    mesh = TestMesh(tmp_path / "mesh", {"kafka": {"partitions": 2}, "router": {"standby": True}})
    mesh.configure([{"name": "devices", "protocol": "emm", "scheme": "udp"}])
    mesh.start()
    device = Device(mesh.ports["devices"]).trusted_by(mesh)
    try:
        device.subscribe("hand.>")
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            wait_until(mesh.has_warm_standby, "the other router is warm", WARM_SECONDS)
            publish_across(mesh, device, number)
            if number == signal.SIGTERM:
                events = Counter(header(record, "ce_id") for record in every_record(load(mesh.config_file), "events"))
                assert set(events.values()) == {1}
        assert device.receive(3.0) is None
    finally:
        device.close()
        mesh.stop()
    assert "Traceback" not in mesh.logs()
    assert mesh.logs().count("the lanes were begun early, and go on") == 2
