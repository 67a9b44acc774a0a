"""The stream protocols that the contract holds for, found by location like the protocols themselves.

A protocol of the gateway is found in `gateway.protocols`, what the contract must be told of it in
`tests/unit/protocols/contract/examples/<its name>.py`. The sixth lives in `sixth/`, and is there only while a
test wants it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gateway.protocols
from gateway.protocols import protocols
from gateway.protocols.session import Session
from gateway.protocols.spec import Options, ProtocolSpec
from tests.unit.protocols.contract.conversation import settings

SIXTH, SECOND_DATAGRAM = "tick", "beacon"
ADDED = {SIXTH: Path(__file__).parent / "sixth", SECOND_DATAGRAM: Path(__file__).parent / "second_datagram"}
"""Folders of protocols that nobody wrote the gateway for."""

GOES_ON = ""


def stream_protocols() -> list[str]:
    return [name for name, spec in sorted(protocols().items()) if spec.session is not None]


@dataclass(frozen=True)
class Examples:
    """What the contract must be told of a protocol, all of it from the side of a peer that connects to us.

    `opening`: what it says before anything else. `frames`: one of each type. `states`: what it says to get there.
    `walk`: for each state and frame how the session ends, or GOES_ON. `sized`: a frame that counts so many bytes
    against the limit, which `limited` sets, if `settings.frame_bytes` does not. `refused_after`: how many bytes of a
    frame that is too large are read before it is refused.
    """

    opening: bytes
    frames: Mapping[str, bytes]
    states: Mapping[str, bytes]
    walk: Mapping[str, Mapping[str, str]]
    sized: Callable[[int], bytes]
    refused_after: Callable[[int], int]
    limited: Callable[[int], Mapping[str, Any]] = field(default=lambda _limit: {})


def examples(name: str) -> Examples:
    module = importlib.import_module(f"tests.unit.protocols.contract.examples.{name}")
    found = module.EXAMPLES
    assert isinstance(found, Examples)
    return found


@contextmanager
def found(name: str) -> Iterator[ProtocolSpec[Any]]:
    """The protocol, and one that is added among the others while it is wanted."""
    if name not in ADDED:
        yield protocols()[name]
        return
    gateway.protocols.__path__.append(str(ADDED[name]))
    protocols.cache_clear()
    try:
        yield protocols()[name]
    finally:
        gateway.protocols.__path__.remove(str(ADDED[name]))
        protocols.cache_clear()
        package = f"{gateway.protocols.__name__}.{name}"
        for module in [module for module in sys.modules if module.partition(package)[:2] == ("", package)]:
            del sys.modules[module]
        delattr(gateway.protocols, name)


def new_session(spec: ProtocolSpec[Any], keys: Mapping[str, Any] | None = None, **changes: Any) -> Session:
    options: Options = spec.options.model_validate(keys or {})
    assert spec.session is not None
    return spec.session(settings(**changes), options)
