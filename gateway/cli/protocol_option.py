"""The option of verbs that choose by protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from gateway.protocols import protocols
from gateway.records.raw_log.control_frames import MESH

Verb = TypeVar("Verb", bound=Callable[..., Any])


def protocol_option(help_text: str) -> Callable[[Verb], Verb]:
    """Adds `protocol: str`, empty if none is chosen. A mistyped name is refused, because it would choose nothing."""
    return click.option(
        "--protocol",
        type=click.Choice([*sorted(protocols()), MESH]),
        callback=lambda _context, _option, name: name or "",
        help=help_text,
    )
