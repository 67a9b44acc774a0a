"""The parts of a running mesh: whether each is ready, what it lacks, and whether all are of one version."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from gateway import __version__
from gateway.auth import trust_file
from gateway.checkup.findings import Finding, Level
from gateway.config import Config
from gateway.core.errors import SetupError
from gateway.core.yaml_files.faults import ConfigError
from gateway.inspect.live.mesh_parts import MeshPart
from gateway.local.first_event import SUBJECT, probed_listener, send_probe

PROBE_SECONDS = 10.0
"""A probe that takes longer is lost, as far as whoever waits for it is concerned."""
SLOW_SECONDS = 1.0


def check_parts(parts: list[MeshPart]) -> Iterator[Finding]:
    for part in parts:
        yield _part(part)


def _part(part: MeshPart) -> Finding:
    check = f"parts {part.name.removeprefix('the ')} {part.address}"
    try:
        readiness, version = part.readiness(), part.json("/version")["version"]
    except (SetupError, ValueError, KeyError) as silent:
        return Finding(check, Level.FAIL, str(silent), "start it: meshgate up, or meshgate edge and meshgate router")
    if readiness["status"] != "ok":
        missing = "; ".join(f"{part_name}: {why}" for part_name, why in readiness["missing"].items())
        return Finding(check, Level.FAIL, f"not ready: {missing}", "meshgate logs, and the page of troubleshooting")
    if away := readiness.get("away"):
        text = "; ".join(f"{part_name} is away: {why}" for part_name, why in away.items())
        return Finding(check, Level.WARN, text, "look at what is away: the part dials it again and again")
    if version != __version__:
        return Finding(check, Level.WARN, f"version {version}, and this is {__version__}", "upgrade one of them")
    return Finding(check, Level.OK, f"ready, version {version}")


def probe_path(config: Config, seconds: float = PROBE_SECONDS) -> Finding:
    """Sends a signed event through Kafka and the router and back; judges how long it took."""
    try:
        identity = trust_file.load(config.trust, entry=config.identity.key).identity
    except ConfigError as faulty:
        return Finding("path probe", Level.FAIL, str(faulty.faults[0]), "meshgate check --only trust")
    if identity is None or probed_listener(config, identity) is None:
        text = f"there is no udp:// listener of emm where the gateway may publish and get {SUBJECT}"
        return Finding("path probe", Level.WARN, text, "add one on loopback, so that the whole path can be tried")
    started_at = time.monotonic()
    try:
        took = send_probe(config, identity, seconds, threading.Event())
    except (SetupError, OSError) as lost:
        text = f"a signed event did not come through within {time.monotonic() - started_at:.0f} s: {lost}"
        return Finding("path probe", Level.FAIL, text, "meshgate check, then meshgate logs")
    assert took is not None  # noqa: S101 - it was not stopped
    level = Level.WARN if took > SLOW_SECONDS else Level.OK
    remedy = "meshgate top shows which stage waits" if level else ""
    return Finding("path probe", level, f"through the whole path in {took * 1000:.0f} ms", remedy, took, "seconds")
