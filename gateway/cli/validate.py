"""`meshgate validate` says whether a configuration is good."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict

import click

from gateway.checkup.files import file_advice, file_faults
from gateway.cli.console import Exit, Output, note, show
from gateway.cli.options import common_options
from gateway.config import Config, ConfigError, Fault, find_config, load
from gateway.config.exposure import exposure, exposure_warnings
from gateway.core.quantity import quantity


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
        faults = [] if skip_files else file_faults(config)
        faults += [] if skip_rules else _rule_faults(config)
        if faults:
            raise ConfigError(faults)
    except ConfigError as faulty:
        if output is Output.TEXT:
            raise
        show({"valid": False, "faults": [asdict(fault) for fault in faulty.faults]}, output, "")
        return Exit.CONFIG
    for warning in [*config.warnings(), *exposure_warnings(config), *([] if skip_files else file_advice(config))]:
        note(str(warning))
    show({"valid": True, "faults": []}, output, _summary(config))
    return Exit.OK


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
        "listener": config.listeners,
        "link": config.peers,
        "permission": config.permissions,
        "rule": config.rules,
    }
    parts = ", ".join(quantity(len(entries), name) for name, entries in counts.items())
    return f"{config.path.name}: valid: mesh {config.mesh}, {parts}\n{exposure(config)}"
