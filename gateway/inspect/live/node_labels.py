"""Reads the names that people gave the nodes, from the trust store of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gateway.auth.key_admin import labels_of
from gateway.config import Config
from gateway.core.yaml_files.faults import ConfigError
from gateway.core.yaml_files.stamps import Stamp, stamps


def node_labels(config: Config) -> dict[str, str]:
    """Returns labels by node. A trust store that cannot be read here only leaves the names out."""
    try:
        return labels_of(config.trust, config.identity.key)
    except ConfigError:
        return {}


class NodeLabels:
    """Keeps the labels for a page that asks every second: the trust store is read again only when it has changed."""

    def __init__(self, config: Callable[[], Config]) -> None:
        self._config = config
        self._stamps: list[Stamp] | None = None
        self._labels: Mapping[str, str] = {}

    def now(self) -> Mapping[str, str]:
        config = self._config()
        current = stamps([config.trust])
        if current != self._stamps:
            self._labels, self._stamps = node_labels(config), current
        return self._labels
