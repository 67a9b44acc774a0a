"""Files that a person writes: any text is a configuration, or every fault in it is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

from gateway.auth import trust_file
from gateway.config import parse
from gateway.config.default import default_text
from gateway.core.yaml_files.faults import ConfigError
from tests.fuzz.target import Target

NODE = UUID("9a1f4c3e-1111-4222-8333-000000000001")
TRUST = f"""
gateway: {{node: {NODE}, key_id: "000000ff", ed25519_private: {"0b" * 32}}}
nodes:
  {NODE}:
    keys:
      "00000001": {{hmac: {"0a" * 16}, default: true, not_after: 2030-01-01T00:00:00Z}}
"""
SMALL = "mesh: m\nlimits: {connections: 5}\npermissions: [{nodes: ['anon:*'], publish: {allow: [a.>]}}]\n"


def file_targets() -> Iterator[Target]:
    yield Target("config", _config, _configurations, (ConfigError,))
    yield Target("trust", _trust, lambda: [TRUST.encode()], (ConfigError,))


def _configurations() -> list[bytes]:
    return [SMALL.encode(), default_text("demo", NODE).encode()]


def _config(data: bytes) -> None:
    parse(_text(data), Path("/nowhere/meshgate.yaml"), {})


def _trust(data: bytes) -> None:
    trust_file.parse(_text(data), Path("/nowhere/keys.yaml"), {})


def _text(data: bytes) -> str:
    """No file of this machine is read, whatever a mutation names."""
    return data.decode(errors="replace").replace("${", "$ {")
