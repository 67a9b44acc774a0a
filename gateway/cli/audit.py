"""`meshgate audit`: nothing lost, shown frame by frame."""

from __future__ import annotations

from datetime import datetime

import click

from gateway.cli.console import Exit, Output, note, show
from gateway.cli.numbers import Seconds
from gateway.cli.options import common_options, read_config
from gateway.cli.times import from_time, time_range, to_time


@click.command("audit")
@click.option(
    "--from", "start", type=from_time, metavar="TIME", help="RFC 3339, or relative (-1h).  [default: all there is]"
)
@click.option("--to", "end", type=to_time, metavar="TIME", help="As --from.  [default: now]")
@click.option("--edge", "ask_edge", is_flag=True, help="Compare with what the edge's sockets counted, too.")
@click.option(
    "--settle",
    "settle_seconds",
    type=Seconds(min=0),
    default=600.0,
    show_default=True,
    help="The longest wait for deliveries that are still on their way.",
)
@click.option("--master", metavar="URL", help="The Spark master.  [default: local[2]]")
@common_options
def command(
    config_file: str | None,
    output: Output,
    start: datetime | None,
    end: datetime | None,
    ask_edge: bool,
    settle_seconds: float,
    master: str | None,
) -> int:
    """Account for every frame of the raw log, and for everyone who was to get something for it.

    \b
    frames in raw         = events + rejected + duplicates + control + put in again
    events × destinations = confirmed + written + undeliverable + expired + in flight

    The raw log is decoded, judged and deduplicated again, and compared frame by frame with what the mesh made of it.
    Exit code 1 when something is missing, altered, or came from nowhere.
    """
    from streaming_jobs.audit.job import audit_mesh

    config = read_config(config_file)
    equation = audit_mesh(
        config,
        *time_range(start, end),
        master=master,
        ask_edge=ask_edge,
        settle_seconds=settle_seconds,
        say=note,
    )
    show(equation.to_json(), output, equation.to_text())
    return Exit.OK if equation.balanced else Exit.FAILURE
