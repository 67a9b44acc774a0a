"""A YAML file as plain data that remembers its lines, with `${ENV}` and `${file:PATH}` put in.

YAML's own loaders forget where a value stood, let the second of two equal keys win in silence, and take `12:30` for a
number of seconds, `2026-01-01` for a date and `off` for a boolean. So the nodes are walked here, and only null,
`true`, `false` and numbers are told from text, as in YAML 1.2.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gateway.core.yaml_files.faults import ConfigError, Fault

Place = tuple[str | int, ...]
"""The place of a value: keys and positions from the root."""

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<file>file:)?(?P<name>[^}:]*)(?P<default>:-[^}]*)?\}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNKNOWN = secrets.token_hex(32)
"""Stands for a secret that this process is not given. Were it ever asked for, nobody could say it."""
_PLAIN_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str"))
_WORD_FOR_BOOLEAN = re.compile(r"yes|no|on|off", re.IGNORECASE)
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")


@dataclass(slots=True)
class YamlSource:
    """The text of a file. `files` are those whose contents were put in."""

    file: str
    data: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    files: list[Path] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def fault(self, place: Place, expected: str) -> None:
        self.faults.append(Fault(self.file, path_text(place), expected, self.line(place)))

    def line(self, place: Place) -> int | None:
        """Returns the line of the value, or of the nearest one around it: what is missing has no line of its own."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place)


def path_text(place: Place) -> str:
    """Returns a place in the file as text.

    >>> path_text(("listeners", 0, "types", "17"))
    'listeners[0].types.17'
    """
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")


def read_text(path: Path) -> str:
    """Raises ConfigError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as failed:
        raise ConfigError([Fault(str(path), "", f"cannot read it: {failed.strerror}")]) from None
    except UnicodeDecodeError:
        raise ConfigError([Fault(str(path), "", "cannot read it: no UTF-8")]) from None


def read_source(
    text: str, file: str, folder: Path, environment: Mapping[str, str] = os.environ, left_out: Collection[Place] = ()
) -> YamlSource:
    """Raises ConfigError where the text is no YAML at all; other faults are kept, so that all can be told at once.

    Args:
        left_out: the places below which `${NAME}` and `${file:PATH}` may be missing here. What is missing becomes a
            text that nobody can know.
    """
    source = YamlSource(file)
    loader = yaml.CSafeLoader(text)
    try:
        node = loader.get_single_node()
        walk = _Walk(loader, source, folder, environment, left_out)
        source.data = {} if node is None else walk.value(node, ())
    except yaml.MarkedYAMLError as broken:
        line = broken.problem_mark.line + 1 if broken.problem_mark else None
        raise ConfigError([Fault(file, "", f"no YAML: {_problem(broken, text)}", line)]) from None
    except yaml.YAMLError as broken:
        raise ConfigError([Fault(file, "", f"no YAML: {' '.join(str(broken).split())}")]) from None
    finally:
        loader.dispose()
    return source


def _problem(broken: yaml.MarkedYAMLError, text: str) -> str:
    """A tab looks like the spaces around it, and is what YAML has no token for most often."""
    mark = broken.problem_mark
    lines = text.splitlines()
    if mark is not None and mark.line < len(lines) and lines[mark.line][mark.column : mark.column + 1] == "\t":
        return "a tab: indent with spaces"
    return broken.problem or broken.context or "it cannot be read"


@dataclass(slots=True)
class _Walk:
    loader: yaml.CSafeLoader
    source: YamlSource
    folder: Path
    environment: Mapping[str, str]
    left_out: Collection[Place]
    open_nodes: set[int] = field(default_factory=set)

    def value(self, node: yaml.Node, place: Place) -> Any:
        self.source.lines.setdefault(place, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, place)
        if id(node) in self.open_nodes:
            self.source.fault(place, "an alias may not hold itself")
            return None
        self.open_nodes.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self.mapping(node, place)
            return [self.value(item, (*place, at)) for at, item in enumerate(node.value)]
        finally:
            self.open_nodes.discard(id(node))

    def mapping(self, node: yaml.MappingNode, place: Place) -> dict[Any, Any]:
        own = {id(key_node) for key_node, _ in node.value}
        self.loader.flatten_mapping(node)  # puts what `<<` brings in front, so that own keys win
        entries: dict[Any, Any] = {}
        seen: set[Any] = set()
        for key_node, value_node in node.value:
            key = self.plain(key_node) if isinstance(key_node, yaml.ScalarNode) else str(key_node.value)
            inner = (*place, str(key))
            self.source.lines[inner] = key_node.start_mark.line + 1
            if key in seen:
                self.source.fault(inner, "this key stands here twice")
            if id(key_node) in own:
                seen.add(key)
            entries[key] = self.value(value_node, inner)
        return entries

    def plain(self, node: yaml.ScalarNode) -> Any:
        if node.tag not in _PLAIN_TAGS or _SEXAGESIMAL.fullmatch(node.value) or _WORD_FOR_BOOLEAN.fullmatch(node.value):
            return node.value
        return self.loader.construct_object(node)

    def scalar(self, node: yaml.ScalarNode, place: Place) -> Any:
        value = self.plain(node)
        if not isinstance(value, str) or "${" not in value:
            return value
        return "".join(self.filled(value, place))

    def filled(self, text: str, place: Place) -> Iterator[str]:
        end = 0
        for match in _REFERENCE.finditer(text):
            yield text[end : match.start()]
            yield "${" if match[0] == "$${" else self.referred(match, place)
            end = match.end()
        yield text[end:]

    def referred(self, match: re.Match[str], place: Place) -> str:
        name, default = match["name"], match["default"]
        if match["file"]:
            return self.contents(Path(name), place)
        if not _VARIABLE.fullmatch(name):
            self.source.fault(place, "expected ${NAME}, ${NAME:-default} or ${file:PATH}; a literal ${ is written $${")
            return match[0]
        value = self.environment.get(name)
        if value is not None:
            return value
        if default is None and self.may_be_missing(place):
            return _UNKNOWN
        if default is None:
            self.source.fault(place, f"the environment has no {name}")
            return match[0]
        return default[2:]

    def may_be_missing(self, place: Place) -> bool:
        return any(place[: len(above)] == above for above in self.left_out)

    def contents(self, path: Path, place: Place) -> str:
        """Returns what the file holds, without the line end that editors and `echo` leave."""
        self.source.files.append(self.folder / path)
        try:
            return (self.folder / path).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as failed:
            if isinstance(failed, FileNotFoundError) and self.may_be_missing(place):
                return _UNKNOWN
            why = failed.strerror if isinstance(failed, OSError) else "no UTF-8"
            self.source.fault(place, f"cannot read {path}: {why}")
            return ""
