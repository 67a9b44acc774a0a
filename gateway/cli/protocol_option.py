"""The option of verbs that choose by protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from gateway.protocols import protocols
from gateway.raw_log.mesh_frames import MESH

Verb = TypeVar("Verb", bound=Callable[..., Any])


def protocol_option(told: str) -> Callable[[Verb], Verb]:
    """`protocol: str`, empty where none is chosen. A name that is mistyped would choose nothing."""
    return click.option(
        "--protocol",
        type=click.Choice([*sorted(protocols()), MESH]),
        callback=lambda _context, _option, given: given or "",
        help=told,
    )
