"""The configuration that `init` and `up` write."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest
import yaml

from gateway.config import Config, check_files, load, parse, write_default
from gateway.config.default import default_text
from gateway.protocols import protocols
from tests.unit.config.reading import FILE, NODE


def default() -> Config:
    return parse(default_text("demo", UUID(NODE)), FILE)


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)


@pytest.mark.parametrize(("cores", "partitions"), [(None, 1), (1, 1), (2, 1), (4, 2), (7, 3), (64, 4)])
def test_two_cores_have_one_partition(cores: int | None, partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert default().kafka.partitions == partitions


def test_it_is_good_and_says_nothing_but_the_defaults() -> None:
    config = default()
    bare = parse(f"mesh: demo\nidentity: {{node: {NODE}}}", FILE)
    assert config.model_copy(update={"listeners": (), "permissions": ()}) == bare


def test_every_protocol_listens_on_loopback_at_its_default_port() -> None:
    config = default()
    listening = {(one.protocol, one.address.port) for one in config.listeners if not one.address.is_websocket}
    assert listening == {(name, spec.default_port) for name, spec in protocols().items()}
    assert {listener.address.host for listener in config.listeners} == {"127.0.0.1"}


def test_browsers_find_a_websocket_one_port_further() -> None:
    ports = {
        listener.protocol: listener.address.port for listener in default().listeners if listener.address.is_websocket
    }
    assert ports["yamp"] == 5043


def test_its_commented_examples_are_good_too() -> None:
    lines = default_text("demo", UUID(NODE)).splitlines()
    examples = {
        "peers": next(line[1:] for line in lines if line.startswith("#  - {name: plant")),
        "permissions": next(line[1:] for line in lines if line.startswith("#  - {nodes")),
        "rules": next(line[1:] for line in lines if line.startswith("#  - {name: hot")),
    }
    kafka = [line.replace("# ", "", 1) for line in lines if line.startswith("  # ")]
    text = "\n".join(line for line in lines if not line.endswith(": []"))
    text = text.replace("  partitions: 4", "  partitions: 4\n" + "\n".join(kafka[:3]))
    text = text.replace("\npermissions:\n", f"\npermissions:\n{examples.pop('permissions')}\n")
    config = parse(
        text.replace("${file:kafka.password}", "x")
        + "".join(f"\n{section}:\n{example}" for section, example in examples.items()),
        FILE,
    )
    assert (config.peers[0].name, config.rules[0].name) == ("plant", "hot")
    assert config.permissions[0].nodes == ("cn:plant-*",)
    assert config.kafka.security.uses_sasl
    assert "raw" in config.kafka.topics
    assert config.kafka.cluster_bytes == 80 * 2**30


def test_it_is_written_with_a_name_and_a_node_of_its_own(tmp_path: Path) -> None:
    one = load(write_default(tmp_path / "a", mesh="plant-7"))
    other = load(write_default(tmp_path / "b"))
    assert (one.mesh, other.mesh) == ("plant-7", "demo")
    assert one.identity.node is not None
    assert one.identity.node != other.identity.node


def test_one_that_is_there_is_not_overwritten_unless_told_to(tmp_path: Path) -> None:
    path = write_default(tmp_path)
    path.write_text("mesh: mine")
    with pytest.raises(FileExistsError) as refused:
        write_default(tmp_path)
    assert refused.value.filename == str(path)
    assert path.read_text() == "mesh: mine"
    write_default(tmp_path, overwrite=True)
    assert load(path).listeners


def test_the_template_is_yaml_by_itself() -> None:
    assert yaml.safe_load(default_text("demo", UUID(NODE)))["mesh"] == "demo"


def test_a_trust_store_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    config = load(write_default(tmp_path))
    assert check_files(config) == []  # `up` makes its trust store
    (tmp_path / "keys.yaml").mkdir()
    assert [fault.path for fault in check_files(config)] == ["trust"]


def test_certificates_that_are_missing_are_told(tmp_path: Path) -> None:
    for name in ("keys.yaml", "cert.pem"):
        (tmp_path / name).touch()
    text = (
        "mesh: demo\n"
        "kafka: {bootstrap: 'a:1', security: {protocol: SSL, ca: kafka.pem}}\n"
        "listeners: [{name: a, protocol: hsp, listen: 'tls://h:1', tls: {cert: cert.pem, key: key.pem}}]\n"
        "peers: [{name: b, protocol: hsp, connect: 'tls://h:1', tls: {ca: ca.pem}}]\n"
    )
    missing = check_files(parse(text, tmp_path / "meshgate.yaml"))
    assert [fault.path for fault in missing] == ["kafka.security.ca", "listeners[0].tls.key", "peers[0].tls.ca"]


def test_a_full_disk_leaves_no_half_configuration(tmp_path: Path) -> None:
    path = tmp_path / "meshgate.yaml"
    path.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as failed:
        write_default(tmp_path, overwrite=True)
    assert failed.value.filename == str(path)
    assert not path.is_symlink()
