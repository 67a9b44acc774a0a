"""Tests where the embedded broker listens, and what its own tools say when they fail."""

from __future__ import annotations

import contextlib
import socket
import uuid
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.config import Config
from gateway.core.address import LOOPBACK, HostPort
from gateway.core.errors import SetupError
from gateway.local.broker import Broker, _cluster_id
from gateway.local.java import Java
from tests.unit.config.reading import read

LISTEN = HostPort("127.0.0.1", 1)


@contextlib.contextmanager
def some_port() -> Iterator[int]:
    """One that is held for as long; room for a mesh above it."""
    while True:
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            held.listen()
            if (port := held.getsockname()[1]) < 60_000:
                yield port
                return


def numbered(first: int) -> Config:
    """A mesh whose ports follow each other."""
    return read(f"""
mesh: demo
kafka: {{listen: "127.0.0.1:{first}"}}
edge: {{management: "127.0.0.1:{first + 1}"}}
router: {{management: "127.0.0.1:{first + 2}"}}
listeners: [{{name: apps, protocol: yamp, listen: "tcp://127.0.0.1:{first + 3}"}}]
peers: [{{name: plant, protocol: emp, connect: "tcp://127.0.0.1:{first + 4}"}}]
""")


def test_its_controller_keeps_off_every_port_that_the_configuration_names() -> None:
    with some_port() as port:
        assert Broker.of(numbered(port)).controller_port > port + 4


def test_its_controller_keeps_off_a_port_that_somebody_has() -> None:
    with some_port() as port:
        assert Broker.of(read(f"{{mesh: demo, kafka: {{listen: '127.0.0.1:{port - 1}'}}}}")).controller_port > port


def test_where_no_port_is_left_above_it_that_is_told() -> None:
    config = read("{mesh: demo, kafka: {listen: '127.0.0.1:65535'}}")
    with pytest.raises(SetupError) as failed:
        Broker.of(config)
    assert str(failed.value) == "kafka.listen: 127.0.0.1:65535 has no free port above it, which the broker needs too"


@pytest.mark.parametrize(
    ("listen", "advertised"),
    [
        *((every, str(HostPort(own, 1))) for every, own in LOOPBACK.items()),
        ("10.0.0.1", "10.0.0.1:1"),
        ("::1", "[::1]:1"),
    ],
)
def test_it_tells_clients_an_address_that_they_can_reach(tmp_path: Path, listen: str, advertised: str) -> None:
    properties = Broker(HostPort(listen, 1), 2, tmp_path)._write_properties().read_text().splitlines()
    assert f"listeners=PLAINTEXT://{HostPort(listen, 1)},CONTROLLER://127.0.0.1:2" in properties
    assert f"advertised.listeners=PLAINTEXT://{advertised}" in properties


def test_its_process_is_found_by_the_verb_that_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.local.broker.ensure_jars", lambda _name: [])
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").touch()
    assert "meshgate kafka" in " ".join(Broker(LISTEN, 2, tmp_path).command(Java("java", 21, "test")))


TRACE = r"printf 'Exception: why\n\tat kafka.tools.StorageTool.main(StorageTool.scala)\n\t... 2 more\n' >&2"


@pytest.mark.parametrize(
    ("said", "told"), [("echo first >&2; echo why >&2", "why"), (TRACE, "Exception: why"), ("true", "")]
)
def test_a_storage_that_cannot_be_formatted_is_told_with_the_last_line_of_why(
    tmp_path: Path, said: str, told: str
) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\n{said}\nexit 1\n")
    java.chmod(0o755)
    broker = Broker(LISTEN, 2, tmp_path)
    with pytest.raises(SetupError) as failed:
        broker._format(Java(str(java), 21, "test"), "", tmp_path / "server.properties")
    assert str(failed.value) == f"the broker could not format {tmp_path / 'data'}: {told}"


def test_no_id_of_a_cluster_begins_as_an_option_does(monkeypatch: pytest.MonkeyPatch) -> None:
    dashed, plain = (uuid.UUID(bytes=bytes([first]) + bytes(15)) for first in (0xF8, 0xF4))
    ids = iter([dashed, dashed, plain])
    monkeypatch.setattr(uuid, "uuid4", lambda: next(ids))
    assert urlsafe_b64decode(_cluster_id() + "==") == plain.bytes
