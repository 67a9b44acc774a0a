"""A mesh that cannot come up says so in one line, before anything is started."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gateway.config import Config, load
from gateway.core.errors import SetupError
from gateway.local.memory import MIB
from gateway.local.preflight import START_BYTES, refuse_a_start


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture
def config(tmp_path: Path) -> Config:
    kafka, edge, router, stream, datagrams = free_ports(5)
    (tmp_path / "meshgate.yaml").write_text(
        f"""
mesh: demo
kafka: {{bootstrap: embedded, listen: "127.0.0.1:{kafka}"}}
edge: {{management: "127.0.0.1:{edge}"}}
router: {{management: "127.0.0.1:{router}"}}
listeners:
  - {{name: yamp, protocol: yamp, listen: "tcp://127.0.0.1:{stream}"}}
  - {{name: emm, protocol: emm, listen: "udp://127.0.0.1:{datagrams}"}}
"""
    )
    return load(tmp_path / "meshgate.yaml")


def memory(root: Path, available: int) -> Path:
    (root / "proc").mkdir()
    (root / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {available // 1024} kB\n")
    return root


def test_a_machine_with_free_ports_and_memory_is_taken(config: Config, tmp_path: Path) -> None:
    refuse_a_start(config, memory(tmp_path, START_BYTES))


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ("kafka.listen", socket.SOCK_STREAM),
        ("edge.management", socket.SOCK_STREAM),
        ("router.management", socket.SOCK_STREAM),
        ("listeners.yamp", socket.SOCK_STREAM),
        ("listeners.emm", socket.SOCK_DGRAM),
    ],
)
def test_a_port_that_is_taken_is_named_with_its_setting(
    config: Config, tmp_path: Path, setting: str, kind: socket.SocketKind
) -> None:
    address = {
        "kafka.listen": config.kafka.listen,
        "edge.management": config.edge.management,
        "router.management": config.router.management,
        **{f"listeners.{each.name}": each.address.at for each in config.listeners},
    }[setting]
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind((address.host, address.port))
        if kind is socket.SOCK_STREAM:
            taken.listen()
        with pytest.raises(SetupError) as refused:
            refuse_a_start(config, memory(tmp_path, START_BYTES))
    message = str(refused.value)
    assert message.startswith(f"{setting}: {address} ")
    assert "in use by another process" in message
    assert f"choose another port in {config.path}" in message
    assert "\n" not in message


def test_too_little_memory_is_told_with_what_is_needed(config: Config, tmp_path: Path) -> None:
    with pytest.raises(SetupError) as refused:
        refuse_a_start(config, memory(tmp_path, START_BYTES - MIB))
    assert str(refused.value).startswith("1023 MiB of memory are available, and a whole mesh needs 1024 to start")
