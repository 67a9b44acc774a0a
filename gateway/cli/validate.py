"""`meshgate validate`: is this configuration good?"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import asdict
from uuid import UUID

import click

from gateway.auth.trust_file import load as load_trust
from gateway.cli.console import Exit, Output, note, show
from gateway.cli.options import common_options
from gateway.config import Config, ConfigError, Fault, Link, Listener, check_files, find_config, load
from gateway.config.exposure import exposure, exposure_warnings
from gateway.edge.carriers.tls import context_of


@click.command("validate")
@common_options
@click.option("--skip-files", is_flag=True, help="Do not look for the certificates and keys it names.")
@click.option("--skip-rules", is_flag=True, help="Do not compile its rules, which starts Spark for some seconds.")
def command(config_file: str | None, output: Output, skip_files: bool, skip_rules: bool) -> int:
    """Check a configuration and tell every fault with its place and what was expected (exit code 78).

    Also warns about settings that take effect differently from how they read.
    """
    try:
        config = load(find_config(config_file))
        faults = [] if skip_files else [*check_files(config), *_tls_faults(config), *_trust_faults(config)]
        faults += [] if skip_rules else _rule_faults(config)
        if faults:
            raise ConfigError(faults)
    except ConfigError as faulty:
        if output is Output.TEXT:
            raise
        show({"valid": False, "faults": [asdict(fault) for fault in faulty.faults]}, output, "")
        return Exit.CONFIG
    open_to = [Fault(str(config.path), place, why) for place, why in exposure_warnings(config).items()]
    for one in [*config.advice(), *open_to, *([] if skip_files else _trust_advice(config))]:
        note(str(one))
    show({"valid": True, "faults": []}, output, _summary(config))
    return Exit.OK


def _tls_faults(config: Config) -> Iterator[Fault]:
    """Files that are there, and that an edge would not start with."""
    sections: dict[str, tuple[Listener | Link, ...]] = {"listeners": config.listeners, "peers": config.peers}
    for section, endpoints in sections.items():
        for at, endpoint in enumerate(endpoints):
            try:
                if endpoint.tls is not None:
                    context_of(endpoint.tls)
            except (FileNotFoundError, PermissionError):
                continue  # told by `check_files`
            except (OSError, ValueError) as broken:
                yield Fault(str(config.path), f"{section}[{at}].tls", f"the files are of no use: {broken}")


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


def _trust_advice(config: Config) -> Iterator[Fault]:
    """What `up` makes where it is missing; an edge or a router that is started alone needs it."""
    entry = config.identity.key
    if not config.trust.exists():
        yield Fault(str(config.path), "trust", f"there is no {config.trust} yet: up makes it")
    elif load_trust(config.trust, entry=entry).identity is None:
        yield Fault(str(config.path), "identity.key", f"the trust store has no entry {entry} yet: up makes it")


def _rule_faults(config: Config) -> list[Fault]:
    """Rules are compiled where there is a Spark to ask: an image without one must be able to check all the rest."""
    if not config.rules:
        return []
    if importlib.util.find_spec("pyspark") is None:
        note("the rules were not compiled: there is no Spark here")
        return []
    from streaming_jobs.rules.faults import rule_faults

    return rule_faults(config)


def _summary(config: Config) -> str:
    counts = {
        "listeners": config.listeners,
        "links": config.peers,
        "permissions": config.permissions,
        "rules": config.rules,
    }
    told = ", ".join(f"{len(entries)} {name}" for name, entries in counts.items())
    return f"{config.path.name}: valid: mesh {config.mesh}, {told}\n{exposure(config)}"
