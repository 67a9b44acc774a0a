"""`meshgate graph`: the running topology."""

from __future__ import annotations

from dataclasses import asdict

import click

from gateway.cli.console import Output, show
from gateway.cli.graph_text import as_dot, as_mermaid
from gateway.cli.numbers import Whole
from gateway.cli.options import common_options, read_config
from gateway.cli.part_options import edges_option, router_option
from gateway.core.address import HostPort
from gateway.core.errors import SetupError
from gateway.inspect.live.current_interests import standing
from gateway.inspect.live.exposition import read_samples
from gateway.inspect.live.mesh_parts import MeshPart, edge_parts, router_part
from gateway.inspect.live.node_labels import node_labels
from gateway.inspect.live.peers import connected
from gateway.inspect.live.topology import MODES, EdgeNow, topology


@click.command("graph")
@click.option("--format", "form", type=click.Choice(["dot", "mermaid"]), default="dot", show_default=True)
@click.option(
    "--peers",
    "most_peers",
    type=Whole(min=0),
    default=20,
    show_default=True,
    help="Show COUNT peers of each listener one by one, and the others as one box.",
)
@edges_option
@router_option
@common_options
def command(
    config_file: str | None,
    output: Output,
    form: str,
    most_peers: int,
    edges: tuple[HostPort, ...],
    router: HostPort | None,
) -> None:
    """Draw the mesh as it runs: peers and what they want, listeners, edges, topics, lanes.

    \b
    meshgate graph | dot -Tsvg > mesh.svg
    meshgate graph --format mermaid          # for a page in Markdown

    A router that does not answer is drawn dashed.
    """
    config = read_config(config_file)
    now = [EdgeNow(edge.json("/config"), connected([edge])) for edge in edge_parts(config, edges)]
    modes, labels = _modes(router_part(config, router)), node_labels(config)
    graph = topology(config, now, standing(config), modes, most_peers, labels)
    lines = as_dot(graph, config.mesh) if form == "dot" else as_mermaid(graph)
    show(asdict(graph), output, "\n".join(lines))


def _modes(router: MeshPart) -> dict[str, str]:
    """Returns the modes of the lanes, by name; none if the router does not answer."""
    try:
        samples = read_samples(router.text("/metrics"))
    except SetupError:
        return {}
    return {
        sample.labels["lane"]: MODES[bool(sample.value)]
        for sample in samples
        if sample.name == "meshgate_lane_realtime"
    }
