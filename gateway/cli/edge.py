"""`meshgate edge`: one edge, in the foreground."""

from __future__ import annotations

import asyncio
import signal

import click

from gateway.cli.console import Output, show_line
from gateway.cli.options import common_options, read_config
from gateway.edge.server import Edge


@click.command()
@common_options
def command(config_file: str | None, output: Output) -> None:
    """One edge: its listeners, links and sessions. SIGTERM drains it, SIGHUP reads the configuration again."""
    config = read_config(config_file)
    listeners = {one.name: str(one.address) for one in config.listeners}
    said = {"event": "ready", "part": config.edge.id, "listeners": listeners, "management": str(config.edge.management)}
    text = "  ".join(("ready", *(f"{name} {address}" for name, address in listeners.items())))
    asyncio.run(_serve(Edge(config, begun=lambda: show_line(said, output, text))))


async def _serve(edge: Edge) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, edge.reload)
    await edge.run(stop)
