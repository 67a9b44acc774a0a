"""`meshgate edge`: one edge, in the foreground."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from pathlib import Path

import click

from gateway.cli.console import Exit, Output, show_line
from gateway.cli.options import common_options, dir_option, read_config
from gateway.config import ConfigError, check_files
from gateway.core.address import host_port
from gateway.edge.process_limits import allow_many_files
from gateway.edge.server import Edge

YOUNG_OBJECTS = 20_000
"""Made before the collector looks for cycles among them: at the usual 700 it took an eighth of a busy edge's time."""


@click.command()
@common_options
@dir_option
def command(config_file: str | None, state_dir: Path | None, output: Output) -> None:
    """One edge: its listeners, links and sessions. SIGTERM drains it, SIGHUP reads the configuration again.

    It waits up to half a minute for Kafka, which may be on its way up.
    """
    allow_many_files()
    config = read_config(config_file, state_dir)
    if faults := check_files(config):
        raise ConfigError(faults)

    def on_ready() -> None:
        gc.freeze()  # what it has begun with stays
        gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
        _show_ready(edge, output)

    edge = Edge(config, on_ready=on_ready)
    asyncio.run(_serve(edge))


def _show_ready(edge: Edge, output: Output) -> None:
    listeners, own = edge.listeners(), edge.config.edge
    management = host_port(own.management.host, edge.management_port)
    fields = {"event": "ready", "part": own.id, "listeners": listeners, "management": management}
    show_line(fields, output, "  ".join(("ready", *(f"{name} {address}" for name, address in listeners.items()))))


async def _serve(edge: Edge) -> None:
    stop = asyncio.Event()

    def end() -> None:
        """Before it has begun no peer is there to be told, and a thread that waits for Kafka could not be stopped."""
        if not edge.life.has_begun:
            os._exit(Exit.OK)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    loop.add_signal_handler(signal.SIGHUP, edge.reload)
    await edge.run(stop)
