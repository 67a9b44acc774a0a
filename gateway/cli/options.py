"""Options that verbs share. A verb takes them as decorators and gets their values by the names said here."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from gateway.cli import log_setup
from gateway.cli.console import LOG_FORMAT, Output

if TYPE_CHECKING:
    from gateway.config import Config

CONFIG_VARIABLE = "MESHGATE_CONFIG"
_JSON = "gateway.cli.json"
_LOUDNESS = "gateway.cli.loudness"
Verb = TypeVar("Verb", bound=Callable[..., Any])
OutputT = TypeVar("OutputT", bound=StrEnum)


config_option = click.option(
    "-c",
    "--config",
    "config_file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    # click would let the environment go before a group's own -c.
    callback=lambda _context, _option, path: path or os.environ.get(CONFIG_VARIABLE) or None,
    help=f"The configuration.  [default: ${CONFIG_VARIABLE}, else ./meshgate.yaml, else ./mesh/meshgate.yaml]",
)
"""Adds `config_file: str | None`, for `read_config`."""

unread_config_option = click.option(
    "-c", "--config", metavar="FILE", type=click.Path(dir_okay=False), expose_value=False, hidden=True
)
"""Takes -c, as every verb does, where no configuration is read."""


def config_group(name: str) -> Callable[[Callable[..., Any]], click.Group]:
    """A verb that has verbs of its own: takes -c before them too, for whichever follows."""

    def for_all(context: click.Context, _option: click.Parameter, path: str | None) -> None:
        if path is not None and isinstance(context.command, click.Group):
            context.default_map = {verb: {"config_file": path} for verb in context.command.commands}

    def decorate(function: Callable[..., Any]) -> click.Group:
        group = click.group(name)(function)
        group.params.append(
            click.Option(
                ["-c", "--config"],
                metavar="FILE",
                type=click.Path(dir_okay=False),
                expose_value=False,
                callback=for_all,
                help="The configuration, for any of the verbs below.",
            )
        )
        return group

    return decorate


dir_option = click.option(
    "--dir",
    "state_dir",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where state is kept.  [default: the configuration's folder]",
)
"""Adds `state_dir: Path | None`, for `read_config`."""


def grouped(name: str, kind: type[Any]) -> Callable[[Verb], Verb]:
    """Gives the verb one value, of a dataclass whose fields are named as its options are. Stands below the options."""
    names = [field.name for field in fields(kind)]

    def decorate(verb: Verb) -> Verb:
        @wraps(verb)
        def with_group(**values: Any) -> Any:
            return verb(**{name: kind(**{option: values.pop(option) for option in names})}, **values)

        return cast(Verb, with_group)

    return decorate


def output_choice(outputs: type[OutputT], text: str) -> Callable[[Verb], Verb]:
    """Adds `--output`, one of `outputs`, and `--json`, which means `--output json`. The value is `output`."""

    def decorate(verb: Verb) -> Verb:
        choice = click.option(
            "--output",
            type=click.Choice([output.value for output in outputs]),
            default=Output.TEXT.value,
            show_default=True,
            callback=lambda context, _option, value: outputs("json" if context.meta.get(_JSON) else value),
            help=text,
        )
        alias = click.option(
            "--json",
            is_flag=True,
            expose_value=False,
            is_eager=True,  # so that `--output` knows of it, whichever comes first
            callback=lambda context, _option, is_wanted: context.meta.update({_JSON: is_wanted}),
            help="As --output json.",
        )
        return choice(alias(verb))

    return decorate


output_option = output_choice(Output, "Text for people or JSON for programs.")
"""Adds `output: Output`."""


def logging_options(verb: Verb) -> Verb:
    """Adds -v, -q and --log-format, which pass nothing to the verb.

    The log is set up before the verb runs, and before its other options are checked: their faults are told in the log's
    format too.
    """
    for option in (
        click.option(
            "-v",
            "verbose",
            count=True,
            expose_value=False,
            is_eager=True,
            callback=lambda context, _option, count: _set_up(context, loudness=count),
            help="Log more; -vv logs most.",
        ),
        click.option(
            "-q",
            "quiet",
            count=True,
            expose_value=False,
            is_eager=True,
            callback=lambda context, _option, count: _set_up(context, loudness=-count),
            help="Log errors only.",
        ),
        click.option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            expose_value=False,
            is_eager=True,
            callback=lambda context, _option, log_format: _set_up(context, log_format=log_format),
            help="How log lines are written, to standard error.",
        ),
    ):
        verb = option(verb)
    return verb


def common_options(verb: Verb) -> Verb:
    """Adds the options that nearly every verb takes: `config_file`, `output`, and the log's."""
    return config_option(output_option(logging_options(verb)))


def read_config(config_file: str | None, state_dir: Path | None = None) -> Config:
    """Raises ConfigError, which ends the program with 78. Imported late: not every verb reads a configuration."""
    from gateway.config import find_config, load

    return load(find_config(config_file), state_dir=state_dir)


def _set_up(context: click.Context, *, loudness: int = 0, log_format: str | None = None) -> None:
    """Sets up the log anew with what one of the three options adds, in whatever order they were given."""
    meta = context.meta
    meta[_LOUDNESS] = meta.get(_LOUDNESS, 0) + loudness
    log_setup.set_up(meta[_LOUDNESS], log_format or LOG_FORMAT.get())
