"""`meshgate kafka`: the embedded broker alone, in the foreground."""

from __future__ import annotations

import os
from pathlib import Path

import click

from gateway.cli.console import CommandError, Output, show_line
from gateway.cli.options import common_options, dir_option, read_config
from gateway.local.broker import Broker
from gateway.local.java import LOCALE, find_java


@click.command()
@click.option(
    "--list-classes",
    is_flag=True,
    hidden=True,
    help="List the classes that a class archive needs, where there is none.",
)
@common_options
@dir_option
def command(config_file: str | None, state_dir: Path | None, list_classes: bool, output: Output) -> None:
    """The embedded broker alone. This process becomes the broker: it ends as the broker ends."""
    config = read_config(config_file, state_dir)
    if not config.kafka.is_embedded:
        raise CommandError(f"kafka.bootstrap is {config.kafka.bootstrap}: there is no embedded broker to start")
    line = Broker.of(config).command(find_java(), lists_classes=list_classes)
    fields = {"event": "starting", "part": "kafka", "listen": str(config.kafka.listen)}
    show_line(fields, output, f"starting  {config.kafka.listen}")
    os.execve(line[0], line, os.environ | LOCALE)  # noqa: S606 - the command is our own
