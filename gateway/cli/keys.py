"""`meshgate keys`: the trust store."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from gateway.auth import key_admin
from gateway.auth.key_admin import KINDS, NewKey
from gateway.auth.trust_file import GATEWAY
from gateway.cli.console import CommandError, Output, show, show_table
from gateway.cli.options import common_options, config_group, read_config
from gateway.cli.texts import utf8
from gateway.cli.times import moment, span

Verb = TypeVar("Verb", bound=Callable[..., Any])

_KEY_ID = re.compile(r"[0-9A-Fa-f]{8}")
_COLUMNS = (
    "node",
    "label",
    "key_id",
    "state",
    "gateway",
    "hmac",
    "ed25519",
    "encryption",
    "default",
    "not_before",
    "not_after",
)


def _key_id(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    if text is not None and not _KEY_ID.fullmatch(text):
        raise click.BadParameter(f"{text} is no key id: expected 8 hex digits")
    return text


def store_options(verb: Verb) -> Verb:
    """Adds `config_file`, `output`, and `trust: Path | None`."""
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


@command.command("list", short_help="All keys: ids, validity, public halves; never a secret.")
@store_options
def list_keys(config_file: str | None, trust: Path | None, output: Output) -> None:
    """All keys, the gateway's first: ids, validity, public halves; never a secret."""
    store, entry = _store(config_file, trust)
    listed = key_admin.list_keys(store, _now(), entry=entry)
    show_table([{**asdict(key), "label": key.label or None} for key in listed], _COLUMNS, output)


@command.command("new", short_help="Add a key to a node, and show it once.")
@click.argument("node", required=False)
@click.option("--kind", "kinds", type=click.Choice(KINDS), multiple=True, help="Kind of key; repeatable.  [hmac]")
@click.option(
    "--key-id", metavar="ID", callback=_key_id, help="The key's id, 8 hex digits.  [default: the next free one]"
)
@click.option("--label", type=utf8, metavar="TEXT", help='What people call the device, such as "garden sensor".')
@click.option("--public", metavar="HEX", help="The Ed25519 public key of a pair that the device made itself.")
@click.option(
    "--default/--no-default", default=None, help="Use it for packets that name no key.  [default: a node's first]"
)
@click.option("--not-before", type=moment, metavar="TIME", help="From when the key holds: RFC 3339, or 7d from now.")
@click.option("--not-after", type=moment, metavar="TIME", help="Until when the key holds, likewise.")
@store_options
def new(
    config_file: str | None, trust: Path | None, output: Output, node: str | None, kinds: tuple[str, ...], **parts: Any
) -> None:
    """Add a key to NODE (a UUID; a new one if none is given), and show once what the device must be given.

    A secret of your own goes into the file itself: 16 bytes at least for hmac, 32 for encryption, in hex.
    """
    chosen = kinds or (("ed25519",) if parts["public"] else ("hmac",))
    store, _ = _store(config_file, trust)
    _show_new(_admin(key_admin.new_key, store, node, kinds=chosen, **parts), output)


@command.command("rotate", short_help="Give a node a new key beside its old one.")
@click.argument("node")
@click.option("--key-id", metavar="ID", help="The key that the new one follows.  [default: the latest that holds]")
@click.option("--public", metavar="HEX", help="The Ed25519 public key of a pair that the device made itself.")
@click.option("--overlap", type=span, default="7d", show_default=True, help="How long both keys hold.")
@store_options
def rotate(config_file: str | None, trust: Path | None, output: Output, node: str, **parts: Any) -> None:
    """Give NODE a new key like its old one, which goes on holding for a while. NODE may be `gateway`.

    The gateway signs with its new key at once; the old one is still believed meanwhile."""
    store, entry = _store(config_file, trust)
    if node == GATEWAY:
        if parts["key_id"] or parts["public"]:
            raise click.UsageError("--key-id and --public are for nodes: the gateway's new key is made here")
        _show_new(_admin(key_admin.rotate_identity, store, now=_now(), overlap=parts["overlap"], entry=entry), output)
    else:
        _show_new(_admin(key_admin.rotate_key, store, node, now=_now(), **parts), output)


@command.command("revoke")
@click.argument("node")
@click.argument("key_id")
@store_options
def revoke(config_file: str | None, trust: Path | None, output: Output, node: str, key_id: str) -> None:
    """End a key of NODE now."""
    store, _ = _store(config_file, trust)
    _admin(key_admin.revoke_key, store, node, key_id, now=_now())
    show({"node": node, "key_id": key_id, "state": "expired"}, output, f"{node} {key_id} is revoked")


def _now() -> datetime:
    return datetime.now(UTC)


def _store(config_file: str | None, trust: Path | None) -> tuple[Path, str]:
    """Returns the trust store, and the name of the gateway's entry in it."""
    if trust is not None and config_file is None:
        return trust, GATEWAY
    config = read_config(config_file)
    return trust or config.trust, config.identity.key


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
