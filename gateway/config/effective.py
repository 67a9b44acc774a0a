"""The configuration as it holds, defaults included, in the shape of the file it came from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, SecretStr

from gateway.config.listeners import Endpoint
from gateway.config.model import Config

REDACTED = "(redacted)"
_SECRET_NAME = re.compile(r"password|passphrase|secret|token(?!s$)|private|cluster_key|^hmac$|^users$")
"""A second lock: options that hold a secret should be `SecretStr`, and are hidden by their name where they are not."""


def redacted(config: Config) -> dict[str, Any]:
    """Returns the configuration without its secrets, for people and for the management address."""
    whole: dict[str, Any] = _hidden(_plain(config, reveal=False))
    return whole


def unredacted(config: Config) -> dict[str, Any]:
    """Returns the configuration with its secrets: the same configuration can be read from it again."""
    whole: dict[str, Any] = _plain(config, reveal=True)
    return whole


def _plain(value: Any, *, reveal: bool) -> Any:
    if isinstance(value, Endpoint):
        return _endpoint(value, reveal=reveal)
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name), reveal=reveal) for name in type(value).model_fields}
    if isinstance(value, SecretStr):
        return value.get_secret_value() if reveal else REDACTED
    if isinstance(value, Mapping):
        return {str(key): _plain(inner, reveal=reveal) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner, reveal=reveal) for inner in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _endpoint(endpoint: Endpoint, *, reveal: bool) -> dict[str, Any]:
    """Returns common keys, options and the limits it sets itself, side by side again."""
    common = {
        name: getattr(endpoint, name) for name in type(endpoint).model_fields if name not in ("limits", "options")
    }
    options = {name: getattr(endpoint.options, name) for name in type(endpoint.options).model_fields}
    return {name: _plain(value, reveal=reveal) for name, value in (common | endpoint.limits | options).items()}


def _hidden(value: Any, *, under_secret: bool = False) -> Any:
    if isinstance(value, dict):
        return {
            key: _hidden(inner, under_secret=under_secret or bool(_SECRET_NAME.search(key)))
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_hidden(inner, under_secret=under_secret) for inner in value]
    return REDACTED if under_secret and value is not None else value
