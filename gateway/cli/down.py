"""`meshgate down`: ends the mesh that `meshgate up` runs on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from gateway.cli.console import CommandError, Output, note, show
from gateway.cli.local_mesh import MeshFolder
from gateway.cli.numbers import Seconds
from gateway.cli.options import common_options, dir_option
from gateway.local.processes import Processes


@click.command("down")
@click.option(
    "--timeout",
    type=Seconds(min=0, min_open=True),
    help="Fail if the mesh has not ended after SECONDS.  [default: wait until it has]",
)
@common_options
@dir_option
def command(config_file: str | None, state_dir: Path | None, timeout: float | None, output: Output) -> None:
    """End the mesh that `meshgate up` runs on this machine, and wait until it has ended.

    It ends in order, as at Ctrl-C: edges let their sessions finish, then the router, then the broker. State stays, and
    the next `up` goes on from it. Where no mesh runs there is nothing to do, and that is no failure.
    """
    mesh = MeshFolder(config_file, state_dir)
    record = mesh.record()
    stopped = record is not None and record.is_running
    if record is not None and record.is_running:
        note(f"stopping the mesh in {mesh.folder} (process {record.supervisor.pid}) ...")
        if not record.supervisor.end(timeout):
            raise CommandError(f"the mesh in {mesh.folder} has not ended within {timeout:g} s; it still ends by itself")
    cleared = Processes(mesh.record_path).end_leftovers()
    document = {"dir": str(mesh.folder), "stopped": stopped, "cleared": cleared}
    if cleared:
        text = f"ended what an earlier run had left: {', '.join(cleared)}"
    else:
        text = f"stopped; state stays in {mesh.folder}" if stopped else f"no mesh is running in {mesh.folder}"
    show(document, output, text)
