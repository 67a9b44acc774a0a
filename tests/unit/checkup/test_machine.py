"""Tests what this machine grants: memory, ports."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gateway.checkup.findings import Level
from gateway.checkup.machine import check_machine
from gateway.core.address import HostPort
from gateway.local.memory import MIB, available_memory
from gateway.local.preflight import why_not_bound
from tests.unit.config.reading import read

MEMINFO = "MemTotal:       8000 kB\nMemAvailable:   4096 kB\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with 4 MiB available, without a control group's limit."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(MEMINFO)
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    return tmp_path


def with_group(root: Path, limit: str, used: int, cached: int) -> Path:
    group = root / "sys/fs/cgroup"
    (group / "memory.max").write_text(f"{limit}\n")
    (group / "memory.current").write_text(f"{used}\n")
    (group / "memory.stat").write_text(f"anon 1\ninactive_file {cached}\n")
    return root


def test_memory_is_the_machines_where_no_group_limits_it(root: Path) -> None:
    assert available_memory(root) == 4 * MIB
    assert available_memory(with_group(root, "max", 0, 0)) == 4 * MIB


def test_memory_is_what_the_group_has_left_and_its_cache_counts_as_free(root: Path) -> None:
    assert available_memory(with_group(root, str(3 * MIB), 2 * MIB, 1 * MIB)) == 2 * MIB


def test_a_port_that_somebody_has_is_not_free_and_a_port_nobody_has_is() -> None:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as taken:
            taken.bind(("127.0.0.1", 0))
            if kind is socket.SOCK_STREAM:
                taken.listen()
            address = HostPort("127.0.0.1", taken.getsockname()[1])
            assert why_not_bound(address, kind) == "in use by another process"
        assert why_not_bound(address, kind) is None


def test_an_address_of_another_machine_is_told() -> None:
    assert why_not_bound(HostPort("192.0.2.1", 5050), socket.SOCK_DGRAM) == "this machine has no such address"


def test_ports_are_taken_by_others_before_the_start_and_by_the_mesh_while_it_runs(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        listener = f"{{name: apps, protocol: yamp, listen: '{listen}'}}"
        text = f"{{mesh: demo, kafka: {{bootstrap: 'a:1'}}, listeners: [{listener}]}}"
        config = read(text, path=tmp_path / "meshgate.yaml")
        before = {finding.check: finding for finding in check_machine(config, is_running=False)}
        meanwhile = {finding.check: finding for finding in check_machine(config, is_running=True)}
    assert before["machine ports"].level is Level.FAIL
    assert "listeners.apps 127.0.0.1" in before["machine ports"].text
    assert meanwhile["machine ports"].level is Level.OK
