"""Finds what a configuration opens to peers that prove nothing, and that reach it from outside this machine."""

from __future__ import annotations

from gateway.config.listeners import Listener
from gateway.config.model import Config
from gateway.core.ids import ANONYMOUS
from gateway.core.yaml_files.faults import Fault


def openings(config: Config) -> dict[int, str]:
    """Returns what the unproven may do at each exposed listener where they may do anything, by its place."""
    permissions = config.permissions_policy()
    by_listener = {}
    for at, listener in enumerate(config.listeners):
        if listener.is_exposed and _admits_unproven(listener):
            rule = permissions.rule_of(ANONYMOUS, listener.name)
            grants = {"publish": rule.publish, "subscribe": rule.subscribe, "serve": rule.serve}
            if may := [verb for verb, grant in grants.items() if not grant.is_empty]:
                by_listener[at] = " and ".join(filter(None, (", ".join(may[:-1]), may[-1])))
    return by_listener


def exposure(config: Config) -> str:
    """Says in one line what is open to whom."""
    exposed = [listener for listener in config.listeners if listener.is_exposed]
    if not exposed:
        return "only programs on this machine reach its listeners"
    opened = openings(config)
    if not opened:
        return "from outside this machine, only peers that prove who they are may do anything"
    descriptions = (
        f"{config.listeners[at].name} ({config.listeners[at].address}: {may})" for at, may in opened.items()
    )
    return f"open to everybody who reaches them: {', '.join(descriptions)}"


def exposure_warnings(config: Config) -> list[Fault]:
    """Returns a warning for each listener that is open to strangers, or believes any of them to be a balancer."""
    remedy = "see `permissions` and `require_login`"
    described = {}
    for at, may in openings(config).items():
        address = config.listeners[at].address
        described[f"listeners[{at}]"] = f"whoever reaches {address} may {may} without proving who it is: {remedy}"
    described |= {
        f"listeners[{at}].proxy_protocol": "whoever reaches it may name any address as its own: list the balancers in "
        "`proxy_from`"
        for at, listener in enumerate(config.listeners)
        if listener.believes_any_balancer
    }
    return [Fault(str(config.path), place, why) for place, why in described.items()]


def _admits_unproven(listener: Listener) -> bool:
    has_certificates = listener.tls is not None and listener.tls.client_ca is not None
    has_jids = listener.xmpp is not None
    return listener.options.admits_unproven and not (has_certificates or has_jids or listener.require_login)
