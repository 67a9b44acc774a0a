"""`meshgate explain`: one setting of the configuration."""

from __future__ import annotations

import difflib

import click
from click.shell_completion import CompletionItem

from gateway.cli.console import Output, show
from gateway.cli.options import common_options
from gateway.config.reference import Setting, as_document, find_settings, settings, settings_inside


def _complete(_context: click.Context, _argument: click.Parameter, begun: str) -> list[CompletionItem]:
    paths = dict.fromkeys(setting.path for setting in settings())
    return [CompletionItem(path) for path in paths if path.startswith(begun)]


@click.command("explain")
@click.argument("setting", shell_complete=_complete)
@common_options
def command(setting: str, output: Output, **_: object) -> None:
    """Explain SETTING: what it does and why, its type, unit and default, and whether a change needs a restart.

    SETTING is written as in a fault of `validate`: limits.frame_bytes, listeners[0].tls.cert, kafka.topics.raw, or
    listeners.limits.frame_bytes. A section lists what is in it. The same for all: gateway/docs/settings.md.
    """
    found = find_settings(setting)
    if not found:
        close = difflib.get_close_matches(setting, [one.path for one in settings()], n=1)
        raise click.UsageError(f"there is no setting {setting}" + (f": did you mean {close[0]}?" if close else ""))
    show([_document(one) for one in found], output, "\n\n".join(map(_text, found)))


def _document(setting: Setting) -> dict[str, object]:
    inside = [one.path for one in settings_inside(setting)]
    return {**as_document(setting), **({"settings": inside} if inside else {})}


def _text(setting: Setting) -> str:
    facts = {
        "type": setting.type.replace("`", ""),
        "unit": setting.unit,
        "default": "none: it is required" if setting.is_required else setting.default,
        "protocols": ", ".join(setting.protocols),
        "reload": "yes, within 10 s" if setting.reloads else "no, a change needs a restart",
    }
    lines = [f"  {name:<10} {value}" for name, value in facts.items() if value]
    inside = dict.fromkeys(one.path for one in settings_inside(setting))
    lines += ["  settings:", *(f"    {path}" for path in inside)] if inside else []
    return "\n".join((click.style(setting.path, bold=True), f"  {setting.description}", *lines))
