"""This machine: Java, memory, disk, what the kernel grants, and the ports that the mesh wants."""

from __future__ import annotations

import importlib.util
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

from gateway.checkup.findings import Finding, Level, graded
from gateway.config import Config
from gateway.core.errors import SetupError
from gateway.edge.carriers.listeners import BACKLOG
from gateway.edge.datagrams.open_socket import RECEIVE_BUFFER_BYTES, granted_buffer_bytes
from gateway.edge.process_limits import OTHER_FILES
from gateway.local.broker import MIN_FREE_BYTES
from gateway.local.java import find_java
from gateway.local.memory import MIB, available_memory
from gateway.local.preflight import COMFORTABLE_BYTES, START_BYTES, wanted_ports, why_not_bound

SPARE_BYTES = 256 * MIB
"""The memory that should be left beside a mesh that runs."""


def check_machine(config: Config, *, is_running: bool) -> Iterator[Finding]:
    """Yields what this machine lacks. While a mesh runs here, its ports are taken and its memory is used by itself."""
    if config.kafka.is_embedded or importlib.util.find_spec("pyspark") is not None:
        yield _java()
    yield _memory(is_running=is_running)
    yield _disk(config)
    yield from _sockets(config)
    yield _ports(config, is_running=is_running)


def _java() -> Finding:
    try:
        java = find_java()
    except SetupError as missing:
        return Finding("machine java", Level.FAIL, str(missing), "install one, or use pip install '.[local]'")
    return Finding("machine java", Level.OK, f"Java {java.version} ({java.origin})")


def _memory(*, is_running: bool) -> Finding:
    available = available_memory()
    if is_running:
        level = graded(available, warn_below=SPARE_BYTES, fail_below=SPARE_BYTES / 4)
    else:
        level = graded(available, warn_below=COMFORTABLE_BYTES, fail_below=START_BYTES)
    remedy = f"end other programs: a whole mesh takes up to {COMFORTABLE_BYTES // MIB} MiB" if level else ""
    return Finding("machine memory", level, f"{available // MIB} MiB available", remedy, available, "bytes")


def _disk(config: Config) -> Finding:
    folder = next(path for path in (config.state_dir, *config.state_dir.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    needed = MIN_FREE_BYTES
    if config.kafka.is_embedded and config.kafka.embedded_bytes is not None:
        needed = max(needed, config.kafka.embedded_bytes - _size(config.state_dir / "state" / "kafka"))
    level = graded(free, warn_below=needed, fail_below=MIN_FREE_BYTES)
    remedy = "make room, use another folder (--dir), or lower kafka.embedded_bytes" if level else ""
    text = f"{free // MIB} MiB free in {folder}; the mesh may still take {needed // MIB}"
    return Finding("machine disk", level, text, remedy, free, "bytes")


def _size(folder: Path) -> int:
    """Files may go while they are counted."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


# -- what the kernel grants -------------------------------------------------------------------------------------------


def _sockets(config: Config) -> Iterator[Finding]:
    if any(listener.address.is_datagram for listener in config.listeners):
        yield _receive_buffer(granted_buffer_bytes())
    streams = [listener for listener in config.listeners if not listener.address.is_datagram]
    if streams:
        yield _backlog(int(Path("/proc/sys/net/core/somaxconn").read_text()))
        most = max(config.listener_limits(listener.name).connections for listener in streams)
        yield _open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[1], most)


def _receive_buffer(granted: int) -> Finding:
    level = Level.OK if granted >= RECEIVE_BUFFER_BYTES else Level.WARN
    remedy = f"sysctl -w net.core.rmem_max={RECEIVE_BUFFER_BYTES}, or give the edge CAP_NET_ADMIN" if level else ""
    text = f"a UDP socket gets {granted // 1024} of {RECEIVE_BUFFER_BYTES // 1024} KiB; bursts beyond it are dropped"
    return Finding("machine receive-buffer", level, text, remedy, granted, "bytes")


def _backlog(granted: int) -> Finding:
    level = Level.OK if granted >= BACKLOG else Level.WARN
    remedy = f"sysctl -w net.core.somaxconn={BACKLOG}" if level else ""
    text = f"{min(granted, BACKLOG)} of {BACKLOG} connections may wait to be accepted"
    return Finding("machine backlog", level, text, remedy, granted)


def _open_files(granted: int, connections: int) -> Finding:
    unlimited = granted == resource.RLIM_INFINITY
    level = Level.OK if unlimited or granted >= connections + OTHER_FILES else Level.WARN
    needed = connections + OTHER_FILES
    remedy = f"as root, ulimit -Hn {needed} before the start; or lower limits.connections" if level else ""
    text = f"{'any number of' if unlimited else granted} open files; a listener may have {connections} connections"
    return Finding("machine open-files", level, text, remedy, None if unlimited else granted)


# -- ports ------------------------------------------------------------------------------------------------------------


def _ports(config: Config, *, is_running: bool) -> Finding:
    needed = list(wanted_ports(config))
    if is_running:
        return Finding("machine ports", Level.OK, f"{len(needed)} ports are in use by the mesh that runs")
    refused = [
        f"{setting} {address}: {why}"
        for setting, address, kind in needed
        if (why := why_not_bound(address, kind)) is not None
    ]
    if refused:
        return Finding("machine ports", Level.FAIL, "; ".join(refused), "stop what has it, or choose another address")
    return Finding("machine ports", Level.OK, f"{len(needed)} ports are free")
