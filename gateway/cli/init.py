"""`meshgate init`: a configuration to begin with."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

import click

from gateway.auth.key_admin import ensure_identity
from gateway.checkup.files import file_advice
from gateway.cli.console import CommandError, Output, show
from gateway.cli.options import logging_options, output_option
from gateway.config import load, write_default
from gateway.config.default import FILE_NAME
from gateway.config.section import NAME

TRUST_NAME = "keys.yaml"


def _mesh_name(context: click.Context, option: click.Parameter, mesh: str) -> str:
    if not re.fullmatch(NAME, mesh):
        raise click.BadParameter("expected letters, digits, - and _, at most 63", context, option)
    return mesh


@click.command("init")
@click.option(
    "-c",
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the configuration here.  [default: meshgate.yaml in DIR]",
)
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Write into this folder, which is made if it is missing.  [default: .]",
)
@click.option("--mesh", default="demo", show_default=True, callback=_mesh_name, help="The prefix of every topic.")
@click.option("--force", is_flag=True, help="Overwrite a configuration that is there. Keys are never overwritten.")
@output_option
@logging_options
def command(config_file: Path | None, directory: Path, mesh: str, force: bool, output: Output) -> None:
    """Write a commented configuration that listens on loopback, and the gateway's keys beside it.

    To ./meshgate.yaml, unless FILE or DIR says otherwise. Where a configuration is there, only missing keys are made.
    """
    path = config_file or directory / FILE_NAME
    if path.exists() and not force:
        _make_missing_keys(path, output)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    trust = path.parent / TRUST_NAME
    # Keys first: where there are some already, the configuration takes their node.
    node = UUID(bytes=ensure_identity(trust).node)
    write_default(path.parent, name=path.name, mesh=mesh, node=node, overwrite=force)
    _show(path, trust, node, f"wrote {path}", output)


def _make_missing_keys(path: Path, output: Output) -> None:
    """Makes the keys that an edge or a router needs which is started alone."""
    config = load(path)
    if not file_advice(config):
        raise CommandError(f"{path} is there already: --force overwrites it")
    identity = config.identity
    made = ensure_identity(config.trust, str(identity.node) if identity.node else None, entry=identity.key)
    _show(path, config.trust, UUID(bytes=made.node), f"{path} is kept as it was", output)


def _show(path: Path, trust: Path, node: UUID, done: str, output: Output) -> None:
    document = {"config": str(path), "trust": str(trust), "node": str(node)}
    show(document, output, f"{done}; the gateway's keys are in {trust}\nnext: meshgate up -c {path}")
