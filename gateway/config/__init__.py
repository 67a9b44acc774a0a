"""The configuration of a mesh: `meshgate.yaml`, read, judged and watched."""

from gateway.config.default import default_text, write_default
from gateway.config.effective import redacted, unredacted
from gateway.config.listeners import ConnectTls, Endpoint, Link, Listener, ListenTls
from gateway.config.loading import find_config, load, parse
from gateway.config.model import Config
from gateway.config.needed_files import check_files
from gateway.config.schema import json_schema
from gateway.config.settings import Limits
from gateway.config.watch import Broken, Change, ConfigWatch, Refused, Reloaded, restart_needed
from gateway.core.yaml_files.faults import ConfigError, Fault

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
