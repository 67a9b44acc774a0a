"""`meshgate interests`: who wants what."""

from __future__ import annotations

from typing import Any

import click

from gateway.cli.console import Output, show_table
from gateway.cli.options import common_options, config_group, read_config
from gateway.cli.protocol_option import protocol_option
from gateway.core.ids import is_anonymous
from gateway.inspect.live.current_interests import InterestFilter, interest_row, standing
from gateway.inspect.live.node_labels import node_labels
from gateway.interests import Verb

COLUMNS = ("verb", "pattern", "group", "subscriber", "protocol", "listener", "node", "label", "expires")


@config_group("interests")
def command() -> None:
    """Who wants what: subscriptions, and subjects that are served."""


@command.command("list")
@click.option("--verb", type=click.Choice([one.value for one in Verb]), default=None, help="Only these.")
@click.option("--subject", default="", metavar="SUBJECT", help="Only who would get an event of this subject.")
@protocol_option("Only what is wanted over this protocol.")
@click.option("--node", default="", metavar="NODE", help="Only what this node wants.")
@click.option("--subscriber", default="", metavar="ID", help="Only of this session, or of what outlives sessions.")
@common_options
def list_(config_file: str | None, output: Output, verb: str | None, **wanted: str) -> None:
    """List them by their patterns, from the mesh's own record of them.

    A subscriber is a session (`meshgate peers show` tells of it), or what outlives its sessions: `emm:NODE`, whose
    hello was a lease until `expires` at the latest, and `node:NODE@LISTENER`, which is owed what it misses.
    """
    chosen = InterestFilter(verb=verb or "", **wanted)
    config = read_config(config_file)
    labels = node_labels(config)
    rows = (interest_row(one) for one in standing(config) if chosen.passes(one))
    found = [row | {"label": labels.get(row["node"] or "")} for row in rows]
    show_table(found if output is Output.JSON else map(_row, found), COLUMNS, output)


def _row(interest: dict[str, Any]) -> dict[str, Any]:
    return interest | ({"node": None} if is_anonymous(interest["node"] or "") else {})
