"""`meshgate config`: what holds."""

from __future__ import annotations

import click
import yaml

from gateway.cli.console import Output, show
from gateway.cli.options import common_options, config_group, dir_option, read_config
from gateway.config import redacted, unredacted


@config_group("config")
def command() -> None:
    """Show the configuration that holds, with what is not in the file.

    `config print --redacted` hides secrets, so that it can be shown to others. `meshgate validate` looks for faults,
    `meshgate explain SETTING` says what one setting does.
    """


@command.command("print", short_help="Print the configuration, defaults included.")
@common_options
@dir_option
@click.option("--redacted", "hide", is_flag=True, help="Hide passwords, keys and tokens.")
def print_config(config_file: str | None, state_dir: None, output: Output, hide: bool) -> None:
    """Print the configuration as it holds: defaults included, ${ENV} and ${file:PATH} put in.

    What it prints is a configuration again. Without --redacted it shows secrets.
    """
    config = read_config(config_file, state_dir)
    whole = redacted(config) if hide else unredacted(config)
    show(whole, output, yaml.safe_dump(whole, sort_keys=False, allow_unicode=True, width=120).rstrip())
