"""The contexts of a user: meshes by name, each with its address, protocol and credentials.

They stand in `meshgate/contexts.yaml` of the user's configuration folder, which only its owner may read. A value is
kept as its option takes it on the command line, so references such as `${file:PATH}` are resolved when it is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import yaml
from click.shell_completion import CompletionItem

from gateway.cli.console import CommandError

CONTEXT_VARIABLE = "MESHGATE_CONTEXT"
_OWNER_ONLY = 0o600
_CURRENT, _CONTEXTS = "current", "contexts"


@dataclass(frozen=True, slots=True)
class Context:
    """A context. `values` are by the names of the options they stand for."""

    name: str
    values: Mapping[str, Any]


@dataclass(slots=True)
class Contexts:
    """Holds all contexts, and the one that is selected."""

    contexts: dict[str, Context] = field(default_factory=dict)
    selected: str | None = None

    def find(self, name: str) -> Context:
        """Raises CommandError."""
        if name not in self.contexts:
            hint = f"expected {', '.join(self.contexts)}" if self.contexts else "there are none: meshgate context add"
            raise CommandError(f"there is no context {name}: {hint}")
        return self.contexts[name]

    def save(self) -> Path:
        """Writes the whole file at once, so that nobody reads half of it, and for its owner only."""
        path = contexts_path()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        document = {
            _CURRENT: self.selected,
            _CONTEXTS: {name: dict(context.values) for name, context in self.contexts.items()},
        }
        temporary = path.with_suffix(f".{os.getpid()}.new")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY), "w") as file:
            yaml.safe_dump(document, file, sort_keys=False)
        temporary.replace(path)
        return path


def contexts_path() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "meshgate" / "contexts.yaml"


def load_contexts() -> Contexts:
    """Returns no contexts where there is no file. Raises CommandError where it is of no use."""
    path = contexts_path()
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        contexts = {str(name): Context(str(name), dict(values)) for name, values in document[_CONTEXTS].items()}
        return Contexts(contexts, document.get(_CURRENT))
    except (FileNotFoundError, NotADirectoryError):
        return Contexts()
    except (OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as broken:
        why = type(broken).__name__
        raise CommandError(f"{path}: no contexts can be read from it ({why}): mend it, or remove it") from None


def complete_context(_context: click.Context, _option: click.Parameter, typed: str) -> list[CompletionItem]:
    try:
        return [CompletionItem(name) for name in load_contexts().contexts if name.startswith(typed)]
    except CommandError:
        return []


def choose_context(name: str | None, *, says_where: bool) -> Context | None:
    """Returns the context that a verb uses: the one named, else $MESHGATE_CONTEXT, else the selected one.

    Args:
        name: what --context says.
        says_where: the command line names an address or a configuration. Only a context that is named beside it is
            used then: credentials of a selected one must not go to another mesh.
    """
    if name is None and says_where:
        return None
    chosen = name or os.environ.get(CONTEXT_VARIABLE)
    contexts = load_contexts()
    if not chosen and not os.environ.get("MESHGATE_CONFIG"):
        chosen = contexts.selected
    return contexts.find(chosen) if chosen else None
