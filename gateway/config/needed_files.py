"""Files that a configuration names and that must be there when a part starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gateway.config.model import Config
from gateway.core.yaml_files.faults import Fault


def check_files(config: Config) -> list[Fault]:
    """Checks the files that a configuration names. It is apart from `load`, which also runs where no certificate is
    mounted.

    A trust store that is not there is no fault: `up` makes it.
    """
    return [
        Fault(str(config.path), setting, f"cannot read {path}")
        for setting, path in named_files(config)
        if path is not None and not (path.is_file() and os.access(path, os.R_OK))
    ]


def named_files(config: Config) -> Iterator[tuple[str, Path | None]]:
    """Yields the setting and the path of every file that the configuration names."""
    if config.trust.exists():
        yield "trust", config.trust
    for name in ("ca", "cert", "key"):
        yield f"kafka.security.{name}", getattr(config.kafka.security, name)
    if config.auth.tokens is not None:
        yield "auth.tokens.jwks", config.auth.tokens.jwks
    for at, listener in enumerate(config.listeners):
        if listener.tls is not None:
            for name in ("cert", "key", "client_ca", "crl"):
                yield f"listeners[{at}].tls.{name}", getattr(listener.tls, name)
    for at, link in enumerate(config.peers):
        if link.tls is not None:
            for name in ("ca", "cert", "key"):
                yield f"peers[{at}].tls.{name}", getattr(link.tls, name)
