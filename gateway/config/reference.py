"""Every setting of a configuration with its type, unit, default and reason, read from the JSON Schema.

`python -m gateway.config.reference` prints the page gateway/docs/settings.md; a test says when it drifts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import Any

from gateway.config.schema import Schema, json_schema
from gateway.config.watch import BOUND, RELOADED
from gateway.protocols import protocols

ENDPOINTS = ("listeners", "peers")
"""Sections whose settings depend on the protocol, and in which any of `limits` may stand."""
LIMITS = "limits"
ENTRY = "*"
"""A step of a path that stands for a name of the file's own, such as a topic in `kafka.topics`."""
UNITS = {"_milliseconds": "ms", "_seconds": "s", "_hours": "h", "bytes": "bytes", "_per_second_per_session": "per s"}

HEAD = """\
# Settings

Every setting of `meshgate.yaml`. `meshgate explain SETTING` prints one of them, `meshgate schema` gives editors
the same words, and `meshgate config print` shows what holds. This page is made from the schema by
`python -m gateway.config.reference`.

- *Reload*: a change in the file holds within 10 s, without a restart. What sessions that are open make of it:
  [protocols](protocols.md#what-sessions-make-of-a-reload).
- Any setting of [limits](#limits) may stand in a listener or link too, and then holds there.
- A link (`peers`) takes the settings of its protocol as a listener does: they stand under [listeners](#listeners).
- `${NAME}`, `${NAME:-default}` and `${file:PATH}` work in all values. Relative paths start at the configuration.
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `path` has no indexes: `listeners.name`. `protocols` are those it exists in; empty means all.

    `default` is written as in a file; a section has none.
    """

    path: str
    type: str
    default: str | None
    reloads: bool
    description: str
    is_required: bool = False
    protocols: tuple[str, ...] = ()
    is_section: bool = False

    @property
    def unit(self) -> str | None:
        return next((unit for ending, unit in UNITS.items() if self.path.endswith(ending)), None)


@cache
def settings() -> tuple[Setting, ...]:
    """Returns every setting and section, in the order of the schema."""
    by_path: dict[tuple[str, str], Setting] = {}
    for setting in _inside(json_schema(), ""):
        key = setting.path, setting.description
        existing = by_path.get(key)
        by_path[key] = (
            setting if existing is None else replace(existing, protocols=existing.protocols + setting.protocols)
        )
    return tuple(
        replace(each_setting, protocols=()) if _is_common(each_setting) else each_setting
        for each_setting in by_path.values()
    )


def _is_common(setting: Setting) -> bool:
    """True if every protocol that its section can have takes the setting."""
    linked = {name for name, spec in protocols().items() if spec.session is not None}
    return set(setting.protocols) == (linked if setting.path.startswith("peers.") else set(protocols()))


def _inside(schema: Schema, path: str, protocol: str | None = None) -> Iterator[Setting]:
    """Yields the settings of a section, each before what is inside it."""
    for name, inner in schema.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        if path in ENDPOINTS and name in _definition(LIMITS)["properties"]:
            continue
        sections, is_required = list(_sections(inner)), name in schema.get("required", ())
        yield Setting(
            where,
            _type_of(inner),
            None if is_required or sections else _default_of(inner),
            _reloads(where),
            " ".join(inner.get("description", "").split()),
            is_required,
            () if protocol is None else (protocol,),
            bool(sections),
        )
        for steps, section in sections:
            inside = ".".join((where, *steps))
            for branch in section.get("oneOf", [section]):
                own = branch["properties"].get("protocol", {}).get("const") or protocol
                if where == "peers" and own is not None and protocols()[own].session is None:
                    continue  # nobody can be dialled
                yield from _inside(branch, inside, own)


def _definition(name: str) -> Schema:
    section: Schema = _resolved(json_schema()["properties"][name])
    return section


def _resolved(schema: Schema) -> Schema:
    if "$ref" not in schema:
        return schema
    definition: Schema = json_schema()["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
    return definition


def _sections(schema: Schema) -> Iterator[tuple[tuple[str, ...], Schema]]:
    """Yields the sections that a value may be made of, with the steps that lead to them."""
    resolved = _resolved(schema)
    if "properties" in resolved or "oneOf" in resolved:
        yield (), resolved
    for branch in resolved.get("anyOf", []):
        yield from _sections(branch)
    if "items" in resolved:
        yield from _sections(resolved["items"])
    if isinstance(entries := resolved.get("additionalProperties"), dict):
        for steps, section in _sections(entries):
            yield (ENTRY, *steps), section


def _type_of(schema: Schema) -> str:
    """Returns a type in words: what may be written, without the reference that may stand for any value."""
    resolved = _resolved(schema)
    if "const" in resolved:
        return "text"
    if branches := resolved.get("anyOf"):
        types = [_type_of(branch) for branch in branches if branch.get("pattern") != r"\$\{"]
        return ", or ".join(dict.fromkeys(types))
    if "enum" in resolved:
        return ", ".join(f"`{value}`" for value in resolved["enum"])
    if "properties" in resolved or "oneOf" in resolved:
        return "section"
    match resolved.get("type"):
        case "array":
            return f"list: {_type_of(resolved['items'])}"
        case "object":
            return f"names with {_type_of(resolved['additionalProperties'])} each"
        case "integer" | "number":
            return f"{'whole number' if resolved['type'] == 'integer' else 'number'}{_bounds(resolved)}"
        case "boolean":
            return "`true` or `false`"
        case "null":
            return "null"
    return {"path": "path", "uuid": "UUID", "password": "secret text"}.get(resolved.get("format", ""), "text")


def _bounds(schema: Schema) -> str:
    words_of = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}
    bounds = [f"{words} {schema[key]:g}" for key, words in words_of.items() if key in schema]
    return f", {' and '.join(bounds)}" if bounds else ""


def _default_of(schema: Schema) -> str:
    """Names of the file's own have no default in the schema: there are none."""
    default = schema.get("default", {})
    if isinstance(default, float):
        return f"{default:g}"
    return default if isinstance(default, str) and default else json.dumps(default)


def _reloads(path: str) -> bool:
    section, _, name = path.partition(".")
    if section == "listeners":
        return name not in ("", "name", *BOUND)
    return any(path == own or path.startswith(f"{own}.") for own in RELOADED)


# -- finding one ----------------------------------------------------------------------------------------------------


def find_settings(name: str) -> list[Setting]:
    """Returns the settings that a name means: of several protocols there may be several. Empty if there is none.

    >>> [setting.path for setting in find_settings("listeners[0].limits.frame_bytes")]
    ['limits.frame_bytes']
    >>> [setting.path for setting in find_settings("kafka.topics.raw.partitions")]
    ['kafka.topics.*.partitions']
    """
    steps = [step.partition("[")[0] for step in name.split(".")]
    if steps[0] in ENDPOINTS and {LIMITS, *_definition(LIMITS)["properties"]}.intersection(steps[1:2]):
        steps = [LIMITS, *steps[1 + steps.count(LIMITS) :]]
    return [setting for setting in settings() if _means(steps, setting.path.split("."))]


def _means(steps: list[str], path: list[str]) -> bool:
    return len(steps) == len(path) and all(own in (ENTRY, step) for step, own in zip(steps, path, strict=True))


def settings_inside(section: Setting) -> list[Setting]:
    """Returns what is directly inside a section."""
    depth = section.path.count(".") + 1
    inside = (setting for setting in settings() if setting.path.startswith(f"{section.path}."))
    return [setting for setting in inside if setting.path.replace(f".{ENTRY}", "").count(".") == depth]


# -- the page -------------------------------------------------------------------------------------------------------


def page() -> str:
    return "\n".join([HEAD, *_chapters()])


def _chapters() -> Iterator[str]:
    top = [setting for setting in settings() if "." not in setting.path]
    yield _chapter("The mesh", "", [setting for setting in top if not setting.is_section])
    for section in top:
        if section.is_section:
            inside = [setting for setting in settings() if setting.path.startswith(f"{section.path}.")]
            common = [setting for setting in inside if not setting.protocols]
            yield _chapter(section.path, section.description, common)
            if section.path == "peers":
                continue  # a link takes the same settings of its protocol as a listener
            own = sorted((setting for setting in inside if setting.protocols), key=lambda setting: setting.protocols)
            for names, group in groupby(own, key=lambda setting: setting.protocols):
                yield _chapter(f"{section.path}: {', '.join(names)}", "", list(group), below=True)


def _chapter(title: str, text: str, listed: Iterable[Setting], *, below: bool = False) -> str:
    rows = [f"{'###' if below else '##'} {title}", "", *([text, ""] if text else [])]
    rows += ["| setting | type | default | unit | reload | what it does, and why |", "|---|---|---|---|---|---|"]
    rows += [_row(setting) for setting in listed]
    return "\n".join((*rows, ""))


def _row(setting: Setting) -> str:
    default = "required" if setting.is_required else "" if setting.default is None else f"`{setting.default}`"
    cells = (
        f"`{setting.path}`",
        setting.type,
        default,
        setting.unit or "",
        "yes" if setting.reloads else "restart",
        setting.description,
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def as_document(setting: Setting) -> Mapping[str, Any]:
    """Returns a setting for programs."""
    return {
        "setting": setting.path,
        "type": setting.type.replace("`", ""),
        "default": setting.default,
        "required": setting.is_required,
        "unit": setting.unit,
        "reload": setting.reloads,
        "protocols": list(setting.protocols) or None,
        "description": setting.description,
    }


if __name__ == "__main__":
    print(page(), end="")
