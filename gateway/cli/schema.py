"""`meshgate schema`: the configuration's JSON Schema."""

from __future__ import annotations

import json

import click

from gateway.cli.options import common_options
from gateway.config import json_schema


@click.command("schema")
@common_options
def command(**_: object) -> None:
    """Print the JSON Schema of meshgate.yaml, the options of every protocol included.

    For an editor that speaks YAML: `meshgate schema > meshgate.schema.json`, and as the first line of the file
    `# yaml-language-server: $schema=meshgate.schema.json`. It is the same for every configuration.
    """
    click.echo(json.dumps(json_schema(), indent=2))
