"""`meshgate replay`: the past decoded again."""

from __future__ import annotations

from datetime import datetime

import click

from gateway.cli.console import Output, note, printable_lines, show
from gateway.cli.options import common_options, read_config
from gateway.cli.times import from_time, time_range, to_time


@click.command("replay")
@click.option("--from", "start", type=from_time, required=True, metavar="TIME", help="RFC 3339, or relative (-1h).")
@click.option("--to", "end", type=to_time, metavar="TIME", help="As --from.  [default: now]")
@click.option("--dry-run", is_flag=True, help="Only tell what would be sent.")
@click.option("--diff", is_flag=True, help="Show what would be decided otherwise, frame by frame; send nothing.")
@click.option("--master", metavar="URL", help="The Spark master.  [default: local[2]]")
@common_options
def command(
    config_file: str | None,
    output: Output,
    start: datetime,
    end: datetime | None,
    dry_run: bool,
    diff: bool,
    master: str | None,
) -> None:
    """Decode the raw log again with today's code, rules and keys, and send what was not delivered the first time.

    Freshness is judged at the recorded receive time. A frame that is sent keeps the id of its first time, and goes to
    whoever wants it now and has not got it: nothing is delivered twice. Requests and answers are over and stay so.
    """
    from streaming_jobs.replay.job import replay_mesh

    replayed = replay_mesh(
        read_config(config_file),
        *time_range(start, end),
        dry_run=dry_run or diff,
        master=master,
        say=note,
    )
    show(replayed.to_json(), output, printable_lines(replayed.to_text(diff=diff)))
