"""Writes the table of values into the chart's README from the comments in values.yaml.

    python helm/readme.py [--check]

`--check` writes nothing and ends with 1 when the README is not what it would write. A key without a comment is an
error: the comment is the documentation, and says in which unit the value counts.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

CHART = Path(__file__).parent / "meshgate"
BEGIN, END = "<!-- values, from values.yaml by helm/readme.py -->", "<!-- end of values -->"
_LISTED = re.compile(r"^ {2,}(\S+) {2,}(.*)")
"""A line of a comment that names a part of the value: two or more spaces, its name, two or more, what it is."""


class UndocumentedError(Exception):
    """Names the keys that say nothing of themselves."""


@dataclass(frozen=True, slots=True)
class Value:
    """A key of values.yaml that holds no further ones. `comment`: its lines, without their marks."""

    path: str
    default: str
    comment: tuple[str, ...]

    def row(self) -> str:
        return f"| `{self.path}` | `{self.default}` | {_cell(self.comment)} |"


def values(text: str) -> list[Value]:
    """Raises UndocumentedError."""
    root = yaml.compose(text) or yaml.MappingNode("", [])
    found = list(_values(root, "", text.splitlines()))
    if silent := [value.path for value in found if not value.comment]:
        raise UndocumentedError(f"values.yaml: no comment above {', '.join(silent)}")
    return found


def _values(mapping: yaml.Node, prefix: str, lines: list[str]) -> Iterator[Value]:
    for key, node in mapping.value:
        path = f"{prefix}{key.value}"
        # A mapping with a comment of its own is documented as a whole.
        if isinstance(node, yaml.MappingNode) and node.value and not _comment(key, lines):
            yield from _values(node, f"{path}.", lines)
        else:
            default = json.dumps(yaml.safe_load(yaml.serialize(node)), ensure_ascii=False)
            yield Value(path, default, _comment(key, lines))


def _comment(key: yaml.Node, lines: list[str]) -> tuple[str, ...]:
    """The lines right above a key, at its own depth."""
    mark = f"{' ' * key.start_mark.column}#"
    above: list[str] = []
    for line in reversed(lines[: key.start_mark.line]):
        if not line.startswith(mark):
            break
        above.append(line.removeprefix(mark).removeprefix(" "))
    return tuple(reversed(above))


def _cell(comment: tuple[str, ...]) -> str:
    words = ""
    for line in comment:
        listed = _LISTED.match(line)
        words += f"<br>`{listed[1]}`: {listed[2]}" if listed else f" {line.strip()}"
    return words.strip().replace("|", "\\|")


def written(readme: str, text: str) -> str:
    """The README with its table made anew."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    table = "\n".join(["| key | default | what it is |", "|---|---|---|", *(value.row() for value in values(text))])
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main(arguments: list[str]) -> int:
    path = CHART / "README.md"
    old = path.read_text()
    new = written(old, (CHART / "values.yaml").read_text())
    if "--check" in arguments:
        if old != new:
            print(f"{path} is not what values.yaml says: run python helm/readme.py", file=sys.stderr)
        return int(old != new)
    path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
