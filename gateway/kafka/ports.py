"""Tells whether anybody listens where Kafka should be. It imports no client of Kafka, for what has to start fast."""

from __future__ import annotations

import socket

from gateway.core.address import HostPort

CONNECT_SECONDS = 1.0


def accepts_connections(address: HostPort) -> bool:
    """Returns whether somebody accepts a connection at this address, within a second."""
    at = address.reachable
    try:
        with socket.create_connection((at.host, at.port), timeout=CONNECT_SECONDS):
            return True
    except OSError:
        return False
