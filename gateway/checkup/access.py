"""Checks what the mesh lets strangers do: open listeners, and management addresses beyond loopback."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.checkup.findings import Finding, Level
from gateway.config import Config
from gateway.config.exposure import exposure, openings
from gateway.core.address import is_this_machine


def check_access(config: Config) -> Iterator[Finding]:
    opened = openings(config)
    level = Level.WARN if opened else Level.OK
    remedy = "permissions for anon:*, tls.client_ca, or require_login" if opened else ""
    yield Finding("access listeners", level, exposure(config), remedy, len(opened))
    yield _management(config)


def _management(config: Config) -> Finding:
    addresses = {"edge.management": config.edge.management, "router.management": config.router.management}
    opened = [f"{setting} {address}" for setting, address in addresses.items() if not is_this_machine(address.host)]
    if opened:
        text = f"whoever reaches them sees what flows, and may end sessions: {', '.join(opened)}"
        return Finding("access management", Level.WARN, text, "listen on 127.0.0.1, or guard them by the network")
    return Finding("access management", Level.OK, "management addresses are on loopback")
