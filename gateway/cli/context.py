"""`meshgate context`: meshes by name, for people who work with several."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from gateway.cli.console import CommandError, Output, show, show_table
from gateway.cli.contexts import Context, complete_context, contexts_path, load_contexts
from gateway.cli.options import logging_options, output_option, unread_config_option
from gateway.cli.peer_options import PEER_NAMES, UNRESOLVED_OPTIONS, connection_options

NONE = "-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_SECRET = re.compile(r"auth|password|secret|token|key")
COLUMNS = ("selected", "name", "via", "to", "config_file")


@click.group("context")
def command() -> None:
    """Meshes by name: address, protocol, credentials. pub, sub, req and serve use the one that is selected.

    --context NAME goes before $MESHGATE_CONTEXT, and that before the selected one. With --to or -c on the command line
    only a context that --context names is used.
    """


def _name(context: click.Context, argument: click.Parameter, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise click.BadParameter("expected letters, digits, `-`, `_` and `.`", context, argument)
    return name


@command.command("add", short_help="Keep an address and credentials under NAME.")
@click.argument("name", callback=_name)
@output_option
@connection_options
def add(name: str, output: Output, **_: Any) -> None:
    """Keep the options given under NAME, and select it if it is the first. An existing context is replaced.

    It needs an address (--to) or a configuration (-c). Files are kept by their paths, not by what is in them.
    """
    source_of = click.get_current_context().get_parameter_source
    given = [option for option in PEER_NAMES if source_of(option) is ParameterSource.COMMANDLINE]
    values = {option: _value_to_keep(option) for option in given}
    if not {"to", "config_file"} & values.keys():
        raise click.UsageError("a context needs --to, or a configuration with -c")
    contexts = load_contexts()
    contexts.contexts[name] = Context(name, values)
    contexts.selected = contexts.selected or name
    path = contexts.save()
    state = "selected" if contexts.selected == name else f"use it with --context {name}, or meshgate context select"
    show({"name": name, "file": str(path)}, output, f"context {name} is kept in {path}; {state}")


def _value_to_keep(option: str) -> Any:
    """Returns an option's value as it stands on the command line, with the path of a file made absolute."""
    value = click.get_current_context().params[option]
    if option == "protocol_options":
        return list(click.get_current_context().meta[UNRESOLVED_OPTIONS])
    if isinstance(value, Path) or (option in ("key", "config_file") and Path(value).is_file()):
        return str(Path(value).absolute())
    return value


@command.command("list")
@output_option
@unread_config_option
@logging_options
def list_contexts(output: Output) -> None:
    """All contexts, and which one is selected."""
    contexts = load_contexts()
    rows = [
        {"selected": name == contexts.selected, "name": name, **_shown(context)}
        for name, context in contexts.contexts.items()
    ]
    show_table(rows, COLUMNS, output)


@command.command("select")
@click.argument("name", shell_complete=complete_context)
@output_option
@unread_config_option
@logging_options
def select(name: str, output: Output) -> None:
    """Use the context NAME where none is named; `-` selects none."""
    contexts = load_contexts()
    contexts.selected = None if name == NONE else contexts.find(name).name
    contexts.save()
    show({"selected": contexts.selected}, output, f"selected: {contexts.selected or 'none'}")


@command.command("show")
@click.argument("name", required=False, shell_complete=complete_context)
@output_option
@unread_config_option
@logging_options
def show_context(name: str | None, output: Output) -> None:
    """Show what NAME says, or the selected context. Values that may be secret are not shown."""
    contexts = load_contexts()
    chosen = name or contexts.selected
    if chosen is None:
        raise CommandError("no context is selected: name one, or use meshgate context select")
    shown = _shown(contexts.find(chosen))
    lines = [f"{option.replace('_', '-'):<18} {value}" for option, value in shown.items()]
    show({"name": chosen, "file": str(contexts_path()), **shown}, output, "\n".join((chosen, *lines)))


@command.command("remove")
@click.argument("name", shell_complete=complete_context)
@output_option
@unread_config_option
@logging_options
def remove(name: str, output: Output) -> None:
    """Forget the context NAME."""
    contexts = load_contexts()
    del contexts.contexts[contexts.find(name).name]
    contexts.selected = None if contexts.selected == name else contexts.selected
    contexts.save()
    show({"removed": name}, output, f"removed {name}")


def _shown(context: Context) -> dict[str, Any]:
    return {option: _without_secrets(option, value) for option, value in context.values.items()}


def _without_secrets(option: str, value: Any) -> Any:
    """
    >>> _without_secrets("protocol_options", ["auth={users: {a: b}}", "formats=[json]"])
    ['auth=(not shown)', 'formats=[json]']
    """
    if option != "protocol_options":
        return value
    pairs = (text.partition("=") for text in value)
    return [f"{name}=(not shown)" if _SECRET.search(name) else f"{name}={text}" for name, _, text in pairs]
