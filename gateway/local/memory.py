"""Tells how much memory this machine or container has left. It imports nothing, for what has to start fast."""

from __future__ import annotations

from pathlib import Path

MIB, GIB = 2**20, 2**30


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
