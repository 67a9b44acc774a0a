"""`meshgate status`: whether the mesh that `meshgate up` runs on this machine is ready, and how its parts are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from gateway.cli.console import Exit, Output, show, show_table
from gateway.cli.local_mesh import MeshFolder
from gateway.cli.options import common_options, dir_option
from gateway.core.address import parse_host_port
from gateway.core.errors import SetupError
from gateway.inspect.live.mesh_parts import MeshPart
from gateway.local.mesh_record import MeshRecord, RecordedProcess

COLUMNS = ("part", "state", "pid", "running_for", "detail")


@click.command("status")
@common_options
@dir_option
def command(config_file: str | None, state_dir: Path | None, output: Output) -> int:
    """Say whether the mesh that `meshgate up` runs here is ready, and how each of its parts is.

    Exit code 0: it runs, a probe has gone through the whole path, and every part is ready now. 1: anything else.
    """
    mesh = MeshFolder(config_file, state_dir)
    document = mesh_status(mesh.folder, mesh.record())
    if output is Output.JSON:
        show(document, output, "")
    else:
        _show_text(document)
    return Exit.OK if document["ready"] else Exit.FAILURE


def mesh_status(folder: Path, record: MeshRecord | None) -> dict[str, Any]:
    """Returns what is known of the mesh in a folder: from its record, and from the parts themselves."""
    if record is None or not record.is_running:
        return {"dir": str(folder), "running": False, "ready": False, "parts": []}
    management = record.facts.get("management", {})
    parts = [_part_status(part, management.get(part.name)) for part in record.parts]
    return {
        "dir": str(folder),
        "running": True,
        "ready": record.is_ready and all(part["state"] == "ready" for part in parts),
        "pid": record.supervisor.pid,
        "running_seconds": record.supervisor.age_seconds(),
        "config": record.facts.get("config"),
        "listeners": record.facts.get("ready", {}),
        "management": management,
        "parts": parts,
    }


def _part_status(process: RecordedProcess, management: str | None) -> dict[str, Any]:
    age = process.age_seconds()
    state, detail = ("down", "it is started again soon") if age is None else _health(process.name, management)
    return {
        "part": process.name,
        "state": state,
        "pid": process.pid if age is not None else None,
        "running_seconds": age,
        "detail": detail,
    }


def _health(name: str, management: str | None) -> tuple[str, str]:
    """A part without a management address is ready as long as it runs: others would tell of its absence."""
    if management is None:
        return "ready", ""
    try:
        readiness = MeshPart(f"the {name}", f"{name}.management", parse_host_port(management)).readiness()
    except (SetupError, json.JSONDecodeError) as failed:
        return "starting", str(failed)
    missing = "; ".join(f"{part_name}: {why}" for part_name, why in readiness.get("missing", {}).items())
    away = "; ".join(f"{part_name} is away: {why}" for part_name, why in readiness.get("away", {}).items())
    return "ready" if readiness["status"] == "ok" else "not ready", missing or away


def _span(seconds: float | None) -> str | None:
    """
    >>> _span(7.9), _span(3 * 3600 + 62), _span(None)
    ('7s', '3h1m', None)
    """
    if seconds is None:
        return None
    for unit, size, below in (("d", 86_400, "h"), ("h", 3_600, "m"), ("m", 60, "s")):
        if seconds >= size:
            remainder = int(seconds % size // {"h": 3_600, "m": 60, "s": 1}[below])
            return f"{int(seconds // size)}{unit}{remainder}{below}"
    return f"{int(seconds)}s"


def _show_text(document: dict[str, Any]) -> None:
    if not document["running"]:
        click.echo(f"no mesh is running in {document['dir']}: start one with meshgate up")
        return
    state = "ready" if document["ready"] else "not ready"
    click.echo(
        f"{state}  process {document['pid']}, running for {_span(document['running_seconds'])}, {document['config']}"
    )
    if document["listeners"]:
        click.echo("  ".join(f"{name} {address}" for name, address in document["listeners"].items()))
    rows = ({**part, "running_for": _span(part["running_seconds"])} for part in document["parts"])
    show_table(rows, COLUMNS, Output.TEXT)
