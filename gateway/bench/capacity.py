"""Checks before a run that the machine has room for it: memory, ports, open files."""

from __future__ import annotations

import resource
from pathlib import Path

from gateway.bench.workload import WorkError

GIB = 1 << 30
SPARE_FILES = 64
"""Files left for the interpreter, pipes and logs."""
_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_MEMORY = Path("/proc/meminfo")


def check_memory(wanted_bytes: int) -> None:
    """Frames are made before the run; at most half of what is free is taken. Raises WorkError."""
    free = free_memory()
    if free is not None and wanted_bytes > free // 2:
        raise WorkError(
            f"--rate, --seconds: the frames of this run take {wanted_bytes / GIB:.1f} GiB, and {free / GIB:.1f} GiB are"
            " free; choose a shorter run"
        )


def check_sockets(count: int) -> None:
    """Checks that each session can have a socket and a port of its own. Raises WorkError."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != resource.RLIM_INFINITY and count + SPARE_FILES > files:
        raise WorkError(f"--sessions, --fan-out: {count} sockets, but a process may open {files} files (ulimit -n)")
    ports = local_ports()
    if ports is not None and count > ports:
        raise WorkError(
            f"--sessions, --fan-out: {count} sockets need more than the {ports} ports of net.ipv4.ip_local_port_range"
        )


def free_memory() -> int | None:
    """Returns the free memory in bytes; None if the system does not say."""
    try:
        lines = _MEMORY.read_text().splitlines()
    except OSError:
        return None
    available = next((line for line in lines if line.startswith("MemAvailable:")), None)
    return None if available is None else int(available.split()[1]) * 1024


def local_ports() -> int | None:
    try:
        first, last = _PORT_RANGE.read_text().split()
    except (OSError, ValueError):
        return None
    return int(last) - int(first) + 1
