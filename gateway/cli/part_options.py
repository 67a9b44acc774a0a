"""Options of the verbs that ask the parts of a running mesh: where their management addresses are."""

from __future__ import annotations

from typing import Any

import click
from pydantic_core import PydanticCustomError

from gateway.core.address import HostPort, parse_host_port


class PartAddress(click.ParamType[HostPort]):
    name = "HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> HostPort:
        try:
            return parse_host_port(value)
        except PydanticCustomError as wrong:
            self.fail(f"{value}: {wrong.message()}", param, ctx)


edges_option = click.option(
    "--edge",
    "edges",
    type=PartAddress(),
    multiple=True,
    help="The management address of an edge; may be repeated.  [default: edge.management]",
)
"""Adds `edges: tuple[HostPort, ...]`, for `edge_parts`."""
router_option = click.option(
    "--router", type=PartAddress(), help="The management address of the router.  [default: router.management]"
)
"""Adds `router: HostPort | None`, for `router_part`."""
