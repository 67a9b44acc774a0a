"""The protocols, one folder each, found by location.

A folder holds `frames.py` (the bytes as tables), `codec.py` (split, decode, encode), `session.py` (sans-IO),
`mapping.py` (to_event, from_event) and an `__init__.py` that says only `PROTOCOL = ProtocolSpec(...)`.
To add a protocol, add a folder: nothing else is edited.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from gateway.protocols.spec import ProtocolSpec


class ProtocolClashError(Exception):
    """Raised if two folders claim one name or one default port, or a folder has no PROTOCOL."""


@cache
def protocols() -> Mapping[str, ProtocolSpec[Any]]:
    """Returns every protocol by its name."""
    specs: dict[str, ProtocolSpec[Any]] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            spec = _load(module.name)
            clash = next((other for other in specs.values() if other.default_port == spec.default_port), None)
            if spec.name in specs or clash is not None:
                raise ProtocolClashError(f"{module.name}: name or default port is taken by {(clash or spec).name}")
            specs[spec.name] = spec
    return MappingProxyType(specs)


def _load(folder: str) -> ProtocolSpec[Any]:
    package = importlib.import_module(f"{__name__}.{folder}")
    spec = getattr(package, "PROTOCOL", None)
    if not isinstance(spec, ProtocolSpec):
        raise ProtocolClashError(f"{folder}: its __init__ has no PROTOCOL = ProtocolSpec(...)")
    return spec
