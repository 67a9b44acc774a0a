"""`meshgate peers`: who is connected."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import click

from gateway.cli.console import CommandError, Output, cell, printable, show, show_line, show_table
from gateway.cli.options import common_options, config_group, read_config
from gateway.cli.part_options import edges_option
from gateway.cli.protocol_option import protocol_option
from gateway.core.address import HostPort
from gateway.core.event import SECOND_US
from gateway.core.ids import is_anonymous
from gateway.inspect.live.mesh_parts import MeshPart, edge_parts
from gateway.inspect.live.node_labels import node_labels
from gateway.inspect.live.peers import Peer, away, connected
from gateway.records.cloud_event import microseconds

COLUMNS = ("session", "protocol", "listener", "peer", "node", "label", "age", "received", "delivered", "pending")
TOLD_AS = {"received_frames": "received", "delivered_frames": "delivered", "pending_deliveries": "pending"}
AGES = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
NAME_WIDTH = 20


@config_group("peers")
def command() -> None:
    """Who is connected: the sessions of an edge.

    Datagrams have none; who has said hello over emm stands in `meshgate interests list`.
    """


@command.command("list", short_help="List the sessions, and whose other side is away.")
@protocol_option("Only peers that speak this protocol.")
@click.option("--listener", default="", metavar="NAME", help="Only peers of this listener or link.")
@click.option("--node", default="", metavar="NODE", help="Only sessions of this node.")
@edges_option
@common_options
def list_(config_file: str | None, output: Output, edges: tuple[HostPort, ...], **filters: str) -> None:
    """List the sessions, and the links and listeners whose other side is away."""
    config = read_config(config_file)
    parts, labels = edge_parts(config, edges), node_labels(config)
    peers = [peer | {"label": labels.get(peer["node"])} for peer in connected(parts) if _is_wanted(peer, filters)]
    missing = [peer for peer in away(parts) if _is_wanted(peer, filters)]
    if output is Output.JSON:
        show_table(peers + missing, COLUMNS, output)
        return
    show_table(map(_row, peers), COLUMNS, output)
    for peer in missing:
        seconds = time.time() - microseconds(peer["since"]) / SECOND_US
        click.echo(printable(f"{peer['what']} is away, for {age(seconds)}: {peer['why']}"), err=True)


@command.command("show")
@click.argument("session")
@edges_option
@common_options
def show_(config_file: str | None, output: Output, edges: tuple[HostPort, ...], session: str) -> None:
    """Show all that is known of a session."""
    config = read_config(config_file)
    _, peer_found = _find(edge_parts(config, edges), session)
    peer = peer_found | {"label": node_labels(config).get(peer_found["node"])}
    lines = (f"{name.replace('_', ' '):<{NAME_WIDTH}}{cell(value)}" for name, value in peer.items())
    show(peer, output, "\n".join(lines))


@command.command("kick")
@click.argument("sessions", metavar="SESSION...", nargs=-1, required=True)
@edges_option
@common_options
def kick(config_file: str | None, output: Output, edges: tuple[HostPort, ...], sessions: tuple[str, ...]) -> None:
    """End sessions: each peer hears a goodbye in its protocol's words. Nothing keeps it from coming back."""
    parts = edge_parts(read_config(config_file), edges)
    for session in sessions:
        edge, peer = _find(parts, session)
        status, answer = edge.post(f"/peers/{quote(session)}/kick")
        if status != HTTPStatus.ACCEPTED:
            raise CommandError(f"{session}: {printable(str(answer.get('error', status)))}")
        fields = {"kicked": session, "peer": peer["peer"], "node": peer["node"]}
        show_line(fields, output, f"kicked {session} ({peer['protocol']} {peer['peer']})")


def _find(edges: list[MeshPart], session: str) -> tuple[MeshPart, Peer]:
    for edge in edges:
        for peer in connected([edge], session):
            return edge, peer
    edge_names = ", ".join(str(edge.address) for edge in edges)
    missing = f"there is no session {printable(session)} at {edge_names}"
    raise CommandError(f"{missing}: see `meshgate peers list`, and name another edge with --edge")


def _is_wanted(peer: Peer, filters: dict[str, str]) -> bool:
    return all(value in ("", peer.get(name)) for name, value in filters.items())


def _row(peer: Peer) -> dict[str, Any]:
    """An anonymous node is named after the session that stands beside it: shown once is enough."""
    named = {TOLD_AS.get(name, name): value for name, value in peer.items()}
    node = None if is_anonymous(peer["node"]) else peer["node"]
    return named | {"node": node, "age": age(time.time() - microseconds(peer["connected_at"]) / SECOND_US)}


def age(seconds: float) -> str:
    """Returns the age of a session for people.

    >>> age(7.9), age(61), age(3 * 3600 + 60), age(2 * 86400)
    ('7s', '1m', '3h', '2d')
    """
    for size, unit in AGES:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return "0s"
