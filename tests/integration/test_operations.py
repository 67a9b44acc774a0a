"""Tests what k8s/OPERATE.md says of growing the raw topic and of a lost checkpoint, done to a mesh of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import yaml

from tests.integration.emm_peer import Device
from tests.integration.mesh import TestMesh, running_mesh
from tests.integration.processes import stopped
from tests.integration.topic import following, header

DEVICES = 8  # that none of them moves to a new partition when two become four: 1 in 256


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestMesh]:
    folder = tmp_path_factory.mktemp("operated")
    with running_mesh(folder, [{"name": "devices", "protocol": "emm", "scheme": "udp"}]) as running:
        yield running


def grown(mesh: TestMesh, path: Path) -> None:
    """The same configuration with four partitions, beside the one that runs; and the topics made to fit it."""
    config = yaml.safe_load(mesh.config_file.read_text())
    config["kafka"]["partitions"] = 4
    path.write_text(yaml.safe_dump(config))
    line = [sys.executable, "-m", "gateway.cli", "topics", "grow", "-c", str(path)]
    run = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr


def kill_router_and_stop(mesh: TestMesh) -> None:
    """Stops a mesh whose router was killed, and not started again."""
    assert mesh.process is not None
    with stopped(mesh.process.pid):
        os.kill(mesh.pid_of("router"), signal.SIGKILL)
        mesh.process.send_signal(signal.SIGTERM)
    assert mesh.stop() == 0


def test_nodes_that_move_to_new_partitions_lose_nothing_and_repeat_nothing(mesh: TestMesh, tmp_path: Path) -> None:
    with ExitStack() as stack:
        *devices, subscriber = (  # last, so that whoever knows it knows all
            stack.enter_context(closing(Device(mesh.ports["devices"]).trusted_by(mesh))) for _ in range(DEVICES + 1)
        )
        subscriber.subscribe("grown.>")
        before = [device.packet("grown.before") for device in devices]
        for device, packet in zip(devices, before, strict=True):
            device.send(packet)
        assert {subscriber.receive() for _ in before} == set(before)

        new = mesh.folder / "new.yaml"
        grown(mesh, new)
        meanwhile = devices[0].packet("grown.meanwhile")
        devices[0].send(meanwhile)
        assert subscriber.receive() == meanwhile  # those that run do not mind

        kill_router_and_stop(mesh)  # with a batch that was not committed
        mesh.config_file.write_text(new.read_text())
        mesh.start()
        subscriber.subscribe("grown.>")
        with following(mesh, "events") as find:
            after = [device.packet("grown.after") for device in devices]
            for device, old, fresh in zip(devices, before, after, strict=True):
                device.send(old)  # a repeat, within the window, and perhaps in another partition than the first
                device.send(fresh)
            assert {subscriber.receive() for _ in after} == set(after)
            ids = {
                header(find(lambda one, node=device.node: named(one, "grown.after", node)), "ce_id")
                for device in devices
            }
        assert {event_id.partition("-")[0] for event_id in ids} & {"2", "3"}
        assert subscriber.receive(seconds=2) is None


def test_a_router_without_its_checkpoint_reads_all_again_and_repeats_nothing(mesh: TestMesh, device: Device) -> None:
    device.subscribe("lost.>")
    before = device.packet("lost.before")
    device.send(before)
    assert device.receive() == before

    assert mesh.stop() == 0
    shutil.rmtree(mesh.folder / "state" / "router")
    mesh.start()
    device.subscribe("lost.>")
    device.send(before)  # a repeat within the window: known again, since the log was read again
    after = device.packet("lost.after")
    device.send(after)
    assert device.receive() == after
    assert device.receive(seconds=2) is None


def named(record: object, subject: str, node: str) -> bool:
    return header(record, "ce_subject") == subject and header(record, "ce_source").endswith(node)
