"""The configuration of a mesh: `meshgate.yaml`, read, judged and watched.

Names are imported when they are first asked for. The trust store shares `source` and `faults`, and a verb that reads
keys alone must not pay for the models of everything else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.config.default import default_text, write_default
    from gateway.config.effective import redacted, unredacted
    from gateway.config.faults import ConfigError, Fault
    from gateway.config.listeners import ConnectTls, Endpoint, Link, Listener, ListenTls
    from gateway.config.loading import find_config, load, parse
    from gateway.config.model import Config
    from gateway.config.needed_files import check_files
    from gateway.config.schema import json_schema
    from gateway.config.settings import Limits
    from gateway.config.watch import Broken, Change, ConfigWatch, Refused, Reloaded, restart_needed

_HOMES = {
    "default": ("default_text", "write_default"),
    "effective": ("redacted", "unredacted"),
    "faults": ("ConfigError", "Fault"),
    "listeners": ("ConnectTls", "Endpoint", "Link", "ListenTls", "Listener"),
    "loading": ("find_config", "load", "parse"),
    "model": ("Config",),
    "needed_files": ("check_files",),
    "schema": ("json_schema",),
    "settings": ("Limits",),
    "watch": ("Broken", "Change", "ConfigWatch", "Refused", "Reloaded", "restart_needed"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Broken",
    "Change",
    "Config",
    "ConfigError",
    "ConfigWatch",
    "ConnectTls",
    "Endpoint",
    "Fault",
    "Limits",
    "Link",
    "ListenTls",
    "Listener",
    "Refused",
    "Reloaded",
    "check_files",
    "default_text",
    "find_config",
    "json_schema",
    "load",
    "parse",
    "redacted",
    "restart_needed",
    "unredacted",
    "write_default",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = found
    return found
