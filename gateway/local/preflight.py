"""Refuses a start that cannot succeed, because a port is taken or there is too little memory."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from pathlib import Path

from gateway.config import Config
from gateway.core.address import HostPort
from gateway.core.errors import SetupError
from gateway.local.memory import GIB, MIB, available_memory

START_BYTES, COMFORTABLE_BYTES = 1 * GIB, 2 * GIB
"""A whole mesh needs the first to start. The second is room for what it has taken at 25,000 frames/s: Spark 1.3 GiB,
the broker 0.3, an edge 0.1."""


def refuse_a_start(config: Config, root: Path = Path("/")) -> None:
    """Raises SetupError where a mesh could not come up: one line, instead of the logs of three parts that failed."""
    for setting, address, kind in wanted_ports(config):
        if (why := why_not_bound(address, kind)) is not None:
            number = "udp" if kind is socket.SOCK_DGRAM else "tcp"
            raise SetupError(
                f"{setting}: {address} ({number}) is not free: {why}; stop what has it (ss -lp shows it), or choose"
                f" another port in {config.path}"
            )
    if (memory := available_memory(root)) < START_BYTES:
        raise SetupError(
            f"{memory // MIB} MiB of memory are available, and a whole mesh needs {START_BYTES // MIB} to start: end"
            f" other programs, or give this machine or container more"
        )


def wanted_ports(config: Config) -> Iterator[tuple[str, HostPort, socket.SocketKind]]:
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
            ports_in_use = {
                errno.EADDRINUSE: "in use by another process",
                errno.EACCES: "ports below 1024 are for privileged processes",
                errno.EADDRNOTAVAIL: "this machine has no such address",
            }
            return ports_in_use.get(refused.errno or 0, str(refused.strerror or refused))
    return None
