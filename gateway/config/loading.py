"""Reads a file into a `Config`, or into everything that is wrong with it.

Three readers look at one text: YAML with its references, the models, and the checks of settings against each other.
All their faults are told at once, so that nobody mends a file one line at a time.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gateway.config.checks import check_together
from gateway.config.listeners import SPLIT
from gateway.config.model import Config
from gateway.config.schema import known_keys
from gateway.config.section import FILES, FOLDER, NAME, PATH, STATE
from gateway.config.settings import EDGE_ID, HOST_NAME, HTTP_URL, URL
from gateway.core.yaml_files.faults import ConfigError, Fault
from gateway.core.yaml_files.source import Place, YamlSource, path_text, read_source, read_text

DEFAULT_PATHS = (Path("meshgate.yaml"), Path("mesh/meshgate.yaml"))
"""A configuration is looked for here when none is named; `up` writes one to the second."""

PART = "MESHGATE_PART"
"""Names the part that reads, such as `router`. All but an edge read the file without the secrets of edges."""
OF_EDGES = (("listeners",), ("peers",), ("auth",), ("edge", "operators"))
"""The places whose secrets only an edge uses."""

WRITE_ONE = "name one with -c, or write one: meshgate init (meshgate up does too)"

PLAIN = (
    ("Input should be", "expected"),
    ("Value error, ", ""),
)
"""Pairs of pydantic's words for programmers and ours for the person who wrote the file."""


FORMS = {
    HOST_NAME: "a host name without a port, such as mesh.example.org",
    NAME: "letters, digits, - and _, at most 63",
    EDGE_ID: "letters, digits and -, with a number at the end, such as edge-0",
    URL: "scheme://host:port, such as tcp://edge-1.example.org:5042",
    HTTP_URL: "an address such as http://127.0.0.1:4318/v1/traces",
}
"""Patterns of the models, in words."""


def find_config(explicit: str | None = None) -> Path:
    """Raises ConfigError where there is none."""
    if explicit is not None:
        return Path(explicit)
    for path in DEFAULT_PATHS:
        if path.is_file():
            return path
    looked = " or ".join(map(str, DEFAULT_PATHS))
    raise ConfigError([Fault(str(DEFAULT_PATHS[0]), "", f"no {looked} here: {WRITE_ONE}")])


def load(
    path: Path | str, environment: Mapping[str, str] = os.environ, *, state_dir: Path | str | None = None
) -> Config:
    """Raises ConfigError. `state_dir`: where relative paths of state start, if not from the file's folder."""
    path = Path(path)
    return parse(read_text(path), path, environment, state_dir=state_dir)


def parse(
    text: str, path: Path, environment: Mapping[str, str] = os.environ, *, state_dir: Path | str | None = None
) -> Config:
    """Parses the given text of the file as `load` does. Raises ConfigError."""
    folder = path.absolute().parent
    left_out = () if environment.get(PART, "edge") == "edge" else OF_EDGES
    source = read_source(text, str(path), folder, environment, left_out)
    source.data = _without_empty(source.data)
    config: Config | None = None
    try:
        config = Config.model_validate(
            source.data,
            context={
                PATH: path.absolute(),
                FILES: source.files,
                FOLDER: folder,
                STATE: folder if state_dir is None else Path(state_dir).absolute(),
            },
        )
    except ValidationError as invalid:
        _add_faults(invalid, source)
    check_together(source)
    if config is None or source.faults:
        raise ConfigError(sorted(source.faults, key=lambda fault: fault.line or 0))
    return config


def _without_empty(data: Any) -> Any:
    """A section whose entries are all commented out is as one that is not there."""
    if not isinstance(data, Mapping):
        return data
    return {key: value for key, value in data.items() if value is not None or key not in Config.model_fields}


def _add_faults(invalid: ValidationError, source: YamlSource) -> None:
    """Adds one fault per place: the branches of a union all complain, and bad references have been told."""
    expected: dict[Place, list[str]] = {}
    errors = invalid.errors(include_url=False, include_input=False)
    around = {error["loc"][:-1] for error in errors}
    for error in errors:
        if error["type"] == "too_short" and error["loc"] in around:
            continue  # it has items, and what is wrong with those is told
        place = _place(error["loc"], source.data)
        expected.setdefault(place, []).append(_expectation(error, place, source))
    faulty_paths = {fault.path for fault in source.faults}
    for place, expectations in expected.items():
        if path_text(place) not in faulty_paths:
            source.fault(place, "; or ".join(dict.fromkeys(expectations)))


def _place(loc: Iterable[str | int], data: Any) -> Place:
    """pydantic's location without what is no part of the file: our own fields, and the names of union branches."""
    place: list[str | int] = []
    steps = [step for step in loc if step != "[key]"]
    if len(steps) > 2 and steps[0] in ("listeners", "peers") and steps[2] in SPLIT:
        del steps[2]
    for at, step in enumerate(steps):
        if isinstance(data, Mapping) and (step in data or at == len(steps) - 1):
            place.append(str(step))
            data = data.get(step)
        elif isinstance(data, list | tuple) and isinstance(step, int):
            place.append(step)
            data = data[step] if step < len(data) else None
    return tuple(place)


def _expectation(error: Mapping[str, Any], place: Place, source: YamlSource) -> str:
    match error["type"]:
        case "extra_forbidden":
            return _unknown(place, source.data)
        case "missing":
            return "is missing"
        case "model_type" | "dict_type":
            return "expected keys and values"
        case "tuple_type":
            return "expected a list"
        case "too_short":
            return "expected a list that is not empty"
        case "string_too_short":
            return "expected text that is not empty"
        case "string_pattern_mismatch":
            return f"expected {FORMS[error['ctx']['pattern']]}"
        case "path_type":
            return "expected a path"
        case "uuid_type":
            return "expected a UUID"
    message: str = error["msg"]
    for technical, plain in PLAIN:
        message = message.replace(technical, plain)
    return message


def _unknown(place: Place, data: Any) -> str:
    allowed = known_keys(place[:-1], data)
    close = difflib.get_close_matches(str(place[-1]), allowed, n=1)
    hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(sorted(allowed))}"
    return f"unknown key: {hint}" if allowed else "unknown key"
