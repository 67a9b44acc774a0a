"""`meshgate explain`: one setting of the configuration."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from gateway.cli.console import Output, cell, show
from gateway.cli.options import common_options, read_config
from gateway.config.effective import redacted
from gateway.config.loading import DEFAULT_PATHS
from gateway.config.reference import Setting, as_document, find_settings, settings, settings_inside


def _complete(_context: click.Context, _argument: click.Parameter, typed: str) -> list[CompletionItem]:
    paths = dict.fromkeys(setting.path for setting in settings())
    return [CompletionItem(path) for path in paths if path.startswith(typed)]


@click.command("explain")
@click.argument("setting", shell_complete=_complete)
@common_options
def command(setting: str, config_file: str | None, output: Output) -> None:
    """Explain SETTING: what it does and why, its type, unit and default, and whether a change needs a restart.

    SETTING is written as in a fault of `validate`: limits.frame_bytes, listeners[0].tls.cert, kafka.topics.raw, or
    listeners.limits.frame_bytes. A section lists what is in it. Where there is a configuration, its own value is shown
    too. The same for all: gateway/docs/settings.md.
    """
    matching = find_settings(setting)
    if not matching:
        close = difflib.get_close_matches(setting, [each_setting.path for each_setting in settings()], n=1)
        raise click.UsageError(f"there is no setting {setting}" + (f": did you mean {close[0]}?" if close else ""))
    here = _values_here(config_file)
    show(
        [_document(each_setting, here) for each_setting in matching],
        output,
        "\n\n".join(_text(each_setting, here) for each_setting in matching),
    )


def _values_here(config_file: str | None) -> Mapping[str, Any]:
    """Returns the configuration as it holds, without secrets; nothing where none is named or found."""
    if config_file is None and not any(path.is_file() for path in DEFAULT_PATHS):
        return {}
    return redacted(read_config(config_file))


def _value_here(setting: Setting, here: Mapping[str, Any]) -> Any:
    """Returns what a setting is here; None for a section, and inside lists, where there is no one value."""
    value: Any = None if setting.is_section else here
    for step in setting.path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _document(setting: Setting, here: Mapping[str, Any]) -> dict[str, object]:
    inside = [inner.path for inner in settings_inside(setting)]
    value = {"value": _value_here(setting, here)} if here and not setting.is_section else {}
    return {**as_document(setting), **value, **({"settings": inside} if inside else {})}


def _text(setting: Setting, here: Mapping[str, Any]) -> str:
    value = _value_here(setting, here)
    facts = {
        "type": setting.type.replace("`", ""),
        "unit": setting.unit,
        "default": "none: it is required" if setting.is_required else setting.default,
        "here": None if value is None else cell(value),
        "protocols": ", ".join(setting.protocols),
        "reload": "yes, within 10 s" if setting.reloads else "no, a change needs a restart",
    }
    lines = [f"  {name:<10} {value}" for name, value in facts.items() if value]
    inside = dict.fromkeys(inner.path for inner in settings_inside(setting))
    lines += ["  settings:", *(f"    {path}" for path in inside)] if inside else []
    return "\n".join((click.style(setting.path, bold=True), f"  {setting.description}", *lines))
