"""Configurations for the tests: text in, a Config or the faults out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.config import Config, ConfigError, Fault, parse

FILE = Path("/etc/mesh/meshgate.yaml")
NODE = "9a1f4c3e-1111-4222-8333-000000000001"

WHOLE = """\
mesh: demo
identity: {node: 9a1f4c3e-1111-4222-8333-000000000001, key: gateway}
kafka:
  bootstrap: embedded
  listen: 127.0.0.1:9092
  partitions: 4
edge:
  id: edge-0
  management: 127.0.0.1:9640
  redirect_url: null
  graceful_shutdown_limit_seconds: 60
listeners:
  - {name: devices, protocol: emm,  listen: udp://127.0.0.1:5050, unauthenticated: reject}
  - {name: apps,    protocol: yamp, listen: tcp://127.0.0.1:5042, formats: [json, msgpack]}
  - {name: web,     protocol: yamp, listen: ws://127.0.0.1:5043}
  - {name: plc,     protocol: hsp,  listen: tls://127.0.0.1:5141, types: {17: temp.high}, subscribe: [alarm.>],
     tls: {cert: cert.pem, key: key.pem, client_ca: ca.pem, node_from: san}}
peers:
  - {name: plant, protocol: emp, connect: tls://10.1.0.5:5040, subscribe: [order.>]}
trust: keys.yaml
permissions:
  - {nodes: [9a1f4c3e-1111-4222-8333-000000000001, "cn:plant-*"],
     publish: {allow: [order.>]}, subscribe: {allow: [">"], deny: [admin.>]}, serve: {allow: []}}
rules:
  - {name: hot, sql: "SELECT 'alarm.temp' AS subject, body, content_type FROM events WHERE subject LIKE 'temp.%'"}
limits: {connections: 10000, handshake_seconds: 5, idle_seconds: 300, frame_bytes: 1048576,
  frames_per_second_per_session: null, in_flight_bytes: 134217728}
replay_window_seconds: 300
clock_skew_seconds: 120
request_timeout_seconds: 30
router: {management: 127.0.0.1:9641, checkpoint: state/router, mode: auto, lanes: 1}
"""


def read(text: str, environment: Mapping[str, str] | None = None, path: Path = FILE) -> Config:
    return parse(text, path, environment or {})


def faults(text: str, environment: Mapping[str, str] | None = None, path: Path = FILE) -> list[Fault]:
    with pytest.raises(ConfigError) as refused:
        read(text, environment, path)
    return refused.value.faults


def expect_fault(text: str, path: str, expected: str, line: int | None = None) -> None:
    """Exactly one fault, there, with these words."""
    (fault,) = faults(text)
    assert fault.path == path
    assert re.search(re.escape(expected), fault.expected)
    assert line is None or fault.line == line
