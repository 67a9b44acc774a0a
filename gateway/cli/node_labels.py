"""Reads the names that people gave the nodes, from the trust store of this machine."""

from __future__ import annotations

from gateway.auth.key_admin import labels_of
from gateway.config import Config
from gateway.core.yaml_files.faults import ConfigError


def node_labels(config: Config) -> dict[str, str]:
    """Returns labels by node. A trust store that cannot be read here only leaves the names out."""
    try:
        return labels_of(config.trust, config.identity.key)
    except ConfigError:
        return {}
