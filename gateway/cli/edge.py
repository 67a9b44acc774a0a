"""`meshgate edge`: one edge, in the foreground."""

from __future__ import annotations

import asyncio
import signal

import click

from gateway.cli.options import config_option, logging_options, read_config
from gateway.edge.server import Edge


@click.command()
@config_option
@logging_options
def command(config_file: str | None) -> None:
    """One edge: its listeners, links and sessions. SIGTERM drains it, SIGHUP reads the configuration again."""
    asyncio.run(_serve(Edge(read_config(config_file))))


async def _serve(edge: Edge) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, edge.reload)
    await edge.run(stop)
