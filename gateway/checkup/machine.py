"""This machine: Java, memory, disk, what the kernel grants, and the ports that the mesh wants."""

from __future__ import annotations

import errno
import importlib.util
import resource
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from gateway.checkup.findings import Finding, Level, graded
from gateway.config import Config
from gateway.core.address import HostPort
from gateway.core.errors import SetupError
from gateway.edge.carriers.listeners import BACKLOG
from gateway.edge.datagrams.open_socket import RECEIVE_BUFFER_BYTES, granted_buffer_bytes
from gateway.local.broker import MIN_FREE_BYTES
from gateway.local.java import find_java

MIB, GIB = 2**20, 2**30
START_BYTES, COMFORTABLE_BYTES = 1 * GIB, 2 * GIB
"""What a whole mesh needs to start, and what it has taken at 25,000 frames/s: Spark 1.3 GiB, the broker 0.3, an edge
0.1."""
SPARE_BYTES = 256 * MIB
"""The memory that should be left beside a mesh that runs."""
OTHER_FILES = 256
"""Descriptors that an edge needs beside its peers' connections."""


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


def available_memory(root: Path = Path("/")) -> int:
    """Returns the bytes that programs can still get: of the machine, or of our control group if that has fewer."""
    lines = (root / "proc/meminfo").read_text().splitlines()
    machine = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    group = root / "sys/fs/cgroup"
    try:
        limit, used = int((group / "memory.max").read_text()), int((group / "memory.current").read_text())
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # `max` is no limit
        return machine
    return min(machine, limit - used + int(stat.get("inactive_file", 0)))


def _disk(config: Config) -> Finding:
    folder = next(path for path in (config.state_dir, *config.state_dir.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    wanted = MIN_FREE_BYTES
    if config.kafka.is_embedded and config.kafka.embedded_bytes is not None:
        wanted = max(wanted, config.kafka.embedded_bytes - _size(config.state_dir / "state" / "kafka"))
    level = graded(free, warn_below=wanted, fail_below=MIN_FREE_BYTES)
    remedy = "make room, use another folder (--dir), or lower kafka.embedded_bytes" if level else ""
    text = f"{free // MIB} MiB free in {folder}; the mesh may still take {wanted // MIB}"
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
        yield _open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0], most)


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
    remedy = f"ulimit -n {connections + OTHER_FILES}, or lower limits.connections" if level else ""
    text = f"{'any number of' if unlimited else granted} open files; a listener may have {connections} connections"
    return Finding("machine open-files", level, text, remedy, None if unlimited else granted)


# -- ports ------------------------------------------------------------------------------------------------------------


def _ports(config: Config, *, is_running: bool) -> Finding:
    wanted = list(_wanted_ports(config))
    if is_running:
        return Finding("machine ports", Level.OK, f"{len(wanted)} ports are in use by the mesh that runs")
    refused = [
        f"{setting} {address}: {why}"
        for setting, address, kind in wanted
        if (why := why_not_bound(address, kind)) is not None
    ]
    if refused:
        return Finding("machine ports", Level.FAIL, "; ".join(refused), "stop what has it, or choose another address")
    return Finding("machine ports", Level.OK, f"{len(wanted)} ports are free")


def _wanted_ports(config: Config) -> Iterator[tuple[str, HostPort, socket.SocketKind]]:
    if config.kafka.is_embedded:
        yield "kafka.listen", config.kafka.listen, socket.SOCK_STREAM
    yield "edge.management", config.edge.management, socket.SOCK_STREAM
    yield "router.management", config.router.management, socket.SOCK_STREAM
    for listener in config.listeners:
        if listener.address.is_bound and listener.address.port:
            kind = socket.SOCK_DGRAM if listener.address.is_datagram else socket.SOCK_STREAM
            yield f"listeners.{listener.name}", listener.address.at, kind


def why_not_bound(address: HostPort, kind: socket.SocketKind) -> str | None:
    """Returns why nothing could listen at an address now; None if something could."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, kind) as probe:
        if kind is socket.SOCK_STREAM:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except OSError as refused:
            known = {
                errno.EADDRINUSE: "in use by another process",
                errno.EACCES: "ports below 1024 are for privileged processes",
                errno.EADDRNOTAVAIL: "this machine has no such address",
            }
            return known.get(refused.errno or 0, str(refused.strerror or refused))
    return None
