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
    """Show who wants what: subscriptions, and subjects that are served.

    `interests list --subject temp.kitchen` shows who would get an event of that subject. Where nobody is shown, nobody
    subscribes to it. Sessions stand in `meshgate peers list`.
    """


@command.command("list")
@click.option(
    "--verb",
    type=click.Choice([choice.value for choice in Verb]),
    default=None,
    help="Show only interests of this kind.",
)
@click.option(
    "--subject", default="", metavar="SUBJECT", help="Show only interests that an event of this subject would match."
)
@protocol_option("Show only interests over this protocol.")
@click.option("--node", default="", metavar="NODE", help="Show only interests of this node.")
@click.option(
    "--subscriber", default="", metavar="ID", help="Show only interests of this session, or of this durable name."
)
@common_options
def list_(config_file: str | None, output: Output, verb: str | None, **filters: str) -> None:
    """List them by their patterns, from the mesh's own record of them.

    A subscriber is a session (`meshgate peers show` tells of it), or what outlives its sessions: `emm:NODE`, whose
    hello was a lease until `expires` at the latest, and `node:NODE@LISTENER`, which is owed what it misses.
    """
    chosen = InterestFilter(verb=verb or "", **filters)
    config = read_config(config_file)
    labels = node_labels(config)
    rows = (interest_row(interest) for interest in standing(config) if chosen.passes(interest))
    labelled = [row | {"label": labels.get(row["node"] or "")} for row in rows]
    show_table(labelled if output is Output.JSON else map(_row, labelled), COLUMNS, output)


def _row(interest: dict[str, Any]) -> dict[str, Any]:
    return interest | ({"node": None} if is_anonymous(interest["node"] or "") else {})
