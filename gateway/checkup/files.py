"""The files that a configuration names: whether an edge and a router would start with them."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from gateway.auth.trust_file import load as load_trust
from gateway.config import Config, ConfigError, Fault, check_files
from gateway.edge.carriers.tls import context_of


def file_faults(config: Config) -> list[Fault]:
    """Returns every fault of the files that the configuration names."""
    return [*check_files(config), *_tls_faults(config), *_trust_faults(config)]


def file_advice(config: Config) -> list[Fault]:
    """Returns what `up` makes where it is missing; an edge or a router that is started alone needs it."""
    entry = config.identity.key
    if not config.trust.exists():
        return [Fault(str(config.path), "trust", f"there is no {config.trust}: up and init make it")]
    if load_trust(config.trust, entry=entry).identity is None:
        return [Fault(str(config.path), "identity.key", f"the trust store has no entry {entry}: up and init make it")]
    return []


def _tls_faults(config: Config) -> Iterator[Fault]:
    """Yields the files that are there, and that an edge would not start with."""
    listeners = [(f"listeners[{at}].tls", listener.tls) for at, listener in enumerate(config.listeners)]
    links = [(f"peers[{at}].tls", link.tls) for at, link in enumerate(config.peers)]
    for setting, tls in (*listeners, *links):
        try:
            if tls is not None:
                context_of(tls)
        except (FileNotFoundError, PermissionError):
            continue  # told by `check_files`
        except (OSError, ValueError) as broken:
            yield Fault(str(config.path), setting, f"the files cannot be used: {broken}")


def _trust_faults(config: Config) -> list[Fault]:
    """The trust store is a file of its own, and the two must mean one node."""
    if not config.trust.is_file():
        return []
    try:
        trust = load_trust(config.trust, entry=config.identity.key)
    except ConfigError as faulty:
        return faulty.faults
    node, entry = config.identity.node, config.identity.key
    if trust.identity is not None and node is not None and trust.identity.node != node.bytes:
        own = UUID(bytes=trust.identity.node)
        return [Fault(str(config.path), "identity.node", f"the trust store's {entry} is node {own}")]
    return []
