"""The JSON Schema that editors are given."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest
import yaml
from jsonschema import Draft202012Validator

from gateway.config import Limits, default_text, json_schema
from gateway.config.loading import FORMS
from gateway.config.schema import known_keys
from gateway.protocols import protocols
from tests.unit.config.reading import WHOLE

REFERRING = """\
mesh: ${MESH}
identity: {node: "${NODE}"}
edge: {id: "edge-${ORDINAL}", management: "127.0.0.1:${PORT}"}
listeners: [{name: plc, protocol: hsp, listen: "${PLC}", ack: "${ACK}", types: {17: {subject: a, kind: "${KIND}"}}}]
router: {mode: "${MODE}", lanes: "${LANES}"}
"""


def told(text: str) -> list[str]:
    """Returns what an editor would underline. It reads the file as JSON, where every key is text."""
    document = json.loads(json.dumps(yaml.safe_load(text)))
    return [error.message for error in Draft202012Validator(json_schema()).iter_errors(document)]


def every(node: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, Mapping):
        yield node
        for inner in node.values():
            yield from every(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from every(inner)


def endpoint(kind: str, protocol: str) -> Mapping[str, Any]:
    (found,) = [one for one in json_schema()["$defs"][kind]["oneOf"] if one["title"].startswith(f"{protocol} ")]
    return dict(found)


def test_it_is_json() -> None:
    assert json.loads(json.dumps(json_schema())) == json_schema()


def test_every_reference_leads_somewhere() -> None:
    refs = {node["$ref"].rsplit("/", 1)[-1] for node in every(json_schema()) if isinstance(node.get("$ref"), str)}
    assert refs
    assert refs <= json_schema()["$defs"].keys()


def test_every_pattern_compiles() -> None:
    patterns = [node["pattern"] for node in every(json_schema()) if isinstance(node.get("pattern"), str)]
    assert all(re.compile(pattern) for pattern in patterns)


def test_every_pattern_that_a_model_checks_has_words_for_people() -> None:
    """Addresses and references have parsers of their own."""
    patterns = {node["pattern"] for node in every(json_schema()) if isinstance(node.get("pattern"), str)}
    assert {pattern for pattern in patterns if pattern.endswith("$") and r"\d" not in pattern} == FORMS.keys()


@pytest.mark.parametrize("kind", ["Listener", "Link"])
@pytest.mark.parametrize("name", sorted(protocols()))
def test_a_protocols_listener_takes_common_keys_limits_and_options_and_nothing_else(kind: str, name: str) -> None:
    schema = endpoint(kind, name)
    assert schema["additionalProperties"] is False
    assert schema["properties"]["protocol"]["const"] == name
    wanted = {"name", "subscribe", "tls"} | Limits.model_fields.keys() | protocols()[name].options.model_fields.keys()
    assert wanted <= schema["properties"].keys()
    assert {"name", "protocol", "listen" if kind == "Listener" else "connect"} <= set(schema["required"])


def test_a_number_may_come_from_the_environment() -> None:
    alternatives = json_schema()["$defs"]["KafkaSettings"]["properties"]["partitions"]["anyOf"]
    assert [alternative["type"] for alternative in alternatives] == ["integer", "string"]
    assert re.search(alternatives[1]["pattern"], "${PARTITIONS}")


@pytest.mark.parametrize("text", [WHOLE, default_text("demo", uuid4()), REFERRING])
def test_what_may_stand_in_a_file_passes(text: str) -> None:
    assert told(text) == []


@pytest.mark.parametrize(
    "line", ["bogus: 1", "limits: {bogus: 1}", "router: {mode: fast}", "listeners: [{protocol: hsp, types: {17: 5}}]"]
)
def test_what_may_not_is_told(line: str) -> None:
    assert told(f"mesh: demo\n{line}")


def test_a_default_is_what_could_be_written_in_a_file() -> None:
    assert json_schema()["$defs"]["EdgeSettings"]["properties"]["management"]["default"] == "127.0.0.1:9640"


def test_settings_are_explained_where_they_are_written() -> None:
    assert "picks its egress partition" in json_schema()["$defs"]["EdgeSettings"]["properties"]["id"]["description"]


def test_every_key_of_a_whole_file_is_known() -> None:
    whole = yaml.safe_load(WHOLE)

    def walk(node: Any, place: tuple[str | int, ...]) -> None:
        if isinstance(node, list):
            for at, inner in enumerate(node):
                walk(inner, (*place, at))
        elif isinstance(node, dict) and place[-1:] != ("types",):
            assert {str(key) for key in node} <= set(known_keys(place, whole))
            for key, inner in node.items():
                walk(inner, (*place, str(key)))

    walk(whole, ())
