"""What the mesh lets strangers do: listeners beyond loopback, anonymous sessions, and open management addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from gateway.address import HostPort
from gateway.checkup.findings import Finding, Level
from gateway.config import Config, Listener

STRANGER = "anon:checkup"
"""A node that nothing has proven, as permissions know it; each edge adds an id of its own."""
ANY_SUBJECT = "meshgate.checkup"


def check_access(config: Config) -> Iterator[Finding]:
    yield _listeners(config)
    yield _management(config)


def _listeners(config: Config) -> Finding:
    opened = [f"{one.name} ({one.address})" for one in config.listeners if _lets_strangers_in(config, one)]
    if opened:
        remedy = "permissions for anon:*, or tls.client_ca, or unauthenticated: reject"
        text = f"whoever reaches them may publish or subscribe without proving who they are: {', '.join(opened)}"
        return Finding("access listeners", Level.WARN, text, remedy, len(opened))
    return Finding("access listeners", Level.OK, "nobody from elsewhere may do anything unproven", value=0)


def _lets_strangers_in(config: Config, listener: Listener) -> bool:
    if is_loopback(listener.address.at) or (listener.tls is not None and listener.tls.client_ca is not None):
        return False
    if getattr(listener.options, "unauthenticated", "accept") == "reject" or listener.xmpp is not None:
        return False
    permissions = config.judge()
    return permissions.may_publish(STRANGER, listener.name, ANY_SUBJECT) or permissions.may_subscribe(
        STRANGER, listener.name, ANY_SUBJECT
    )


def _management(config: Config) -> Finding:
    addresses = {"edge.management": config.edge.management, "router.management": config.router.management}
    opened = [f"{setting} {address}" for setting, address in addresses.items() if not is_loopback(address)]
    if opened:
        text = f"whoever reaches them sees what flows, and may end sessions: {', '.join(opened)}"
        return Finding("access management", Level.WARN, text, "listen on 127.0.0.1, or guard them by the network")
    return Finding("access management", Level.OK, "management addresses are on loopback")


def is_loopback(address: HostPort) -> bool:
    """
    >>> is_loopback(HostPort("127.0.0.1", 1)), is_loopback(HostPort("localhost", 1)), is_loopback(HostPort("::", 1))
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return address.host == "localhost"
