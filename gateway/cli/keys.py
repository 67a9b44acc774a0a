"""`meshgate keys`: the trust store."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from gateway.auth import key_admin
from gateway.auth.key_admin import KINDS, NewKey
from gateway.auth.trust_file import GATEWAY
from gateway.cli.console import CommandError, Output, show, show_table
from gateway.cli.options import common_options, config_group, read_config

Verb = TypeVar("Verb", bound=Callable[..., Any])

_SPAN = re.compile(r"(?P<count>\d{1,5})(?P<unit>[smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_COLUMNS = ("node", "key_id", "state", "gateway", "hmac", "ed25519", "encryption", "default", "not_before", "not_after")


def span(text: str) -> timedelta:
    """A length of time: 90s, 5m, 24h, 7d, 2w."""
    found = _SPAN.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text} is no length of time such as 90s, 5m, 24h or 7d")
    return timedelta(**{_UNITS[found["unit"]]: int(found["count"])})


def moment(text: str) -> datetime:
    """A point in time: RFC 3339, or a length of time from now (7d, -5m)."""
    if _SPAN.fullmatch(text.removeprefix("-")):
        length = span(text.removeprefix("-"))
        return _now() - length if text.startswith("-") else _now() + length
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise click.BadParameter(f"{text} is no RFC 3339 time such as 2026-01-31T12:00:00Z")
    return found


def store_options(verb: Verb) -> Verb:
    """`config_file`, `output`, and `trust: Path | None`."""
    option = click.option(
        "--trust",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The trust store.  [default: the one the configuration names]",
    )
    return common_options(option(verb))


@config_group("keys")
def command() -> None:
    """The trust store: whom the mesh believes, and what the gateway signs with."""


@command.command("list")
@store_options
def list_keys(config_file: str | None, trust: Path | None, output: Output) -> None:
    """All keys, the gateway's first: ids, validity, public halves; never a secret."""
    listed = key_admin.list_keys(_store(config_file, trust), _now())
    show_table([asdict(key) for key in listed], _COLUMNS, output)


@command.command("new")
@click.argument("node", required=False)
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Of the key; may be repeated.  [hmac]")
@click.option("--key-id", metavar="ID", help="8 hex digits.  [default: the next free one]")
@click.option("--public", metavar="HEX", help="The Ed25519 public key of a pair that the device made itself.")
@click.option("--default/--no-default", default=None, help="For packets that name no key.  [default: a node's first]")
@click.option("--not-before", type=moment, help="From when the key holds.")
@click.option("--not-after", type=moment, help="Until when the key holds.")
@store_options
def new(
    config_file: str | None, trust: Path | None, output: Output, node: str | None, kinds: tuple[str, ...], **rest: Any
) -> None:
    """Add a key to NODE (a UUID; a new one if none is given), and show once what the device must be given."""
    chosen = kinds or (("ed25519",) if rest["public"] else ("hmac",))
    _show_new(_admin(key_admin.new_key, _store(config_file, trust), node, kinds=chosen, **rest), output)


@command.command("rotate")
@click.argument("node")
@click.option("--key-id", metavar="ID", help="The key to be followed.  [default: the latest that holds]")
@click.option("--public", metavar="HEX", help="The Ed25519 public key of a pair that the device made itself.")
@click.option("--overlap", type=span, default="7d", show_default=True, help="How long both keys hold.")
@store_options
def rotate(config_file: str | None, trust: Path | None, output: Output, node: str, **rest: Any) -> None:
    """Give NODE a new key like its old one, which goes on holding for a while. NODE may be `gateway`."""
    store = _store(config_file, trust)
    if node == GATEWAY:
        _show_new(_admin(key_admin.rotate_identity, store), output)
    else:
        _show_new(_admin(key_admin.rotate_key, store, node, now=_now(), **rest), output)


@command.command("revoke")
@click.argument("node")
@click.argument("key_id")
@store_options
def revoke(config_file: str | None, trust: Path | None, output: Output, node: str, key_id: str) -> None:
    """End a key of NODE now."""
    _admin(key_admin.revoke_key, _store(config_file, trust), node, key_id, now=_now())
    show({"node": node, "key_id": key_id, "state": "expired"}, output, f"{node} {key_id} is revoked")


def _now() -> datetime:
    return datetime.now(UTC)


def _store(config_file: str | None, trust: Path | None) -> Path:
    return read_config(config_file).trust if trust is None else trust


def _admin(change: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    try:
        return change(*arguments, **options)
    except key_admin.KeyAdminError as refused:
        raise CommandError(str(refused)) from None


def _show_new(key: NewKey, output: Output) -> None:
    """The only time that the secrets are seen; `asdict` would hide nothing either."""
    lines = [f"node        {key.node}", f"key id      {key.key_id}"]
    if key.public is not None:
        lines.append(f"public      {key.public}")
    lines += [f"{kind + ':':<12}{secret}" for kind, secret in key.secrets.items()]
    if key.secrets:
        lines.append("What stands after a colon is secret, goes into the device, and is not shown again.")
    show(asdict(key), output, "\n".join(lines))
